/** session.diff: what a tree has beside its base, tracked and untracked, bounded. Looking changes nothing in the tree. */
import { MAX_RESULT_BYTES } from '../../protocol/limits.ts'
import { utf8Bytes } from '../../protocol/scalars.ts'
import { branchProblem } from './branch.ts'
import { faults } from './faults.ts'
import { OWN_INDEX, withOwnIndex, type IndexedTree } from './git/own-index.ts'
import { GitFailure, type Git, type GitCall } from './git/run.ts'
import { commitOf } from './start-commit.ts'

export interface Diff {
  readonly diff: string
  /** What it was made against, as it was named or found. */
  readonly base: string
  readonly truncated: boolean
}

export const MAX_DIFF_BYTES = 524_288
/** Of the answer beside the text. */
const ENVELOPE_BYTES = 4_096

interface Asked {
  readonly base: string | undefined
  /** Base of the binding. */
  readonly bound: string | undefined
}

/** Throws invalid_branch, session_diff_base_unresolved, session_diff_failed. */
export async function diffOf(git: Git, at: IndexedTree, { base, bound }: Asked, signal: AbortSignal): Promise<Diff> {
  const problem = base === undefined ? undefined : branchProblem(base)
  if (base !== undefined && problem !== undefined) throw faults.invalid_branch({ branch: base, problem })
  const call: GitCall = { cwd: at.path, signal }
  try {
    const name = base ?? bound ?? (await defaultBranch(git, at.path))
    if (name === undefined)
      throw faults.session_diff_base_unresolved({ base: '', problem: 'the repository has no default branch' })
    const from = await mergeBase(git, at.path, name, base === undefined)
    return { base: name, ...(await textOf(git, at, from, call)) }
  } catch (failure) {
    if (failure instanceof GitFailure) throw faults.session_diff_failed({ problem: failure.message }, failure)
    throw failure
  }
}

/** The branch origin calls its own, else the main checkout's when it is one of the usual names. */
async function defaultBranch(git: Git, cwd: string): Promise<string | undefined> {
  const { status, text } = await git.run(['symbolic-ref', '--quiet', 'refs/remotes/origin/HEAD'], {
    cwd,
    accept: [0, 1, 128],
  })
  if (status === 0 && text !== '') return text.replace(/^refs\/remotes\/origin\//, '')
  const configured = await git.run(['config', '--get', 'init.defaultBranch'], { cwd, accept: [0, 1] })
  for (const name of [configured.text, 'main', 'master'])
    if (name !== '' && (await commitOf(git, cwd, `refs/heads/${name}`)) !== undefined) return name
  return undefined
}

/** A default base means both its sides, here and at origin: whichever the work left last. */
async function mergeBase(git: Git, cwd: string, base: string, both: boolean): Promise<string> {
  const unresolved = (problem: string): Error => faults.session_diff_base_unresolved({ base, problem })
  const local = await commitOf(git, cwd, base)
  const remote = both || local === undefined ? await commitOf(git, cwd, `refs/remotes/origin/${base}`) : undefined
  const sides = [local, remote].filter((it) => it !== undefined)
  if (sides.length === 0) throw unresolved('names no commit')
  const { status, text } = await git.run(['merge-base', 'HEAD', ...sides], { cwd, accept: [0, 1, 128] })
  const [found = ''] = text.split('\n')
  if (status !== 0 || found === '') throw unresolved('has nothing in common with this tree')
  return found
}

async function textOf(
  git: Git,
  at: IndexedTree,
  from: string,
  call: GitCall,
): Promise<{ diff: string; truncated: boolean }> {
  const untracked = await git.list(['ls-files', '--others', '--exclude-standard', '-z', '--', ':/'], call)
  // Another repository inside is none of this one's files.
  const files = untracked.filter((it) => !it.endsWith('/'))
  const compared = async (env: Readonly<Record<string, string>>): Promise<{ diff: string; truncated: boolean }> => {
    const plain = [
      '--no-color',
      '--no-ext-diff',
      '--no-textconv',
      '--src-prefix=a/',
      '--dst-prefix=b/',
      '--no-relative',
    ]
    const { stdout, truncated } = await git.run([...OWN_INDEX, 'diff', ...plain, from, '--', ':/'], {
      ...call,
      env,
      maxBytes: MAX_DIFF_BYTES,
      cut: true,
    })
    return cutToFit(stdout, truncated)
  }
  if (files.length === 0) return await compared({})
  return await withOwnIndex(at, async (env) => {
    // Announced only: nothing is stored, and the diff shows them as added.
    const announce = ['add', '--intent-to-add', '--pathspec-from-file=-', '--pathspec-file-nul']
    const stdin = files.map((it) => `${it}\0`).join('')
    await git.run([...OWN_INDEX, '--literal-pathspecs', ...announce], { ...call, env, stdin })
    return await compared(env)
  })
}

/** Lines of a patch begin with a mark; only what starts a file begins with this. */
const FILE_START = /^(diff --(?:git|cc|combined) |\* Unmerged path )/gm

/** Pure. Whole files only, within the bounds of the text and of the line that carries it. */
export function cutToFit(stdout: Buffer, truncated: boolean): { diff: string; truncated: boolean } {
  const text = stdout.toString('utf8')
  const starts = [...text.matchAll(FILE_START)].map((it) => it.index)
  let end = truncated ? (starts.at(-1) ?? 0) : text.length
  const fits = (size: number): boolean => {
    const part = text.slice(0, size)
    return utf8Bytes(part) <= MAX_DIFF_BYTES && utf8Bytes(JSON.stringify(part)) <= MAX_RESULT_BYTES - ENVELOPE_BYTES
  }
  if (fits(end)) return { diff: text.slice(0, end), truncated }
  const candidates = starts.filter((it) => it < end)
  let low = 0
  let high = Math.max(0, candidates.length - 1)
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (fits(candidates[middle] ?? 0)) low = middle
    else high = middle - 1
  }
  end = candidates[low] ?? 0
  return { diff: text.slice(0, end), truncated: true }
}
