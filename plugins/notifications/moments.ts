/**
 * Reports of attention and of ended turns, held until their window is over, so that one moment of a session is told once.
 * Invariants
 *  1. A held report is durable before it is answered, and held again for a whole window after a restart. Where the disk
 *     refuses it, the reporter hears of that, and it is held all the same: it was observed.
 *  2. Whoever reports a moment, and how often, over restarts too: it is told once, under the best report's name, and
 *     makes one record.
 *  3. A session that works, or is over, waits for nobody: what is held is dropped, what is open resolves.
 *  4. A working state must last CONFIRM_MS, become idle, or come of an answer before it resolves anything (FC-cb0c).
 *  5. Rest alone resolves nothing (seed 000), but a question after it is another one.
 */
import { crashPoint } from '../../kernel/crash-points.ts'
import { messageOf } from '../../protocol/fault.ts'
import type { ActivityChange } from '../detection/api.ts'
import type { AgentActivity, SessionInfo } from '../sessions/types.ts'
import { faults } from './faults.ts'
import { upgradedBy } from './inbox.ts'
import {
  isSame,
  newMoment,
  recordOf,
  reset,
  targetOf,
  wasTold,
  type Moment,
  type Report,
  type Reported,
  type State,
} from './moment.ts'
import { isOutside, rankOf } from './rank.ts'
import { recallTold, restoreHeld } from './recall.ts'
import type { MomentKind } from './request.ts'
import { isOver } from './sessions.ts'
import { isOpen } from './status.ts'
import type { Held } from './stored.ts'
import type { NotificationRecord } from './types.ts'
import { CONFIRM_MS, Windows, type WindowEdges } from './windows.ts'

export interface MomentsEdges extends WindowEdges {
  readonly mint: () => string
}

export class Moments {
  readonly #edges: MomentsEdges
  readonly #states = new Map<string, State>()
  readonly #windows: Windows

  constructor(edges: MomentsEdges) {
    this.#edges = edges
    this.#windows = new Windows(edges, this.#states)
  }

  isHeld(sessionId: string): boolean {
    const state = this.#states.get(sessionId)
    return [state?.attention, state?.turn].some((it) => it?.held?.it.record !== undefined)
  }

  /** What the daemon before saw: a turn that ended while none ran ends when that is seen. */
  remember(sessions: readonly SessionInfo[]): void {
    for (const session of sessions) {
      if (isOver(session) || (session.activity !== 'working' && session.activity !== 'blocked')) continue
      this.#state(session.id).inTurn = true
    }
  }

