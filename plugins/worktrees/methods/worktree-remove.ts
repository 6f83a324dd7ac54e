import type { Handler } from '../../../kernel/plugin.ts'
import type { SessionService } from '../../sessions/api.ts'
import type { treeMethods } from '../contract-trees.ts'
import { faults } from '../faults.ts'
import { GitFailure, type Git } from '../git/run.ts'
import { holdingsOf, loss } from '../holdings.ts'
import { locate } from '../locate.ts'
import type { Trees } from '../trees.ts'

/** An owned tree that no session works in, by its path. What it holds keeps it, unless the operator says otherwise. */
export const worktreeRemove =
  (git: Git, sessions: SessionService, trees: Trees): Handler<(typeof treeMethods)['worktree.remove']> =>
  async ({ path, force }) => {
    const binding = trees.lookup.at(path)
    if (binding === undefined) throw faults.worktree_not_owned({ path })
    const at = locate(binding)
    const owner = sessions.get(binding.session_id)
    const user = trees.lookup.user(binding, at.path)
    if (user !== undefined) throw faults.worktree_in_use({ path: at.path, session: user })
    if (at.kind === 'present' && force !== true) {
      const held = await holdingsOf(git, at, binding.common_dir).catch((failure: unknown) => {
        if (!(failure instanceof GitFailure)) throw failure
        throw faults.worktree_remove_failed({ path: at.path, problem: failure.message }, failure)
      })
      const what = loss(held)
      if (what !== undefined) throw faults.worktree_unsaved({ path: at.path, what })
    }
    const removal = await trees.remove(binding, owner)
    if (removal.kind === 'kept') throw faults.worktree_remove_failed({ path: removal.path, problem: removal.problem })
    const { rescued } = removal
    return { removed: true, ...(rescued === undefined ? {} : { rescued: [{ ...rescued, repo: binding.repo }] }) }
  }
