import type { Handler } from '../../../kernel/plugin.ts'
import type { SessionService } from '../../sessions/api.ts'
import type { treeMethods } from '../contract-trees.ts'
import type { Git } from '../git/run.ts'
import { listEntries } from '../list.ts'
import type { Lookup } from '../lookup.ts'

/** Every managed tree, the oldest first. */
export const worktreeList =
  (git: Git, sessions: SessionService, trees: Lookup): Handler<(typeof treeMethods)['worktree.list']> =>
  (params, { signal }) => {
    const bindings = trees.list().sort((a, b) => a.made_at_ms - b.made_at_ms)
    return listEntries(git, sessions, bindings, params?.sizes === true, signal)
  }
