/**
 * Tells the owner's command of new records, one at a time, in order.
 * Invariants
 *  1. What is owed is a mark beside the record: a restart goes on, a failure leaves it, a success takes it away.
 *  2. A dead channel costs one attempt per pause and one warning; the inbox never waits for it.
 *  3. At least once: that an attempt begins is durable before the command runs. One that comes after another, because the
 *     command failed or the daemon died over it, says so: `attempt` in its JSON is 2 and more.
 *  4. What the owner dealt with meanwhile, or what is too old, is not told any more.
 */
import type { Clock } from '../../kernel/clock.ts'
import { crashPoint } from '../../kernel/crash-points.ts'
import type { Log } from '../../kernel/log.ts'
import type { Finding } from '../../kernel/plugin.ts'
import type { Scope } from '../../kernel/scope.ts'
import { messageOf } from '../../protocol/fault.ts'
import type { Inbox } from './inbox.ts'
import { createdMs } from './list.ts'
import type { NotificationRecord } from './types.ts'
import type { Work } from './work.ts'

const FIRST_PAUSE_MS = 5_000
const LONGEST_PAUSE_MS = 300_000
/** Records that wait for a dead channel; over it the oldest are given up. */
const MAX_BACKLOG = 200
/** A notice of yesterday is news to nobody. */
const MAX_AGE_MS = 24 * 3_600_000

export interface DeliveryEdges {
  readonly inbox: Inbox
  readonly command: readonly string[]
  /** Empty: all. */
  readonly kinds: readonly string[]
  /** undefined when it was told, else why not. */
  readonly run: (input: string, signal: AbortSignal) => Promise<string | undefined>
  readonly clock: Clock
  readonly scope: Scope
  readonly log: Log
  readonly work: Work
}

export class Delivery {
  readonly #edges: DeliveryEdges
  #backlog: string[] = []
  #running: Promise<void> | undefined
  #pause: Disposable | undefined
  #pauseMs = FIRST_PAUSE_MS
  #down: { readonly since: number; readonly problem: string } | undefined
  #delivered = 0
  #givenUp = 0

  constructor(edges: DeliveryEdges) {
    this.#edges = edges
    // The command ends with the daemon, which waits for that.
    edges.scope.defer('notify command', () => this.#running)
  }

  isFor({ kind }: NotificationRecord): boolean {
    const { command, kinds } = this.#edges
    return command.length > 0 && (kinds.length === 0 || kinds.includes(kind))
  }

  /** Takes up what an earlier daemon left undelivered. */
  resume(): void {
    if (this.#edges.command.length === 0) return
    this.#backlog = this.#edges.inbox.owed()
    this.#next()
  }

  /** A new record was committed. */
  add(record: NotificationRecord): void {
    if (record.status !== 'unread' || !this.isFor(record)) return
    this.#backlog.push(record.id)
    const over = this.#backlog.length - MAX_BACKLOG
    // The one being told stays in front.
    if (over > 0) this.#giveUp(this.#backlog.splice(this.#running === undefined ? 0 : 1, over))
    this.#next()
  }

  health(): Finding {
    const { command } = this.#edges
    if (command.length === 0) return { status: 'ok', detail: 'no notify command is configured' }
    const waiting = `${this.#backlog.length} undelivered`
    const lost = this.#givenUp === 0 ? '' : `, ${this.#givenUp} given up`
    if (this.#down === undefined) {
      return { status: 'ok', detail: `${command[0]}: ${this.#delivered} delivered, ${waiting}${lost}` }
    }
    const since = new Date(this.#down.since).toISOString()
    return {
      status: 'warn',
      detail: `${command[0]} fails since ${since}: ${this.#down.problem}; ${waiting}${lost}; correct [notify] command in config.toml`,
    }
  }

  #next(): void {
    const { scope, log } = this.#edges
    if (this.#running !== undefined || this.#pause !== undefined || scope.closed || this.#backlog.length === 0) return
    this.#running = this.#tell()
      .catch((failure: unknown) => {
        log.error({ err: failure }, 'the delivery of notifications failed')
        return false
      })
      .then((goesOn) => {
        this.#running = undefined
        if (goesOn) this.#next()
        else this.#wait()
      })
  }

  #wait(): void {
    const { scope } = this.#edges
    if (scope.closed || this.#pause !== undefined) return
    this.#pause = scope.after(this.#pauseMs, 'notify pause', () => {
      this.#pause = undefined
      this.#next()
    })
    this.#pauseMs = Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS)
  }

  /** Tells the first of the backlog; false when the channel failed. */
  async #tell(): Promise<boolean> {
    const { inbox, run, scope } = this.#edges
    const id = this.#backlog[0] as string
    const record = inbox.get(id)
    if (record !== undefined && this.#isWorth(record)) {
      const begun = await inbox.attempt(record).catch((failure: unknown) => messageOf(failure))
      if (scope.closed) return false
      if (typeof begun === 'string') return this.#failed(begun)
      const told = begun === 1 ? record : { ...record, attempt: begun }
      const problem = await run(`${JSON.stringify(told)}\n`, scope.signal)
      if (scope.closed) return false
      if (problem !== undefined) return this.#failed(problem)
      crashPoint('notify.announced')
      this.#works()
    }
    this.#backlog.shift()
    await inbox.announced([id])
    return true
  }

  /** 4. */
  #isWorth({ id, status }: NotificationRecord): boolean {
    return status === 'unread' && this.#edges.clock.now() - createdMs(id) < MAX_AGE_MS
  }

  #failed(problem: string): false {
    const { clock, log, command } = this.#edges
    if (this.#down === undefined) log.warn({ program: command[0], problem }, 'the notify command fails')
    this.#down = { since: this.#down?.since ?? clock.now(), problem }
    return false
  }

  #works(): void {
    const { log, command } = this.#edges
    this.#delivered += 1
    this.#pauseMs = FIRST_PAUSE_MS
    if (this.#down === undefined) return
    this.#down = undefined
    log.info({ program: command[0], undelivered: this.#backlog.length - 1 }, 'the notify command works again')
  }

  #giveUp(ids: readonly string[]): void {
    const { inbox, work } = this.#edges
    this.#givenUp += ids.length
    work.run('an undelivered mark could not be taken away', inbox.announced(ids))
  }
}
