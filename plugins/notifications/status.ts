/** The life of a record's status. Pure. */
import { faults } from './faults.ts'
import type { NotificationRecord, NotificationStatus } from './types.ts'

const NEXT = {
  unread: ['read', 'acknowledged', 'archived', 'deleted'],
  read: ['acknowledged', 'archived', 'deleted'],
  acknowledged: ['archived', 'deleted'],
  archived: ['deleted'],
  deleted: [],
} as const satisfies Record<NotificationStatus, readonly NotificationStatus[]>

const STAMP = {
  unread: undefined,
  read: 'read_at',
  acknowledged: 'acked_at',
  archived: 'archived_at',
  deleted: 'deleted_at',
} as const satisfies Record<NotificationStatus, keyof NotificationRecord | undefined>

/** The record moved on. Throws invalid_notification_transition. */
export function moved(record: NotificationRecord, to: NotificationStatus, at: string): NotificationRecord {
  const allowed: readonly NotificationStatus[] = NEXT[record.status]
  if (!allowed.includes(to))
    throw faults.invalid_notification_transition({ id: record.id, from: record.status, to, allowed })
  const stamp = STAMP[to]
  return { ...record, status: to, ...(stamp === undefined ? {} : { [stamp]: at }) }
}

/** Not dealt with yet: a report of the same moment belongs to it. */
export const isOpen = ({ status }: NotificationRecord): boolean => status === 'unread' || status === 'read'
