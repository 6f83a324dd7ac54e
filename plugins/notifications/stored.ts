/** What is in the two record logs of the inbox. */
import * as v from 'valibot'
import type { TableSpec } from '../../kernel/store/tables.ts'
import { NotificationKind, NotificationRecord } from './types.ts'

/** Schema of both logs. */
export const SCHEMA = { schema: { current: 1 }, migrations: {} } as const

const Stored = v.object({
  record: NotificationRecord,
  /** The notify command has not been told of it yet. */
  announce: v.optional(v.literal('owed')),
})
/** A record of the inbox with what the daemon keeps beside it. */
export type Stored = v.InferOutput<typeof Stored>

export const inboxTable: TableSpec<Stored> = {
  kind: 'notification',
  key: (it) => it.record.id,
  decode: (raw) => v.parse(Stored, raw),
  encode: (it) => it,
}

const Held = v.object({
  /** Of the record it becomes. */
  id: v.string(),
  session_id: v.string(),
  moment: v.picklist(['attention', 'turn']),
  /** Highest-ranking reporter of the moment. */
  provider: v.string(),
  /** What that one reported. */
  reported: NotificationKind,
  counts: v.boolean(),
  /** The moment was told before: only its record is still to come. */
  told: v.optional(v.boolean()),
  /** undefined while the policies of all reporters keep no record of it. */
  record: v.optional(NotificationRecord),
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
