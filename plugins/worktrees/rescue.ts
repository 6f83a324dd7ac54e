/**
 * Rescue refs: before a tree goes, what it holds and nothing else does becomes a commit under refs/pohunek/rescue. The
 * commit's tree is the work tree (uncommitted and untracked files, ignored ones left out), its first parent is HEAD, a
 * second one the index where that differs from both. Made with an index of its own: the tree's is only read.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Clock } from '../../kernel/clock.ts'
import type { Binding } from './binding.ts'
import { gitLinks, holdingsOf, lostHead } from './holdings.ts'
import { hiddenFiles, OWN_INDEX, unhide, withOwnIndex } from './git/own-index.ts'
import { GitFailure, type Git, type GitCall } from './git/run.ts'
import type { Located } from './locate.ts'
import { headOf } from './start-commit.ts'

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

/** Nothing can keep this: the tree must stay. */
export class Unrescuable extends Error {}

/**
 * Writes a rescue ref when the tree holds anything that goes with it; undefined when it does not. Throws Unrescuable and
 * GitFailure when it cannot be kept: then the tree must stay.
 */
export async function shelter(
  git: Git,
  clock: Clock,
  binding: Binding,
  at: Extract<Located, { kind: 'present' | 'absent' }>,
): Promise<Rescued | undefined> {
  const { common_dir: cwd, session_id } = binding
  if (at.kind === 'absent') {
    const lost = await lostHead(git, at)
    return lost && (await nameIt(git, clock, cwd, session_id, lost.commit))
  }
  const holds = await holdingsOf(git, at)
  if (holds.inside !== undefined) throw new Unrescuable(`it holds a ${holds.inside}`)
  const loose = holds.uncommitted + holds.untracked > 0 || autostashes(at.admin).length + holds.apart.length > 0
  const head = await headOf(git, at.path)
  if (loose)
    return await nameIt(git, clock, cwd, session_id, await commitAll(git, binding, at, head?.commit, holds.apart))
  if (holds.detached && holds.ownCommits && head !== undefined)
    return await nameIt(git, clock, cwd, session_id, head.commit)
  return undefined
}

async function commitAll(
  git: Git,
  { session_id, branch }: Binding,
  at: { readonly admin: string; readonly path: string },
  head: string | undefined,
  apart: readonly string[],
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
    if (staged.status === 0 && staged.text !== all && staged.text !== (await treeOf(git, at.path, head)))
      parents.push(await commit(git, call, staged.text, parents, `Index of session ${session_id}`))
    parents.push(...autostashes(at.admin), ...apart)
    return await commit(git, call, all, parents, `Unsaved work of session ${session_id}\n\nIts tree was on ${branch}.`)
  })
}

/** Work that a rebase or a merge in progress set aside: no ref has it. */
function autostashes(admin: string): string[] {
  return ['rebase-merge/autostash', 'rebase-apply/autostash', 'MERGE_AUTOSTASH'].flatMap((file) => {
    try {
      return [readFileSync(join(admin, file), 'utf8').trim()].filter((it) => /^[0-9a-f]{40,64}$/.test(it))
    } catch {
      return [] // nothing in progress
    }
  })
}

const commit = async (
  git: Git,
  call: GitCall,
  tree: string,
  parents: readonly string[],
  message: string,
): Promise<string> =>
  (await git.run(['commit-tree', tree, ...parents.flatMap((it) => ['-p', it])], { ...call, stdin: message })).text

async function treeOf(git: Git, cwd: string, head: string | undefined): Promise<string | undefined> {
  return head === undefined ? undefined : (await git.run(['rev-parse', `${head}^{tree}`], { cwd })).text
}

async function nameIt(git: Git, clock: Clock, cwd: string, sessionId: string, commit: string): Promise<Rescued> {
  const time = new Date(clock.now()).toISOString().replace(/[-:.]/g, '')
  const none = '0'.repeat(commit.length)
  for (let more = 0; ; more++) {
    const ref = `${RESCUE_REFS}${sessionId}/${time}${more === 0 ? '' : `-${more}`}`
    try {
      await git.run(['update-ref', '-m', 'rescued by pohunek', ref, commit, none], { cwd })
      return { ref, commit }
    } catch (failure) {
      if (!(failure instanceof GitFailure) || more === 8) throw failure
    }
  }
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
