/** Where a managed tree is now, from git's own registration: it may have been moved, removed or damaged meanwhile. */
import { lstatSync, readdirSync, readFileSync, realpathSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import type { Binding } from './binding.ts'

export type Located =
  /** `admin` is git's entry, absolute; `path` the root of the tree, which points back at it. */
  | { readonly kind: 'present'; readonly admin: string; readonly path: string }
  /** Nothing is where git says it is. */
  | { readonly kind: 'absent'; readonly admin: string; readonly path: string }
  /** Something is there, and it is not a tree git takes: nothing can be said about what it holds. */
  | { readonly kind: 'broken'; readonly path: string; readonly problem: string }
  /** Git knows no such tree and nothing is there. */
  | { readonly kind: 'gone'; readonly path: string }

type Named = Pick<Binding, 'common_dir' | 'path' | 'entry'>

export function locate(binding: Named): Located {
  const { path: made, common_dir } = binding
  if (!exists(common_dir))
    return exists(made)
      ? { kind: 'broken', path: made, problem: `its repository ${common_dir} is gone` }
      : { kind: 'gone', path: made }
  const entry = binding.entry ?? entryFor(common_dir, made)
  const admin = entry === undefined ? undefined : join(common_dir, 'worktrees', entry)
  const path = admin === undefined ? undefined : treeOf(admin)
  if (admin === undefined || path === undefined)
    return exists(made)
      ? { kind: 'broken', path: made, problem: 'git does not know it as a worktree' }
      : { kind: 'gone', path: made }
  if (!exists(path)) return { kind: 'absent', admin, path }
  // What is behind the link may be anybody's, and git would delete it.
  if (lstatSync(path).isSymbolicLink()) return { kind: 'broken', path, problem: 'a symbolic link is in its place' }
  if (readLine(join(path, '.git')) === undefined)
    return { kind: 'broken', path, problem: 'it has no .git file; git worktree repair mends it' }
  const named = entryNamed(path)
  if (named === undefined || !isSame(named, admin))
    return { kind: 'broken', path, problem: 'its .git file names another repository' }
  return { kind: 'present', admin, path }
}

/**
 * Linked worktrees that a canonical path lies in, the innermost first, by the file git leaves in their roots: what their
 * number costs is the depth of the path. `admin` is the entry that file names, whether or not it is there.
 */
export function* treesAbove(path: string): Generator<{ readonly root: string; readonly admin: string }> {
  for (let root = path; ; root = dirname(root)) {
    const admin = entryNamed(root)
    if (admin !== undefined) yield { root, admin }
    if (dirname(root) === root) return
  }
}

/** Git's entry that the .git file of a tree names, absolute; undefined without such a file. */
function entryNamed(root: string): string | undefined {
  const line = readLine(join(root, '.git'))
  return line?.startsWith(POINTER) === true ? resolve(root, line.slice(POINTER.length)) : undefined
}
const POINTER = 'gitdir: '

/** Git's name for the tree at `path`; undefined when it has none. */
export function entryFor(commonDir: string, path: string): string | undefined {
  const directory = join(commonDir, 'worktrees')
  try {
    const names = readdirSync(directory)
    const likely = basename(path)
    return [likely, ...names.filter((it) => it !== likely)].find((it) => treeOf(join(directory, it)) === path)
  } catch {
    return undefined // a repository without linked trees has no such folder
  }
}

/** The tree an entry of git is for; undefined without such an entry. */
function treeOf(admin: string): string | undefined {
  const line = readLine(join(admin, 'gitdir'))
  return line === undefined ? undefined : dirname(resolve(admin, line))
}

function isSame(a: string, b: string): boolean {
  try {
    return realpathSync(a) === realpathSync(b)
  } catch {
    return false
  }
}

/** A file of one value, whose last line feed is not part of it. */
function readLine(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').replace(/\n$/, '')
  } catch {
    return undefined
  }
}

export function exists(path: string): boolean {
  try {
    lstatSync(path)
    return true
  } catch {
    return false
  }
}
