import type { Handler } from '../../../kernel/plugin.ts'
import type { projectMethods } from '../contract-projects.ts'
import type { Projects } from '../projects.ts'
import type { TreeDoor } from '../trees-door.ts'

/** The trees first: a project that is forgotten with them still there could not be asked again. */
export const removeProject =
  (projects: Projects, trees: Pick<TreeDoor, 'prune'>): Handler<(typeof projectMethods)['project.remove']> =>
  async ({ reference, prune_worktrees }) => {
    const project = projects.resolve(reference)
    const pruned = prune_worktrees
      ? await trees.prune(project.git_common_dir)
      : { removed: [], skipped: [], rescued: [] }
    const removed = await projects.remove(project.id)
    return {
      removed,
      pruned_worktrees: pruned.removed.length,
      ...(pruned.skipped.length === 0 ? {} : { skipped_worktrees: [...pruned.skipped] }),
      ...(pruned.rescued.length === 0 ? {} : { rescued: [...pruned.rescued] }),
    }
  }
