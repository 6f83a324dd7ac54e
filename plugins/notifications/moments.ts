/**
 * Reports of attention and of ended turns, held until their window is over, so that one moment of a session is told once.
 * Invariants
 *  1. A held report is durable before it is answered, and held again for a whole window after a restart.
 *  2. Whoever reports a moment, and how often: it is told once, under the best report's name, and makes one record.
 *  3. A session that works, or is over, waits for nobody: what is held is dropped, what is open resolves.
 *  4. A working state must last CONFIRM_MS, or become idle, before it resolves anything (FC-cb0c).
 */
import { crashPoint } from '../../kernel/crash-points.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Log } from '../../kernel/log.ts'
import type { Scope } from '../../kernel/scope.ts'
import type { Table } from '../../kernel/store/tables.ts'
import { messageOf } from '../../protocol/fault.ts'
import type { SessionService } from '../sessions/api.ts'
import type { AgentActivity } from '../sessions/types.ts'
import type { SettledReport } from './api.ts'
import { faults } from './faults.ts'
import { upgradedBy, type Inbox } from './inbox.ts'
import { createdMs } from './list.ts'
import type { PolicyFile } from './policy.ts'
import { isOutside, isProjector, rankOf } from './rank.ts'
import type { Draft, MomentKind } from './request.ts'
import { isOpen } from './status.ts'
import type { Held } from './stored.ts'
import { isOver } from './sessions.ts'
import type { NotificationRecord } from './types.ts'
import type { Work } from './work.ts'

/** How long a working state lasts before it counts: a screen redrawn around a dialog can look like work for a moment. */
const CONFIRM_MS = 1_000
/** Reports held at once; over it the oldest ends its window early. */
const MAX_HELD = 1_024
/** A commit that failed is tried again after at least this. */
const RETRY_MS = 5_000
/** A hook report this late after an answer may still be about what was answered. */
const LATE_HOOK_MS = 120_000

export interface Report {
  readonly draft: Draft
  readonly sessionId: string
  readonly moment: MomentKind
  /** The policy keeps a record of it. */
  readonly keep: boolean
  /** See SettledReport. */
  readonly counts: boolean
  /** From the projector of this daemon. */
  readonly projected?: boolean
}

export interface Reported {
  readonly created: boolean
  /** undefined when no record was or will be made of it. */
  readonly record?: NotificationRecord
}

interface Moment {
  held?: { it: Held; readonly timer: Disposable; readonly since: number }
  /** It was settled: waits know of it. */
  told: boolean
  /** Somebody but the projector reported it. */
  heard: boolean
  /** Its record in the inbox. */
  recordId?: string
  /** Provider and source id of the last report: the same report again is not another one. */
  source?: string
}

interface State {
  activity: AgentActivity | undefined
  /** Work was seen and its end was not reported yet. */
  inTurn: boolean
  /** Work that is not confirmed yet, and what was before it. */
  leaving?: { readonly timer: Disposable; readonly from: AgentActivity | undefined; readonly at: number }
  /** When an attention ended that no hook had reported: its hook may still come (FC-9b28). */
  unheardAnswerAt?: number
  readonly attention: Moment
  readonly turn: Moment
}

const newMoment = (): Moment => ({ told: false, heard: false })

export interface MomentsEdges {
  readonly inbox: Inbox
  readonly held: Table<Held>
  readonly policy: PolicyFile
  readonly sessions: Pick<SessionService, 'get'>
  readonly clock: Clock
  readonly log: Log
  readonly scope: Scope
  readonly work: Work
  readonly mint: () => string
  readonly settled: (report: SettledReport) => void
}

export class Moments {
  readonly #edges: MomentsEdges
  readonly #states = new Map<string, State>()

  constructor(edges: MomentsEdges) {
    this.#edges = edges
  }

  isHeld(sessionId: string): boolean {
    const state = this.#states.get(sessionId)
    return [state?.attention, state?.turn].some((it) => it?.held?.it.record !== undefined)
  }

  /** 1. What the daemon before held; `activity` is what is known of a session now. */
  async restore(activity: (sessionId: string) => AgentActivity | undefined): Promise<void> {
    const { held, inbox, sessions } = this.#edges
    for (const it of [...held.values()]) {
      const { session_id: sessionId } = it
      const session = sessions.get(sessionId)
      const state = this.#state(sessionId, activity(sessionId))
      const moment = state[it.moment]
      const recorded = inbox.get(it.id) !== undefined
      const isGone = session === undefined ? it.counts : isOver(session)
      if (recorded || isGone || moment.held !== undefined || state.activity === 'working') {
        if (recorded) Object.assign(moment, { told: true, recordId: it.id })
        await held.delete(it.id)
      } else {
        moment.heard = !isProjector(it.provider)
        this.#hold(state, moment, it, this.#edges.policy.debounceMs)
      }
    }
  }

