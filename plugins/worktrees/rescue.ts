/**
 * Rescue refs: before a tree goes, what it holds and nothing else does becomes a commit under refs/pohunek/rescue. The
 * commit's tree is the work tree (uncommitted and untracked files, ignored ones left out), its first parent is HEAD, the
 * next one the index where that differs from both, the last one leads to the commits that only the logs of the tree and an
 * operation in progress named. Made with an index of its own: the tree's is only read. The same work found again after an
 * interruption gets a second ref.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Clock } from '../../kernel/clock.ts'
import type { Binding } from './binding.ts'
import { holdingsOf, lostHead } from './holdings.ts'
import { commitTree, treeOf } from './git/commits.ts'
import { commitsApart, loggedCommits, unkept } from './private-commits.ts'
import { hiddenFiles, OWN_INDEX, unhide, withOwnIndex } from './git/own-index.ts'
import { GitFailure, type Git, type GitCall } from './git/run.ts'
import type { Located } from './locate.ts'
import { headOf } from './start-commit.ts'
import { copyFromInside, gitLinks } from './submodules.ts'

export const RESCUE_REFS = 'refs/pohunek/rescue/'
/** Reading and storing every changed file. */
const RESCUE_MS = 120_000
const WRITER = {
  GIT_AUTHOR_NAME: 'pohunek',
  GIT_AUTHOR_EMAIL: 'pohunek@localhost',
  GIT_COMMITTER_NAME: 'pohunek',
  GIT_COMMITTER_EMAIL: 'pohunek@localhost',
} as const

export interface Rescued {
  readonly ref: string
  readonly commit: string
}

/** How the subjects of our commits begin. */
const UNSAVED = 'Unsaved work of session'
const INDEX = 'Index of session'

/** Nothing can keep this: the tree must stay. */
export class Unrescuable extends Error {}

/**
 * Writes a rescue ref when anything goes with the tree; undefined when nothing does. Throws Unrescuable and GitFailure when
 * it cannot be kept: then the tree must stay.
 */
export async function shelter(
  git: Git,
  clock: Clock,
  binding: Binding,
  at: Extract<Located, { kind: 'present' | 'absent' }>,
): Promise<Rescued | undefined> {
  const commit = at.kind === 'absent' ? await commitOfAbsent(git, binding, at) : await commitOfPresent(git, binding, at)
  return commit === undefined
    ? undefined
    : { ref: await nameIt(git, clock, binding.common_dir, binding.session_id, commit), commit }
}

async function commitOfPresent(
  git: Git,
  binding: Binding,
  at: Extract<Located, { kind: 'present' }>,
): Promise<string | undefined> {
  const holds = await holdingsOf(git, at, binding.common_dir)
  if (holds.inside !== undefined) throw new Unrescuable(`it holds a ${holds.inside}`)
  const head = (await headOf(git, at.path))?.commit
  const log = await commitOfLog(git, binding, at, head, holds.apart)
  if (holds.uncommitted + holds.untracked > 0) return await commitAll(git, binding, at, head, log)
  return log ?? (holds.detached && holds.ownCommits ? head : undefined)
}

/** Of a tree whose folder is gone git still has what was staged, and where its HEAD was. */
async function commitOfAbsent(git: Git, binding: Binding, at: { readonly admin: string }): Promise<string | undefined> {
  const cwd = binding.common_dir
  const head = await headOf(git, at.admin, { GIT_DIR: at.admin })
  const log = await commitOfLog(git, binding, { admin: at.admin }, head?.commit, await commitsApart(git, at, cwd))
  const call: GitCall = { cwd, timeoutMs: RESCUE_MS, env: WRITER }
  const staged = await withOwnIndex(at, (index) =>
    git.run([...OWN_INDEX, 'write-tree'], { ...call, env: { ...index, ...WRITER }, accept: [0, 128] }),
  )
  const isStaged = existsSync(join(at.admin, 'index')) && staged.status === 0
  if (isStaged && staged.text !== (head && (await treeOf(git, { cwd }, head.commit)))) {
    const parents = [head?.commit, log].filter((it) => it !== undefined)
    return await commitTree(git, call, staged.text, parents, `${INDEX} ${binding.session_id}`)
  }
  return log ?? (await lostHead(git, at))?.commit
}

/** More parents than this are given to several commits. */
const MAX_PARENTS = 256

