/**
 * Where a session is to run: checked completely before anything is made. What can still change between the check and the
 * making (another branch of that name, a full disk) fails the making, which then undoes itself.
 */
import { basename, isAbsolute } from 'node:path'
import { existsSync } from 'node:fs'
import { coreFaults } from '../../protocol/fault.ts'
import type { LaunchTarget } from '../sessions/api.ts'
import { branchProblem, foldersAbove, isBranchName, slugOf } from './branch.ts'
import { faults } from './faults.ts'
import { branchOf, findRepository, listTrees, type Repository } from './git/repository.ts'
import { GitFailure, type Git } from './git/run.ts'
import type { Places } from './places.ts'
import { startAtHead, type Start } from './start-commit.ts'

/** A tree to make for a session. */
export interface TreeRequest {
  readonly repository: Repository
  /** Main checkout, or the common directory of a bare repository. */
  readonly repo: string
  readonly repoName: string
  readonly branch: string
  /** The branch is there already and was asked for by name. */
  readonly reuse: boolean
  /** What was asked for, or the project's default; undefined: HEAD. */
  readonly baseBranch: string | undefined
  /** The start, where it is HEAD. */
  readonly head: Start | undefined
}

export type Target =
  | { readonly kind: 'none' }
  | { readonly kind: 'in_place'; readonly cwd: string }
  | { readonly kind: 'tree'; readonly request: TreeRequest }

export interface KnownProject {
  readonly id: string
  readonly label: string
  /** Main checkout, or the common directory of a bare repository. */
  readonly repoRoot: string
  readonly defaultBaseBranch: string | undefined
}

export interface TargetEdges {
  readonly git: Git
  readonly places: Pick<Places, 'at' | 'root'>
  readonly signal: AbortSignal
  /** Throws project_not_found, project_ambiguous. */
  readonly project: (reference: string) => KnownProject
  /** Session that works in a tree, for messages. */
  readonly holder: (path: string) => string | undefined
}

/** Pure. Throws bad_request for combinations that mean nothing. */
export function checkCombination({ project, repo, branch, base_branch, reuse_branch }: LaunchTarget): void {
  const refuse = (problem: string): never => {
    throw coreFaults.bad_request({ problem })
  }
  if (project !== undefined && repo !== undefined) refuse('project and repo exclude each other')
  if (base_branch !== undefined && branch === undefined) refuse('base_branch needs branch')
  if (reuse_branch === true && branch === undefined) refuse('reuse_branch needs branch')
  if (reuse_branch === true && base_branch !== undefined) refuse('reuse_branch and base_branch exclude each other')
  if (branch !== undefined && project === undefined && repo === undefined) refuse('branch needs project or repo')
  if (repo !== undefined && (!isAbsolute(repo) || repo.includes('\0')))
    refuse(`repo must be an absolute path, got ${JSON.stringify(repo.slice(0, 200))}`)
}

/** Throws what contract/methods.md lists for the target of session.new; nothing is made. */
export async function resolveTarget(edges: TargetEdges, target: LaunchTarget): Promise<Target> {
  try {
    return await resolve(edges, target)
  } catch (failure) {
    if (failure instanceof GitFailure) throw faults.project_detect_failed({ problem: failure.message }, failure)
    throw failure
  }
}

async function resolve(edges: TargetEdges, target: LaunchTarget): Promise<Target> {
  checkCombination(target)
  const { project: reference, repo: path, branch, base_branch, reuse_branch } = target
  if (reference === undefined && path === undefined) return { kind: 'none' }
  const project = reference === undefined ? undefined : edges.project(reference)
  const asked = project?.repoRoot ?? path ?? ''
  if (branch !== undefined) checkNames(branch, base_branch)
  const repository = await repositoryAt(edges, asked)
  if (branch === undefined) {
    if (repository.topLevel === undefined)
      throw coreFaults.bad_request({
        problem: `${asked} is a bare repository: there is no checkout to run in; pass branch for a worktree`,
      })
    return { kind: 'in_place', cwd: repository.topLevel }
  }
  const exists = await checkBranch(edges, repository, branch, reuse_branch === true)
  const baseBranch = base_branch ?? project?.defaultBaseBranch
  const head = exists || baseBranch !== undefined ? undefined : await startAtHead(edges.git, startDirectory(repository))
  const repo = await edges.places.root(repository, edges.signal)
  const repoName = basename(repo).replace(/\.git$/, '')
  return { kind: 'tree', request: { repository, repo, repoName, branch, reuse: exists, baseBranch, head } }
}

