/** Wire surface of sessions (contract/methods.md, events.md). Data only: the CLI and the client import this. */
import * as v from 'valibot'
import { contract, type Method } from '../../protocol/contract.ts'
import { MAX_READ_LINES } from '../../protocol/limits.ts'
import { Dec, Dimensions, Int, NoParams, SessionId, U16, U32, nonEmpty, recordOf } from '../../protocol/scalars.ts'
import { faults } from './faults.ts'
import {
  AgentActivity,
  RuntimeIdentity,
  RuntimeInventoryEntry,
  SessionInfo,
  SessionListFilter,
  SessionOutputResult,
  SessionReadResult,
  SessionRemoveResult,
  SessionScreenResult,
  StateSource,
} from './types.ts'

const bareId = (params: unknown): string | undefined => (typeof params === 'string' ? params : undefined)
const keyedId = (params: unknown): string | undefined =>
  typeof params === 'object' && params !== null && 'session_id' in params && typeof params.session_id === 'string'
    ? params.session_id
    : undefined
const guardBare = { origin: true, target: bareId } as const
const guardKeyed = { origin: true, target: keyedId } as const
const has = (params: unknown, key: string): boolean =>
  typeof params === 'object' && params !== null && (params as Record<string, unknown>)[key] !== undefined

const unavailable = [
  faults.session_not_found,
  faults.session_not_running,
  faults.session_runtime_lost,
  faults.session_runtime_reconnecting,
  faults.session_runtime_conflict,
  faults.worker_protocol_incompatible,
  faults.session_external_read_only,
] as const
const observation = [
  faults.session_not_found,
  faults.session_terminal_unavailable,
  faults.session_has_no_managed_terminal,
  faults.session_output_limit_exceeded,
  faults.worker_feature_unavailable,
  faults.worker_operation_failed,
  faults.worker_invalid_request,
  faults.worker_protocol_incompatible,
] as const
const ending = [
  faults.session_exit_timeout,
  faults.session_runtime_lost,
  faults.session_runtime_reconnecting,
  faults.worker_protocol_incompatible,
  faults.session_runtime_conflict,
  faults.runtime_identity_mismatch,
  faults.runtime_supervision_ambiguous,
  faults.runtime_supervision_unavailable,
  faults.worker_operation_failed,
] as const

/** Raised for session.new by what it relies on: packages complete the plan, the supervisor starts the worker. */
const launch = [
  { code: 'invalid_profile', class: 'runtime' },
  { code: 'runtime_not_installed', class: 'runtime' },
  { code: 'agent_runtime_unsupported', class: 'runtime' },
  { code: 'worker_exited_before_ready', class: 'runtime' },
  { code: 'worker_connect_failed', class: 'runtime' },
  { code: 'worker_manager_unavailable', class: 'runtime' },
  { code: 'client_file_descriptors_exhausted', class: 'runtime' },
  { code: 'system_file_descriptors_exhausted', class: 'runtime' },
  { code: 'worker_socket_path_invalid', class: 'configuration' },
  // Where it is to run: the worktrees plugin decides that and makes what is not there.
  { code: 'project_not_found', class: 'runtime' },
  { code: 'project_ambiguous', class: 'runtime' },
  { code: 'project_detect_failed', class: 'runtime' },
  { code: 'not_a_git_repo', class: 'runtime' },
  { code: 'invalid_branch', class: 'runtime' },
  { code: 'invalid_branch_slug', class: 'runtime' },
  { code: 'invalid_base_branch', class: 'runtime' },
  { code: 'worktree_branch_in_use', class: 'runtime' },
  { code: 'worktree_add_failed', class: 'runtime' },
  { code: 'worktree_path_conflict', class: 'runtime' },
  { code: 'worktree_store_error', class: 'runtime' },
  { code: 'worktree_remove_failed', class: 'runtime' },
] as const

/** Raised by packages for sessions whose runtime this daemon does not serve, and by the store. */
const changing = [
  { code: 'runtime_not_installed', class: 'runtime' },
  { code: 'agent_kind_unsupported', class: 'runtime' },
  faults.session_store_failed,
] as const
/** Refusals of a worker that have no name of their own. */
const worker = [faults.worker_operation_failed, faults.worker_invalid_request, faults.worker_invalid_state] as const

const removal = {
  params: SessionId,
  result: SessionRemoveResult,
  effect: 'mutates',
  faults: [
    faults.session_not_found,
    faults.session_store_failed,
    { code: 'worktree_store_error', class: 'runtime' },
    { code: 'worktree_remove_failed', class: 'runtime' },
    ...ending,
  ],
  guard: guardBare,
  needsRuntime: false,
} as const satisfies Partial<Method>

