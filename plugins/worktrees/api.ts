/** The only door other plugins use to reach projects and worktrees. */
import { token } from '../../kernel/plugin.ts'

export type Hold = 'worktree_uncommitted' | 'worktree_untracked' | 'worktree_unpushed' | 'worktree_unknown'

export interface WorktreeService {
  /** Path of the owned tree bound to a session; undefined without one. */
  boundTo(sessionId: string): string | undefined
  /** Why a session's tree must not go, undefined when it holds nothing that is not elsewhere. Bounded in time. */
  hold(sessionId: string, signal: AbortSignal): Promise<Hold | undefined>
}

export const Worktrees = token<WorktreeService>('worktrees')
