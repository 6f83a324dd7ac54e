/** Wire surface of retention (contract/methods.md "session policy / retention", types.md). Data only. */
import * as v from 'valibot'
import { contract } from '../../protocol/contract.ts'
import { coreFaults } from '../../protocol/fault.ts'
import { Int, NoParams, SessionId, U32 } from '../../protocol/scalars.ts'

const seconds = (least: number, fallback: number) =>
  v.optional(v.pipe(Int, v.minValue(least), v.maxValue(MAX_SECS)), fallback)
/** A hundred years: nobody means more, and dates stay dates. */
const MAX_SECS = 3_155_760_000

export const RetentionPolicy = v.strictObject({
  enabled: v.optional(v.boolean(), false),
  sweep_interval_secs: seconds(60, 21_600),
  terminal_ttl_secs: seconds(3_600, 2_592_000),
  lost_ttl_secs: seconds(3_600, 7_776_000),
  max_removals_per_sweep: v.optional(U32, 25),
})
export type RetentionPolicy = v.InferOutput<typeof RetentionPolicy>

/** The first four are the contract's; what else keeps a session is ours (FC-ef90). */
export const HoldReason = v.picklist([
  'worktree_uncommitted',
  'worktree_untracked',
  'worktree_unpushed',
  'worktree_unknown',
  'notification_unread',
  'pinned',
  'processes_unconfirmed',
])
export type HoldReason = v.InferOutput<typeof HoldReason>

export const SweptSession = v.object({
  session_id: SessionId,
  reason: v.picklist(['terminal', 'lost']),
  age_secs: Int,
  removed: v.boolean(),
  worktree_path: v.optional(v.string()),
  hold: v.optional(HoldReason),
  /** Ours: where what only the logs of its worktree had is kept. */
  rescued: v.optional(v.array(v.object({ ref: v.string(), commit: v.string(), repo: v.string() }))),
  /** Ours, of a dry run: what its worktree takes on disk (FC-f6a4). */
  worktree_bytes: v.optional(Int),
  /** The count ended at its bound: there is more. */
  worktree_bytes_partial: v.optional(v.literal(true)),
})
export type SweptSession = v.InferOutput<typeof SweptSession>

export const RetentionResult = v.object({
  dry_run: v.boolean(),
  /** Sessions looked at. */
  examined: Int,
  /** Over their time and not held. */
  eligible: Int,
  held: Int,
  removed: Int,
  worktrees_cleaned: Int,
  worktrees_failed: Int,
  failed: Int,
  /** The first 200 of those over their time, oldest first. */
  sessions: v.array(SweptSession),
})
export type RetentionResult = v.InferOutput<typeof RetentionResult>

const Policies = v.object({ retention: RetentionPolicy })

export default contract({
  name: 'retention',
  methods: {
    'session.policy.get': {
      about: 'When sessions that are over are removed.',
      params: NoParams,
      result: Policies,
      effect: 'reads',
      faults: [],
    },
    'session.policy.set': {
      about: 'Replaces that policy; fields left out take their defaults. It counts from the next sweep on.',
      params: v.strictObject({ retention: RetentionPolicy }),
      result: Policies,
      effect: 'mutates',
      faults: [coreFaults.io_error],
    },
    'session.retention.sweep': {
      about: 'Removes the sessions the policy selects, or only says which; also while automatic sweeps are off.',
      params: v.nullable(v.strictObject({ dry_run: v.boolean(), limit: v.optional(U32) })),
      result: RetentionResult,
      effect: 'mutates',
      faults: [],
    },
  },
  events: {},
})
