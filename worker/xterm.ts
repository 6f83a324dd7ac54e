/**
 * The emulator, and the part of its inside that has no public door. Checked against @xterm/headless 6.0: the tests feed
 * a repaint into a fresh emulator and compare, so a moved field fails them.
 */
import { poolSize } from './unpooled.ts'
import { Terminal } from '@xterm/headless/lib-headless/xterm-headless.mjs'
import { UnicodeGraphemesAddon } from '@xterm/addon-unicode-graphemes/lib/addon-unicode-graphemes.mjs'
import type { IFunctionIdentifier, IParser } from '@xterm/headless'
import { boundCosts, type PayloadParser } from './bounds.ts'

Buffer.poolSize = poolSize

export type Params = (number | number[])[]

export interface Line {
  isWrapped: boolean
  length: number
  /** Three words a cell: content, foreground, background. */
  readonly _data: Uint32Array
  readonly _combined: Record<number, string>
  readonly _extendedAttrs: Record<number, { _ext: number } | undefined>
}
export interface Attributes {
  fg: number
  bg: number
  extended: { _ext: number }
}
export interface Grid {
  lines: { length: number; get(index: number): Line | undefined }
  x: number
  y: number
  ybase: number
  scrollTop: number
  scrollBottom: number
  savedX: number
  savedY: number
  savedCurAttrData: Attributes
  savedCharset: unknown
  tabs: Record<number, boolean | undefined>
}
/** Keeps the bytes of a character whose end has not come yet in `interim`, followed by zeros. */
export interface Decoder {
  interim: Uint8Array
  clear(): void
  decode(bytes: Uint8Array, target: Uint32Array): number
}
export interface Core {
  options: { scrollback: number }
  cols: number
  rows: number
  _bufferService: { buffers: { normal: Grid; alt: Grid; active: Grid } }
  coreService: {
    isCursorHidden: boolean
    modes: { insertMode: boolean }
    decPrivateModes: {
      applicationCursorKeys: boolean
      applicationKeypad: boolean
      bracketedPasteMode: boolean
      cursorBlink?: boolean
      cursorStyle?: 'block' | 'underline' | 'bar'
      origin: boolean
      reverseWraparound: boolean
      sendFocus: boolean
      synchronizedOutput: boolean
      wraparound: boolean
    }
  }
  coreMouseService: { activeProtocol: string; activeEncoding: string }
  optionsService: { rawOptions: { convertEol: boolean } }
  /** Lowest bit of the answer: joins what came before. */
  unicodeService: { charProperties(code: number, preceding: number): number }
  _charsetService: { glevel: number; charset: unknown }
  _inputHandler: {
    eraseInDisplay(params: { params: number[] }, respectProtect: boolean): boolean
    eraseInLine(params: { params: number[] }, respectProtect: boolean): boolean
    parse(bytes: Uint8Array): void
    _curAttrData: Attributes
    _utf8Decoder: Decoder
    _parser: {
      currentState: number
      reset(): void
      /** As the public one, with the parameters themselves instead of a copy. */
      registerCsiHandler(
        id: IFunctionIdentifier,
        handler: (params: { params: Int32Array; length: number }) => boolean,
      ): unknown
      _oscParser: PayloadParser
      _dcsParser: PayloadParser
    }
  }
  resize(columns: number, rows: number): void
}

export interface Emulator {
  readonly core: Core
  readonly parser: IParser
  /** Fires with the emulator's own answers to queries. */
  onData(listener: (text: string) => void): void
  onTitleChange(listener: (title: string) => void): void
  dispose(): void
}

/** In the first word of a cell: its text is in `_combined`; else the code point. */
export const COMBINED = 0x200000
export const CODEPOINT = 0x1fffff

/** A cell nothing was printed into (or that was erased). The second half of a wide glyph has width 0 and is not empty. */
export const isEmpty = (content: number): boolean => content === 0x400000

/** State number of the parser between sequences. */
export const GROUND = 0

/** The emulator lets no handler see other window operations; sizes are answered in asking.ts, titles are kept in their stack. */
const WINDOW_REPORTS = {
  getWinSizePixels: true,
  getCellSizePixels: true,
  getWinSizeChars: true,
  getScreenSizeChars: true,
  pushTitle: true,
  popTitle: true,
}

/** The one place where the width of characters is decided (Unicode 15 with grapheme clusters). */
export function createEmulator(columns: number, rows: number, scrollback: number): Emulator {
  const terminal = new Terminal({
    cols: columns,
    rows,
    scrollback,
    allowProposedApi: true,
    logLevel: 'off',
    windowOptions: WINDOW_REPORTS,
  })
  terminal.loadAddon(new UnicodeGraphemesAddon())
  const { _core: core } = terminal as unknown as { _core: Core }
  mendEraseAbove(terminal.parser, core)
  mendCutCharacters(core._inputHandler._utf8Decoder)
  boundCosts(terminal.parser, core)
  return {
    core,
    parser: terminal.parser,
    onData: (listener) => void terminal.onData(listener),
    onTitleChange: (listener) => void terminal.onTitleChange(listener),
    dispose: () => terminal.dispose(),
  }
}

/**
 * Works around a fault of @xterm/headless 6.0: a character with a byte 0x80 in it, as • – … “ have, is lost when a read
 * ends behind that byte. The first bytes of a cut character are given to the decoder again, together with the rest.
 * Goes when Utf8ToUtf32.decode counts the bytes it keeps instead of looking for the first without payload.
 */
function mendCutCharacters(decoder: Decoder): void {
  const decode = decoder.decode.bind(decoder)
  decoder.decode = (bytes, target) => {
    const kept = decoder.interim.findIndex((byte) => byte === 0)
    if (kept === 0 || bytes.length === 0) return decode(bytes, target)
    const whole = Buffer.concat([decoder.interim.subarray(0, kept === -1 ? undefined : kept), bytes])
    decoder.clear()
    // Of the kept bytes and the rest of their character one code point comes: the target is long enough.
    return decode(whole, target)
  }
}

/**
 * Works around a fault of @xterm/headless 6.0: "erase above" (ED 1) with the cursor in the last column throws in the last
 * row and clears the wrap mark of a wrong row elsewhere. Goes when InputHandler.eraseInDisplay looks at its row with ybase.
 */
function mendEraseAbove(parser: IParser, core: Core): void {
  for (const prefix of ['', '?'] as const) {
    parser.registerCsiHandler({ ...(prefix && { prefix }), final: 'J' }, (params) => {
      const grid = core._bufferService.buffers.active
      if (params[0] !== 1 || grid.x + 1 < core.cols || core.cols < 2) return false
      const input = core._inputHandler
      grid.x = core.cols - 2
      input.eraseInDisplay({ params: [1] }, prefix === '?')
      grid.x = core.cols - 1
      input.eraseInLine({ params: [1] }, prefix === '?')
      const next = grid.lines.get(grid.ybase + grid.y + 1)
      if (next !== undefined && grid.y + 1 < core.rows) next.isWrapped = false
      return true
    })
  }
}
