/**
 * Debounce windows: what is held, until when, and what becomes of it.
 * Invariants
 *  1. A report is told, and what listens has stored it, before its record is published; its record and the mark that it
 *     was told are durable before it is let go. A daemon that dies in between finds it held; by its id it recognises what
 *     was recorded, and those it tells recognise what they were told.
 *  2. What the disk refuses is told all the same, and its record stored once there is room: until then it stays here.
 */
import type { Clock } from '../../kernel/clock.ts'
import { crashPoint } from '../../kernel/crash-points.ts'
import type { Log } from '../../kernel/log.ts'
import type { Scope } from '../../kernel/scope.ts'
import type { Table } from '../../kernel/store/tables.ts'
import type { SessionService } from '../sessions/api.ts'
import type { SettledReport } from './api.ts'
import type { Inbox } from './inbox.ts'
import type { Marks } from './marks.ts'
import { isOutdated, isTold, type Moment, type State } from './moment.ts'
import type { PolicyFile } from './policy.ts'
import { RETRY_MS, type Retries } from './retries.ts'
import { moved } from './status.ts'
import type { Held } from './stored.ts'
import type { CreateParams } from './types.ts'
import type { Work } from './work.ts'

/** How long a working state lasts before it counts: a screen redrawn around a dialog can look like work for a moment. */
export const CONFIRM_MS = 1_000
/** Reports held at once; over it the oldest ends its window early. */
export const MAX_HELD = 1_024

export interface WindowEdges {
  readonly inbox: Inbox
  readonly held: Table<Held>
  readonly marks: Marks
  readonly retries: Retries
  readonly policy: PolicyFile
  readonly sessions: Pick<SessionService, 'get'>
  readonly clock: Clock
  readonly log: Log
  readonly scope: Scope
  readonly work: Work
  readonly settled: (report: SettledReport) => void
  /** Adds a record at once; the same source again is no-op. Never rejects for the disk. */
  readonly add: (params: CreateParams) => Promise<unknown>
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
    moment.held?.timer[Symbol.dispose]()
    // The longest timers fire early: what is not due is awaited again.
    const timer = scope.after(ms, 'window', () =>
      clock.monotonic() < due
        ? this.hold(state, moment, moment.held?.it ?? it, due - clock.monotonic())
        : this.#due(state, moment),
    )
    const sinceMs = moment.held?.sinceMs ?? clock.monotonic()
    moment.held = { it, timer, order: moment.held?.order ?? this.next(), sinceMs }
  }

  /** Stores what is held, now or as soon as the disk takes it. True when it is durable now. */
  save(it: Held): Promise<boolean> {
    return this.#edges.retries.write(keyOf(it), () => this.#edges.held.put(it))
  }

  /** The policy changed: what is held ends a window of the new length after it came, at the earliest now. */
  rearm(): void {
    const { clock, policy } = this.#edges
    for (const state of this.#states.values()) {
      for (const moment of [state.attention, state.turn]) {
        const { held } = moment
        if (held === undefined || isTold(held)) continue
        this.hold(state, moment, held.it, Math.max(0, held.sinceMs + policy.debounceMs - clock.monotonic()))
      }
    }
  }

  /** Ends the window: what still holds is told, then becomes a record. Never rejects for the disk. */
  async end(state: State, moment: Moment): Promise<void> {
    const { inbox, sessions, clock, log, scope, marks } = this.#edges
    const { held } = moment
    if (held === undefined || held.telling === true) return
    held.timer[Symbol.dispose]()
    const { session_id: sessionId, moment: kind, id } = held.it
    if (isOutdated(held.it, state, sessions.get(sessionId), clock.monotonic())) {
      // A late hook is late once.
      if (kind === 'attention') delete state.unheardAnswerAt
      return this.drop(moment)
    }
    const again = isTold(held)
    held.telling = true
    if (!again) await this.#tell(moment, held.it)
    else moment.told = true
    crashPoint('notify.told')
    if (moment.held !== held) return // dropped meanwhile, as something that was told
    const { it } = held
    delete moment.held
    if (it.record !== undefined) {
      moment.recordId = id
      try {
        await inbox.add(it.record)
      } catch (failure) {
        if (!again) log.error({ err: failure, id }, 'a notification could not be stored; it is tried again')
        const told = { ...it, told: true }
        if (moment.recordId !== id || moment.held !== undefined) return this.#settle(told)
        void marks.keep(sessionId, kind, moment)
        void this.save(told)
        if (scope.closed) return
        moment.held = { ...held, it: told, telling: false } // in its place: what came since is newer
        return this.hold(state, moment, told, RETRY_MS)
      }
    }
    await Promise.all([marks.keep(sessionId, kind, moment), this.#forget(it)])
    crashPoint('notify.released')
    this.tidy(sessionId, state)
  }

  /** Takes a held report back; one that waits were told of becomes a record that is dealt with. */
  drop(moment: Moment): void {
    const { held } = moment
    if (held === undefined) return
    const told = isTold(held)
    this.release(moment)
    if (told) this.#settle(held.it)
    else this.#beside(this.#forget(held.it))
  }

  /** As `drop`, for one that an earlier daemon told. */
  discard(it: Held): void {
    if (it.told === true) this.#settle(it)
    else this.#beside(this.#forget(it))
  }

  release(moment: Moment): void {
    moment.held?.timer[Symbol.dispose]()
    delete moment.held
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
    this.#beside(this.end(state, moment))
  }

  /** Resolves when everybody who was told has stored it, or could not. */
  async #tell(moment: Moment, it: Held): Promise<void> {
    moment.told = true
    moment.id = it.id
    if (it.reported !== 'agent_blocked' && it.reported !== 'approval_required' && it.reported !== 'turn_completed')
      return
    const { id, session_id: sessionId, reported: kind, provider, counts } = it
    const stored: Promise<unknown>[] = []
    this.#edges.settled({ id, sessionId, kind, provider, counts, until: (work) => void stored.push(work) })
    await Promise.allSettled(stored)
  }

  /** 2. What was told becomes a record, although its moment is over by now. */
  #settle(it: Held): void {
    const { inbox, retries } = this.#edges
    const { record } = it
    const add = async (): Promise<void> => {
      if (record !== undefined && inbox.get(record.id) === undefined)
        await inbox.add(moved(record, 'acknowledged', inbox.now()))
    }
    this.#beside(
      retries.write(`record ${it.id}`, async () => {
        await add()
        await this.#forget(it)
      }),
    )
  }

  #forget(it: Held): Promise<boolean> {
    return this.#edges.retries.write(keyOf(it), () => this.#edges.held.delete(it.id))
  }

  #beside(work: Promise<unknown>): void {
    this.#edges.work.run('a held report could not be settled', work)
  }
}

const keyOf = ({ id }: Held): string => `held ${id}`
