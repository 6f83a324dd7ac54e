/**
 * What the program told about itself, and when: the evidence a daemon decides an agent's activity from. Fed by parser
 * hooks and by the terminal.
 * Invariants
 *  1. Nothing here grows with what a program sends: one report, one counter, a few stamps.
 *  2. A report that is not well formed changes nothing.
 */
import type { Clock } from '../kernel/clock.ts'
import type { StateReport, TerminalEvidence } from '../protocol/worker/messages.ts'
import type { IParser } from '@xterm/headless'

/** OSC number programs report their state with, and ask whether the terminal takes such reports. */
export const STATE_OSC = 7501
/** The terminal's answer to the question. */
export const STATE_ANSWER = `\x1b]${STATE_OSC};?\x1b\\`

const MAX_DATA_CHARS = 8_192
const MAX_KEYS = 16
const MAX_MESSAGE_CHARS = 512
const WORD = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/

export interface EvidenceHooks {
  /** The program asks whether its reports are understood. */
  asked(): void
  foregroundGroup(): number | undefined
}

export class Evidence {
  readonly #clock: Clock
  readonly #hooks: EvidenceHooks
  #title: { text: string; at: number; changedAt: number } | undefined
  #progressAt: number | undefined
  /** All that one piece of output tells has the time the piece was parsed at. */
  #outputAt: number | undefined
  #report: StateReport | undefined
  #workingReports = 0
  #keysAt: number | undefined
  /** Looked up once a piece of output: a flood of reports costs one look. */
  #group: { value: number | undefined } | undefined

  constructor(parser: IParser, clock: Clock, hooks: EvidenceHooks) {
    this.#clock = clock
    this.#hooks = hooks
    parser.registerOscHandler(STATE_OSC, (data) => {
      if (data === '?') hooks.asked()
      else this.#told(data)
      return true
    })
    parser.registerOscHandler(9, (data) => {
      if (data.startsWith('4;')) this.#progressAt = this.#at
      return false
    })
  }

  get #at(): number {
    return this.#outputAt ?? this.#clock.monotonic()
  }

  titleSet(text: string): void {
    const at = this.#at
    this.#title = { text, at, changedAt: this.#title?.text === text ? this.#title.changedAt : at }
  }

  /** Somebody sent keys or text to the program. */
  keysSent(): void {
    this.#keysAt = this.#clock.monotonic()
  }

  /** A piece of output is about to be parsed. */
  outputParsed(): void {
    this.#outputAt = this.#clock.monotonic()
    this.#group = undefined
  }

  snapshot(): TerminalEvidence {
    return {
      ...(this.#title && { title_at: this.#title.at, title_changed_at: this.#title.changedAt }),
      ...(this.#progressAt === undefined ? {} : { progress_at: this.#progressAt }),
      ...(this.#outputAt === undefined ? {} : { output_at: this.#outputAt }),
      ...(this.#report && { report: this.#report }),
      working_reports: this.#workingReports,
      ...(this.#keysAt === undefined ? {} : { keys_at: this.#keysAt }),
    }
  }

  #told(data: string): void {
    const told = parseReport(data)
    if (told === undefined || told.id) return
    if (told.state === 'clear') {
      this.#report = undefined
      return
    }
    const { id: _, ...report } = told
    if (report.state === 'working') this.#workingReports++
    this.#group ??= { value: this.#hooks.foregroundGroup() }
    const group = this.#group.value
    this.#report = { ...report, at: this.#at, ...(group === undefined ? {} : { group }) }
  }
}

/**
 * Pure. The words of `state=working:app=name:kind=permission:msg=BASE64`; undefined when it is not well formed (2). `id`:
 * it is about a part of the program's work, not about the program.
 */
export function parseReport(data: string): (Omit<StateReport, 'at' | 'group'> & { id: boolean }) | undefined {
  if (data.length > MAX_DATA_CHARS) return undefined
  const parts = data.split(':', MAX_KEYS + 1)
  if (parts.length > MAX_KEYS) return undefined
  const words = new Map<string, string>()
  for (const part of parts) {
    const at = part.indexOf('=')
    const key = part.slice(0, Math.max(0, at))
    if (!WORD.test(key) || words.has(key)) return undefined
    words.set(key, part.slice(at + 1))
  }
  for (const key of ['state', 'app', 'kind']) {
    const word = words.get(key)
    if (word === undefined ? key === 'state' : !WORD.test(word)) return undefined
  }
  const message = words.has('msg') ? messageOf(words.get('msg') ?? '') : ''
  if (message === undefined) return undefined
  const [state = '', app, kind] = ['state', 'app', 'kind'].map((key) => words.get(key))
  return { state, ...(app && { app }), ...(kind && { kind }), ...(message && { message }), id: words.has('id') }
}

function messageOf(encoded: string): string | undefined {
  if (!BASE64.test(encoded)) return undefined
  const text = Buffer.from(encoded, 'base64').toString('utf8')
  const plain = text.replace(/[\x00-\x1f\x7f-\x9f\u2028\u2029]+/g, ' ').trim()
  return plain.slice(0, MAX_MESSAGE_CHARS).replace(/[\ud800-\udbff]$/, '') // half a character, if it was cut there
}
