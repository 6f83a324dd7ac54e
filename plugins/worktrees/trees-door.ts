import type { Rescued } from '../sessions/api.ts'
import type { SessionInfo } from '../sessions/types.ts'

/** What projects need to know of managed trees. */
export interface TreeDoor {
  /** Root of the managed tree a canonical path lies in. */
  containing(path: string): string | undefined
  /** Where the tree made for a session is now, whether or not the session is in it. */
  boundTo(sessionId: string): string | undefined
  /** The tree of a session, or the one it is in, may have been moved with git: records and sessions follow. Throws worktree_store_error. */
  follow(session: Pick<SessionInfo, 'id' | 'cwd'>): Promise<void>
  /** Where a directory is now that is gone and was in a managed tree before that was moved. */
  movedTo(path: string): string | undefined
  /** Every managed tree of a repository, where it is now. */
  inRepository(commonDir: string): readonly { readonly path: string; readonly sessionId: string }[]
  /**
   * Takes away the managed trees of a repository that no session works in and that hold nothing unsaved. Answers the
   * paths of those that went and of those that stayed; never throws for one of them.
   */
  prune(commonDir: string): Promise<{
    readonly removed: readonly string[]
    readonly skipped: readonly string[]
    readonly rescued: readonly Rescued[]
  }>
}
