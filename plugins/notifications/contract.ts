/** Wire surface of notifications (contract/methods.md "notification.*"). Data only: the CLI and the client import this. */
import * as v from 'valibot'
import { contract } from '../../protocol/contract.ts'
import { NoParams, U32 } from '../../protocol/scalars.ts'
import { faults } from './faults.ts'
import {
  CreateParams,
  NotificationKind,
  NotificationPolicy,
  NotificationRecord,
  NotificationSeverity,
  NotificationStatus,
} from './types.ts'

const id = v.pipe(v.string(), v.minLength(1), v.maxLength(128))
const count = v.pipe(U32, v.minValue(1, 'must not be zero'))

export default contract({
  name: 'notifications',
  methods: {
    'notification.create': {
      about:
        'Reports something the owner should know. Attention and turn reports with their dedupe key are held for the debounce window; merged into a known one is `created: false`.',
      params: CreateParams,
      result: v.object({ created: v.boolean(), record: NotificationRecord }),
      effect: 'reports',
      faults: [
        faults.notification_kind_disabled,
        faults.hook_not_admitted,
        faults.invalid_notification_metadata,
        faults.invalid_notification_session_id,
        faults.invalid_notification_dedupe_key,
        faults.notification_store_error,
      ],
    },
    'notification.list': {
      about:
        'Newest first; deleted ones only when asked for by status. A page ends after `limit` or where one line holds no more; `next_cursor` is there when more remain.',
      params: v.nullable(
        v.object({
          status: v.optional(NotificationStatus),
          kind: v.optional(NotificationKind),
          severity: v.optional(NotificationSeverity),
          provider: v.optional(v.string()),
          session_id: v.optional(v.string()),
          created_after: v.optional(v.string()),
          created_before: v.optional(v.string()),
          limit: v.optional(count),
          cursor: v.optional(v.string()),
        }),
      ),
      result: v.object({ notifications: v.array(NotificationRecord), next_cursor: v.optional(v.string()) }),
      effect: 'reads',
      faults: [faults.invalid_notification_timestamp, faults.invalid_notification_cursor],
    },
    'notification.update': {
      about: 'Moves one notification on: read, acknowledged, archived or deleted.',
      params: v.object({ id, status: NotificationStatus }),
      result: v.object({ record: NotificationRecord }),
      effect: 'mutates',
      faults: [faults.notification_not_found, faults.invalid_notification_transition, faults.notification_store_error],
    },
    'notification.delete': {
      about: 'Deletes one notification; false when there is none or it was deleted before.',
      params: v.object({ id }),
      result: v.object({ id: v.string(), deleted: v.boolean() }),
      effect: 'mutates',
      faults: [faults.notification_store_error],
    },
    'notification.policy.get': {
      about: 'Which kinds are kept, for how long, and the debounce and dedupe windows.',
      params: NoParams,
      result: v.object({ policy: NotificationPolicy }),
      effect: 'reads',
      faults: [],
    },
    'notification.policy.set': {
      about: 'Replaces the policy.',
      params: v.strictObject({ policy: NotificationPolicy }),
      result: v.object({ policy: NotificationPolicy }),
      effect: 'mutates',
      faults: [faults.invalid_notification_policy, faults.notification_store_error],
    },
    'notification.retention.prune': {
      about:
        'Deletes, or with `dry_run` only names, what its time-to-live says; with `status` or `before` what these say. Unresolved action_required and error records need their status named.',
      params: v.nullable(
        v.object({
          dry_run: v.optional(v.boolean(), false),
          status: v.optional(NotificationStatus),
          before: v.optional(v.string()),
          limit: v.optional(count),
        }),
      ),
      result: v.object({ dry_run: v.boolean(), pruned: v.array(v.string()) }),
      effect: 'mutates',
      faults: [faults.invalid_notification_timestamp, faults.notification_store_error],
    },
  },
  events: {
    notification_created: {
      about: 'A notification entered the inbox, held ones after their window.',
      payload: v.object({ record: NotificationRecord }),
    },
    notification_updated: {
      about: 'Its status changed, a better source told the same, it resolved itself or was superseded.',
      payload: v.object({ record: NotificationRecord }),
    },
    notification_deleted: { about: 'A notification was deleted.', payload: v.object({ notification_id: v.string() }) },
  },
})
