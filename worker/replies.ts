/**
 * Tells the replies of a client's terminal apart from keys in the client's input.
 * Invariants
 *  1. Keys are never eaten or reordered; what cannot be told apart is a key.
 *  2. The inside of a bracketed paste is never looked at.
 *  3. An unfinished sequence is held for a bounded time only, then it is typing.
 */
import type { Clock } from '../kernel/clock.ts'

/** A reply is sent in one piece; only a cut between two packets separates it. A human's ESC must not feel late. */
const PARTIAL_MS = 30
/** Once the start can be nothing but a reply. */
const REPLY_PARTIAL_MS = 300
const MAX_PARTIAL_BYTES = 65_536

const CSI = /^\x1b\[([?>=<]?)([\d;:]*)([ -/]*)([@-~])/
const STRING = /^\x1b([P\]_])([^\x1b\x07]*)(\x07|\x1b\\)/
const PARTIAL_CSI = /^\x1b\[[?>=<]?[\d;:]*[ -/]*$/
const PARTIAL_STRING = /^\x1b[P\]_][^\x1b\x07]*\x1b?$/
const REPLY_STRING = /^\x1b(?:\]\d+;|P[01!>])/
const PASTE_BEGIN = '\x1b[200~'
const PASTE_END = '\x1b[201~'

export interface ReplyHost {
  /** A reply of that kind is awaited: a lone ESC may be its start. */
  expects(): boolean
  /** May the reply reach the program? */
  admit(kind: string, reply: string, mayBeKey: boolean): boolean
  typed(bytes: Buffer): void
}

export class ReplyFilter {
  readonly #host: ReplyHost
  readonly #clock: Clock
  #held = ''
  #inPaste = false
  #timer: Disposable | undefined

  constructor(host: ReplyHost, clock: Clock) {
    this.#host = host
    this.#clock = clock
  }

  push(bytes: Buffer): void {
    if (this.#held === '' && !this.#inPaste && !bytes.includes(0x1b)) return this.#host.typed(bytes)
    const text = this.#held + bytes.toString('latin1')
    this.#held = ''
    this.#timer?.[Symbol.dispose]()
    this.#timer = undefined
    this.#scan(text)
  }

  /** The client is gone: what was held is typing. */
  end(): void {
    this.#timer?.[Symbol.dispose]()
    this.#release()
  }

  #scan(text: string): void {
    let out = ''
    for (let at = 0; at < text.length;) {
      if (this.#inPaste) {
        const end = text.indexOf(PASTE_END, at)
        const stop = end === -1 ? text.length : end + PASTE_END.length
        this.#inPaste = end === -1
        out += text.slice(at, stop)
        at = stop
        continue
      }
      const escape = text.indexOf('\x1b', at)
      if (escape === -1) {
        out += text.slice(at)
        break
      }
      out += text.slice(at, escape)
      const rest = text.slice(escape)
      const whole = CSI.exec(rest) ?? STRING.exec(rest)
      if (whole === null) {
        if (this.#hold(rest)) break
        out += '\x1b'
        at = escape + 1
        continue
      }
      const [sequence] = whole
      at = escape + sequence.length
      if (sequence === PASTE_BEGIN) this.#inPaste = true
      const reply = replyKind(sequence)
      if (reply === undefined) {
        out += sequence
        continue
      }
      // What was typed before goes first: admit may look at who is in front.
      this.#type(out)
      out = ''
      if (this.#host.admit(reply.kind, sequence, reply.mayBeKey)) this.#type(sequence)
    }
    this.#type(out)
  }

  /** True when `rest` may be the start of a reply and is kept back for the moment (3). */
  #hold(rest: string): boolean {
    if (rest.length > MAX_PARTIAL_BYTES) return false
    const lone = rest === '\x1b' || rest === '\x1b['
    if (lone ? !this.#host.expects() : !PARTIAL_CSI.test(rest) && !PARTIAL_STRING.test(rest)) return false
    this.#held = rest
    this.#timer = this.#clock.after(REPLY_STRING.test(rest) ? REPLY_PARTIAL_MS : PARTIAL_MS, () => this.#release())
    return true
  }

  #release(): void {
    const held = this.#held
    this.#held = ''
    this.#type(held)
  }

  #type(text: string): void {
    if (text !== '') this.#host.typed(Buffer.from(text, 'latin1'))
  }
}

/**
 * Pure. Which query a complete sequence would answer, undefined for a key. `mayBeKey`: a cursor report in row 1 looks
 * like F3 with modifiers.
 */
export function replyKind(sequence: string): { kind: string; mayBeKey: boolean } | undefined {
  const csi = CSI.exec(sequence)
  if (csi !== null) {
    const kind = csiKind(csi[1] ?? '', csi[2] ?? '', csi[3] ?? '', csi[4] ?? '')
    // An unasked colour scheme notice (mode 2031) looks like the answer; it is typing for whoever switched it on.
    const mayBeKey = kind === 'scheme' || (kind === 'cpr' && (csi[2] ?? '').startsWith('1;'))
    return kind === undefined ? undefined : { kind, mayBeKey }
  }
  const string = STRING.exec(sequence)
  if (string === null) return undefined
  const body = string[2] ?? ''
  const kind = string[1] === ']' ? oscKind(body) : string[1] === 'P' ? dcsKind(body) : undefined
  return kind === undefined ? undefined : { kind, mayBeKey: false }
}

function csiKind(prefix: string, params: string, intermediates: string, final: string): string | undefined {
  if (intermediates === '$')
    return final === 'y' && /^\d+;\d$/.test(params) ? `mode:${prefix}${params.split(';', 1)[0]}` : undefined
  if (intermediates !== '') return undefined
  switch (prefix + final) {
    case '?c':
      return 'da1'
    case '>c':
      return 'da2'
    case 'R':
      return /^\d+;\d+$/.test(params) ? 'cpr' : undefined
    case '?R':
      return 'xcpr'
    case 'n':
      return /^[03]$/.test(params) ? 'dsr' : undefined
    case '?n':
      return /^997;[12]$/.test(params) ? 'scheme' : undefined
    case '?u':
      return 'kitty'
    case '>m':
      return params.startsWith('4;') ? 'modkeys' : undefined
    case '?S':
      return 'graphics'
    case 't': {
      const form = /^([4689]);\d+;\d+$/.exec(params)?.[1]
      return form === undefined ? undefined : `window:${form}`
    }
    default:
      return undefined
  }
}

function oscKind(body: string): string | undefined {
  const palette = /^4;(\d+);/.exec(body)?.[1]
  if (palette !== undefined) return `osc:4;${Number(palette)}`
  const code = /^(10|11|12|52|7501);/.exec(body)?.[1]
  return code === undefined ? undefined : `osc:${code}`
}

function dcsKind(body: string): string | undefined {
  if (body.startsWith('>|')) return 'xtversion'
  if (body.startsWith('!|')) return 'da3'
  if (/^[01]\$r/.test(body)) return 'setting'
  return /^[01]\+r/.test(body) ? 'termcap' : undefined
}
