/**
 * The emulator, and the part of its inside that has no public door. Checked against @xterm/headless 6.0: the tests feed
 * a repaint into a fresh emulator and compare, so a moved field fails them.
 */
import * as headless from '@xterm/headless'
import * as graphemes from '@xterm/addon-unicode-graphemes'
import type { IParser } from '@xterm/headless'

// Both packages come as a CommonJS file (all in `default`, what node loads) and as a module (names, what a bundler may
// choose: a fifth smaller).
const { Terminal } = unwrap(headless)
const { UnicodeGraphemesAddon } = unwrap(graphemes)

function unwrap<T extends object>(module: T): T {
  return 'default' in module ? (module.default as T) : module
}

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
  _charsetService: { glevel: number; charset: unknown }
  _inputHandler: {
    parse(bytes: Uint8Array): void
    _curAttrData: Attributes
    _utf8Decoder: { interim: Uint8Array; clear(): void }
    _parser: { currentState: number }
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

/** State number of the parser between sequences. */
export const GROUND = 0

/** The one place where the width of characters is decided (Unicode 15 with grapheme clusters). */
export function createEmulator(columns: number, rows: number, scrollback: number): Emulator {
  const terminal = new Terminal({ cols: columns, rows, scrollback, allowProposedApi: true, logLevel: 'off' })
  terminal.loadAddon(new UnicodeGraphemesAddon())
  return {
    core: (terminal as unknown as { _core: Core })._core,
    parser: terminal.parser,
    onData: (listener) => void terminal.onData(listener),
    onTitleChange: (listener) => void terminal.onTitleChange(listener),
    dispose: () => terminal.dispose(),
  }
}
