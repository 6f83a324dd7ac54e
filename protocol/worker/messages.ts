/**
 * Private control protocol between one daemon (the leased controller) and one worker: NDJSON on the worker's
 * control socket (contract/environment.md §5). Requests may be pipelined; answers are matched by `request_id`.
 * The worker instance id is spelled `runtime_id` everywhere here. Byte fields are base64. Keys and messages marked
 * "ours" are additions the contract leaves open; a peer that lacks the capability is never sent them.
 */
import * as v from 'valibot'
import { U16, U32, Int, nonEmpty } from '../scalars.ts'

export const WORKER_PROTOCOL = { minimum: 6, maximum: 7 } as const
/** First private version that bounds how long a write waits for a program that does not read. */
export const INPUT_STALL_SINCE = 7
/** Version of the hook messages on the worker socket; told to children as POHUNEK_WORKER_HOOK_PROTOCOL_VERSION. */
export const HOOK_PROTOCOL_VERSION = 1

export const CAPABILITIES = [
  'atomic_replay',
  'terminal_snapshot',
  'deduplicated_input',
  'identity_hook',
  'attach_snapshot',
  'control_plane_observation',
  /** Ours: `{"attach":"<token>"}` as first line on the worker socket turns the connection raw. */
  'raw_attach',
  /** Ours: stream_opened, stream_closed and resized_by_client events. */
  'stream_events',
] as const
export type Capability = (typeof CAPABILITIES)[number]

export type WorkerPhase = 'uninitialized' | 'starting' | 'running' | 'stopping' | 'exited' | 'faulted'

/** Of requests and writes. */
export const RequestId = v.pipe(v.string(), v.regex(/^[A-Za-z0-9._-]{1,128}$/))
export const Columns = v.object({ columns: v.pipe(U16, v.minValue(1)), rows: v.pipe(U16, v.minValue(1)) })
const StringMap = v.record(v.string(), v.string())

export const Scope = v.object({ lease_id: nonEmpty, session_id: nonEmpty, worker_id: nonEmpty, runtime_id: nonEmpty })
export type Scope = v.InferOutput<typeof Scope>

export const Initialize = v.object({
  session_id: nonEmpty,
  transaction_id: nonEmpty,
  expected_worker_id: nonEmpty,
  launch: v.object({ agent: nonEmpty, agent_base: nonEmpty, reference_kind: v.optional(v.picklist(['id', 'path'])) }),
  /** Absolute path. */
  executable: nonEmpty,
  /** Without argv[0]. */
  arguments: v.array(v.string()),
  cwd: nonEmpty,
  dimensions: Columns,
  /** Profile [env]: wins over base_environment, loses to the reserved markers. */
  environment: StringMap,
  /** Allow-listed base, TERM and TMPDIR included. */
  base_environment: StringMap,
  limits: v.object({
    output_history_bytes: Int,
    subscriber_queue_bytes: Int,
    write_dedup_entries: Int,
    terminal_retention_ms: Int,
  }),
  stop_policy: v.object({ grace_ms: Int }),
  hook_protocol_version: U32,
  public_protocol_version: U32,
  hook_schema: v.optional(v.string()),
  /** From INPUT_STALL_SINCE on; absent means unbounded writes. */
  input_stall_ms: v.optional(Int),
})
export type Initialize = v.InferOutput<typeof Initialize>

const Fragment = v.object({ bytes: v.string(), delay_after_ms: v.pipe(Int, v.minValue(0), v.maxValue(60_000)) })
export const WritePlan = v.object({
  write_id: RequestId,
  fragments: v.pipe(v.array(Fragment), v.minLength(1), v.maxLength(64)),
})
export type WritePlan = v.InferOutput<typeof WritePlan>

