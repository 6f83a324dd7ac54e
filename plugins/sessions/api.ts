/** The only door other plugins use to reach sessions. */
import type { AsyncSeriesHook, AsyncSeriesWaterfallHook, SyncHook } from 'tapable'
import { token } from '../../kernel/plugin.ts'
import type { ProcessIdentity } from '../../platform/processes.ts'
import type { TerminalSnapshot } from '../../protocol/worker/messages.ts'
import type { AgentActivity, RuntimeIdentity, SessionInfo, SessionRemoveResult, StateSource } from './types.ts'

/** How text becomes input of a program, and when it may. */
export interface InputPlan {
  bracketedPaste: boolean
  submitDelayMs: number
  /** Sign that the first prompt may be written; `grace` waits for an editable prompt or the end of the grace. */
  ready: 'grace' | 'bracketed_paste' | 'screen_idle'
  /** Shortest wait for that sign; a longer one of the host extends it. */
  startupGraceMs?: number
  textPolicy: 'unrestricted' | 'hermes_safe_text'
  /** `required`: input is refused while no prompt of the agent is visible and no turn runs that would queue it. */
  composer: 'required' | 'none'
  /** What the program does with a prompt while a turn runs; `refuse`: it must not be sent then. */
  whileWorking: 'queue' | 'steer' | 'refuse'
}

/** Where a program stands. */
export interface FoundProgram {
  /** Absolute. */
  readonly path: string
  /** PATH the program was found by when it was not the daemon's: what it starts itself is found by the same one. */
  readonly searchPath?: string
}

/** Where the caller wants it to run; the worktrees plugin takes what it serves and deletes it, the rest is refused. */
export interface LaunchTarget {
  project?: string
  repo?: string
  branch?: string
  base_branch?: string
  /** The branch exists and is to be worked on. */
  reuse_branch?: boolean
}

/** Fields other plugins add to a session; undefined removes one. */
export type SessionContext = Partial<
  Pick<
    SessionInfo,
    | 'project_id'
    | 'project_label'
    | 'repo'
    | 'branch'
    | 'worktree_path'
    | 'is_linked_worktree'
    | 'cwd_missing'
    | 'warnings'
  >
>

/** Everything needed to start one program in a terminal; nothing has been spawned while it is a plan. */
export interface LaunchPlan {
  /** What the caller named: a host profile or a runtime id. */
  readonly agent: string
  /** Runtime behind it; undefined while no tap knows the name. */
  agentBase?: string
  /** Bare name (looked up in the search path) or absolute path. */
  program?: string
  args: readonly string[]
  /** Profile environment: wins over the base, loses to the reserved markers. */
  env: Readonly<Record<string, string>>
  /** Start directory; undefined means the daemon's fallback. */
  cwd?: string
  input: InputPlan
  /** The first prompt is passed as the last argument instead of being typed. */
  promptArg: boolean
  target: LaunchTarget
  /** Frozen on the session for clients. */
  capabilities: { resume: boolean; fork: boolean }
  /** Told where the program was found, before anything is recorded or spawned; a Fault refuses the launch. */
  verify?: (program: FoundProgram) => Promise<void>
}

/** A launch whose record is durable and whose program is not started; a tap may still make what it needs. */
export interface Preparation {
  readonly sessionId: string
  readonly plan: LaunchPlan
  /** Start directory, absolute; may be replaced. */
  cwd: string
  context: SessionContext
}

/** A session that is taken away, also one whose creation is undone. Taps must be repeatable and idempotent. */
export interface Leaving {
  readonly session: SessionInfo
  /** `undo`: a creation that was never told: everything made for it goes. `remove`: what holds unsaved work stays. */
  readonly why: 'remove' | 'undo'
  worktreesRemoved: number
  worktreesFailed: number
  /** Where unsaved work of a removed tree is kept. */
  readonly rescued: Rescued[]
}

export type Rescued = NonNullable<SessionRemoveResult['rescued']>[number]

export interface SessionHooks {
  /**
   * Each tap may complete or replace the plan. Nothing has been recorded or spawned; a Fault refuses the launch.
   * A plan that still has no program afterwards is agent_profile_not_found.
   */
  readonly plan: AsyncSeriesWaterfallHook<[LaunchPlan]>
  /** Side effects before the program starts. A Fault undoes the creation, `leaving` included. */
  readonly prepare: AsyncSeriesHook<[Preparation]>
  /** A created session, before it is told. Informs. */
  readonly created: SyncHook<[SessionInfo]>
  /**
   * Nothing of the session runs any more and its record still exists. A failing tap keeps the session listed and is
   * tried again by the next removal or start.
   */
  readonly leaving: AsyncSeriesHook<[Leaving]>
  /** The record is gone. Informs. */
  readonly removed: SyncHook<[SessionInfo]>
  /** Any field of a session changed: now, before. Informs, in order. */
  readonly changed: SyncHook<[SessionInfo, SessionInfo]>
  /** A session's program is gone and its output complete. Informs: taps cannot delay anything. */
  readonly ended: SyncHook<[SessionInfo]>
}

