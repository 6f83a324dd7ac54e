import { existsSync } from 'node:fs'
import type { Handler } from '../../../kernel/plugin.ts'
import { branchProblem, isBranchName } from '../branch.ts'
import type { treeMethods } from '../contract-trees.ts'
import { faults } from '../faults.ts'
import { branchOf, listTrees } from '../git/repository.ts'
import { GitFailure, type Git } from '../git/run.ts'
import type { ProjectDoor } from '../projects-door.ts'
import { listRescues, RESCUE_REFS, type RescueEntry } from '../rescue.ts'
import type { Lookup } from '../lookup.ts'

/** Rescue refs of every repository that is known, by a project or by a tree. */
async function allRescues(git: Git, projects: ProjectDoor, trees: Lookup): Promise<RescueEntry[]> {
  const known = new Map<string, string>()
  for (const it of projects.repositories()) known.set(it.commonDir, it.repoRoot)
  for (const it of trees.list()) known.set(it.common_dir, it.repo)
  const entries: RescueEntry[] = []
  for (const [commonDir, repo] of known) {
    if (!existsSync(commonDir)) continue
    try {
      entries.push(...(await listRescues(git, commonDir, repo)))
    } catch (failure) {
      // One repository that cannot be read hides no other.
      if (!(failure instanceof GitFailure)) throw failure
    }
  }
  return entries
}

export const rescueList =
  (git: Git, projects: ProjectDoor, trees: Lookup): Handler<(typeof treeMethods)['worktree.rescue.list']> =>
  () =>
    allRescues(git, projects, trees)

/** A branch at the rescued work; nothing is checked out and the ref stays. */
export const rescueRestore =
  (git: Git, projects: ProjectDoor, trees: Lookup): Handler<(typeof treeMethods)['worktree.rescue.restore']> =>
  async ({ ref, branch: asked }) => {
    const found = (await allRescues(git, projects, trees)).find((it) => it.ref === ref)
    if (found === undefined) throw faults.rescue_not_found({ ref })
    const branch = asked ?? `rescue/${ref.slice(RESCUE_REFS.length)}`
    const refuse = (problem: string): never => {
      throw faults.invalid_branch({ branch, problem })
    }
    const problem = branchProblem(branch)
    if (problem !== undefined) refuse(problem)
    const cwd = found.repo
    if (!isBranchName(branch)) refuse('is no branch name git takes')
    const held = (await listTrees(git, cwd)).find((it) => branchOf(it.ref) === branch)
    if (held !== undefined)
      throw faults.worktree_branch_in_use({ branch, path: held.path, session: trees.holder(held.path) })
    const none = '0'.repeat(found.commit.length)
    await git
      .run(
        [
          'update-ref',
          '--create-reflog',
          '-m',
          'branch: restored by pohunek',
          `refs/heads/${branch}`,
          found.commit,
          none,
        ],
        {
          cwd,
        },
      )
      .catch((failure: unknown) => {
        if (failure instanceof GitFailure) refuse('exists already, or clashes with a branch that does')
        throw failure
      })
    return { branch, commit: found.commit, repo: found.repo }
  }
