/**
 * Sticky modes the emulator does not keep (or does not tell): what a program switched on long ago and a reattached
 * client must have again. Fed by parser hooks that mostly only look; the emulator's own handlers run after them.
 */
import type { IParser } from '@xterm/headless'
import type { Params } from './xterm.ts'

/** Private modes that are set and forgotten, and that the emulator itself does not model. */
const REMEMBERED = new Set([5, 12, 1005, 1007, 1015, 1034, 1035, 1036, 1039, 2027, 2031, 2048])
const MAX_KEYBOARD_DEPTH = 16
const MAX_COLOR_BYTES = 64
const MAX_PROGRESS_CHARS = 34
/** Final bytes of the character sets a program may designate (DEC and national replacement sets). */
const CHARSET_FINALS = [...'0AB4C5RQKYE6ZH7=12<>']
const DESIGNATORS = ['(', ')', '*', '+'] as const

/** Kitty keyboard flags of one screen: what is in force and what is below it. */
export interface KeyboardStack {
  current: number
  below: number[]
}

const first = (params: Params, at = 0, fallback = 0): number => {
  const value = params[at]
  return typeof value === 'number' && value >= 0 ? value : fallback
}

export class StickyModes {
  readonly privateModes = new Set<number>()
  readonly keyboard = { normal: emptyStack(), alternate: emptyStack() }
  modifyOtherKeys = 0
  /** Final byte of the designation of G0..G3. */
  charsets: string[] = ['B', 'B', 'B', 'B']
  /** Colours a program set: palette index, or 10/11/12 with a leading `d`, to the text it gave. */
  readonly colors = new Map<string, string>()
  title = ''
  /** What the last `OSC 9;4` told, as told behind `9;`: `4;1;50`, and `4;0` for one that is over. */
  progress: string | undefined
  cwd: string | undefined
  readonly #alternate: () => boolean