/** HEAD is that of the tree that was named. */
export const startDirectory = ({ topLevel, commonDir }: Repository): string => topLevel ?? commonDir

async function repositoryAt({ git, places, signal }: TargetEdges, path: string): Promise<Repository> {
  if (!existsSync(path)) throw faults.not_a_git_repo({ path, said: 'no such directory' })
  const place = await places.at(path, signal)
  if (place.kind === 'repository') return place.repository
  // Why not is git's to say.
  const found = await findRepository(git, path, signal)
  if (found.kind === 'repository') return found.repository
  throw faults.not_a_git_repo({ path, ...(found.kind === 'refused' ? { said: found.said } : {}) })
}

/** Pure. */
function checkNames(branch: string, base: string | undefined): void {
  const problem = branchProblem(branch)
  if (problem !== undefined) throw faults.invalid_branch({ branch, problem })
  if (!isBranchName(branch)) throw faults.invalid_branch({ branch, problem: 'is no branch name git takes' })
  if (slugOf(branch) === '') throw faults.invalid_branch_slug({ branch })
  const baseProblem = base === undefined ? undefined : branchProblem(base)
  if (base !== undefined && baseProblem !== undefined)
    throw faults.invalid_base_branch({ branch: base, problem: baseProblem })
}

/**
 * Whether the branch exists, and may be used. Throws invalid_branch, worktree_branch_in_use. Also asked after a making
 * failed: somebody else may have been quicker.
 */
export async function checkBranch(
  { git, holder }: Pick<TargetEdges, 'git' | 'holder'>,
  { commonDir: cwd }: Repository,
  branch: string,
  reuse: boolean,
  failed = false,
): Promise<boolean> {
  const refuse = (problem: string): never => {
    throw faults.invalid_branch({ branch, problem })
  }
  const refs = await branchesAround(git, cwd, branch)
  const own = refs.find((it) => it.name === branch)
  if (own !== undefined) {
    if (own.path !== '') throw faults.worktree_branch_in_use({ branch, path: own.path, session: holder(own.path) })
    if (!reuse) refuse('exists already; pass --reuse-branch to work on it, or choose another name')
    return true
  }
  // A checkout without a commit is on a branch that is not there yet. Rare: it is asked for when the making failed.
  const held = failed ? (await listTrees(git, cwd)).find((it) => branchOf(it.ref) === branch) : undefined
  if (held !== undefined) throw faults.worktree_branch_in_use({ branch, path: held.path, session: holder(held.path) })
  if (reuse) refuse('does not exist; leave --reuse-branch out to make it')
  const clash = refs.find(({ name }) => name.startsWith(`${branch}/`) || branch.startsWith(`${name}/`))
  if (clash !== undefined)
    refuse(`clashes with the branch ${clash.name}: git keeps branches as files and folders of these names`)
  return false
}

interface BranchRef {
  readonly name: string
  /** Where it is checked out; empty: nowhere. */
  readonly path: string
}

/** Branches of this name, of a folder above it, and of some below it. */
async function branchesAround(git: Git, cwd: string, branch: string): Promise<BranchRef[]> {
  // Ends in a NUL and a line feed: a path may hold line feeds of its own.
  const format = '--format=%(refname:lstrip=2)%00%(worktreepath)%00'
  const { stdout } = await git.run(['for-each-ref', '--count=64', format, `refs/heads/${branch}`], { cwd })
  const parts = stdout.toString('utf8').split('\0')
  const refs: BranchRef[] = []
  for (let at = 0; at + 1 < parts.length; at += 2)
    refs.push({ name: (parts[at] ?? '').replace(/^\n/, ''), path: parts[at + 1] ?? '' })
  // A pattern means all below it too: the folders above are looked up by their whole names.
  const above = foldersAbove(branch)
  if (above.length === 0) return refs
  const found = await git.run(['show-ref', '--', ...above.map((it) => `refs/heads/${it}`)], { cwd, accept: [0, 1] })
  const heads = found.text.split('\n').map((it) => it.replace(/^\S+ refs\/heads\//, ''))
  return [...refs, ...heads.filter((it) => above.includes(it)).map((name) => ({ name, path: '' }))]
}
