/**
 * Repositories that go with a tree: submodules, whose own repositories are in git's entry of the tree also while they are
 * not checked out, and repositories that were added to the index whole. No ref of ours can be made in them.
 */
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join, relative } from 'node:path'
import { commitTree, tipsOf, treeOf } from './git/commits.ts'
import { AS_STORED, type Git, type GitCall } from './git/run.ts'
import { unsavedIn } from './git/repository.ts'
import type { IndexedTree } from './git/own-index.ts'

const MAX_DEPTH = 4
/** Copying the commits of one. */
const FETCH_MS = 60_000
const PUSHED = ['--not', '--remotes', '--tags']

/** Git links of an index, by path. */
export async function gitLinks(git: Git, tree: string, call: Partial<GitCall> = {}): Promise<string[]> {
  const entries = await git.list(['ls-files', '--stage', '-z'], { cwd: tree, ...call })
  return entries.filter((it) => it.startsWith('160000 ')).map((it) => it.slice(it.indexOf('\t') + 1))
}

interface Inner {
  /** Path in the tree, or git's name of it. */
  readonly name: string
  /** Its git directory, absolute. */
  readonly gitDir: string
}

/** What a repository inside holds that keeps the tree, in words; undefined for nothing. Throws GitFailure. */
export async function heldInside(git: Git, at: IndexedTree, signal?: AbortSignal): Promise<string | undefined> {
  const problem = await changedInside(git, at.path, signal)
  if (problem !== undefined) return problem
  for (const { name, gitDir } of await innerRepositories(git, at, signal)) {
    const { text } = await git.run(['rev-list', '--max-count=1', '--all', ...PUSHED], callIn(gitDir, signal))
    if (text !== '') return `submodule ${name} with commits that are on no remote branch`
  }
  return undefined
}

/**
 * Copies commits of the repositories inside that are at no remote into the repository of the tree; answers those that lead
 * to all of them. What an entry without a folder still has, or only the logs of a submodule: the rest holds. Throws GitFailure.
 */
export async function copyFromInside(
  git: Git,
  commonDir: string,
  at: { readonly admin: string; readonly path?: string },
  writer: Readonly<Record<string, string>>,
): Promise<string[]> {
  const copied: string[] = []
  for (const { name, gitDir } of await innerRepositories(git, at)) {
    const call = callIn(gitDir)
    const { text } = await git.run(['rev-list', '--parents', '--all', '--reflog', ...PUSHED], call)
    const tips = tipsOf(text)
    if (tips[0] === undefined) continue
    const message = `Commits of submodule ${name} that are at no remote`
    const asWriter = { ...call, env: { ...call.env, ...writer } }
    const made = await commitTree(git, asWriter, await treeOf(git, call, tips[0]), tips, message)
    // Where it was checked out may be gone.
    const allowed = 'GIT_WORK_TREE=. git -c uploadpack.allowAnySHA1InWant=true upload-pack'
    const plain = ['--no-tags', '--no-write-fetch-head', '--no-recurse-submodules', '--no-auto-maintenance', '--quiet']
    const args = ['-c', 'protocol.file.allow=always', 'fetch', ...plain, `--upload-pack=${allowed}`, gitDir, made]
    await git.run(args, { cwd: commonDir, timeoutMs: FETCH_MS })
    copied.push(made)
  }
  return copied
}

const callIn = (gitDir: string, signal?: AbortSignal): GitCall => ({
  cwd: gitDir,
  // Its work tree may be gone, and is not asked for.
  env: { ...AS_STORED, GIT_DIR: gitDir, GIT_WORK_TREE: gitDir },
  signal,
})

async function changedInside(git: Git, tree: string, signal?: AbortSignal, depth = 0): Promise<string | undefined> {
  if (depth === MAX_DEPTH) return 'submodules nested too deep to be looked into'
  for (const link of await gitLinks(git, tree, { signal })) {
    const cwd = join(tree, link)
    if (!existsSync(join(cwd, '.git'))) continue
    const { uncommitted, untracked } = await unsavedIn(git, cwd, signal)
    if (uncommitted + untracked > 0) return `submodule ${link} with uncommitted changes`
    const deeper = await changedInside(git, cwd, signal, depth + 1)
    if (deeper !== undefined) return deeper
  }
  return undefined
}

async function innerRepositories(
  git: Git,
  { admin, path }: { readonly admin: string; readonly path?: string },
  signal?: AbortSignal,
): Promise<Inner[]> {
  const modules = join(admin, 'modules')
  const found = gitDirsBelow(modules).map((gitDir) => ({ name: relative(modules, gitDir), gitDir }))
  return path === undefined ? found : [...found, ...(await embedded(git, path, '', signal))]
}

/** Links whose repositories are in the tree itself. */
async function embedded(git: Git, tree: string, prefix: string, signal?: AbortSignal, depth = 0): Promise<Inner[]> {
  if (depth === MAX_DEPTH) return []
  const found: Inner[] = []
  for (const link of await gitLinks(git, tree, { signal })) {
    const dot = statSync(join(tree, link, '.git'), { throwIfNoEntry: false })
    if (dot === undefined) continue
    const name = join(prefix, link)
    if (dot.isDirectory()) {
      const gitDir = join(tree, link, '.git')
      found.push({ name, gitDir })
      const modules = join(gitDir, 'modules')
      found.push(...gitDirsBelow(modules).map((it) => ({ name: join(name, relative(modules, it)), gitDir: it })))
    }
    found.push(...(await embedded(git, join(tree, link), name, signal, depth + 1)))
  }
  return found
}

/** Names of submodules may have folders, and submodules submodules. */
function gitDirsBelow(directory: string): string[] {
  if (!existsSync(directory)) return []
  return readdirSync(directory, { withFileTypes: true })
    .filter((it) => it.isDirectory())
    .map((it) => join(directory, it.name))
    .flatMap((it) => (existsSync(join(it, 'HEAD')) ? [it, ...gitDirsBelow(join(it, 'modules'))] : gitDirsBelow(it)))
}
