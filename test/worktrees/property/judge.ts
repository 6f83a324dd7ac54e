/** What must hold between two looks when only the manager worked in between. */
import { git } from '../repository.ts'
import { sessionOf, type Snapshot, type TreeState } from './snapshot.ts'

export interface Terms {
  /** Sessions whose trees may go, with their work in rescue refs. */
  readonly may: ReadonlySet<string>
  /** Trees of these may go only while they hold nothing unsaved. */
  readonly clean: ReadonlySet<string>
  /** Nor commits that are only on their branch, which stays. */
  readonly unattended?: boolean
  /** Sessions that may go beside, with or without a tree. */
  readonly ended?: ReadonlySet<string>
}

/** What is wrong, one sentence each. */
export function judge(repo: string, before: Snapshot, after: Snapshot, terms: Terms): string[] {
  return [
    ...refsStay(before, after),
    ...(after.stashes === before.stashes ? [] : ['the stash changed']),
    ...[...before.trees.values()].flatMap((it) => {
      const now = after.trees.get(it.entry)
      return now === undefined ? gone(repo, it, before, after, terms) : untouched(it, now)
    }),
    ...[...before.absent].flatMap(([entry, { detached }]) =>
      detached === undefined || after.absent.has(entry) || isHeld(repo, detached, after)
        ? []
        : [`commit ${detached}, HEAD of ${entry}, whose folder was gone, is on no ref`],
    ),
    ...logsStay(repo, before, after),
  ]
}

/** What only the logs of a tree that is gone, or its submodule, had, a ref or the log of a branch has now. */
function logsStay(repo: string, before: Snapshot, after: Snapshot): string[] {
  const all = [...before.trees, ...before.absent]
  const gone = all.filter(([entry]) => !after.trees.has(entry) && !after.absent.has(entry))
  if (gone.length === 0) return []
  const reached = new Set(git(repo, 'rev-list', '--all', '--reflog').split('\n'))
  return gone.flatMap(([entry, { logged }]) =>
    logged.filter((it) => !reached.has(it)).map((it) => `commit ${it} of the logs of ${entry} is nowhere now`),
  )
}

function refsStay(before: Snapshot, after: Snapshot): string[] {
  return [...before.refs].flatMap(([ref, commit]) => {
    const now = after.refs.get(ref)
    if (now === commit) return []
    return [now === undefined ? `${ref} is gone (it was ${commit})` : `${ref} moved from ${commit} to ${now}`]
  })
}

function untouched(it: TreeState, now: TreeState): string[] {
  const name = it.path
  return [
    ...(now.path === it.path ? [] : [`${name} is in ${now.path}`]),
    ...(now.head === it.head && now.ref === it.ref ? [] : [`HEAD of ${name} changed`]),
    ...(now.index === it.index ? [] : [`the index of ${name} changed`]),
    ...[...it.files].flatMap(([file, oid]) =>
      now.files.get(file) === oid ? [] : [`${JSON.stringify(file)} of ${name}, which stays, is changed or gone`],
    ),
  ]
}

function gone(
  repo: string,
  it: TreeState,
  before: Snapshot,
  after: Snapshot,
  { may, clean, unattended }: Terms,
): string[] {
  const session = sessionOf(it.entry)
  if (!may.has(session) && !clean.has(session)) return [`${it.path} is gone, and nobody asked for it`]
  const problems: string[] = []
  const say = (what: string): void => void problems.push(`${it.path} is gone and with it ${what}`)
  if (it.locked) say('its lock')
  if (!isHeld(repo, it.head, after)) say(`commit ${it.head}, which is on no ref now`)
  for (const [ref, commit] of it.own)
    if (!isHeld(repo, commit, after)) say(`${ref} (${commit}), which is on no ref now`)
  const rescues = [...after.refs].filter(
    ([ref]) => !before.refs.has(ref) && ref.startsWith(`refs/pohunek/rescue/${session}/`),
  )
  const kept = new Set(rescues.flatMap(([, commit]) => contentsOf(repo, commit)))
  for (const [file, oid] of [...it.loose, ...it.staged])
    if (!kept.has(`${oid} ${file}`)) say(`${JSON.stringify(file)} (${oid}), which no rescue ref has`)
  if (!may.has(session)) {
    if (it.loose.size + it.staged.size > 0) say('unsaved work, unforced')
    if (unattended === true && !isShared(repo, it, after)) say('commits of its own, unforced')
    if (rescues.some(([, commit]) => !isOfLogs(repo, commit))) say('nothing, but a rescue ref was written')
  }
  return problems
}

/** What holds nothing back is kept all the same. */
const isOfLogs = (repo: string, commit: string): boolean =>
  git(repo, 'log', '--max-count=1', '--format=%s', commit).startsWith('Commits of session')

/** Reachable from a ref, or from HEAD of a tree that is there. */
function isHeld(repo: string, commit: string, after: Snapshot): boolean {
  if (commit === '') return true
  if ([...after.refs.values(), ...[...after.trees.values()].map((it) => it.head)].includes(commit)) return true
  return git(repo, 'for-each-ref', '--count=1', `--contains=${commit}`) !== ''
}

/** Found on a branch that is not its own, a remote branch or a tag. */
function isShared(repo: string, it: TreeState, after: Snapshot): boolean {
  const refs = ['refs/heads', 'refs/remotes', 'refs/tags']
  return git(repo, 'for-each-ref', '--format=%(refname)', `--contains=${it.head}`, ...refs)
    .split('\n')
    .some((ref) => ref !== '' && ref !== it.ref && after.refs.has(ref))
}

/** `<object name> <path>` of every file of a rescue commit and of the index beside it. */
function contentsOf(repo: string, commit: string): string[] {
  const parents = git(repo, 'rev-list', '--parents', '--max-count=1', commit).split(' ').slice(2)
  return [commit, ...parents].flatMap((it) =>
    git(repo, 'ls-tree', '-r', '-z', it)
      .split('\0')
      .filter((entry) => entry !== '')
      .map((entry) => entry.replace(/^\S+ \S+ /, '').replace('\t', ' ')),
  )
}
