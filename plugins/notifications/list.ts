/** Order, filters and pages of notification.list. Pure. */
import { decodeTime } from 'ulid'
import * as v from 'valibot'
import type { ParamsInput } from '../../protocol/contract.ts'
import { MAX_RESULT_BYTES } from '../../protocol/limits.ts'
import { Timestamp } from '../../protocol/scalars.ts'
import type contract from './contract.ts'
import { faults } from './faults.ts'
import { NOTIFICATION_ID, type NotificationRecord } from './types.ts'

type Filter = NonNullable<ParamsInput<(typeof contract.methods)['notification.list']>>

/** Milliseconds of the creation: an id says it, and records keep their ids. */
export const createdMs = (id: string): number => decodeTime(id.slice('n-'.length))

// `n-` and the ten characters of the time, which sort as text.
const TIME_END = 12

/** Newest first, then by id. */
export function inListOrder(a: string, b: string): number {
  const [left, right] = [a.slice(0, TIME_END), b.slice(0, TIME_END)]
  if (left !== right) return left < right ? 1 : -1
  return a < b ? -1 : a > b ? 1 : 0
}

/** Milliseconds since the epoch. Throws invalid_notification_timestamp. */
export function timestampMs(key: string, text: string): number {
  const ms = v.is(Timestamp, text) ? Date.parse(text) : NaN
  if (Number.isNaN(ms)) throw faults.invalid_notification_timestamp({ key })
  return ms
}

/** A cursor is the id of the last record of a page; its place is known even when that record is gone. */
export function checkCursor(cursor: string): string {
  if (!NOTIFICATION_ID.test(cursor)) throw faults.invalid_notification_cursor({})
  return cursor
}

/** One page of `sorted`, which is in list order. Throws invalid_notification_timestamp, invalid_notification_cursor. */
export function pageOf(
  sorted: readonly NotificationRecord[],
  filter: Filter,
  maxBytes = MAX_RESULT_BYTES,
): { notifications: NotificationRecord[]; next_cursor?: string } {
  const after = filter.created_after === undefined ? undefined : timestampMs('created_after', filter.created_after)
  const before = filter.created_before === undefined ? undefined : timestampMs('created_before', filter.created_before)
  const cursor = filter.cursor === undefined ? undefined : checkCursor(filter.cursor)
  const { status, kind, severity, provider, session_id, limit = Infinity } = filter
  const page: NotificationRecord[] = []
  let room = maxBytes - '{"notifications":[],"next_cursor":"n-01234567890123456789012345"}'.length
  for (const it of sorted) {
    if (cursor !== undefined && inListOrder(it.id, cursor) <= 0) continue
    if (status === undefined ? it.status === 'deleted' : it.status !== status) continue
    if (kind !== undefined && it.kind !== kind) continue
    if (severity !== undefined && it.severity !== severity) continue
    if (provider !== undefined && it.source.provider !== provider) continue
    if (session_id !== undefined && it.session_id !== session_id) continue
    const created = createdMs(it.id)
    if ((after !== undefined && created <= after) || (before !== undefined && created >= before)) continue
    room -= wireBytes(it) + 1
    const last = page.at(-1)
    if (last !== undefined && (page.length >= limit || room < 0)) return { notifications: page, next_cursor: last.id }
    page.push(it)
  }
  return { notifications: page }
}

// A changed record is another object, so the size of one is computed once.
const sizes = new WeakMap<NotificationRecord, number>()
function wireBytes(record: NotificationRecord): number {
  let bytes = sizes.get(record)
  if (bytes === undefined) sizes.set(record, (bytes = Buffer.byteLength(JSON.stringify(record))))
  return bytes
}
