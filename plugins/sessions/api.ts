/** The only door other plugins use to reach sessions. */
import type { AsyncSeriesWaterfallHook, SyncHook } from 'tapable'
import { token } from '../../kernel/plugin.ts'
import type { SessionInfo } from './types.ts'

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
  /** How input is framed and when the program is ready for it. */
  input: {
    bracketedPaste: boolean
    submitDelayMs: number
    ready: 'grace' | 'bracketed_paste' | 'screen_idle'
    textPolicy: 'unrestricted' | 'hermes_safe_text'
  }
  /** Frozen on the session for clients. */
  capabilities: { resume: boolean; fork: boolean }
}

export interface SessionHooks {
  /**
   * Each tap may complete or replace the plan. Nothing has been recorded or spawned; a Fault refuses the launch.
   * A plan that still has no program afterwards is agent_profile_not_found.
   */
  readonly plan: AsyncSeriesWaterfallHook<[LaunchPlan]>
  /** A session's program is gone and its output complete. Informs: taps cannot delay anything. */
  readonly ended: SyncHook<[SessionInfo]>
}

export interface SessionService {
  readonly hooks: SessionHooks
  get(id: string): SessionInfo | undefined
  list(): readonly SessionInfo[]
}

export const Sessions = token<SessionService>('sessions')
