/**
 * Recognises the program's terminal queries in its output and builds the worker's own answers. The emulator's own
 * answering is cut off here: a query is taken from it, and what it would have said becomes the worker's answer.
 */
import type { Emulator, Params } from './xterm.ts'
import type { StickyModes } from './modes.ts'

const PRODUCT = 'pohunek'
/** Told in XTVERSION; not the package version, which would be one more place to keep. */
const TERMINAL_VERSION = '1'
/** Cell size told to programs that ask for pixels: there is no window here, so the usual one. */
const CELL_PIXELS = { width: 8, height: 16 }
const DEFAULT_COLORS: Record<number, string> = {
  10: 'rgb:e5e5/e5e5/e5e5',
  11: 'rgb:0000/0000/0000',
  12: 'rgb:e5e5/e5e5/e5e5',
}
// prettier-ignore
const BASE_16 = ['000000', 'cd0000', '00cd00', 'cdcd00', '0000ee', 'cd00cd', '00cdcd', 'e5e5e5', '7f7f7f', 'ff0000', '00ff00', 'ffff00', '5c5cff', 'ff00ff', '00ffff', 'ffffff']
const MAX_PALETTE_QUERIES = 256

// The last alternative of the CSI group is XTSMGRAPHICS; a `m` or `t` that is no query must not match: SGR is everywhere.
const QUERY_TAIL =
  /\x1b(?:\[(?:[>=?]?[\d;]*[cn]|\?u|\??[\d;]*\$p|>[\d;]*q|\?4m|1[4689]t|\?[\d;]*S)|\](?:1[012]|4|52|7501);[^\x1b\x07]*\?|P[$+]q)/
/** An asker stops and waits, so its query lies at the end of a short read. */
const TAIL_BYTES = 512

/** Pure. True when the program may be waiting for an answer to the end of `bytes`. */
export function endsInQuery(bytes: Buffer): boolean {
  const tail = bytes.length > TAIL_BYTES ? bytes.subarray(bytes.length - TAIL_BYTES) : bytes
  return tail.includes(0x1b) && QUERY_TAIL.test(tail.toString('latin1'))
}

export type Asked = (kind: string, own: string) => void

export class Asking {
  readonly #emulator: Emulator
  readonly #modes: StickyModes
  readonly #asked: Asked
  #captured = ''
  /** Real colours of the last attached terminal, learned from its replies: better than ours while detached. */
  readonly #learned = new Map<string, string>()

