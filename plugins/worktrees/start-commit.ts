/** Where a new branch starts: the fetched base, the local one, or HEAD (contract/methods.md "Target resolution"). */
import type { SessionInfo } from '../sessions/types.ts'
import { faults } from './faults.ts'
import { branchOf } from './git/repository.ts'
import { GitFailure, type Git } from './git/run.ts'

export type Warning = NonNullable<SessionInfo['warnings']>[number]

export interface Start {
  readonly commit: string
  /** Branch it comes from, as a person names it; undefined for a detached HEAD. */
  readonly base: string | undefined
  readonly warnings: readonly Warning[]
}

/** A remote that does not answer costs this much and a warning. */
const FETCH_MS = 20_000
/** What a refspec can carry as it is. */
const PLAIN_REF = /^[^\s:*?[\\^~]+$/

/** Fetches of one daemon: sessions that start from the same branch at once share one. */
export class Fetches {
  readonly #git: Git
  readonly #running = new Map<string, Promise<string | undefined>>()

  constructor(git: Git) {
    this.#git = git
  }

  /** Why `branch` of origin could not be fetched; undefined when it was, and when there is nothing to fetch it from. */
  fetch(cwd: string, commonDir: string, branch: string): Promise<string | undefined> {
    const key = `${commonDir}\0${branch}`
    const running = this.#running.get(key)
    if (running !== undefined) return running
    const started = this.#fetch(cwd, branch).finally(() => this.#running.delete(key))
    this.#running.set(key, started)
    return started
  }

  async #fetch(cwd: string, branch: string): Promise<string | undefined> {
    const remote = await this.#git.run(['config', '--get', 'remote.origin.url'], { cwd, accept: [0, 1] })
    if (remote.status !== 0 || !PLAIN_REF.test(branch)) return undefined
    const refspec = `+refs/heads/${branch}:refs/remotes/origin/${branch}`
    const quiet = ['-c', 'gc.auto=0', '-c', 'maintenance.auto=false']
    const plain = ['--no-tags', '--no-recurse-submodules', '--no-write-fetch-head']
    try {
      await this.#git.run([...quiet, 'fetch', ...plain, 'origin', refspec], { cwd, timeoutMs: FETCH_MS })
      return undefined
    } catch (failure) {
      if (!(failure instanceof GitFailure)) throw failure
      // A branch that only exists here has nothing to be fetched.
      return /couldn't find remote ref/.test(failure.said) ? undefined : failure.message
    }
  }
}

/** `cwd` is the tree whose HEAD is meant. Throws worktree_add_failed for a repository without a commit. */
export async function startOf(
  git: Git,
  fetches: Fetches,
  cwd: string,
  commonDir: string,
  base: string | undefined,
): Promise<Start> {
  const warnings: Warning[] = []
  if (base !== undefined) {
    const branch = base.replace(/^origin\//, '')
    const problem = await fetches.fetch(cwd, commonDir, branch)
    // What git says may name hosts and accounts: the log of the daemon is the place for it.
    if (problem !== undefined)
      warnings.push({ kind: 'fetch', message: `${base} could not be fetched; started from what is here` })
    const local = await commitOf(git, cwd, base)
    const remote = await commitOf(git, cwd, `refs/remotes/origin/${branch}`)
    if (remote !== undefined && (local === undefined || (await isAncestor(git, cwd, local, remote))))
      return { commit: remote, base, warnings }
    if (local !== undefined) return { commit: local, base, warnings }
    warnings.push({ kind: 'base_branch_fallback', message: `base branch ${base} does not exist; started from HEAD` })
  }
  const head = await startAtHead(git, cwd)
  return { ...head, warnings }
}

/** Throws worktree_add_failed for a repository without a commit. */
export async function startAtHead(git: Git, cwd: string): Promise<Start> {
  const head = await headOf(git, cwd)
  if (head === undefined) throw faults.worktree_add_failed({ problem: 'the repository has no commit to start from' })
  return { commit: head.commit, base: branchOf(head.ref), warnings: [] }
}

/** Commit and ref of HEAD; undefined while there is no commit. */
export async function headOf(
  git: Git,
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): Promise<{ commit: string; ref: string } | undefined> {
  const { status, text } = await git.run(['rev-parse', 'HEAD^{commit}', '--symbolic-full-name', 'HEAD'], {
    cwd,
    env,
    accept: [0, 128],
  })
  const [commit = '', ref = ''] = text.split('\n')
  return status === 0 && commit !== '' ? { commit, ref } : undefined
}

/** The commit a revision names, undefined when it names none. */
export async function commitOf(git: Git, cwd: string, revision: string): Promise<string | undefined> {
  const { status, text } = await git.run(
    ['rev-parse', '--verify', '--quiet', '--end-of-options', `${revision}^{commit}`],
    { cwd, accept: [0, 1, 128] },
  )
  return status === 0 && text !== '' ? text : undefined
}

const isAncestor = async (git: Git, cwd: string, a: string, b: string): Promise<boolean> =>
  a === b || (await git.run(['merge-base', '--is-ancestor', a, b], { cwd, accept: [0, 1] })).status === 0