  /** 2. What the daemon before told and what still stands; before anything is observed. */
  recall(): void {
    recallTold(this.#edges, (id) => this.#state(id))
  }

  /** 1. What the daemon before held; `activity` is what is known of a session now. */
  async restore(activity: (sessionId: string) => AgentActivity | undefined): Promise<void> {
    await restoreHeld(this.#edges, this.#windows, (id) => this.#state(id, activity(id)))
  }

  /** The policy of windows changed. */
  rearm(): void {
    this.#windows.rearm()
  }

  /** Takes one report. Throws notification_store_error; then it was not taken, or, when it counts, is held in memory. */
  async report(report: Report): Promise<Reported> {
    const reported = await this.#take(report)
    const { sessionId, moment, beside } = report
    if (beside !== undefined) await this.#edges.add(beside)
    const state = this.#states.get(sessionId)
    if (state !== undefined)
      this.#edges.work.run('a mark could not be stored', this.#edges.marks.keep(sessionId, moment, state[moment]))
    return reported
  }

  async #take(report: Report): Promise<Reported> {
    const state = this.#state(report.sessionId)
    const moment = state[report.moment]
    const source = `${report.draft.source.provider}\0${report.draft.source_id}`
    const isRepeated = report.draft.source_id !== undefined && moment.source === source
    const { inbox, clock, policy } = this.#edges
    const known = targetOf(inbox, state, report, { nowMs: clock.now(), dedupeMs: policy.dedupeMs })
    if (isRepeated && (moment.held !== undefined || moment.told)) {
      const record = moment.held?.it.record ?? known
      if (record !== undefined || !report.keep) return { created: false, ...(record === undefined ? {} : { record }) }
    }
    if (moment.held !== undefined) {
      noted(moment, source, report)
      const merged = await this.#merge(moment, moment.held, { ...report, keep: report.keep && known === undefined })
      if (known === undefined) return merged
    }
    if (known !== undefined) {
      noted(moment, source, report)
      const joined = await this.#join(state, moment, known, report)
      this.#windows.tidy(report.sessionId, state)
      return joined
    }
    const told = wasTold(state, report)
    // Its owner deleted it, and the question still stands.
    if (told && report.projected === true && moment.recordId !== undefined) return { created: false }
    if (!told) this.#reset(report.sessionId, report.moment, moment)
    noted(moment, source, report)
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
    change: Pick<ActivityChange, 'before' | 'fresh' | 'answered' | 'unproven' | 'askedAt'>,
  ): { readonly blocked: boolean; readonly turnEnded: boolean } {
    const { before, fresh, answered = false, unproven = false, askedAt = -Infinity } = change
    const state = this.#state(sessionId, before)
    const from = state.activity
    state.activity = now
    if (now === 'working') {
      if (from !== 'working') this.#works(sessionId, state, from)
      // 4. Keys were sent to the question: it was no flicker.
      if (from === 'blocked' && answered) this.#confirm(sessionId, state)
      return { blocked: false, turnEnded: false }
    }
    const unseen = !fresh && from === now && !unproven
    const { leaving } = state
    leaving?.timer[Symbol.dispose]()
    delete state.leaving
    // 4. Out of a dialog and back into it within a moment: nobody answered it.
    const isBlip = leaving?.from === 'blocked' && now === 'blocked' && fresh
    // 5. At rest a question is gone; answered it is over, else the next one is another.
    const isAnswered = from === 'blocked' && now === 'idle' && answered
    const isNext = now === 'blocked' && state.passed === true
    // The one that an earlier daemon told was answered while nobody looked.
    const isOther = from === undefined && now === 'blocked' && askedAt > (state.attention.askedAt ?? Infinity)
    const edge = leaving?.order ?? (unseen || isAnswered || isNext || isOther ? this.#windows.next() : undefined)
    if (edge !== undefined && !isBlip) this.#over(sessionId, state, edge)
    if (from === 'blocked' && now === 'idle' && !answered) state.passed = true
    const turnEnded = now === 'idle' && (state.inTurn || unseen)
    state.inTurn = now === 'blocked' && (state.inTurn || unseen)
    return { blocked: now === 'blocked' && (from !== 'blocked' || unseen), turnEnded }
  }

  /** Work that began is work: it need not last. */
  #confirm(sessionId: string, state: State): void {
    const { leaving } = state
    if (leaving === undefined) return
    leaving.timer[Symbol.dispose]()
    delete state.leaving
    this.#over(sessionId, state, leaving.order)
  }

  /** 3. The session's program is gone. */
  ended(sessionId: string): void {
    const state = this.#state(sessionId)
    this.#forget(sessionId, state)
    this.#resolve(sessionId)
  }

  #works(sessionId: string, state: State, from: AgentActivity | undefined): void {
    const { marks, work } = this.#edges
    const order = this.#windows.next()
    state.inTurn = true
    if (state.turn.held !== undefined) this.#windows.drop(state.turn)
    // At once: a daemon that dies now must not take the end of this work for the turn that was told.
    if (state.turn.told) work.run('a mark could not be taken away', marks.clear(sessionId, 'turn'))
    state.leaving?.timer[Symbol.dispose]()
    const timer = this.#edges.scope.after(CONFIRM_MS, 'confirm', () => {
      delete state.leaving
      this.#over(sessionId, state, order)
    })
    state.leaving = { timer, from, order }
  }

  #state(sessionId: string, activity?: AgentActivity): State {
    let state = this.#states.get(sessionId)
    if (state !== undefined) state.activity ??= activity
    if (state === undefined) {
      state = { activity, inTurn: activity === 'working', attention: newMoment(), turn: newMoment() }
      this.#states.set(sessionId, state)
    }
    return state
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
    const { draft, keep, counts, projected, beside } = report
    const { it } = held
    const rank = rankOf(draft.source.provider)
    const isBetter = rank > rankOf(it.provider)
    const record = it.record
    const content =
      !keep || (record !== undefined && rank < rankOf(record.source.provider))
        ? record
        : record === undefined
          ? recordOf(draft, it.id)
          : upgradedBy(record, draft)
    const next: Held = {
      ...it,
      counts: it.counts || counts,
      ...(isBetter ? { provider: draft.source.provider, reported: draft.kind } : {}),
      ...(content === undefined ? {} : { record: content }),
      ...(beside === undefined ? {} : { beside }),
    }
    moment.heard ||= projected !== true
    held.it = next
    if (!(await this.#windows.save(next)) && projected !== true) throw this.#refused()
    const created = record === undefined && content !== undefined
    return { created, ...(content === undefined ? {} : { record: content }) }
  }

  async #start(state: State, moment: Moment, report: Report, told: boolean): Promise<Reported> {
    const { draft, sessionId, keep, counts, beside } = report
    const { held, policy, mint, add } = this.#edges
    const id = mint()
    const record = keep ? recordOf(draft, id) : undefined
    const it: Held = {
      id,
      session_id: sessionId,
      moment: report.moment,
      provider: draft.source.provider,
      reported: draft.kind,
      counts,
      ...(told ? { told } : {}),
      ...(record === undefined ? {} : { record }),
      ...(beside === undefined ? {} : { beside }),
    }
    const window = policy.debounceMs
    this.#windows.hold(state, moment, it, window)
    let durable = true
    if (counts) durable = await this.#windows.save(it)
    else {
      try {
        await held.put(it)
      } catch (failure) {
        if (moment.held?.it.id === id) this.#windows.release(moment)
        throw faults.notification_store_error({ problem: messageOf(failure) }, failure)
      }
    }
    crashPoint('notify.held')
    if (beside !== undefined) await add(beside)
    this.#windows.bound()
    if (window === 0) await this.#windows.end(state, moment)
    if (!durable && report.projected !== true) throw this.#refused()
    return {
      created: record !== undefined,
      ...(record === undefined ? {} : { record: this.#edges.inbox.get(id) ?? record }),
    }
  }

  /** 3. Work began at `edge`: what was reported before is over, what came since is not. */
  #over(sessionId: string, state: State, edge: number): void {
    const { attention, turn } = state
    delete state.passed
    const isNewer = ({ held }: Moment): boolean => held !== undefined && held.order > edge
    if (!isNewer(attention)) {
      const waited = attention.held !== undefined || attention.told || attention.recordId !== undefined
      if (waited && !attention.heard) state.unheardAnswerAt = this.#edges.clock.monotonic()
      else if (waited) delete state.unheardAnswerAt
      if (attention.held !== undefined) this.#windows.drop(attention)
      this.#reset(sessionId, 'attention', attention)
    }
    if (!isNewer(turn)) this.#reset(sessionId, 'turn', turn)
    this.#resolve(sessionId)
  }

  #resolve(sessionId: string): void {
    const { inbox, work, retries } = this.#edges
    const open = [...inbox.openOf('attention', sessionId), ...inbox.openOf('turn', sessionId)]
    if (open.length === 0) return
    const ids = open.map((it) => it.id)
    const resolve = (): Promise<void> =>
      inbox.resolve(ids.flatMap((id) => inbox.get(id) ?? []).filter((it) => isOpen(it)))
    work.run('notifications could not be resolved', retries.write(`resolve ${sessionId}`, resolve), { sessionId })
  }

  #forget(sessionId: string, state: State): void {
    state.leaving?.timer[Symbol.dispose]()
    for (const kind of ['attention', 'turn'] as const) {
      this.#windows.drop(state[kind])
      this.#reset(sessionId, kind, state[kind])
    }
    this.#states.delete(sessionId)
  }

  #refused(): Error {
    return faults.notification_store_error({ problem: 'the disk takes no more; it is kept and tried again' })
  }

  #reset(sessionId: string, kind: MomentKind, moment: Moment): void {
    const { marks, work } = this.#edges
    if (moment.told) work.run('a mark could not be taken away', marks.clear(sessionId, kind))
    reset(moment)
  }
}

function noted(moment: Moment, source: string, { askedAt }: Report): void {
  moment.source = source
  if (askedAt !== undefined) moment.askedAt = askedAt
}
