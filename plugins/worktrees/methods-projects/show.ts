import { existsSync } from 'node:fs'
import type { Handler } from '../../../kernel/plugin.ts'
import type { ProjectWorktree, projectMethods } from '../contract-projects.ts'
import { faults } from '../faults.ts'
import { branchOf, listTrees, type Tree } from '../git/repository.ts'
import { GitFailure, type Git } from '../git/run.ts'
import type { Projects } from '../projects.ts'
import type { TreeDoor } from '../trees-door.ts'

export const showProject =
  (
    projects: Projects,
    git: Git,
    trees: Pick<TreeDoor, 'inRepository'>,
  ): Handler<(typeof projectMethods)['project.show']> =>
  async ({ reference }, { signal }) => {
    const project = projects.resolve(reference)
    const { git_common_dir: commonDir } = project
    // A repository that was deleted has none.
    if (!existsSync(commonDir)) return { project, worktrees: [] }
    try {
      const owners = new Map(trees.inRepository(commonDir).map((it) => [it.path, it.sessionId]))
      const worktrees = (await listTrees(git, commonDir, signal)).map((it) => worktree(it, owners.get(it.path)))
      return { project, worktrees }
    } catch (failure) {
      if (!(failure instanceof GitFailure)) throw failure
      throw faults.project_detect_failed({ problem: failure.message }, failure)
    }
  }

/** Pure. */
function worktree({ path, ref, head, bare, locked }: Tree, owner: string | undefined): ProjectWorktree {
  const branch = branchOf(ref)
  return {
    path,
    ...(branch === undefined ? {} : { branch }),
    ...(head === undefined ? {} : { head }),
    ...(owner === undefined ? {} : { session_id: owner }),
    bare,
    locked,
    owned: owner !== undefined,
  }
}
