/** An index of our own, a copy of a tree's: what is done to it never shows in the tree. */
import { copyFileSync, mkdtempSync, rmSync, statSync, utimesSync } from 'node:fs'
import { lstat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Git, GitCall } from './run.ts'

/** A tree and git's entry for it, absolute. */
export interface IndexedTree {
  readonly admin: string
  readonly path: string
}

/** What must not depend on the repository while a foreign index is written. */
export const OWN_INDEX = ['core.splitIndex', 'core.fsmonitor', 'core.ignorecase'].flatMap((it) => ['-c', `${it}=false`])

/** Runs `use` with the environment that names the copy; the copy is gone afterwards. */
export async function withOwnIndex<T>(
  { admin }: Pick<IndexedTree, 'admin'>,
  use: (env: Readonly<Record<string, string>>) => Promise<T>,
): Promise<T> {
  const own = mkdtempSync(join(tmpdir(), 'pohunek-index-'))
  try {
    const index = join(own, 'index')
    copyIndex(join(admin, 'index'), index)
    return await use({ GIT_INDEX_FILE: index })
  } finally {
    rmSync(own, { recursive: true, force: true })
  }
}

/**
 * A tree without an index has nothing staged. The copy is as old as what it was made of, or older: git compares the
 * content of files that changed at the time an index was written, and a newer copy would hide what was written then.
 */
function copyIndex(from: string, to: string): void {
  try {
    copyFileSync(from, to)
    const { atime, mtimeMs } = statSync(from)
    // Whole seconds, rounded down; 0 would mean that the time is not known.
    utimesSync(to, atime, Math.max(1, Math.floor(mtimeMs / 1_000)))
  } catch (failure) {
    if ((failure as NodeJS.ErrnoException).code !== 'ENOENT') throw failure
  }
}

const AT_ONCE = 256

/** Those of a tree's paths that are there. */
async function present(tree: string, paths: readonly string[]): Promise<string[]> {
  const there: string[] = []
  for (let at = 0; at < paths.length; at += AT_ONCE) {
    const some = paths.slice(at, at + AT_ONCE)
    const found = await Promise.all(some.map((it) => lstat(join(tree, it)).catch(() => undefined)))
    there.push(...some.filter((_, index) => found[index] !== undefined))
  }
  return there
}

/**
 * Files whose changes git was told not to see: assumed unchanged, or outside of a sparse checkout. A status leaves them
 * out. What is not there was left out of the checkout, not deleted. Throws GitFailure.
 */
export async function hiddenFiles(git: Git, call: GitCall): Promise<string[]> {
  const entries = await git.list(['ls-files', '-v', '-z'], call)
  const marked = entries.filter((it) => /^[a-zS] /.test(it)).map((it) => it.slice(2))
  return await present(call.cwd, marked)
}

/** Takes the marks that hide changes from the files of an index of our own. Throws GitFailure. */
export async function unhide(git: Git, paths: readonly string[], call: GitCall): Promise<void> {
  const stdin = paths.map((it) => `${it}\0`).join('')
  for (const mark of ['--no-assume-unchanged', '--no-skip-worktree'])
    await git.run([...OWN_INDEX, 'update-index', mark, '-z', '--stdin'], { ...call, stdin })
}
