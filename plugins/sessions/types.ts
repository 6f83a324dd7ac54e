/** Shared session objects on the wire (contract/types.md). Data only. */
import * as v from 'valibot'
import { Dec, Int, SessionId, Timestamp, U16, U32, WorkerInstanceId, recordOf } from '../../protocol/scalars.ts'
import { AGENT_ACTIVITIES, SESSION_STATES } from '../../protocol/words.ts'

export const SessionState = v.picklist(SESSION_STATES)
export type SessionState = v.InferOutput<typeof SessionState>
export const AgentActivity = v.picklist(AGENT_ACTIVITIES)
export type AgentActivity = v.InferOutput<typeof AgentActivity>
export const StateSource = v.picklist(['osc_title', 'osc_progress', 'screen', 'process', 'report'])
export type StateSource = v.InferOutput<typeof StateSource>
export const RuntimeState = v.picklist([
  'starting',
  'live',
  'reconnecting',
  'terminal',
  'lost',
  'conflict',
  'incompatible',
])
export type RuntimeState = v.InferOutput<typeof RuntimeState>

export const SessionRuntime = v.object({
  state: RuntimeState,
  runtime_generation: Dec,
  worker_id: v.optional(v.string()),
  worker_instance_id: v.optional(WorkerInstanceId),
  started_at: v.optional(Timestamp),
  last_connected_at: v.optional(Timestamp),
  loss_reason: v.optional(v.string()),
})
export type SessionRuntime = v.InferOutput<typeof SessionRuntime>

export const RuntimeIdentity = v.strictObject({ worker_instance_id: WorkerInstanceId, runtime_generation: Dec })
export type RuntimeIdentity = v.InferOutput<typeof RuntimeIdentity>

export const SessionWarning = v.object({
  kind: v.picklist(['fetch', 'base_branch_fallback', 'setup_script', 'hook', 'native_recovery']),
  message: v.string(),
  detail: v.optional(v.string()),
})

/** Open: clients ignore keys they do not know. Optional keys are omitted when absent, never null. */
export const SessionInfo = v.object({
  id: SessionId,
  external: v.optional(v.boolean()),
  capabilities: v.strictObject({ resume: v.boolean(), fork: v.boolean() }),
  name: v.optional(v.string()),
  agent: v.string(),
  agent_base: v.string(),
  cwd: v.string(),
  cwd_source: v.optional(v.picklist(['launch', 'procwatch', 'osc7'])),
  /** Ours, protocol 4 only: there was no such directory when it was last looked at. */
  cwd_missing: v.optional(v.literal(true)),
  pid: U32,
  runtime: v.optional(SessionRuntime),
  cols: U16,
  rows: U16,
  state: SessionState,
  state_source: StateSource,
  activity: v.optional(AgentActivity),
  active_agent: v.optional(v.string()),
  active_agent_base: v.optional(v.string()),
  project_id: v.optional(v.string()),
  project_label: v.optional(v.string()),
  repo: v.optional(v.string()),
  branch: v.optional(v.string()),
  worktree_path: v.optional(v.string()),
  is_linked_worktree: v.optional(v.boolean()),
  warnings: v.optional(v.array(SessionWarning)),
  metadata: v.optional(recordOf(v.string())),
  created_at: Timestamp,
  updated_at: Timestamp,
  exit_code: v.optional(Int),
  output_force_closed: v.optional(v.boolean()),
  applied_input: v.optional(v.boolean()),
})
export type SessionInfo = v.InferOutput<typeof SessionInfo>

export const RuntimeInventoryEntry = v.object({
  runtime_slot: v.string(),
  claimed_session_id: v.optional(SessionId),
  worker_id: v.optional(v.string()),
  worker_instance_id: v.optional(v.string()),
  status: v.picklist(['managed', 'orphaned', 'conflict', 'incompatible', 'identity_mismatch']),
  reason: v.optional(v.string()),
})
export type RuntimeInventoryEntry = v.InferOutput<typeof RuntimeInventoryEntry>

/** The value shape of the metadata filters is not in the contract: `{key, value}` and the bare key are ours. */
export const SessionListFilter = v.variant('key', [
  v.strictObject({ key: v.literal('state'), value: SessionState }),
  v.strictObject({ key: v.literal('activity'), value: AgentActivity }),
  v.strictObject({ key: v.literal('agent'), value: v.string() }),
  v.strictObject({ key: v.literal('id'), value: v.string() }),
  v.strictObject({ key: v.literal('project'), value: v.string() }),
  v.strictObject({ key: v.literal('metadata_eq'), value: v.strictObject({ key: v.string(), value: v.string() }) }),
  v.strictObject({ key: v.literal('metadata_has'), value: v.string() }),
])
export type SessionListFilter = v.InferOutput<typeof SessionListFilter>

export const SessionScreenResult = v.strictObject({
  session_id: v.string(),
  worker_id: v.string(),
  worker_instance_id: v.string(),
  runtime_generation: Dec,
  watermark: Dec,
  dimensions: v.strictObject({ cols: U16, rows: U16 }),
  cursor: v.strictObject({ row: U16, col: U16, visible: v.boolean() }),
  alternate_screen: v.boolean(),
  title: v.optional(v.string()),
  progress: v.optional(v.string()),
  visible_lines: v.array(v.string()),
})

export const SessionReadResult = v.object({
  worker_instance_id: v.string(),
  runtime_generation: Dec,
  revision: Dec,
  text: v.string(),
  source_used: v.literal('visible'),
  lines_requested: Int,
  truncated: v.boolean(),
  alternate_screen: v.boolean(),
})

export const SessionOutputResult = v.strictObject({
  session_id: v.string(),
  worker_instance_id: v.string(),
  runtime_generation: Dec,
  history_start_offset: Dec,
  start_offset: Dec,
  next_offset: Dec,
  runtime_end_offset: Dec,
  data_base64: v.string(),
  gap: v.optional(v.strictObject({ start_offset: Dec, end_offset: Dec })),
  has_more: v.boolean(),
  timed_out: v.boolean(),
})
export type SessionOutputResult = v.InferOutput<typeof SessionOutputResult>

export const SessionRemoveResult = v.object({
  removed: v.boolean(),
  stopped: v.boolean(),
  worktrees_removed: Int,
  worktrees_failed: Int,
  /** Ours: refs that keep unsaved work of the removed tree, and the repository they are in. */
  rescued: v.optional(v.array(v.object({ ref: v.string(), commit: v.string(), repo: v.string() }))),
  accepted_unconfirmed_processes: v.optional(
    v.array(v.object({ pid: U32, start_identity: Dec, command: v.optional(v.string()) })),
  ),
})
export type SessionRemoveResult = v.InferOutput<typeof SessionRemoveResult>
