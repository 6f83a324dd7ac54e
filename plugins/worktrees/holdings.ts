/** What a tree holds that is nowhere else. Looking changes nothing in the tree, its index included. */
import { realpath } from 'node:fs/promises'
import { hasOwnCommits, ownCommitOf, unsavedIn, type Unsaved } from './git/repository.ts'
import { hiddenFiles, OWN_INDEX, unhide, withOwnIndex, type IndexedTree } from './git/own-index.ts'
import { AS_STORED, GitFailure, type Git, type GitCall } from './git/run.ts'
import type { Located } from './locate.ts'
import { commitsApart } from './private-commits.ts'
import { headOf } from './start-commit.ts'
import { heldInside } from './submodules.ts'

export interface Holdings extends Unsaved {
  /** HEAD has commits that are on no other branch, no remote branch and no tag. */
  readonly ownCommits: boolean
  /** HEAD is on no branch: its own commits go with the tree. */
  readonly detached: boolean
  /** Commits that only refs of this tree or an operation in progress hold: they go with the tree. */
  readonly apart: readonly string[]
  /** A repository inside, a submodule for one, holds what no ref of this repository can keep. */
  readonly inside: string | undefined
}

/** Throws GitFailure when git cannot say. */
export async function holdingsOf(
  git: Git,
  at: Extract<Located, { kind: 'present' }>,
  commonDir: string,
  signal?: AbortSignal,
): Promise<Holdings> {
  const { path } = at
  await checkPlace(git, path, signal)
  const head = await headOf(git, path)
  const { uncommitted, untracked } = await unsavedIn(git, path, signal)
  const hidden = await hiddenChanges(git, at, signal)
  const detached = head?.ref === 'HEAD'
  const ownCommits = head !== undefined && (await hasOwnCommits(git, path, detached ? undefined : head.ref, signal))
  const apart = await commitsApart(git, at, commonDir, signal)
  const inside = await heldInside(git, at, signal)
  return { uncommitted: uncommitted + hidden, untracked, ownCommits, detached, apart, inside }
}

/** A `core.worktree` of this tree alone lets git look at another folder. */
async function checkPlace(git: Git, path: string, signal: AbortSignal | undefined): Promise<void> {
  const args = ['rev-parse', '--show-toplevel']
  const { text } = await git.run(args, { cwd: path, signal })
  if (text !== (await realpath(path)))
    throw new GitFailure('exit', args, `core.worktree says that its files are in ${text}`)
}

/** Changes git was told not to see. */
async function hiddenChanges(git: Git, at: IndexedTree, signal: AbortSignal | undefined): Promise<number> {
  const call: GitCall = { cwd: at.path, signal }
  const hidden = await hiddenFiles(git, call)
  if (hidden.length === 0) return 0
  return await withOwnIndex(at, async (env) => {
    await unhide(git, hidden, { ...call, env })
    const changed = new Set(await git.list([...OWN_INDEX, 'diff-files', '--name-only', '-z'], { ...call, env }))
    return hidden.filter((it) => changed.has(it)).length
  })
}

/** HEAD of a tree whose folder is gone; `own` when only that HEAD holds its commits. */
export async function lostHead(git: Git, at: { readonly admin: string }): Promise<{ commit: string } | undefined> {
  const call: GitCall = { cwd: at.admin, env: { GIT_DIR: at.admin, ...AS_STORED }, accept: [0, 128] }
  const { status, text } = await git.run(['rev-parse', 'HEAD^{commit}', '--symbolic-full-name', 'HEAD'], call)
  const [commit = '', ref = ''] = text.split('\n')
  if (status !== 0 || ref !== 'HEAD') return undefined
  const own = await git.run(ownCommitOf(commit), call)
  return own.status === 0 && own.text !== '' ? { commit } : undefined
}

/** In words, for messages; undefined when nothing would be lost with the tree while its branches stay. */
export function loss({ uncommitted, untracked, ownCommits, detached, apart, inside }: Holdings): string | undefined {
  const parts = [
    ...(uncommitted > 0 ? [`${uncommitted} uncommitted ${plural(uncommitted, 'change')}`] : []),
    ...(untracked > 0 ? [`${untracked} untracked ${plural(untracked, 'file')}`] : []),
    ...((ownCommits && detached) || apart.length > 0 ? ['commits on no branch'] : []),
    ...(inside === undefined ? [] : [`a ${inside}`]),
  ]
  return parts.length === 0 ? undefined : parts.join(', ')
}

const plural = (count: number, word: string): string => (count === 1 ? word : `${word}s`)

/** Why git could not say, as a problem; other failures are thrown on. */
export function unreadable(failure: unknown): string {
  if (failure instanceof GitFailure) return failure.message
  throw failure
}
