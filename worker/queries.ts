/**
 * Terminal queries of the program, each answered exactly once.
 * Invariants
 *  1. No client attached: the worker answers at once. Clients attached: the newest one's terminal answers; replies of
 *     the others are dropped.
 *  2. A reply is passed on only while its query is open and the terminal's foreground process group is still the one
 *     that was in front when the query was read: a late reply never becomes somebody's typing.
 *  3. A client that gives no reply within the bound, or while too many others are asked, is replaced by the worker's own answer, and its late one is dropped.
 *  4. What could be a key press is passed on when no query of its kind is open.
 */
import type { Clock } from '../kernel/clock.ts'

/** Longest a program waits for a client's terminal; slower terminals are answered for. Links of 200 ms still make it. */
const CLIENT_REPLY_MS = 500
const MAX_OPEN_QUERIES = 64
const MAX_ANSWERED = 1_024
/** How long a reply may trail the worker's own answer and still be recognised as its double. */
const SWALLOW_MS = 10_000

export interface QueryHost {
  /** Newest attached client that is up to date, if any. */
  newestClient(): object | undefined
  foregroundGroup(): number | undefined
  answer(text: string): void
}

interface OpenQuery {
  kind: string
  client: object
  group: number | undefined
  /** What the worker answers in the client's place. */
  own: string
  at: number
}

export class QueryDesk {
  readonly #host: QueryHost
  readonly #clock: Clock
  #open: OpenQuery[] = []
  #answered: { kind: string; client: object; at: number }[] = []
  #timer: Disposable | undefined

  constructor(host: QueryHost, clock: Clock) {
    this.#host = host
    this.#clock = clock
  }

  /** The program asked `kind`; `own` is the worker's answer, '' when the worker has none. */
  asked(kind: string, own: string): void {
    const client = this.#host.newestClient()
    if (client === undefined) {
      if (own !== '') this.#host.answer(own) // 1
      return
    }
    if (this.#open.length >= MAX_OPEN_QUERIES) this.#answerOldest() // in the order they were asked
    this.#open.push({ kind, client, group: this.#host.foregroundGroup(), own, at: this.#clock.monotonic() })
    this.#arm()
  }

  /** True while `client` may still send a reply: only then is a lone ESC worth holding back. */
  expects(client: object): boolean {
    return this.#open.some((it) => it.client === client)
  }

  /** Pure lookup plus bookkeeping: may this reply of `client` reach the program? `mayBeKey`: see (4). */
  admit(client: object, kind: string, mayBeKey: boolean): boolean {
    const at = this.#open.findIndex((it) => it.client === client && it.kind === kind)
    const query = this.#open[at]
    if (query === undefined) {
      const now = this.#clock.monotonic()
      this.#answered = this.#answered.filter((it) => now - it.at < SWALLOW_MS)
      const double = this.#answered.findIndex((it) => it.client === client && it.kind === kind)
      if (double !== -1) {
        this.#answered.splice(double, 1)
        return false // 3
      }
      return mayBeKey && !this.#open.some((it) => it.kind === kind) // 4
    }
    // Terminals answer in order: what was asked before this and has no reply yet will get none.
    this.#open.splice(0, at + 1)
    return this.#host.foregroundGroup() === query.group // 2
  }

  /** The client is gone or lost bytes: what it was asked is answered here. */
  clientLost(client: object): void {
    const lost = this.#open.filter((it) => it.client === client)
    this.#open = this.#open.filter((it) => it.client !== client)
    for (const query of lost) this.#answerFor(query)
    this.#answered = this.#answered.filter((it) => it.client !== client)
  }

  #arm(): void {
    if (this.#timer !== undefined || this.#open.length === 0) return
    const wait = (this.#open[0]?.at ?? 0) + CLIENT_REPLY_MS - this.#clock.monotonic()
    this.#timer = this.#clock.after(Math.max(1, wait), () => {
      this.#timer = undefined
      const now = this.#clock.monotonic()
      while (this.#open[0] !== undefined && now - this.#open[0].at >= CLIENT_REPLY_MS) {
        this.#answerOldest()
      }
      this.#arm()
    })
  }

  /** (3) */
  #answerOldest(): void {
    const query = this.#open.shift()
    if (query === undefined) return
    this.#answered.push({ kind: query.kind, client: query.client, at: this.#clock.monotonic() })
    if (this.#answered.length > MAX_ANSWERED) this.#answered.shift()
    this.#answerFor(query)
  }

  #answerFor(query: OpenQuery): void {
    // The asker may have gone meanwhile; its answer would be typed into whoever is in front now.
    if (query.own !== '' && this.#host.foregroundGroup() === query.group) this.#host.answer(query.own)
  }
}
