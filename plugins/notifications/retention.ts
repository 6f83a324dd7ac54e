/** What the inbox may let go of. Pure: time and policy are arguments. */
import type { NotificationRecord, NotificationRetention, NotificationStatus } from './types.ts'

/** Deleted records stay listable this long, so that every client hears of it. */
export const DELETED_KEEP_MS = 24 * 3_600_000
/** Deleted records kept at most. */
export const MAX_DELETED = 1_000
/** Records of the inbox, deleted ones apart. Over it the least needed go, oldest first. */
export const MAX_RECORDS = 5_000
/** Characters of title, body and metadata of all of them. */
export const MAX_TEXT_CHARS = 16_777_216
/** At once when the inbox is over its bound, so that a full one is not searched at every creation. */
const DROP_AT_ONCE = 50

const isResolved = ({ status }: NotificationRecord): boolean => status === 'acknowledged' || status === 'archived'
/** Waits for its owner: age alone never takes it away. */
export const isUnresolved = (it: NotificationRecord): boolean =>
  (it.severity === 'action_required' || it.severity === 'error') && (it.status === 'unread' || it.status === 'read')

/** Milliseconds of the last thing that happened to it. */
function touchedMs(it: NotificationRecord): number {
  const times = [it.created_at, it.read_at, it.acked_at, it.archived_at].flatMap((at) => at ?? [])
  return Math.max(...times.map((at) => Date.parse(at)))
}

/** True when its time-to-live is over. */
export function isExpired(it: NotificationRecord, ttl: NotificationRetention, nowMs: number): boolean {
  if (it.status === 'deleted' || isUnresolved(it)) return false
  const secs =
    it.status === 'archived'
      ? ttl.archived_ttl_secs
      : {
          info: ttl.info_ttl_secs,
          success: ttl.info_ttl_secs,
          warning: ttl.warning_ttl_secs,
          action_required: ttl.resolved_attention_ttl_secs,
          error: ttl.resolved_error_ttl_secs,
        }[it.severity]
  return nowMs - touchedMs(it) >= secs * 1_000
}

export interface PruneRequest {
  readonly status?: NotificationStatus | undefined
  readonly beforeMs?: number | undefined
}

/** What an owner's prune takes: by time-to-live, or by exactly what was named. */
export function isPruned(
  it: NotificationRecord,
  { status, beforeMs }: PruneRequest,
  ttl: NotificationRetention,
  nowMs: number,
): boolean {
  if (status === undefined && beforeMs === undefined) return isExpired(it, ttl, nowMs)
  if (status !== undefined ? it.status !== status : it.status === 'deleted' || isUnresolved(it)) return false
  return beforeMs === undefined || Date.parse(it.created_at) < beforeMs
}

/** Deleted records that need not be remembered any more: too old or too many. `deleted` in any order. */
export function forgettable(deleted: readonly NotificationRecord[], nowMs: number): NotificationRecord[] {
  const newestFirst = [...deleted].sort((a, b) => ((a.deleted_at ?? '') > (b.deleted_at ?? '') ? -1 : 1))
  return newestFirst.filter(
    (it, at) => at >= MAX_DELETED || nowMs - Date.parse(it.deleted_at ?? it.created_at) >= DELETED_KEEP_MS,
  )
}

const weightOf = (it: NotificationRecord): number =>
  (isResolved(it) ? 0 : it.status === 'read' ? 1 : 2) + (isUnresolved(it) ? 2 : 0)

/** The records an inbox over its bound gives up: resolved ones first, what waits for its owner last, oldest first. */
export function leastNeeded(records: Iterable<NotificationRecord>): NotificationRecord[] {
  return [...records]
    .filter((it) => it.status !== 'deleted')
    .sort((a, b) => weightOf(a) - weightOf(b) || (a.id < b.id ? -1 : 1))
    .slice(0, DROP_AT_ONCE)
}

/** Characters that count towards MAX_TEXT_CHARS. */
export function charsOf({ title, body, metadata = {} }: NotificationRecord): number {
  return Object.entries(metadata).reduce(
    (sum, [key, value]) => sum + key.length + value.length,
    title.length + body.length,
  )
}
