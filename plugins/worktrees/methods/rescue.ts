import { existsSync } from 'node:fs'
import { isAbsolute } from 'node:path'
import type { Handler } from '../../../kernel/plugin.ts'
import { coreFaults } from '../../../protocol/fault.ts'
import { branchProblem, isBranchName } from '../branch.ts'
import type { treeMethods } from '../contract-trees.ts'
import { faults } from '../faults.ts'
import { branchOf, listTrees } from '../git/repository.ts'
import { GitFailure, type Git } from '../git/run.ts'
import type { ProjectDoor } from '../projects-door.ts'
import { listRescues, partsOf, RESCUE_REFS, type RescueEntry } from '../rescue.ts'
import { exists } from '../locate.ts'
import type { Lookup } from '../lookup.ts'
import type { Trees } from '../trees.ts'

/** Checking out a very large repository on a slow disk. */
const CHECKOUT_MS = 600_000

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

/**
 * A branch of rescued work; the ref stays. Without a path the branch is at the work and nothing is checked out. With one
 * the branch is where HEAD was, in a worktree made there with its files and its index as they were.
 */
export const rescueRestore =
  (git: Git, projects: ProjectDoor, trees: Trees): Handler<(typeof treeMethods)['worktree.rescue.restore']> =>
  async ({ ref, branch: asked, path }) => {
    const found = (await allRescues(git, projects, trees.lookup)).find((it) => it.ref === ref)
    if (found === undefined) throw faults.rescue_not_found({ ref })
    const { commit, repo } = found
    const branch = asked ?? `rescue/${ref.slice(RESCUE_REFS.length)}`
    const refuse = (problem: string): never => {
      throw faults.invalid_branch({ branch, problem })
    }
    const problem = branchProblem(branch)
    if (problem !== undefined) refuse(problem)
    if (!isBranchName(branch)) refuse('is no branch name git takes')
    const held = (await listTrees(git, repo)).find((it) => branchOf(it.ref) === branch)
    if (held !== undefined)
      throw faults.worktree_branch_in_use({ branch, path: held.path, session: trees.lookup.holder(held.path) })
    if (path !== undefined) checkPath(path)
    const { head, index } = path === undefined ? { head: commit, index: commit } : await partsOf(git, repo, commit)
    await trees.turns.run(commonDirOf(found, projects, trees), async () => {
      await makeBranch(git, repo, branch, head).catch((failure: unknown) => {
        if (failure instanceof GitFailure) refuse('exists already, or clashes with a branch that does')
        throw failure
      })
      if (path !== undefined) await checkOut(git, repo, path, { branch, head, index, commit })
    })
    return { branch, commit, repo, ...(path === undefined ? {} : { worktree_path: path }) }
  }

function checkPath(path: string): void {
  if (!isAbsolute(path) || path.includes('\0'))
    throw coreFaults.bad_request({ problem: `path must be absolute, got ${JSON.stringify(path.slice(0, 200))}` })
  if (exists(path)) throw faults.worktree_path_conflict({ path })
}

/** The same turn as whatever else is done in that repository. */
const commonDirOf = ({ repo }: RescueEntry, projects: ProjectDoor, trees: Trees): string =>
  projects.repositories().find((it) => it.repoRoot === repo)?.commonDir ??
  trees.lookup.list().find((it) => it.repo === repo)?.common_dir ??
  repo

async function makeBranch(git: Git, cwd: string, branch: string, commit: string): Promise<void> {
  const none = '0'.repeat(commit.length)
  const message = ['--create-reflog', '-m', 'branch: restored by pohunek']
  await git.run(['update-ref', ...message, `refs/heads/${branch}`, commit, none], { cwd })
}

interface Restored {
  readonly branch: string
  /** Where HEAD was, whose work this was. */
  readonly head: string
  /** What was staged. */
  readonly index: string
  /** The files. */
  readonly commit: string
}

/** Throws worktree_add_failed; then neither the tree nor the branch is left. */
async function checkOut(git: Git, cwd: string, path: string, { branch, head, index, commit }: Restored): Promise<void> {
  try {
    await git.run(['worktree', 'add', '--no-checkout', '--', path, branch], { cwd })
    // The files first: a tree whose making was interrupted misses all of them and does not pass for the work.
    await git.run(['read-tree', '--reset', '-u', commit], { cwd: path, timeoutMs: CHECKOUT_MS })
    await git.run(['read-tree', index], { cwd: path })
    await git.run(['update-index', '-q', '--refresh'], { cwd: path, timeoutMs: CHECKOUT_MS, accept: [0, 1] })
  } catch (failure) {
    if (!(failure instanceof GitFailure)) throw failure
    await git.run(['worktree', 'remove', '--force', '--', path], { cwd, accept: [0, 128] })
    await git.run(['update-ref', '-d', `refs/heads/${branch}`, head], { cwd, accept: [0, 1, 128] })
    throw faults.worktree_add_failed({ problem: failure.message }, failure)
  }
}
