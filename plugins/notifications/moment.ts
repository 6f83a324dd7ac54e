/** One moment of a session: what is known of it, and what a report of it is. Pure decisions. */
import type { AgentActivity, SessionInfo } from '../sessions/types.ts'
import type { Inbox } from './inbox.ts'
import { createdMs } from './list.ts'
import { isProjector } from './rank.ts'
import type { Draft, MomentKind } from './request.ts'
import { isOver } from './sessions.ts'
import type { Held } from './stored.ts'
import type { CreateParams, NotificationRecord } from './types.ts'

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
  /** As Moment.askedAt. */
  readonly askedAt?: number
  /** A record of its own that stays whatever becomes of the report: made before that is told, by its source id once. */
  readonly beside?: CreateParams
}

export interface Reported {
  readonly created: boolean
  /** undefined when no record was or will be made of it. */
  readonly record?: NotificationRecord
}

export interface Holding {
  it: Held
  readonly timer: Disposable
  /** Tells what came before what. */
  readonly order: number
  /** When its window began, monotonic milliseconds. */
  readonly sinceMs: number
  /** Its window is over and it is being told. */
  telling?: boolean
}

/** Waits were told of what is held. */
export const isTold = ({ it, telling }: Holding): boolean => telling === true || it.told === true

/** One kind of moment of one session. */
export interface Moment {
  held?: Holding
  /** It was settled: waits know of it. */
  told: boolean
  /** Of the report it was told by. */
  id?: string
  /** Somebody but the projector reported it. */
  heard: boolean
  /** Its record in the inbox. */
  recordId?: string
  /** When the agent said that it asks, where it says so. */
  askedAt?: number
  /** Provider and source id of the last report: the same report again is not another one. */
  source?: string
}

/** What is known of one session. */
export interface State {
  activity: AgentActivity | undefined
  /** Work was seen and its end was not reported yet. */
  inTurn: boolean
  /** Work that is not confirmed yet, and what was before it. */
  leaving?: { readonly timer: Disposable; readonly from: AgentActivity | undefined; readonly order: number }
  /** A question went without an answer that was seen: the next one is another. */
  passed?: boolean
  /** When an attention ended that no hook had reported: its hook may still come (FC-9b28). */
  unheardAnswerAt?: number
  readonly attention: Moment
  readonly turn: Moment
}

export const newMoment = (): Moment => ({ told: false, heard: false })

export function reset(moment: Moment): void {
  moment.told = false
  moment.heard = false
  delete moment.id
  delete moment.recordId
  delete moment.askedAt
  delete moment.source
}

/** The record a report belongs to, when there is one. */
export function targetOf(
  inbox: Pick<Inbox, 'get' | 'newestOf' | 'ofSession'>,
  state: State,
  { draft, moment: kind, sessionId, projected }: Report,
  time: { readonly nowMs: number; readonly dedupeMs: number },
): NotificationRecord | undefined {
  const moment = state[kind]
  const own = moment.recordId === undefined ? undefined : inbox.get(moment.recordId)
  if (kind === 'turn') {
    // A turn that was told is another one, unless this is the first one beside the projector to tell of it.
    if (moment.told && !moment.heard && own?.status !== 'deleted') return own
    return inbox.ofSession(sessionId).find((it) => isSameSource(it, draft))
  }
  const record = own ?? inbox.newestOf('attention', sessionId)
  if (record === undefined || record.status === 'deleted') return undefined
  if (record.status === 'unread') return record
  const isRecent = time.nowMs - createdMs(record.id) < time.dedupeMs
  if (own !== undefined) return projected === true || isRecent ? record : undefined
  return record.status === 'read' && (isRecent || state.activity === 'blocked') ? record : undefined
}

const isSameSource = ({ source, source_id: id }: NotificationRecord, draft: Draft): boolean =>
  id !== undefined && id === draft.source_id && source.provider === draft.source.provider

/** Whether waits were told of what is reported, although no record of it is there. */
export function wasTold(state: State, { moment: kind, projected }: Report): boolean {
  const moment = state[kind]
  if (!moment.told) return false
  if (kind === 'turn') return !moment.heard && projected !== true
  return projected === true || !moment.heard || state.activity === 'blocked'
}

/** Whether a report whose window is over does not hold any more. */
export function isOutdated(it: Held, state: State, session: SessionInfo | undefined, monotonicMs: number): boolean {
  if (session !== undefined && isOver(session)) return true
  if (it.moment === 'turn') return state.activity === 'working'
  const { unheardAnswerAt } = state
  if (unheardAnswerAt === undefined || isProjector(it.provider) || state.activity === 'blocked') return false
  return monotonicMs - unheardAnswerAt < LATE_HOOK_MS
}

/** Nothing new is in the report. */
export const isSame = (record: NotificationRecord, { title, body, kind, severity, source }: Draft): boolean =>
  record.title === title &&
  record.body === body &&
  record.kind === kind &&
  record.severity === severity &&
  record.source.provider === source.provider

export const recordOf = (draft: Draft, id: string): NotificationRecord => ({
  id,
  ...draft,
  status: 'unread',
  created_at: new Date(createdMs(id)).toISOString(),
})
