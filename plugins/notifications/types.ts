/** Objects of the inbox as clients see them (contract/types.md "Notifications"). Data only. */
import * as v from 'valibot'
import { U32, nonEmpty, recordOf } from '../../protocol/scalars.ts'
import { NOTIFICATION_KINDS, NOTIFICATION_SEVERITIES } from '../../protocol/words.ts'

const MAX_SOURCE_CHARS = 256
const MAX_AGENT_KIND_CHARS = 128

export const NotificationKind = v.picklist(NOTIFICATION_KINDS)
export type NotificationKind = v.InferOutput<typeof NotificationKind>

export const NotificationSeverity = v.picklist(NOTIFICATION_SEVERITIES)
export type NotificationSeverity = v.InferOutput<typeof NotificationSeverity>

export const NotificationStatus = v.picklist(['unread', 'read', 'acknowledged', 'archived', 'deleted'])
export type NotificationStatus = v.InferOutput<typeof NotificationStatus>

const sourceField = v.pipe(v.string(), v.minLength(1), v.maxLength(MAX_SOURCE_CHARS))
export const NotificationSource = v.object({
  /** Ranks the report and selects the policy: a hook provider, the projector, or anybody else. */
  provider: sourceField,
  provider_event: sourceField,
  host_local_source_id: sourceField,
})

/** `n-` and a ULID, whose time is the one of the creation. */
export const NOTIFICATION_ID = /^n-[0-7][0-9A-HJKMNP-TV-Z]{25}$/

export const NotificationRecord = v.object({
  id: nonEmpty,
  source: NotificationSource,
  kind: NotificationKind,
  severity: NotificationSeverity,
  status: NotificationStatus,
  /** Plain text on one line, at most 160 characters. */
  title: v.string(),
  /** Plain text, at most 4096 characters; line feeds are its only control characters. */
  body: v.string(),
  metadata: v.optional(recordOf(v.string())),
  /** The time in `id`. */
  created_at: v.string(),
  session_id: v.optional(v.string()),
  agent_kind: v.optional(v.string()),
  source_id: v.optional(v.string()),
  dedupe_key: v.optional(v.string()),
  project_id: v.optional(v.string()),
  read_at: v.optional(v.string()),
  acked_at: v.optional(v.string()),
  archived_at: v.optional(v.string()),
  deleted_at: v.optional(v.string()),
  superseded_by: v.optional(v.string()),
})
export type NotificationRecord = v.InferOutput<typeof NotificationRecord>

export const CreateParams = v.object({
  source: NotificationSource,
  kind: NotificationKind,
  severity: NotificationSeverity,
  title: v.string(),
  body: v.string(),
  metadata: v.optional(recordOf(v.string())),
  session_id: v.optional(v.string()),
  agent_kind: v.optional(v.pipe(v.string(), v.maxLength(MAX_AGENT_KIND_CHARS))),
  source_id: v.optional(v.pipe(v.string(), v.minLength(1), v.maxLength(512))),
  dedupe_key: v.optional(v.string()),
  project_id: v.optional(v.pipe(v.string(), v.maxLength(128))),
})
export type CreateParams = v.InferOutput<typeof CreateParams>

export const KindPolicy = v.strictObject({
  agent_blocked: v.boolean(),
  approval_required: v.boolean(),
  turn_completed: v.boolean(),
  session_finished: v.boolean(),
  error: v.boolean(),
  system: v.boolean(),
})
export type KindPolicy = v.InferOutput<typeof KindPolicy>

/** Seconds, except the number of actions. Zero is refused by name (invalid_notification_policy). */
export const NotificationRetention = v.strictObject({
  sweep_interval_secs: v.optional(U32, 21_600),
  info_ttl_secs: v.optional(U32, 259_200),
  warning_ttl_secs: v.optional(U32, 1_209_600),
  resolved_attention_ttl_secs: v.optional(U32, 604_800),
  resolved_error_ttl_secs: v.optional(U32, 2_592_000),
  archived_ttl_secs: v.optional(U32, 7_776_000),
  compaction_min_actions: v.optional(U32, 1_000),
})
export type NotificationRetention = v.InferOutput<typeof NotificationRetention>

export const NotificationPolicy = v.strictObject({
  /** Reports of one attention within this merge into one record. */
  attention_dedupe_window_secs: v.optional(U32, 120),
  /** How long attention and turn reports are held before they are told; 0: not at all. */
  attention_debounce_secs: v.optional(U32, 5),
  enabled: KindPolicy,
  /** Complete overrides by provider; a provider without one gets `enabled`. */
  providers: v.optional(recordOf(KindPolicy)),
  retention: v.optional(NotificationRetention, {}),
})
export type NotificationPolicy = v.InferOutput<typeof NotificationPolicy>