  /** Takes one report. Throws notification_store_error; then it was not taken. */
  async report(report: Report): Promise<Reported> {
    const state = this.#state(report.sessionId)
    const moment = state[report.moment]
    const source = `${report.draft.source.provider}\0${report.draft.source_id}`
    const isRepeated = report.draft.source_id !== undefined && moment.source === source
    const known = this.#target(state, moment, report)
    if (isRepeated && (moment.held !== undefined || moment.told)) {
      const record = moment.held?.it.record ?? known
      if (record !== undefined || !report.keep) return { created: false, ...(record === undefined ? {} : { record }) }
    }
    if (moment.held !== undefined) {
      moment.source = source
      const merged = await this.#merge(moment, moment.held, { ...report, keep: report.keep && known === undefined })
      if (known === undefined) return merged
    }
    if (known !== undefined) {
      moment.source = source
      return await this.#join(state, moment, known, report)
    }
    const told = this.#isTold(state, moment, report)
    if (!told) reset(moment)
    moment.source = source
    moment.heard ||= report.projected !== true
    return told && !report.keep ? { created: false } : await this.#start(state, moment, report, told)
  }

  /**
   * What an agent does now; `fresh: false`: the same again, so something else was in between. Answers what is to be
   * reported: a question that is new, and the end of a turn whose work was seen.
   */
  activity(
    sessionId: string,
    now: AgentActivity,
    before: AgentActivity | undefined,
    fresh: boolean,
  ): { readonly blocked: boolean; readonly turnEnded: boolean } {
    const state = this.#state(sessionId, before)
    const from = state.activity
    state.activity = now
    if (now === 'working') {
      if (from !== 'working') this.#works(sessionId, state, from)
      return { blocked: false, turnEnded: false }
    }
    const unseen = !fresh && from === now
    const { leaving } = state
    leaving?.timer[Symbol.dispose]()
    delete state.leaving
    // 4. Out of a dialog and back into it within a moment: nobody answered it.
    const isBlip = leaving?.from === 'blocked' && now === 'blocked' && fresh
    const edge = leaving?.at ?? (unseen ? this.#edges.clock.monotonic() : undefined)
    if (edge !== undefined && !isBlip) this.#over(sessionId, state, edge)
    const turnEnded = now === 'idle' && (state.inTurn || unseen)
    state.inTurn = now === 'blocked' && (state.inTurn || unseen)
    return { blocked: now === 'blocked' && (from !== 'blocked' || unseen), turnEnded }
  }

  /** 3. The session's program is gone. */
  ended(sessionId: string): void {
    const state = this.#state(sessionId)
    this.#forget(sessionId, state)
    this.#resolve(sessionId)
  }

  #works(sessionId: string, state: State, from: AgentActivity | undefined): void {
    const { scope, clock } = this.#edges
    const at = clock.monotonic()
    state.inTurn = true
    if (state.turn.held !== undefined) this.#drop(state.turn)
    state.leaving?.timer[Symbol.dispose]()
    const timer = scope.after(CONFIRM_MS, 'confirm', () => {
      delete state.leaving
      this.#over(sessionId, state, at)
    })
    state.leaving = { timer, from, at }
  }

