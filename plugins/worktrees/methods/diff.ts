import type { Handler } from '../../../kernel/plugin.ts'
import { sessionFaults, type SessionService } from '../../sessions/api.ts'
import type { treeMethods } from '../contract-trees.ts'
import { diffOf } from '../diff.ts'
import type { Git } from '../git/run.ts'
import type { Lookup } from '../lookup.ts'

/** Reads the tree where git says it is now. */
export const diff =
  (git: Git, sessions: SessionService, trees: Lookup): Handler<(typeof treeMethods)['session.diff']> =>
  async ({ session_id, base }, { signal }) => {
    if (sessions.get(session_id) === undefined) throw sessionFaults.session_not_found({ id: session_id })
    const { binding, at } = await trees.find(session_id)
    return await diffOf(git, at, { base, bound: binding.base_branch }, signal)
  }