export const WorkerRequest = v.variant('type', [
  v.object({
    type: v.literal('negotiate'),
    request_id: RequestId,
    daemon_instance_id: nonEmpty,
    minimum_version: U32,
    maximum_version: U32,
  }),
  v.object({
    type: v.literal('acquire_controller'),
    request_id: RequestId,
    daemon_instance_id: nonEmpty,
    challenge: nonEmpty,
    requested_capabilities: v.array(v.string()),
  }),
  v.object({ type: v.literal('inspect'), request_id: RequestId, lease_id: nonEmpty }),
  v.object({ type: v.literal('initialize'), request_id: RequestId, lease_id: nonEmpty, initialize: Initialize }),
  v.object({
    type: v.literal('open_data_stream'),
    request_id: RequestId,
    scope: Scope,
    stream_id: nonEmpty,
    mode: v.picklist(['attach', 'detector', 'observation']),
    after_offset: Int,
    attach: v.optional(
      v.object({
        dimensions: v.optional(Columns),
        /** Ours: scrollback rows painted before the screen; default all that is kept. */
        history_rows: v.optional(Int),
      }),
    ),
  }),
  v.object({ type: v.literal('terminal_snapshot'), request_id: RequestId, scope: Scope }),
  v.object({
    type: v.literal('read_output'),
    request_id: RequestId,
    scope: Scope,
    stream_id: nonEmpty,
    /** -1: the newest tail of max_bytes. */
    after_offset: v.pipe(v.number(), v.integer(), v.minValue(-1)),
    max_bytes: Int,
    wait_ms: Int,
  }),
  v.object({ type: v.literal('write_plan'), request_id: RequestId, scope: Scope, plan: WritePlan }),
  v.object({
    type: v.literal('resize'),
    request_id: RequestId,
    scope: Scope,
    resize: v.object({
      source_id: nonEmpty,
      sequence: Int,
      dimensions: Columns,
      /** Ours: the attach stream whose terminal changed, so that its size is known when it is the newest left. */
      stream_id: v.optional(nonEmpty),
    }),
  }),
  v.object({
    type: v.literal('stop'),
    request_id: RequestId,
    scope: Scope,
    stop: v.object({ transaction_id: nonEmpty }),
  }),
  /** Ours: end one attach stream (session.detach). */
  v.object({ type: v.literal('close_data_stream'), request_id: RequestId, scope: Scope, stream_id: nonEmpty }),
  v.object({ type: v.literal('acknowledge_terminal'), request_id: RequestId, scope: Scope }),
  v.object({ type: v.literal('release_controller'), request_id: RequestId, lease_id: nonEmpty }),
])
export type WorkerRequest = v.InferOutput<typeof WorkerRequest>
export type RequestOf<T extends WorkerRequest['type']> = Extract<WorkerRequest, { type: T }>

export interface ProcessIdentity {
  pid: number
  /** Linux: /proc/<pid>/stat field 22, decimal. */
  start_identity: string
}

export interface ChildExit {
  code?: number
  signal?: number
  stopped_by_user: boolean
  exited_at_ms: number
  /** Ours: a process outside the session's group kept the terminal open; output after the close is not kept. */
  output_force_closed: boolean
}

export interface TerminalSnapshot {
  /** Output offset up to which the picture is true. */
  watermark: number
  dimensions: { columns: number; rows: number }
  cursor: { column: number; row: number; visible: boolean }
  alternate_screen: boolean
  title?: string
  progress?: string
  /** One string per screen row, trailing blanks trimmed, no control characters. */
  visible_lines: string[]
  /** Ours: index of each row that continues the one above it (soft wrap). */
  wrapped_rows: number[]
  /** Ours: the program asked for bracketed paste. */
  bracketed_paste: boolean
  /** Ours: taken inside a synchronized update that lasted over its bound. */
  partial: boolean
  /** Ours: how the character under the cursor is drawn; absent: none stands there, or not told. */
  under_cursor?: 'dim' | 'plain'
  /** Ours: a younger synchronized update stands behind the picture; what it draws is not known yet. Absent: none, or not told. */
  update_open?: true
  /** Ours: when the program told what; absent from workers that do not keep it. */
  evidence?: TerminalEvidence
}

/** Times are milliseconds of the machine's monotonic clock (Clock.monotonic), comparable between processes of one boot. */
export interface TerminalEvidence {
  /** The title was last set, also to the same text. */
  title_at?: number
  /** The title became what it is. */
  title_changed_at?: number
  progress_at?: number
  /** Output was last parsed. */
  output_at?: number
  /** Newest OSC 7501 report of the program itself (without an id); none after `clear`. */
  report?: StateReport
  /** How many OSC 7501 reports of `working` there were: a turn quicker than two looks is still seen. */
  working_reports: number
  /** Somebody last sent keys or text to the program, attached or not; cursor keys and reports of a terminal do not count. */
  keys_at?: number
}