  constructor(parser: IParser, hooks: { alternateActive: () => boolean; cwdReported: (cwd: string) => void }) {
    this.#alternate = hooks.alternateActive
    const look = (run: (params: Params) => void) => (params: Params) => {
      run(params)
      return false
    }
    parser.registerCsiHandler(
      { prefix: '?', final: 'h' },
      look((params) => this.#privateModes(params, true)),
    )
    parser.registerCsiHandler(
      { prefix: '?', final: 'l' },
      look((params) => this.#privateModes(params, false)),
    )
    parser.registerCsiHandler(
      { prefix: '>', final: 'u' },
      look((params) => this.#pushKeyboard(first(params))),
    )
    parser.registerCsiHandler(
      { prefix: '<', final: 'u' },
      look((params) => this.#popKeyboard(Math.max(1, first(params, 0, 1)))),
    )
    parser.registerCsiHandler(
      { prefix: '=', final: 'u' },
      look((params) => this.#setKeyboard(first(params), first(params, 1, 1) || 1)),
    )
    parser.registerCsiHandler(
      { prefix: '>', final: 'm' },
      look((params) => this.#modifyKeys(params)),
    )
    parser.registerCsiHandler(
      { prefix: '>', final: 'n' },
      look((params) => first(params) === 4 && (this.modifyOtherKeys = 0)),
    )
    parser.registerCsiHandler(
      { intermediates: '!', final: 'p' },
      look(() => this.#softReset()),
    )
    parser.registerEscHandler({ final: 'c' }, () => (this.#fullReset(), false))
    DESIGNATORS.forEach((intermediates, slot) => {
      for (const final of CHARSET_FINALS) {
        parser.registerEscHandler({ intermediates, final }, () => ((this.charsets[slot] = final), false))
      }
    })
    parser.registerOscHandler(4, (data) => this.#paletteColor(data))
    for (const code of [10, 11, 12]) parser.registerOscHandler(code, (data) => this.#dynamicColor(code, data))
    parser.registerOscHandler(104, (data) => this.#forgetColors(data))
    for (const code of [110, 111, 112])
      parser.registerOscHandler(code, () => (this.colors.delete(`d${code - 100}`), false))
    parser.registerOscHandler(7, (data) => {
      const cwd = directoryOf(data)
      if (cwd !== undefined && cwd !== this.cwd) hooks.cwdReported((this.cwd = cwd))
      return true
    })
    parser.registerOscHandler(9, (data) => {
      if (data.startsWith('4;')) this.progress = data.slice(0, MAX_PROGRESS_CHARS)
      return true
    })
  }

  get activeKeyboard(): KeyboardStack {
    return this.#alternate() ? this.keyboard.alternate : this.keyboard.normal
  }

  #privateModes(params: Params, on: boolean): void {
    for (const mode of params) {
      if (typeof mode !== 'number' || !REMEMBERED.has(mode)) continue
      if (on) this.privateModes.add(mode)
      else this.privateModes.delete(mode)
    }
  }

  #pushKeyboard(flags: number): void {
    const stack = this.activeKeyboard
    stack.below.push(stack.current)
    if (stack.below.length > MAX_KEYBOARD_DEPTH) stack.below.shift()
    stack.current = flags & 31
  }

  #popKeyboard(count: number): void {
    const stack = this.activeKeyboard
    for (let left = Math.min(count, MAX_KEYBOARD_DEPTH + 1); left > 0; left--) stack.current = stack.below.pop() ?? 0
  }

  #setKeyboard(flags: number, mode: number): void {
    const stack = this.activeKeyboard
    if (mode === 1) stack.current = flags & 31
    else if (mode === 2) stack.current |= flags & 31
    else if (mode === 3) stack.current &= ~flags & 31
  }

  #modifyKeys(params: Params): void {
    if (params.length === 0) this.modifyOtherKeys = 0
    else if (first(params) === 4) this.modifyOtherKeys = Math.min(3, first(params, 1))
  }

  #softReset(): void {
    this.charsets = ['B', 'B', 'B', 'B']
  }

  #fullReset(): void {
    this.#softReset()
    this.privateModes.clear()
    Object.assign(this.keyboard, { normal: emptyStack(), alternate: emptyStack() })
    this.modifyOtherKeys = 0
    this.colors.clear()
    this.progress = undefined
  }

  #paletteColor(data: string): boolean {
    const parts = data.split(';')
    for (let at = 0; at + 1 < parts.length; at += 2) {
      const index = Number(parts[at])
      if (parts[at + 1] !== '?' && Number.isInteger(index) && index >= 0 && index < 256)
        this.#setColor(String(index), parts[at + 1])
    }
    return true // the emulator's own handler has no use here, and its time grows with the square of the list
  }

  #dynamicColor(code: number, data: string): boolean {
    // Further values count on: `OSC 10;a;b` sets foreground and background.
    data.split(';').forEach((value, at) => {
      if (value !== '?' && code + at <= 12) this.#setColor(`d${code + at}`, value)
    })
    return false
  }

  #setColor(key: string, value: string | undefined): void {
    if (value && value.length <= MAX_COLOR_BYTES && !/[^\x20-\x7e]/.test(value)) this.colors.set(key, value)
  }

  #forgetColors(data: string): boolean {
    if (data === '') for (const key of [...this.colors.keys()]) if (!key.startsWith('d')) this.colors.delete(key)
    for (const index of data.split(';')) this.colors.delete(index)
    return false
  }
}

function emptyStack(): KeyboardStack {
  return { current: 0, below: [] }
}

/** Pure. The directory of an OSC 7 report, undefined when it is none or is another host's form we cannot read. */
export function directoryOf(data: string): string | undefined {
  try {
    const path = data.startsWith('/') ? data : decodeURIComponent(/^file:\/\/[^/]*(\/.*)$/.exec(data)?.[1] ?? '')
    return path.startsWith('/') && path.length <= 4096 && !/[\x00-\x1f\x7f]/.test(path) ? path : undefined
  } catch {
    return undefined // a broken percent escape is no report
  }
}
