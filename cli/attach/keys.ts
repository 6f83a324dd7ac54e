/**
 * Finds our two keys in what a terminal sends and leaves every other byte as it is. Pure state machine.
 * Invariants
 *  1. The bytes passed on are the bytes received, minus exactly those of our keys.
 *  2. Only bytes that can still become one of our keys are held back, and the caller bounds how long.
 * Ctrl-] and Ctrl-\ arrive as one byte, as kitty's `CSI 93;5u` (with lock bits in the modifiers, alternate codes and
 * event types), or as modifyOtherKeys' `CSI 27;5;93~`.
 */
export type Key = 'detach' | 'menu'
export type KeyEvent = { readonly pass: Uint8Array } | { readonly key: Key }

const ESC = 0x1b
const BYTES: Readonly<Record<number, Key>> = { 0x1d: 'detach', 0x1c: 'menu' }
const CODES: Readonly<Record<string, Key>> = { 93: 'detach', 92: 'menu' }
/** Longest spelling of a key that is waited for; a longer one is passed on. */
const MAX_SEQUENCE_BYTES = 48

// Modifiers are one plus a bit set: shift 1, alt 2, ctrl 4, super 8, hyper 16, meta 32, caps lock 64, num lock 128.
const CONTROL = 4
const LOCKS = 64 | 128

const COMPLETE = /^\x1b\[(?:(9[23])(?::[0-9:]*)?;([0-9]{1,4})(?::([0-9]))?(?:;[0-9:]*)?u|27;([0-9]{1,4});(9[23])~)/

const PREFIX = /^\x1b(?:\[(?:9(?:[23](?::[0-9:]*)?(?:;[0-9:;]*)?)?|2(?:7(?:;[0-9;]*)?)?)?)?$/

const PRESS = '1'
const RELEASE = '3'

/**
 * How long a start of a key may be held: a lone escape is most often the escape key, where a delay is felt; behind
 * `CSI` the rest of a terminal's own sequence is on its way, however slow the line.
 */
const ESCAPE_HOLD_MS = 50
const SEQUENCE_HOLD_MS = 500

export class KeyReader {
  #held: Buffer = Buffer.alloc(0)
  /** A lone escape was passed on last: what comes in one piece behind it may be the rest of a key on a slow line. */
  #escaped = false
  /** A key whose release is still to come and belongs to us. */
  readonly #down = new Set<Key>()

  /** For how long what is held may stay held; undefined when nothing is. */
  get holdMs(): number | undefined {
    if (this.#held.length === 0) return undefined
    return this.#held.length === 1 ? ESCAPE_HOLD_MS : SEQUENCE_HOLD_MS
  }

  push(chunk: Uint8Array): KeyEvent[] {
    const bytes =
      this.#held.length === 0
        ? Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
        : Buffer.concat([this.#held, chunk])
    this.#held = Buffer.alloc(0)
    const events: KeyEvent[] = []
    let from = this.#late(bytes, events)
    const pass = (to: number): void => {
      if (to > from) events.push({ pass: bytes.subarray(from, to) })
    }
    for (let at = from; at < bytes.length; at++) {
      const byte = bytes[at] as number
      const plain = BYTES[byte]
      if (plain !== undefined) {
        pass(at)
        events.push({ key: plain })
        from = at + 1
      } else if (byte === ESC) {
        const text = bytes.toString('latin1', at, at + MAX_SEQUENCE_BYTES)
        const match = COMPLETE.exec(text)
        const key = match === null ? undefined : this.#take(match)
        if (match !== null && key !== undefined) {
          pass(at)
          if (key !== 'swallow') events.push({ key })
          from = at + match[0].length
          at = from - 1
        } else if (match === null && bytes.length - at < MAX_SEQUENCE_BYTES && PREFIX.test(text)) {
          pass(at)
          this.#held = Buffer.from(bytes.subarray(at)) // 2
          return events
        }
      }
    }
    pass(bytes.length)
    return events
  }

  /** The hold ran out: what was held is not one of our keys. */
  flush(): KeyEvent[] {
    const held = this.#held
    this.#held = Buffer.alloc(0)
    this.#escaped = held.length === 1
    return held.length === 0 ? [] : [{ pass: held }]
  }

  /** Bytes at the start that complete a key whose escape is already with the program. */
  #late(bytes: Buffer, events: KeyEvent[]): number {
    const escaped = this.#escaped
    this.#escaped = false
    const match = escaped ? COMPLETE.exec(`\x1b${bytes.toString('latin1', 0, MAX_SEQUENCE_BYTES)}`) : null
    const key = match === null ? undefined : this.#take(match)
    if (match === null || key === undefined) return 0
    if (key !== 'swallow') events.push({ key })
    return match[0].length - 1
  }

  #take(match: RegExpExecArray): Key | 'swallow' | undefined {
    const [, code, modifiers, event = PRESS, otherModifiers, otherCode] = match
    const key = CODES[(code ?? otherCode) as string] as Key
    const bits = Number(modifiers ?? otherModifiers) - 1
    if (event === RELEASE) return this.#down.delete(key) ? 'swallow' : undefined
    if ((bits & ~LOCKS) !== CONTROL) return undefined
    // A repeat belongs to the press it repeats.
    if (event !== PRESS && this.#down.has(key)) return 'swallow'
    if (match[3] !== undefined) this.#down.add(key)
    return key
  }
}
