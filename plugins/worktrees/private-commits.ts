/**
 * Commits that only git's own entry of a tree names, and that go with it: refs git keeps for each tree, what a merge or a
 * rebase in progress refers to, and the logs of its HEAD and refs. One look costs two git commands, however many they are.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { tipsOf } from './git/commits.ts'
import { AS_STORED, GitFailure, type Git, type GitCall } from './git/run.ts'

/** Git keeps these for each tree by itself. */
const TREE_REFS = ['refs/worktree/', 'refs/bisect/', 'refs/rewritten/']
/** What an operation in progress refers to; the rest of it can be made again. */
const IN_PROGRESS = [
  'MERGE_HEAD',
  'MERGE_AUTOSTASH',
  'CHERRY_PICK_HEAD',
  'REVERT_HEAD',
  'REBASE_HEAD',
  'rebase-merge/autostash',
  'rebase-merge/orig-head',
  'rebase-merge/stopped-sha',
  'rebase-merge/squash-onto',
  'rebase-apply/autostash',
  'rebase-apply/orig-head',
  'sequencer/head',
]
/** Over half a million entries. */
const MAX_LOG_BYTES = 128 * 1_048_576
const COMMIT = /\b(?:[0-9a-f]{64}|[0-9a-f]{40})\b/g

interface Entry {
  /** Git's entry of the tree, absolute. */
  readonly admin: string
}

/** Commits of present business, which hold a tree back, that nothing else keeps. Throws GitFailure. */
export async function commitsApart(git: Git, at: Entry, commonDir: string, signal?: AbortSignal): Promise<string[]> {
  const named = await namedCommits(git, at, signal)
  return await unkept(git, named, { commonDir, logs: false }, { signal })
}

async function namedCommits(git: Git, { admin }: Entry, signal?: AbortSignal): Promise<string[]> {
  const call = callFor(admin, signal)
  const refs = await git.run(
    ['for-each-ref', '--format=%(objectname) %(objecttype) %(*objectname) %(refname)', ...TREE_REFS],
    call,
  )
  const commits = refs.text.split('\n').flatMap((it) => {
    const [name = '', type = '', peeled = '', ...ref] = it.split(' ')
    if (type === 'commit') return [name]
    if (type === '') return []
    throw new GitFailure(
      'exit',
      ['rev-list'],
      `${ref.join(' ') || peeled} is a ref of this tree alone and names no commit`,
    )
  })
  return [...new Set([...commits, ...IN_PROGRESS.flatMap((file) => commitsIn(join(admin, file)))])]
}

/** What HEAD and the refs of the tree were on before; left over, they hold nothing back. Throws GitFailure. */
export async function loggedCommits(git: Git, { admin }: Entry): Promise<string[]> {
  const files = [join(admin, 'ORIG_HEAD'), ...filesBelow(join(admin, 'logs'))]
  const found = new Set(files.flatMap(commitsIn))
  // Where refs are not files, logs are not either.
  if (sizeOf(join(admin, 'reftable')) !== undefined)
    for (const it of (await git.run(['log', '--walk-reflogs', '--format=%H', 'HEAD', '--'], callFor(admin))).text.split(
      '\n',
    ))
      found.add(it)
  return [...found].filter((it) => !/^0*$/.test(it))
}

/** Which of the others keep a commit that the tree refers to. */
interface Keepers {
  readonly commonDir: string
  /** Commits that will be kept anyway. */
  readonly also?: readonly string[]
  /** The logs of branches, which stay as their branches do, keep it too. */
  readonly logs: boolean
}

/**
 * Those of `commits` that nothing keeps once the tree is gone, without those that another one of them leads to. Throws
 * GitFailure.
 */
export async function unkept(
  git: Git,
  commits: readonly string[],
  { commonDir, also = [], logs }: Keepers,
  more: Pick<GitCall, 'signal' | 'timeoutMs'> = {},
): Promise<string[]> {
  if (commits.length === 0) return []
  const stdin = [...commits, ...also.map((it) => `^${it}`)].map((it) => `${it}\n`).join('')
  // Of this tree's own HEAD and refs nothing counts: it is asked from the repository, which knows its own alone.
  const others = ['--not', '--single-worktree', '--all', ...(logs ? ['--reflog'] : [])]
  const call: GitCall = { cwd: commonDir, env: AS_STORED, stdin, ...more }
  const { text } = await git.run(['rev-list', '--parents', '--ignore-missing', '--stdin', ...others], call)
  return tipsOf(text)
}

/** A call that sees the tree's own refs, also while its folder is gone. */
const callFor = (admin: string, signal?: AbortSignal): GitCall => ({
  cwd: admin,
  env: { GIT_DIR: admin },
  signal,
})

function commitsIn(file: string): string[] {
  const size = sizeOf(file)
  if (size === undefined) return []
  if (size > MAX_LOG_BYTES) throw new GitFailure('output', ['reflog'], `${file} is too long to be looked through`)
  // A line of a log: old, new, who, when, and a message that may name anything.
  const text = readFileSync(file, 'utf8').replace(/\t.*$/gm, '')
  return [...new Set(text.match(COMMIT) ?? [])]
}

function filesBelow(directory: string): string[] {
  try {
    return readdirSync(directory, { withFileTypes: true }).flatMap((it) =>
      it.isDirectory() ? filesBelow(join(directory, it.name)) : [join(directory, it.name)],
    )
  } catch (failure) {
    if ((failure as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw failure
  }
}

function sizeOf(file: string): number | undefined {
  return statSync(file, { throwIfNoEntry: false })?.size
}