/** One observed activity with everything a client needs to tell it from another. */
export interface ActivityEvidence {
  readonly activity: AgentActivity
  readonly source: StateSource
  readonly runtime: RuntimeIdentity
  /** Changes with every daemon process. */
  readonly epoch: string
  /** Grows with every published observation within the epoch. */
  readonly revision: bigint
}

export interface Admission {
  readonly waits: boolean
  readonly force: boolean
  readonly key: boolean
}

/** Knows what agents do; the detection plugin provides it. Ids are those of sessions that exist. */
export interface ActivityReader {
  /**
   * Looks at the terminal now. Throws the fault that forbids this input: session_input_blocked (session_agent_blocked
   * when it waits), session_input_no_prompt, session_input_draft, session_input_busy, or the signal's reason. `force`
   * skips all but the blocked check of waited input; `key`: nothing but the submit key is to be sent. Answers the
   * picture that admitted it; undefined where none was needed.
   */
  admit(id: string, request: Admission, signal: AbortSignal): Promise<TerminalSnapshot | undefined>
  /**
   * Whether the submit key may follow `text`, which stands in the agent's input box: a new look, settled as that of
   * `admit`. Answers why not, in words; undefined: it may. Rejects when the terminal cannot be read.
   */
  refusesKey(id: string, text: string, signal: AbortSignal): Promise<string | undefined>
  /** Before what is shown of a session, or of all, is read: what is seen to hold no more is taken back. Cheap. */
  glance(id?: string): void
  /** True when this picture shows the agent's own prompt, ready for text. */
  showsPrompt(id: string, picture: TerminalSnapshot): boolean
  /** Everything published up to now is behind the boundary. */
  boundary(id: string): bigint
  /**
   * First evidence for one of `until` published after `boundary`. Rejects with session_not_running,
   * session_runtime_changed or the signal's reason.
   */
  after(id: string, boundary: bigint, until: readonly AgentActivity[], signal: AbortSignal): Promise<ActivityEvidence>
  /** Input reached the terminal: a turn may now pass quicker than it can be seen. */
  accepted(id: string): void
}

export interface Progress {
  /** End of the output. */
  readonly outputOffset: number
  /** Offset up to which the picture is true. */
  readonly watermark: number
  /** Wall time this daemon last saw output, milliseconds; undefined while it saw none. */
  readonly outputAtMs: number | undefined
  /** The same as Clock.monotonic. */
  readonly outputAtMonotonicMs: number | undefined
}

export interface SessionService {
  readonly hooks: SessionHooks
  get(id: string): SessionInfo | undefined
  list(): readonly SessionInfo[]
  /** How input of a session is framed, frozen at its launch. Throws session_not_found. */
  inputPlan(id: string): InputPlan
  /** Runtime of a session whose program runs and whose worker is connected; undefined otherwise. */
  runtime(id: string): RuntimeIdentity | undefined
  /** Root process of such a runtime. */
  root(id: string): ProcessIdentity | undefined
  /** The picture after every byte that arrived before. Throws session_not_found, session_terminal_unavailable, worker faults. */
  snapshot(id: string): Promise<TerminalSnapshot>
  /**
   * Calls `changed` whenever the terminal may show something else, the program ended or its worker was lost or found
   * again. Cheap; called often. Throws session_not_found.
   */
  watch(id: string, changed: () => void): Disposable
  /** Shows what a plugin observed; told as session_updated unless `quiet`, stored behind. No-op for an unknown id. */
  show(
    id: string,
    fields: SessionContext & { activity?: AgentActivity | undefined; state_source?: StateSource; cwd?: string },
    quiet?: 'quiet',
  ): void
  /** As `show`, durable before it is visible. Throws session_not_found, session_store_failed. */
  record(id: string, fields: SessionContext): Promise<void>
  /**
   * How far output and picture of a session are known to have come; undefined while its worker is not connected. Never
   * ahead of the worker, and behind it for a moment only: a change is told by `watch`.
   */
  progress(id: string): Progress | undefined
  /**
   * A place among the calls that wait, for one session or, without an id, for several. Throws
   * session_waiter_limit_reached, session_not_found. Disposing gives it back.
   */
  waiter(id?: string): Disposable
  /** As session.remove. Throws what that throws. */
  remove(id: string): Promise<SessionRemoveResult>
  /** Where a launch without a caller's PATH would find a program. Throws agent_binary_missing. */
  findProgram(program: string): Promise<FoundProgram>
  /** At most one provider. */
  provideActivity(reader: ActivityReader): Disposable
}

export const Sessions = token<SessionService>('sessions')

/** For plugins that admit input or end waits on behalf of sessions. */
export { faults as sessionFaults } from './faults.ts'