/** A commit over HEAD that leads to all that only git's entry of the tree names; undefined when there is nothing. */
async function commitOfLog(
  git: Git,
  { common_dir: cwd, session_id }: Binding,
  at: { readonly admin: string; readonly path?: string },
  head: string | undefined,
  apart: readonly string[],
): Promise<string | undefined> {
  const also = head === undefined ? [] : [head]
  const logged = await loggedCommits(git, at)
  const keepers = { commonDir: cwd, also: [...also, ...apart], logs: true }
  const inside = await copyFromInside(git, cwd, at, WRITER)
  const left = [...apart, ...(await unkept(git, logged, keepers, { timeoutMs: RESCUE_MS })), ...inside]
  if (left[0] === undefined) return undefined
  const tree = await treeOf(git, { cwd }, head ?? left[0])
  let last = also
  for (let from = 0; from < left.length; from += MAX_PARENTS) {
    const message = `Commits of session ${session_id} that no branch has`
    const parents = [...last, ...left.slice(from, from + MAX_PARENTS)]
    last = [await commitTree(git, { cwd, env: WRITER }, tree, parents, message)]
  }
  return last[0]
}

async function commitAll(
  git: Git,
  { session_id, branch }: Binding,
  at: { readonly admin: string; readonly path: string },
  head: string | undefined,
  log: string | undefined,
): Promise<string> {
  return await withOwnIndex(at, async (index) => {
    const call: GitCall = { cwd: at.path, timeoutMs: RESCUE_MS, env: { ...index, ...WRITER } }
    const links = new Set(await gitLinks(git, at.path, call))
    // A conflict in the index has no tree; the files of the work tree hold its text.
    const staged = await git.run(['write-tree'], { ...call, accept: [0, 128] })
    const hidden = await hiddenFiles(git, call)
    if (hidden.length > 0) await unhide(git, hidden, call)
    await git.run([...OWN_INDEX, '-c', 'core.safecrlf=false', 'add', '--all', '--sparse', '--', ':/'], call)
    const repository = (await gitLinks(git, at.path, call)).find((it) => !links.has(it))
    if (repository !== undefined) throw new Unrescuable(`it holds another repository at ${repository}`)
    const all = (await git.run(['write-tree'], call)).text
    const parents = [...(head === undefined ? [] : [head])]
    if (
      staged.status === 0 &&
      staged.text !== all &&
      staged.text !== (head && (await treeOf(git, { cwd: at.path }, head)))
    )
      parents.push(await commitTree(git, call, staged.text, parents, `${INDEX} ${session_id}`))
    if (log !== undefined) parents.push(log)
    return await commitTree(git, call, all, parents, `${UNSAVED} ${session_id}\n\nIts tree was on ${branch}.`)
  })
}

async function nameIt(git: Git, clock: Clock, cwd: string, sessionId: string, commit: string): Promise<string> {
  const time = new Date(clock.now()).toISOString().replace(/[-:.]/g, '')
  const none = '0'.repeat(commit.length)
  for (let more = 0; ; more++) {
    const ref = `${RESCUE_REFS}${sessionId}/${time}${more === 0 ? '' : `-${more}`}`
    try {
      await git.run(['update-ref', '-m', 'rescued by pohunek', ref, commit, none], { cwd })
      return ref
    } catch (failure) {
      if (!(failure instanceof GitFailure) || more === 8) throw failure
    }
  }
}

/** What rescued work is made of: HEAD it was on and what was staged; what is no work tree is its own. Throws GitFailure. */
export async function partsOf(git: Git, cwd: string, commit: string): Promise<{ head: string; index: string }> {
  const { text } = await git.run(['log', '--max-count=1', '--format=%H%x00%P%x00%ce%x00%s', commit], { cwd })
  const [, parents = '', email = '', subject = ''] = text.split('\0')
  const [head, staged] = parents.split(' ')
  const isOurs = email === WRITER.GIT_COMMITTER_EMAIL
  if (!isOurs || head === undefined || head === '') return { head: commit, index: commit }
  if (subject.startsWith(INDEX)) return { head, index: commit }
  if (!subject.startsWith(UNSAVED)) return { head: commit, index: commit }
  const second =
    staged === undefined ? '' : (await git.run(['log', '--max-count=1', '--format=%s', staged], { cwd })).text
  return { head, index: second.startsWith(INDEX) && staged !== undefined ? staged : head }
}

export interface RescueEntry extends Rescued {
  readonly session_id: string
  readonly repo: string
  readonly at: string
  readonly subject: string
}

const FIELDS = ['refname', 'objectname', 'creatordate:iso8601-strict', 'contents:subject']
const MAX_LISTED = 1_000

/** Rescue refs of one repository, the newest first, bounded. Throws GitFailure. */
export async function listRescues(git: Git, commonDir: string, repo: string): Promise<RescueEntry[]> {
  const format = FIELDS.map((it) => `%(${it})`).join('%00')
  const { text } = await git.run(
    ['for-each-ref', `--count=${MAX_LISTED}`, '--sort=-refname', `--format=${format}`, RESCUE_REFS],
    { cwd: commonDir },
  )
  return text
    .split('\n')
    .filter((it) => it !== '')
    .map((line) => {
      const [ref = '', commit = '', at = '', subject = ''] = line.split('\0')
      const session_id = ref.slice(RESCUE_REFS.length).split('/')[0] ?? ''
      return { ref, commit, session_id, repo, at, subject }
    })
}