  constructor(emulator: Emulator, modes: StickyModes, asked: Asked) {
    this.#emulator = emulator
    this.#modes = modes
    this.#asked = asked
    emulator.onData((text) => (this.#captured += text))
    const parser = emulator.parser
    const csi = (
      prefix: string,
      intermediates: string,
      final: string,
      run: (params: Params) => [string, string] | undefined,
    ): void => {
      const id = { ...(prefix && { prefix }), ...(intermediates && { intermediates }), final }
      parser.registerCsiHandler(id, (params) => {
        const query = run(params)
        if (query === undefined) return false
        asked(...query)
        return true
      })
    }
    const number = (params: Params, at = 0): number => (typeof params[at] === 'number' ? Math.max(0, params[at]) : 0)
    csi('', '', 'c', (params) => (number(params) === 0 ? ['da1', '\x1b[?62;22c'] : undefined))
    csi('>', '', 'c', (params) => (number(params) === 0 ? ['da2', '\x1b[>0;276;0c'] : undefined))
    csi('=', '', 'c', (params) => (number(params) === 0 ? ['da3', ''] : undefined))
    csi('', '', 'n', (params) => this.#status(number(params)))
    csi('?', '', 'n', (params) => this.#privateStatus(number(params)))
    csi('>', '', 'q', (params) =>
      number(params) === 0 ? ['xtversion', `\x1bP>|${PRODUCT}(${TERMINAL_VERSION})\x1b\\`] : undefined,
    )
    csi('?', '', 'u', () => ['kitty', `\x1b[?${modes.activeKeyboard.current}u`])
    csi('?', '', 'm', (params) => (number(params) === 4 ? ['modkeys', `\x1b[>4;${modes.modifyOtherKeys}m`] : undefined))
    csi('', '', 't', (params) => this.#window(number(params)))
    csi('?', '', 'S', (params) => ['graphics', `\x1b[?${number(params)};3;0S`])
    for (const prefix of ['', '?'] as const) {
      parser.registerCsiHandler({ ...(prefix && { prefix }), intermediates: '$', final: 'p' }, (params) =>
        this.#mode(prefix, number(params)),
      )
    }
    for (const intermediates of ['$', '+'] as const) {
      parser.registerDcsHandler({ intermediates, final: 'q' }, (data) => this.#statusString(intermediates, data))
    }
    parser.registerOscHandler(4, (data) => this.#palette(data))
    for (const code of [10, 11, 12]) parser.registerOscHandler(code, (data) => this.#dynamic(code, data))
    parser.registerOscHandler(52, (data) => {
      if (data.endsWith(';?')) asked('osc:52', '') // the clipboard is the client's; the worker has none to tell
      return true
    })
  }

  /** A client's terminal told one of its colours. */
  learn(kind: string, reply: string): void {
    const value = /^\x1b\]\d+;(?:\d+;)?(rgba?:[0-9a-fA-F/]+)/.exec(reply)?.[1]
    if (value !== undefined && this.#learned.size < MAX_PALETTE_QUERIES) this.#learned.set(kind, value)
  }

  #status(code: number): [string, string] | undefined {
    if (code === 5) return ['dsr', '\x1b[0n']
    return code === 6 ? ['cpr', `\x1b[${this.#position()}R`] : undefined
  }

  #privateStatus(code: number): [string, string] | undefined {
    if (code === 6) return ['xcpr', `\x1b[?${this.#position()}R`]
    return code === 996 ? ['scheme', '\x1b[?997;1n'] : undefined
  }

  #position(): string {
    const core = this.#emulator.core
    const grid = core._bufferService.buffers.active
    const top = core.coreService.decPrivateModes.origin ? grid.scrollTop : 0
    return `${grid.y - top + 1};${Math.min(core.cols, grid.x + 1)}`
  }

  #window(code: number): [string, string] | undefined {
    const { cols, rows } = this.#emulator.core
    switch (code) {
      case 14:
        return ['window:4', `\x1b[4;${rows * CELL_PIXELS.height};${cols * CELL_PIXELS.width}t`]
      case 16:
        return ['window:6', `\x1b[6;${CELL_PIXELS.height};${CELL_PIXELS.width}t`]
      case 18:
        return ['window:8', `\x1b[8;${rows};${cols}t`]
      case 19:
        return ['window:9', `\x1b[9;${rows};${cols}t`]
      default:
        return undefined // titles are never told: a program could have put commands into one
    }
  }

  #mode(prefix: '' | '?', mode: number): boolean {
    let state = '0'
    if (prefix === '?' && this.#modes.privateModes.has(mode)) state = '1'
    else if (prefix === '?' && [5, 1007, 2031].includes(mode)) state = '2'
    else if (prefix === '?' && mode === 2027)
      state = '3' // grapheme clusters are always on here
    else {
      this.#captured = ''
      const inner = this.#emulator.core._inputHandler as unknown as {
        requestMode(params: { params: number[] }, ansi: boolean): void
      }
      inner.requestMode({ params: [mode] }, prefix === '')
      state = /;(\d)\$y$/.exec(this.#captured)?.[1] ?? '0'
      this.#captured = ''
    }
    this.#asked(`mode:${prefix}${mode}`, `\x1b[${prefix}${mode};${state}$y`)
    return true
  }

  #statusString(kind: '$' | '+', data: string): boolean {
    if (kind === '+') {
      this.#asked('termcap', `\x1bP0+r${/^[0-9a-fA-F;]*$/.test(data) ? data.split(';', 1)[0] : ''}\x1b\\`)
      return true
    }
    this.#captured = ''
    const inner = this.#emulator.core._inputHandler as unknown as { requestStatusString(data: string): void }
    inner.requestStatusString(data)
    this.#asked('setting', this.#captured)
    this.#captured = ''
    return true
  }

  #palette(data: string): boolean {
    const parts = data.split(';')
    for (let at = 0; at + 1 < Math.min(parts.length, MAX_PALETTE_QUERIES * 2); at += 2) {
      const index = Number(parts[at])
      if (parts[at + 1] !== '?' || !Number.isInteger(index) || index < 0 || index > 255) continue
      const kind = `osc:4;${index}`
      this.#asked(
        kind,
        `\x1b]4;${index};${this.#color(String(index)) ?? this.#learned.get(kind) ?? paletteColor(index)}\x1b\\`,
      )
    }
    return false
  }

  #dynamic(code: number, data: string): boolean {
    data.split(';').forEach((value, at) => {
      const slot = code + at
      if (value !== '?' || slot > 12) return
      const kind = `osc:${slot}`
      this.#asked(
        kind,
        `\x1b]${slot};${this.#color(`d${slot}`) ?? this.#learned.get(kind) ?? DEFAULT_COLORS[slot]}\x1b\\`,
      )
    })
    return false
  }

  /** A colour the program set itself, as `rgb:`; undefined for one we cannot read. */
  #color(key: string): string | undefined {
    const text = this.#modes.colors.get(key)
    if (text === undefined) return undefined
    if (/^rgb:[0-9a-fA-F]{1,4}\/[0-9a-fA-F]{1,4}\/[0-9a-fA-F]{1,4}$/.test(text)) return text
    const hex = /^#([0-9a-fA-F]{6})$/.exec(text)?.[1]
    return hex === undefined ? undefined : wide(hex)
  }
}

const wide = (hex: string): string => `rgb:${[0, 2, 4].map((at) => hex.slice(at, at + 2).repeat(2)).join('/')}`

/** Pure. The usual 256 colours: 16 named ones, a 6x6x6 cube, 24 greys. */
function paletteColor(index: number): string {
  const named = BASE_16[index]
  if (named !== undefined) return wide(named)
  const hex = (value: number): string => value.toString(16).padStart(2, '0')
  if (index >= 232) return wide(hex(8 + (index - 232) * 10).repeat(3))
  const step = (value: number): string => hex(value === 0 ? 0 : 55 + value * 40)
  const cube = index - 16
  return wide(step(Math.floor(cube / 36)) + step(Math.floor(cube / 6) % 6) + step(cube % 6))
}
