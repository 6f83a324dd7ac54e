import { isAbsolute } from 'node:path'
import { stat } from 'node:fs/promises'
import type { Handler } from '../../../kernel/plugin.ts'
import { coreFaults } from '../../../protocol/fault.ts'
import { branchProblem } from '../branch.ts'
import type { projectMethods } from '../contract-projects.ts'
import { faults } from '../faults.ts'
import { findRepository, type Repository } from '../git/repository.ts'
import { GitFailure, type Git } from '../git/run.ts'
import { displayLabel } from '../label.ts'
import type { Projects } from '../projects.ts'
import { commitOf } from '../start-commit.ts'

export const addProject =
  (projects: Projects, git: Git): Handler<(typeof projectMethods)['project.add']> =>
  async ({ path, name, base_branch }, { signal }) => {
    if (path === undefined || !isAbsolute(path) || path.includes('\0'))
      throw coreFaults.bad_request({ problem: 'path must be an absolute path' })
    const label = name === undefined ? undefined : displayLabel(name)
    try {
      const repository = await repositoryAt(git, path, signal)
      if (base_branch !== undefined) await checkBase(git, repository.commonDir, base_branch)
      const said = {
        ...(label === undefined ? {} : { label }),
        ...(base_branch === undefined ? {} : { baseBranch: base_branch }),
      }
      return await projects.add(repository, said, signal)
    } catch (failure) {
      if (!(failure instanceof GitFailure)) throw failure
      throw faults.project_detect_failed({ problem: failure.message }, failure)
    }
  }

async function repositoryAt(git: Git, path: string, signal: AbortSignal): Promise<Repository> {
  const there = await stat(path).catch(() => undefined)
  if (there === undefined) throw faults.not_a_git_repo({ path, said: 'no such directory' })
  if (!there.isDirectory()) throw faults.not_a_git_repo({ path, said: 'not a directory' })
  const found = await findRepository(git, path, signal)
  if (found.kind === 'repository') return found.repository
  throw faults.not_a_git_repo({ path, ...(found.kind === 'refused' ? { said: found.said } : {}) })
}

/** A base that is nowhere would turn every worktree into one of HEAD, with a warning nobody expects. */
async function checkBase(git: Git, cwd: string, branch: string): Promise<void> {
  const problem = branchProblem(branch)
  if (problem !== undefined) throw faults.invalid_base_branch({ branch, problem })
  for (const revision of [branch, `refs/remotes/origin/${branch.replace(/^origin\//, '')}`])
    if ((await commitOf(git, cwd, revision)) !== undefined) return
  throw faults.invalid_base_branch({ branch, problem: 'names no commit here' })
}
