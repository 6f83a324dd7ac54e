/**
 * Making a managed tree and unmaking a half-made one.
 * Invariants
 *  1. The binding is durable before anything of the tree exists, and gone only after nothing of it does.
 *  2. One tree at a time is made per repository: git's own locks fail instead of waiting (FC-1761).
 *  3. No tracking configuration is written: the branch starts at a commit, not at a remote branch.
 *  4. A branch goes only with the undoing of its making, and only while its log proves that this session made it and
 *     nothing moved it since.
 *  5. Undoing a tree a program may have run in writes a rescue ref for what it holds first.
 */
import { rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Clock } from '../../kernel/clock.ts'
import { crashPoint } from '../../kernel/crash-points.ts'
import type { Log } from '../../kernel/log.ts'
import type { Table } from '../../kernel/store/tables.ts'
import { makeDirectories } from '../../platform/directories.ts'
import { Fault, messageOf } from '../../protocol/fault.ts'
import type { Binding } from './binding.ts'
import { treeName } from './branch.ts'
import { faults } from './faults.ts'
import { branchOf, listTrees } from './git/repository.ts'
import { GitFailure, type Git } from './git/run.ts'
import { entryFor, exists, locate } from './locate.ts'
import { shelter } from './rescue.ts'
import type { Start } from './start-commit.ts'
import { startDirectory, type TreeRequest } from './target.ts'

/** Checking out a very large repository on a slow disk. */
const ADD_MS = 600_000
/** Deleting one. */
export const REMOVE_MS = 300_000

export interface Making {
  readonly git: Git
  readonly bindings: Table<Binding>
  /** <data>. */
  readonly data: string
  readonly clock: Clock
  readonly log: Log
}

/** Folder of the managed trees. */
export const treesBelow = (data: string): string => join(data, 'worktrees')

/** `start` is undefined for a branch that exists. Run in the repository's turn. Throws worktree_*; nothing is left then. */
export async function makeTree(
  making: Making,
  sessionId: string,
  request: TreeRequest,
  start: Start | undefined,
  projectId: string | undefined,
): Promise<Binding> {
  const { git, data } = making
  const { repository, branch } = request
  const path = join(treesBelow(data), treeName(sessionId, request.repoName, branch))
  if (exists(path)) throw faults.worktree_path_conflict({ path })
  try {
    makeDirectories(dirname(path))
  } catch (failure) {
    throw faults.worktree_add_failed({ problem: messageOf(failure) }, failure)
  }
  const base = start?.base
  const binding: Binding = {
    session_id: sessionId,
    ...(projectId === undefined ? {} : { project_id: projectId }),
    common_dir: repository.commonDir,
    repo: request.repo,
    branch,
    ...(base === undefined ? {} : { base_branch: base }),
    path,
    ...(start === undefined ? {} : { start_commit: start.commit }),
    state: 'making',
    made_at_ms: making.clock.now(),
  }
  await put(making, binding) // 1
  crashPoint('worktree.recorded')
  try {
    if (start !== undefined) await makeBranch(git, binding, start.commit)
    crashPoint('worktree.branched')
    const cwd = startDirectory(repository)
    await git.run(['worktree', 'add', '--', path, branch], { cwd, timeoutMs: ADD_MS })
    crashPoint('worktree.added')
    return binding
  } catch (failure) {
    await undoTree(making, binding)
    throw failure instanceof GitFailure ? faults.worktree_add_failed({ problem: failure.message }, failure) : failure
  }
}

/** What the log of a branch says when this session made it. */
const madeFor = (sessionId: string): string => `branch: Created by pohunek for ${sessionId}`

/** Creates it or fails: never moves a branch that appeared meanwhile. */
async function makeBranch(git: Git, { common_dir, branch, session_id }: Binding, commit: string): Promise<void> {
  const none = '0'.repeat(commit.length)
  const ref = `refs/heads/${branch}`
  await git.run(['update-ref', '--create-reflog', '-m', madeFor(session_id), ref, commit, none], { cwd: common_dir })
}

/** The tree is complete: from now on a program may work in it, and it is never unmade without a look inside. */
export async function keepTree(making: Making, binding: Binding): Promise<Binding> {
  const entry = entryFor(binding.common_dir, binding.path)
  const made: Binding = { ...binding, ...(entry === undefined ? {} : { entry }), state: 'made' }
  await put(making, made)
  crashPoint('worktree.made')
  return made
}

/**
 * Takes everything of a making away; repeatable, run in the repository's turn. Throws worktree_store_error and
 * worktree_remove_failed for what stays; then the binding stays as well.
 */
export async function undoTree(making: Making, binding: Binding): Promise<void> {
  const { git, bindings, data } = making
  const { common_dir: cwd, path } = binding
  try {
    if (exists(cwd)) {
      await takeAway(making, binding)
      await takeBranch(making, binding)
    }
    // Once a program may have been in it, what git does not take away is not known to be ours.
    if (binding.state === 'making' && dirname(path) === treesBelow(data) && exists(path)) {
      rmSync(path, { recursive: true, force: true })
      // What git could not remove with its files there, it removes without them.
      if (exists(cwd) && entryFor(cwd, path) !== undefined)
        await git.run(['worktree', 'remove', '--force', '--force', '--', path], { cwd, timeoutMs: REMOVE_MS })
    }
  } catch (failure) {
    if (failure instanceof Fault) throw failure
    throw faults.worktree_remove_failed({ path, problem: messageOf(failure) }, failure)
  }
  crashPoint('worktree.undone')
  await stored(() => bindings.delete(binding.session_id))
}

async function takeAway({ git, clock, log }: Making, binding: Binding): Promise<void> {
  const at = locate(binding)
  const made = binding.state === 'made'
  if (at.kind === 'broken' && made) throw faults.worktree_remove_failed({ path: at.path, problem: at.problem })
  if (at.kind !== 'present' && at.kind !== 'absent') return
  const { common_dir: cwd, session_id } = binding
  if (made) {
    const rescued = await shelter(git, clock, binding, at) // 5
    if (rescued !== undefined)
      log.warn({ session_id, ref: rescued.ref }, 'an undone session left work behind; it is kept under this ref')
  }
  // Twice: git locks a tree while it makes it. One that was locked later stays.
  await git.run(['worktree', 'remove', '--force', ...(made ? [] : ['--force']), '--', at.path], {
    cwd,
    timeoutMs: REMOVE_MS,
    accept: made ? [0] : [0, 128],
  })
}

async function takeBranch({ git, log }: Making, binding: Binding): Promise<void> {
  const { common_dir: cwd, branch, start_commit: start, session_id } = binding
  if (start === undefined) return
  const ref = `refs/heads/${branch}`
  const logged = await git.run(['reflog', 'show', '--format=%gs', '--max-count=2', ref, '--'], {
    cwd,
    accept: [0, 128],
  })
  if (logged.status !== 0 || logged.text !== madeFor(session_id)) return // 4
  const used = (await listTrees(git, cwd)).find((it) => branchOf(it.ref) === branch && !it.prunable)
  if (used !== undefined) return
  await git
    .run(['update-ref', '--no-deref', '-d', ref, start], { cwd })
    .catch((failure: unknown) =>
      log.info({ session_id, branch, problem: messageOf(failure) }, 'the branch of an undone worktree stays'),
    )
}

const put = ({ bindings }: Making, binding: Binding): Promise<void> => stored(() => bindings.put(binding))

/** A failing store as its own fault. */
export async function stored(write: () => Promise<void>): Promise<void> {
  try {
    await write()
  } catch (failure) {
    throw faults.worktree_store_error({ problem: messageOf(failure) }, failure)
  }
}