export default contract({
  name: 'sessions',
  methods: {
    'session.new': {
      about: 'Starts an agent in a new session.',
      params: v.object({
        agent: v.string(),
        cols: U16,
        rows: U16,
        name: v.optional(v.string()),
        cwd: v.optional(v.string()),
        project: v.optional(v.string()),
        repo: v.optional(v.string()),
        branch: v.optional(v.string()),
        base_branch: v.optional(v.string()),
        /** Ours: work on a branch that exists and is checked out nowhere. */
        reuse_branch: v.optional(v.boolean()),
        input: v.optional(v.string()),
        metadata: v.optional(recordOf(v.string())),
        /** Ours: accept the host's full start-up grace for initial input. */
        accept_startup_grace: v.optional(v.boolean()),
        /** Ours: the caller's PATH, tried when the daemon's own does not have the program. */
        search_path: v.optional(v.string()),
      }),
      result: SessionInfo,
      effect: 'mutates',
      faults: [
        faults.agent_profile_not_found,
        faults.invalid_name,
        faults.agent_binary_missing,
        faults.session_input_rejected,
        faults.session_input_stalled,
        faults.session_input_not_ready,
        faults.session_tmpdir_unsafe,
        faults.pty_alloc_failed,
        faults.spawn_failed,
        faults.cwd_failed,
        faults.session_store_failed,
        faults.session_not_found,
        faults.session_not_running,
        faults.session_runtime_lost,
        faults.session_runtime_conflict,
        faults.session_runtime_reconnecting,
        faults.session_terminal_unavailable,
        faults.worker_operation_failed,
        faults.worker_invalid_request,
        faults.worker_invalid_state,
        faults.worker_write_outcome_unknown,
        faults.worker_protocol_incompatible,
        ...launch,
      ],
    },
    'session.list': {
      about:
        'Lists sessions; filters combine with AND. With `limit` or `after` it answers in the order of ids and ends a page early where one line holds no more; without either, more than one line holds is serialize_failed.',
      params: v.nullable(
        v.object({
          filters: v.optional(v.array(SessionListFilter)),
          /** Ours: at most so many, ordered by id; go on with `after`. One line does not hold thousands of sessions. */
          limit: v.optional(v.pipe(Int, v.minValue(1), v.maxValue(1_000))),
          /** Ours: only sessions behind this id. */
          after: v.optional(SessionId),
        }),
      ),
      result: v.array(SessionInfo),
      effect: 'reads',
      faults: [],
    },
    'session.inspect': {
      about: 'One session.',
      params: SessionId,
      result: SessionInfo,
      effect: 'reads',
      faults: [faults.session_not_found],
    },
    'session.stop': {
      about: 'Ends the program of a session; the record stays. False when it had already ended.',
      params: SessionId,
      result: v.object({ stopped: v.boolean() }),
      effect: 'mutates',
      faults: [faults.session_not_found, faults.session_external_read_only, faults.session_store_failed, ...ending],
      guard: guardBare,
      needsRuntime: false,
    },
    'session.remove': {
      ...removal,
      about: 'Stops a session if needed and removes its record, logs and temporary directory.',
    },
    'session.remove_accepting_unconfirmed': {
      ...removal,
      about:
        'As session.remove, going past processes whose environment cannot be read; they are listed, not signalled.',
    },
    'session.rename': {
      about: 'Sets or clears the display name.',
      params: v.object({ session_id: SessionId, name: v.optional(v.nullable(v.string())) }),
      result: v.object({ session: SessionInfo }),
      effect: 'mutates',
      faults: [faults.session_not_found, faults.session_external_read_only, ...changing],
      guard: guardKeyed,
    },
    'session.set_metadata': {
      about: 'Sets owner metadata; null removes a key.',
      params: v.object({ session_id: SessionId, metadata: recordOf(v.nullable(v.string())) }),
      result: v.object({ session: SessionInfo }),
      effect: 'mutates',
      faults: [faults.session_not_found, faults.session_external_read_only, ...changing],
      guard: guardKeyed,
    },
    'session.resize': {
      about: 'Sets the terminal size.',
      params: v.object({
        session_id: SessionId,
        cols: U16,
        rows: U16,
        /** Ours: the attach stream whose terminal was resized. */
        stream_id: v.optional(nonEmpty),
      }),
      result: v.object({ session: SessionInfo }),
      effect: 'mutates',
      faults: [...unavailable, ...worker, ...changing],
      guard: guardKeyed,
    },
    'session.attach': {
      about: 'Opens a one-use attach stream; a second connection redeems it with one line {"attach":"<stream_id>"}.',
      params: v.object({
        session_id: SessionId,
        initial_dimensions: v.optional(Dimensions),
        origin_session_id: v.optional(v.string()),
        origin_worker_id: v.optional(v.string()),
        origin_daemon_id: v.optional(v.string()),
        /** Ours: scrollback rows painted before the screen. Default: all that is kept. */
        history_rows: v.optional(Int),
        /** Ours: also answer where the worker can be reached without the daemon in between. */
        direct: v.optional(v.boolean()),
      }),
      result: v.object({
        stream_id: v.string(),
        /** Ours: same attach line, token instead of stream id, on this socket. Only when asked for. */
        direct: v.optional(v.object({ socket_path: v.string(), token: v.string() })),
      }),
      effect: 'mutates',
      faults: [
        ...unavailable,
        ...worker,
        faults.attach_self_feedback,
        faults.attach_snapshot_unsupported,
        faults.session_output_limit_exceeded,
      ],
    },
    'session.detach': {
      about: 'Ends an attach stream. A typed stream failure is answered once as error.',
      params: v.object({ stream_id: nonEmpty }),
      result: v.object({
        detached: v.boolean(),
        error: v.optional(
          v.object({ class: v.string(), code: v.string(), msg: v.string(), recover: v.optional(v.string()) }),
        ),
      }),
      effect: 'mutates',
      faults: [],
    },
    'session.input': {
      about: 'Writes text and then a separate submit key.',
      params: v.object({
        session_id: SessionId,
        text: v.string(),
        /** Checked before anything is written: session_input_invalid_wait. */
        wait: v.optional(v.strictObject({ until: v.optional(v.array(AgentActivity)), timeout_ms: v.number() })),
        /** Ours: send it whatever the screen shows; the caller takes the risk. */
        force: v.optional(v.boolean()),
        /** Ours: refuse unless the program takes pastes, so that line breaks stay line breaks. */
        paste: v.optional(v.boolean()),
      }),
      result: v.object({
        accepted: v.boolean(),
        activity: v.optional(AgentActivity),
        activity_source: v.optional(StateSource),
        runtime: v.optional(RuntimeIdentity),
        activity_epoch: v.optional(v.string()),
        activity_revision: v.optional(Dec),
      }),
      effect: 'mutates',
      faults: [
        ...unavailable,
        faults.session_input_rejected,
        faults.session_input_blocked,
        faults.session_agent_blocked,
        faults.session_input_no_prompt,
        faults.session_input_draft,
        faults.session_input_busy,
        faults.session_input_unsubmitted,
        faults.session_input_stalled,
        faults.session_input_invalid_wait,
        faults.session_input_wait_unsupported,
        faults.session_input_timeout,
        faults.session_waiter_limit_reached,
        faults.session_runtime_changed,
        faults.worker_write_outcome_unknown,
        faults.session_terminal_unavailable,
        ...worker,
        ...changing,
      ],
      guard: guardKeyed,
      dedicated: (params) => has(params, 'wait'),
    },
    'session.screen': {
      about: 'The rendered screen as text.',
      params: v.strictObject({ session_id: SessionId }),
      result: SessionScreenResult,
      effect: 'reads',
      faults: observation,
    },
    'session.read': {
      about: 'The newest lines of the rendered screen.',
      params: v.strictObject({
        session_id: SessionId,
        source: v.optional(v.picklist(['visible', 'recent', 'recent_unwrapped', 'detection']), 'visible'),
        lines: v.optional(v.pipe(Int, v.minValue(1), v.maxValue(MAX_READ_LINES)), MAX_READ_LINES),
        format: v.optional(v.picklist(['text', 'ansi']), 'text'),
      }),
      result: SessionReadResult,
      effect: 'reads',
      faults: [...observation, faults.session_read_ansi_unavailable, faults.session_runtime_changed],
    },
    'session.output': {
      about: 'Raw terminal output from an offset, or its newest tail; may wait for more.',
      params: v.strictObject({
        session_id: SessionId,
        runtime: v.optional(RuntimeIdentity),
        after_offset: v.optional(Dec),
        max_bytes: v.pipe(U32, v.minValue(1)),
        wait_ms: v.optional(v.pipe(Int, v.minValue(1))),
      }),
      result: SessionOutputResult,
      effect: 'reads',
      faults: [
        ...observation,
        faults.session_runtime_changed,
        faults.session_wait_limit_exceeded,
        faults.session_waiter_limit_reached,
      ],
      dedicated: (params) => has(params, 'wait_ms'),
    },
    'session.runtime_inventory': {
      about: 'Workers found when the daemon started.',
      params: NoParams,
      result: v.object({ entries: v.array(RuntimeInventoryEntry) }),
      effect: 'reads',
      faults: [],
    },
  },
  events: {
    session_created: { about: 'A new session.', payload: v.object({ session: SessionInfo }) },
    session_updated: { about: 'A session changed.', payload: v.object({ session: SessionInfo }) },
    session_stopped: { about: 'A requested stop completed.', payload: v.object({ session: SessionInfo }) },
    session_removed: { about: 'A session left the registry.', payload: v.object({ session: SessionInfo }) },
    session_runtime_reconnected: {
      about: 'The daemon adopted the same worker.',
      payload: v.object({ session: SessionInfo }),
    },
    session_runtime_lost: {
      about: 'The worker is gone; the record is kept.',
      payload: v.object({ session: SessionInfo }),
    },
    session_runtime_conflict: {
      about: 'Ambiguous or mismatched identity.',
      payload: v.object({ session: SessionInfo }),
    },
    session_runtime_discovered: {
      about: 'A worker no record manages.',
      payload: v.object({ entry: RuntimeInventoryEntry }),
    },
    attach_opened: {
      about: 'An attach stream was redeemed.',
      payload: v.object({ session_id: SessionId, stream_id: v.string() }),
    },
    attach_closed: {
      about: 'An attach stream ended.',
      payload: v.object({ session_id: SessionId, stream_id: v.string() }),
    },
  },
})
