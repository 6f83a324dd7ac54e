/**
 * Debounce windows: what is held, until when, and what becomes of it.
 * Invariant: a report is told before its record is published, its record is durable before it is let go. A daemon that
 * dies in between finds it held, and recognises by its id what was recorded.
 */
import type { Clock } from '../../kernel/clock.ts'
import { crashPoint } from '../../kernel/crash-points.ts'
import type { Log } from '../../kernel/log.ts'
import type { Scope } from '../../kernel/scope.ts'
import type { Table } from '../../kernel/store/tables.ts'
import type { SessionService } from '../sessions/api.ts'
import type { SettledReport } from './api.ts'
import type { Inbox } from './inbox.ts'
import { isOutdated, type Moment, type State } from './moment.ts'
import type { PolicyFile } from './policy.ts'
import type { Held } from './stored.ts'
import type { Work } from './work.ts'

/** How long a working state lasts before it counts: a screen redrawn around a dialog can look like work for a moment. */
export const CONFIRM_MS = 1_000
/** Reports held at once; over it the oldest ends its window early. */
export const MAX_HELD = 1_024
/** A commit that failed is tried again after at least this. */
const RETRY_MS = 5_000

export interface WindowEdges {
  readonly inbox: Inbox
  readonly held: Table<Held>
  readonly policy: PolicyFile
  readonly sessions: Pick<SessionService, 'get'>
  readonly clock: Clock
  readonly log: Log
  readonly scope: Scope
  readonly work: Work
  readonly settled: (report: SettledReport) => void
}

export class Windows {
  readonly #edges: WindowEdges
  readonly #states: Map<string, State>
  #order = 0

  constructor(edges: WindowEdges, states: Map<string, State>) {
    this.#edges = edges
    this.#states = states
  }

  /** Grows with each thing that happens: tells what came before what. */
  next(): number {
    return ++this.#order
  }

  /** Holds a report for `ms`. */
  hold(state: State, moment: Moment, it: Held, ms: number): void {
    const { clock, scope } = this.#edges
    const due = clock.monotonic() + ms
    // The longest timers fire early: what is not due is awaited again.
    const timer = scope.after(ms, 'window', () =>
      clock.monotonic() < due
        ? this.hold(state, moment, moment.held?.it ?? it, due - clock.monotonic())
        : this.#due(state, moment),
    )
    moment.held = { it, timer, order: moment.held?.order ?? this.next() }
  }

  /** Ends the window: what still holds is told, then becomes a record. */
  async end(state: State, moment: Moment): Promise<void> {
    const { inbox, held: table, sessions, clock, log, scope } = this.#edges
    const it = this.release(moment)
    if (it === undefined) return
    if (isOutdated(it, state, sessions.get(it.session_id), clock.monotonic())) {
      // A late hook is late once.
      if (it.moment === 'attention') delete state.unheardAnswerAt
      return this.#discard(it)
    }
    const told = it.told === true
    if (!told) this.#tell(moment, it)
    crashPoint('notify.told')
    try {
      if (it.record !== undefined) {
        moment.recordId = it.id
        await inbox.add(it.record)
      }
    } catch (failure) {
      log.error({ err: failure, id: it.id }, 'a notification could not be stored; it is tried again')
      if (!scope.closed && moment.held === undefined) {
        this.hold(state, moment, { ...it, told: true }, Math.max(RETRY_MS, this.#edges.policy.debounceMs))
      }
      return
    }
    await table.delete(it.id)
    crashPoint('notify.released')
    this.tidy(it.session_id, state)
  }

  /** Takes a held report back. */
  drop(moment: Moment): void {
    const it = this.release(moment)
    if (it !== undefined) this.#discard(it)
  }

  release(moment: Moment): Held | undefined {
    const { held } = moment
    held?.timer[Symbol.dispose]()
    delete moment.held
    return held?.it
  }

  /** Keeps what is held bounded. */
  bound(): void {
    if (this.#edges.held.size <= MAX_HELD) return
    let oldest: { state: State; moment: Moment; order: number } | undefined
    for (const state of this.#states.values()) {
      for (const moment of [state.attention, state.turn]) {
        const order = moment.held?.order
        if (order !== undefined && (oldest === undefined || order < oldest.order)) oldest = { state, moment, order }
      }
    }
    if (oldest !== undefined) this.#endBeside(oldest.state, oldest.moment)
  }

  /** Nothing is kept about a session the daemon does not hold. */
  tidy(sessionId: string, state: State): void {
    if (state.attention.held !== undefined || state.turn.held !== undefined) return
    if (this.#edges.sessions.get(sessionId) === undefined) this.#states.delete(sessionId)
  }

  #due(state: State, moment: Moment): void {
    const held = moment.held
    if (held === undefined) return
    // 4. Whether it is work shows soon; then the report is dropped or due again.
    if (state.leaving !== undefined) return this.hold(state, moment, held.it, CONFIRM_MS)
    this.#endBeside(state, moment)
  }

  #endBeside(state: State, moment: Moment): void {
    this.#edges.work.run('a held report could not be settled', this.end(state, moment))
  }

  #tell(moment: Moment, it: Held): void {
    moment.told = true
    if (it.reported !== 'agent_blocked' && it.reported !== 'approval_required' && it.reported !== 'turn_completed')
      return
    const { session_id: sessionId, reported: kind, provider, counts } = it
    this.#edges.settled({ sessionId, kind, provider, counts })
  }

  #discard(it: Held): void {
    this.#edges.work.run('a held report could not be dropped', this.#edges.held.delete(it.id))
  }
}