/** What a program said about itself with OSC 7501. Words as sent, bounded; `message` decoded and without controls. */
export interface StateReport {
  state: string
  app?: string
  kind?: string
  message?: string
  at: number
  /** Foreground process group when it was said. */
  group?: number
}

export interface InspectSnapshot {
  session_id: string
  worker_id: string
  runtime_id?: string
  generation: string
  phase: WorkerPhase
  worker_process: ProcessIdentity
  child_process?: ProcessIdentity
  dimensions?: { columns: number; rows: number }
  history_start_offset: number
  next_offset: number
  exit?: ChildExit
  /** Set when phase is faulted: why, in fixed words; names processes that could not be proven gone. */
  fault?: WorkerError
  launch_identity?: unknown
  active_identity?: unknown
  active_identity_release?: unknown
  subagents: unknown[]
  background: unknown
  hook_schema?: string
  /** Ours: the daemon instance that initialized this worker, for the origin guard. */
  launch_daemon_id?: string
  /** Ours: the last OSC 7 directory the program told. */
  reported_cwd?: string
}

export type WorkerErrorCode =
  | 'worker_protocol_incompatible'
  | 'controller_busy'
  | 'identity_mismatch'
  | 'invalid_state'
  | 'invalid_request'
  | 'invalid_data_token'
  | 'write_outcome_unknown'
  /** Ours, private version 7: the terminal accepted no byte for the stall bound; the rest was not written. */
  | 'input_stalled'
  /** Ours: initialize could not make the terminal or start the program; nothing is left. */
  | 'pty_alloc_failed'
  | 'spawn_failed'
  | 'cwd_failed'
  | 'runtime_fault'
  | 'worker_feature_unavailable'
  | 'observation_limit_exceeded'

export interface WorkerError {
  code: WorkerErrorCode
  message: string
  retryable: boolean
}

export type WorkerResponse = { request_id: string } & (
  | {
      type: 'negotiated'
      selected_version: number
      supported_range: { minimum: number; maximum: number }
      session_id: string
      worker_id: string
      runtime_id?: string
      worker_process: ProcessIdentity
      phase: WorkerPhase
      capabilities: Capability[]
      challenge: string
    }
  | { type: 'controller_acquired'; lease_id: string; capabilities: Capability[] }
  | { type: 'inspected'; snapshot: InspectSnapshot }
  | { type: 'initialized'; runtime_id: string; child_process: ProcessIdentity }
  | { type: 'data_stream_opened'; token: string; expires_at_ms: number }
  | { type: 'data_stream_closed'; closed: boolean }
  | { type: 'terminal_snapshot'; runtime_id: string; snapshot: TerminalSnapshot }
  | { type: 'output_read_opened'; token: string; expires_at_ms: number }
  | { type: 'write_completed'; acknowledgement: { write_id: string; bytes_written: number } }
  | { type: 'resized'; sequence: number; dimensions: { columns: number; rows: number } }
  | { type: 'stopped'; exit?: ChildExit }
  | { type: 'terminal_acknowledged' }
  | { type: 'controller_released' }
  | { type: 'error'; error: WorkerError }
)
export type ResponseOf<T extends WorkerResponse['type']> = Extract<WorkerResponse, { type: T }>

export type StreamCloseReason =
  | 'requested'
  | 'runtime_exited'
  | 'subscriber_too_slow'
  | 'lease_released'
  | 'observation_complete'
  /** Ours: the client closed its end. */
  | 'client_closed'

export type WorkerEvent = { event_sequence: number } & (
  | { type: 'runtime_started' }
  /** Coalesced: at most four a second per session. */
  | { type: 'output_advanced'; next_offset: number }
  | { type: 'terminal_changed'; watermark: number }
  | { type: 'identity_changed' }
  | { type: 'child_exited'; exit: ChildExit }
  | { type: 'runtime_fault'; error: WorkerError }
  | { type: 'stream_opened'; stream_id: string }
  | { type: 'stream_closed'; stream_id: string; reason: StreamCloseReason; error?: WorkerError }
  /** An attaching or leaving client changed the size. */
  | { type: 'resized_by_client'; dimensions: { columns: number; rows: number } }
  | { type: 'cwd_reported'; cwd: string }
)
