/** What is in the two record logs of the inbox. A line whose id or time cannot be one is set aside when it is read. */
import * as v from 'valibot'
import type { TableSpec } from '../../kernel/store/tables.ts'
import { CreateParams, NOTIFICATION_ID, NotificationKind, NotificationRecord } from './types.ts'

/** Schema of both logs. */
export const SCHEMA = { schema: { current: 1 }, migrations: {} } as const

const Id = v.pipe(v.string(), v.regex(NOTIFICATION_ID, 'not the id of a notification'))
const isTime = (text: string | undefined): boolean => text === undefined || !Number.isNaN(Date.parse(text))
/** The id tells when it was created and where it is in the list; its times are computed with. */
const StoredRecord = v.pipe(
  NotificationRecord,
  v.check(({ id }) => NOTIFICATION_ID.test(id), 'not the id of a notification'),
  v.check(
    (it) => [it.created_at, it.read_at, it.acked_at, it.archived_at, it.deleted_at].every(isTime),
    'a time that is none',
  ),
)

const Stored = v.object({
  record: StoredRecord,
  /** The notify command has not been told of it yet. */
  announce: v.optional(v.literal('owed')),
  /** How often the command was started for it. */
  attempts: v.optional(v.pipe(v.number(), v.safeInteger(), v.minValue(1))),
})
/** A record of the inbox with what the daemon keeps beside it. */
export type Stored = v.InferOutput<typeof Stored>

export const inboxTable: TableSpec<Stored> = {
  kind: 'notification',
  key: (it) => it.record.id,
  decode: (raw) => v.parse(Stored, raw),
  encode: (it) => it,
}

const MomentKind = v.picklist(['attention', 'turn'])

const Held = v.object({
  /** Of the record it becomes. */
  id: Id,
  session_id: v.string(),
  moment: MomentKind,
  /** Highest-ranking reporter of the moment. */
  provider: v.string(),
  /** What that one reported. */
  reported: NotificationKind,
  counts: v.boolean(),
  /** The moment was told before: only its record is still to come. */
  told: v.optional(v.boolean()),
  /** undefined while the policies of all reporters keep no record of it. */
  record: v.optional(StoredRecord),
  /** As Report.beside. */
  beside: v.optional(CreateParams),
})
/** A report inside its debounce window. */
export type Held = v.InferOutput<typeof Held>

export const heldTable: TableSpec<Held> = {
  kind: 'held',
  key: (it) => it.id,
  decode: (raw) => v.parse(Held, raw),
  // `kind` and `key` belong to the store.
  encode: (it) => it,
}

const Mark = v.object({
  session_id: v.string(),
  moment: MomentKind,
  /** Under which it was told. */
  id: v.optional(Id),
  /** Somebody but the projector reported it. */
  heard: v.boolean(),
  /** The record it became, which its owner may have deleted since. */
  record_id: v.optional(Id),
  /** As Moment.askedAt. */
  asked_at: v.optional(v.number()),
  /** As Moment.source. */
  source: v.optional(v.string()),
})
/** A moment of a session that was told and still stands: no daemon tells it again. */
export type Mark = v.InferOutput<typeof Mark>

export const markKey = (it: Pick<Mark, 'moment' | 'session_id'>): string => `${it.moment}:${it.session_id}`

export const markTable: TableSpec<Mark> = {
  kind: 'told',
  key: markKey,
  decode: (raw) => v.parse(Mark, raw),
  encode: (it) => it,
}