  #state(sessionId: string, activity?: AgentActivity): State {
    let state = this.#states.get(sessionId)
    if (state === undefined) {
      state = { activity, inTurn: activity === 'working', attention: newMoment(), turn: newMoment() }
      this.#states.set(sessionId, state)
    }
    return state
  }

  /** The record a report belongs to, when there is one. */
  #target(
    state: State,
    moment: Moment,
    { draft, moment: kind, sessionId, projected }: Report,
  ): NotificationRecord | undefined {
    const { inbox, policy, clock } = this.#edges
    const own = moment.recordId === undefined ? undefined : inbox.get(moment.recordId)
    // A turn that was told is another one, unless this is the first one beside the projector to tell of it.
    if (kind === 'turn')
      return moment.told && !moment.heard && own?.status !== 'deleted' ? own : this.#sameSource(draft, sessionId)
    const record = own ?? inbox.newestOf('attention', sessionId)
    if (record === undefined || record.status === 'deleted') return undefined
    if (record.status === 'unread') return record
    const isRecent = clock.now() - createdMs(record.id) < policy.dedupeMs
    if (own !== undefined) return projected === true || isRecent ? record : undefined
    return record.status === 'read' && (isRecent || state.activity === 'blocked') ? record : undefined
  }

  #sameSource(draft: Draft, sessionId: string): NotificationRecord | undefined {
    if (draft.source_id === undefined) return undefined
    return this.#edges.inbox
      .ofSession(sessionId)
      .find((it) => it.source.provider === draft.source.provider && it.source_id === draft.source_id)
  }

  /** 2. Whether waits were told of what is reported, although no record of it is there. */
  #isTold(state: State, moment: Moment, { moment: kind, projected }: Report): boolean {
    if (!moment.told) return false
    if (kind === 'turn') return !moment.heard && projected !== true
    return projected === true || !moment.heard || state.activity === 'blocked'
  }

  async #join(state: State, moment: Moment, record: NotificationRecord, report: Report): Promise<Reported> {
    const { draft, keep, counts, projected } = report
    const provider = record.source.provider
    // Somebody who does not count told first: waits still have to hear of it.
    const untold = counts && !moment.told && moment.held === undefined && isOutside(provider)
    moment.heard ||= projected !== true
    moment.recordId = record.id
    if (untold) await this.#start(state, moment, { ...report, keep: false }, false)
    else if (moment.held === undefined) moment.told = true
    const isBetter = rankOf(draft.source.provider) >= rankOf(provider) && projected !== true
    if (!keep || !isBetter || !isOpen(record) || isSame(record, draft)) return { created: false, record }
    return { created: false, record: await this.#edges.inbox.upgrade(record, draft) }
  }

  async #merge(moment: Moment, held: NonNullable<Moment['held']>, report: Report): Promise<Reported> {
    const { draft, keep, counts, projected } = report
    const { it } = held
    const rank = rankOf(draft.source.provider)
    const isBetter = rank > rankOf(it.provider)
    const record = it.record
    const content =
      !keep || (record !== undefined && rank < rankOf(record.source.provider))
        ? record
        : record === undefined
          ? this.#record(draft, it.id)
          : upgradedBy(record, draft)
    const next: Held = {
      ...it,
      counts: it.counts || counts,
      ...(isBetter ? { provider: draft.source.provider, reported: draft.kind } : {}),
      ...(content === undefined ? {} : { record: content }),
    }
    moment.heard ||= projected !== true
    held.it = next
    await this.#store(() => this.#edges.held.put(next))
    const created = record === undefined && content !== undefined
    return { created, ...(content === undefined ? {} : { record: content }) }
  }

  async #start(state: State, moment: Moment, report: Report, told: boolean): Promise<Reported> {
    const { draft, sessionId, keep, counts } = report
    const { held, policy, mint } = this.#edges
    const id = mint()
    const record = keep ? this.#record(draft, id) : undefined
    const it: Held = {
      id,
      session_id: sessionId,
      moment: report.moment,
      provider: draft.source.provider,
      reported: draft.kind,
      counts,
      ...(told ? { told } : {}),
      ...(record === undefined ? {} : { record }),
    }
    const window = policy.debounceMs
    this.#hold(state, moment, it, window)
    try {
      await this.#store(() => held.put(it))
    } catch (failure) {
      if (moment.held?.it.id === id) this.#release(moment)
      throw failure
    }
    crashPoint('notify.held')
    this.#bound()
    if (window === 0) await this.#end(state, moment)
    return {
      created: record !== undefined,
      ...(record === undefined ? {} : { record: this.#edges.inbox.get(id) ?? record }),
    }
  }

  #record(draft: Draft, id: string): NotificationRecord {
    return { id, ...draft, status: 'unread', created_at: new Date(createdMs(id)).toISOString() }
  }

  #hold(state: State, moment: Moment, it: Held, ms: number): void {
    const { clock, scope } = this.#edges
    const due = clock.monotonic() + ms
    // The longest timers fire early: what is not due is awaited again.
    const timer = scope.after(ms, 'window', () =>
      clock.monotonic() < due
        ? this.#hold(state, moment, moment.held?.it ?? it, due - clock.monotonic())
        : this.#due(state, moment),
    )
    moment.held = { it, timer, since: clock.monotonic() }
  }

  #due(state: State, moment: Moment): void {
    const held = moment.held
    if (held === undefined) return
    // 4. Whether it is work shows soon; then the report is dropped or due again.
    if (state.leaving !== undefined) return this.#hold(state, moment, held.it, CONFIRM_MS)
    this.#endBeside(state, moment)
  }

  #endBeside(state: State, moment: Moment): void {
    this.#edges.work.run('a held report could not be settled', this.#end(state, moment))
  }

  async #end(state: State, moment: Moment): Promise<void> {
    const { inbox, held: table, log, scope } = this.#edges
    const it = this.#release(moment)
    if (it === undefined) return
    if (this.#isOutdated(state, it)) return this.#discard(it)
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
        this.#hold(state, moment, { ...it, told: true }, Math.max(RETRY_MS, this.#edges.policy.debounceMs))
      }
      return
    }
    await table.delete(it.id)
    crashPoint('notify.released')
    if (this.#edges.sessions.get(it.session_id) === undefined && moment.held === undefined)
      this.#states.delete(it.session_id)
  }

  #tell(moment: Moment, it: Held): void {
    moment.told = true
    if (it.reported !== 'agent_blocked' && it.reported !== 'approval_required' && it.reported !== 'turn_completed')
      return
    const { session_id: sessionId, reported: kind, provider, counts } = it
    this.#edges.settled({ sessionId, kind, provider, counts })
  }

  #isOutdated(state: State, it: Held): boolean {
    const session = this.#edges.sessions.get(it.session_id)
    if (session !== undefined && isOver(session)) return true
    if (it.moment === 'turn') return state.activity === 'working'
    const { unheardAnswerAt } = state
    if (unheardAnswerAt === undefined || isProjector(it.provider) || state.activity === 'blocked') return false
    delete state.unheardAnswerAt
    return this.#edges.clock.monotonic() - unheardAnswerAt < LATE_HOOK_MS
  }

  /** 3. Work began at `edge` (monotonic milliseconds): what was reported before is over, what came since is not. */
  #over(sessionId: string, state: State, edge: number): void {
    const { attention, turn } = state
    const isNewer = ({ held }: Moment): boolean => held !== undefined && held.since >= edge
    if (!isNewer(attention)) {
      const waited = attention.held !== undefined || attention.told || attention.recordId !== undefined
      if (waited && !attention.heard) state.unheardAnswerAt = this.#edges.clock.monotonic()
      else if (waited) delete state.unheardAnswerAt
      if (attention.held !== undefined) this.#drop(attention)
      reset(attention)
    }
    if (!isNewer(turn)) reset(turn)
    this.#resolve(sessionId)
  }

  #resolve(sessionId: string): void {
    const { inbox, work } = this.#edges
    const open = [...inbox.openOf('attention', sessionId), ...inbox.openOf('turn', sessionId)]
    if (open.length > 0) work.run('notifications could not be resolved', inbox.resolve(open), { sessionId })
  }

  #drop(moment: Moment): void {
    const it = this.#release(moment)
    if (it !== undefined) this.#discard(it)
  }

  #discard(it: Held): void {
    this.#edges.work.run('a held report could not be dropped', this.#edges.held.delete(it.id))
  }

  #release(moment: Moment): Held | undefined {
    const { held } = moment
    held?.timer[Symbol.dispose]()
    delete moment.held
    return held?.it
  }

  #forget(sessionId: string, state: State): void {
    state.leaving?.timer[Symbol.dispose]()
    this.#drop(state.attention)
    this.#drop(state.turn)
    this.#states.delete(sessionId)
  }

  #bound(): void {
    if (this.#edges.held.size <= MAX_HELD) return
    let oldest: { state: State; moment: Moment; since: number } | undefined
    for (const state of this.#states.values()) {
      for (const moment of [state.attention, state.turn]) {
        const since = moment.held?.since
        if (since !== undefined && (oldest === undefined || since < oldest.since)) oldest = { state, moment, since }
      }
    }
    if (oldest !== undefined) this.#endBeside(oldest.state, oldest.moment)
  }

  async #store(write: () => Promise<void>): Promise<void> {
    try {
      await write()
    } catch (failure) {
      throw faults.notification_store_error({ problem: messageOf(failure) }, failure)
    }
  }
}

function reset(moment: Moment): void {
  moment.told = false
  moment.heard = false
  delete moment.recordId
  delete moment.source
}

const isSame = (record: NotificationRecord, { title, body, kind, severity, source }: Draft): boolean =>
  record.title === title &&
  record.body === body &&
  record.kind === kind &&
  record.severity === severity &&
  record.source.provider === source.provider
