/** Everything that could be lost, as git and the file system tell it. Looking changes nothing. */
import { createHash } from 'node:crypto'
import { existsSync, lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { git } from '../repository.ts'

export interface TreeState {
  /** Git's name of the tree: it stays when the tree is moved. */
  readonly entry: string
  readonly path: string
  readonly locked: boolean
  readonly head: string
  /** Full ref; undefined while detached. */
  readonly ref: string | undefined
  /** Object names of what is in the work tree and in no commit, by path. */
  readonly loose: ReadonlyMap<string, string>
  /** Object names of what is staged and not what HEAD has, by path. */
  readonly staged: ReadonlyMap<string, string>
  /** Refs only this tree has. */
  readonly own: ReadonlyMap<string, string>
  /** Every file, the ignored ones too, by path: what a manager leaves alone stays byte for byte. */
  readonly files: ReadonlyMap<string, string>
  readonly index: string
  /** Commits that the log of its HEAD names, and those of its submodules that are at no remote. */
  readonly logged: readonly string[]
}

export interface Snapshot {
  readonly refs: ReadonlyMap<string, string>
  readonly stashes: string
  /** Folders that exist, by git's name; the main checkout is ''. */
  readonly trees: ReadonlyMap<string, TreeState>
  /** Git's names of trees whose folder is gone, with the commit of a detached HEAD. */
  readonly absent: ReadonlyMap<string, Absent>
}

interface Absent {
  readonly path: string
  readonly detached: string | undefined
  readonly logged: readonly string[]
}

/** Object name of a file's content. */
export const blobOf = (content: Buffer): string =>
  createHash('sha1').update(`blob ${content.length}\0`).update(content).digest('hex')

type Status = Pick<TreeState, 'loose' | 'staged'>
/** Status by what it depends on: most trees are as they were one step ago. */
export type Known = Map<string, { readonly key: string; readonly status: Status & Pick<TreeState, 'logged'> }>

export function look(repo: string, known: Known): Snapshot {
  const commonDir = join(repo, '.git')
  const refs = refsOf(repo)
  const stashLog = join(commonDir, 'logs/refs/stash')
  const trees = new Map<string, TreeState>()
  const absent = new Map<string, Absent>()
  const admins = join(commonDir, 'worktrees')
  const entries = existsSync(admins) ? readdirSync(admins).sort() : []
  for (const entry of ['', ...entries]) {
    const admin = entry === '' ? commonDir : join(admins, entry)
    if (entry !== '' && !existsSync(join(admin, 'gitdir'))) continue
    const path = entry === '' ? repo : dirname(resolve(admin, line(join(admin, 'gitdir'))))
    const head = line(join(admin, 'HEAD'))
    const ref = head.startsWith('ref: ') ? head.slice('ref: '.length) : undefined
    if (!existsSync(path)) {
      absent.set(entry, { path, detached: ref === undefined ? head : undefined, logged: loggedOf(admin) })
      continue
    }
    const files = filesOf(path)
    const index = existsSync(join(admin, 'index')) ? readFileSync(join(admin, 'index')) : Buffer.alloc(0)
    const commit = ref === undefined ? head : (refs.get(ref) ?? '')
    const state = { files, index: blobOf(index) }
    const key = JSON.stringify([state.index, commit, [...files], ...logsBelow(admin)])
    const before = known.get(entry)
    const logged = (): readonly string[] => (entry === '' ? [] : loggedOf(admin))
    const status = before?.key === key ? before.status : { ...statusOf(path), logged: logged() }
    known.set(entry, { key, status })
    trees.set(entry, {
      entry,
      path,
      locked: existsSync(join(admin, 'locked')),
      head: commit,
      ref,
      ...status,
      ...state,
      own: entry === '' ? new Map() : ownRefs(admin),
    })
  }
  return { refs, stashes: existsSync(stashLog) ? readFileSync(stashLog, 'utf8') : '', trees, absent }
}

/** The submodule of the tree as git's entry has it. */
export const partOf = (admin: string): string => join(admin, 'modules/part')

const logsBelow = (admin: string): string[] =>
  [admin, partOf(admin)].flatMap((it) => {
    const logs = join(it, 'logs')
    return existsSync(logs)
      ? readdirSync(logs, { recursive: true, withFileTypes: true })
          .filter((file) => file.isFile())
          .map((file) => readFileSync(join(file.parentPath, file.name), 'utf8'))
      : []
  })

function loggedOf(admin: string): string[] {
  const log = join(admin, 'logs/HEAD')
  const own = existsSync(log)
    ? (readFileSync(log, 'utf8')
        .replace(/\t.*/g, '')
        .match(/\b[0-9a-f]{40}\b/g) ?? [])
    : []
  const part = partOf(admin)
  const inside = existsSync(part)
    ? git(part, '--git-dir=.', '--work-tree=.', 'rev-list', '--all', '--reflog', '--not', '--remotes').split('\n')
    : []
  return [...new Set([...own, ...inside])].filter((it) => it !== '' && !/^0+$/.test(it))
}

const line = (file: string): string => readFileSync(file, 'utf8').replace(/\n$/, '')

export function refsOf(repo: string): Map<string, string> {
  const text = git(repo, 'for-each-ref', '--format=%(refname) %(objectname)')
  return new Map(
    text
      .split('\n')
      .filter((it) => it !== '')
      .map((it): [string, string] => {
        const space = it.lastIndexOf(' ')
        return [it.slice(0, space), it.slice(space + 1)]
      }),
  )
}

function ownRefs(admin: string): Map<string, string> {
  const found = new Map<string, string>()
  const walk = (folder: string, name: string): void => {
    for (const it of existsSync(folder) ? readdirSync(folder, { withFileTypes: true }) : []) {
      if (it.isDirectory()) walk(join(folder, it.name), `${name}/${it.name}`)
      else found.set(`${name}/${it.name}`, line(join(folder, it.name)))
    }
  }
  walk(join(admin, 'refs'), 'refs')
  return found
}

function filesOf(root: string): Map<string, string> {
  const found = new Map<string, string>()
  const walk = (folder: string): void => {
    for (const it of readdirSync(join(root, folder), { withFileTypes: true })) {
      const path = folder === '' ? it.name : `${folder}/${it.name}`
      if (path === '.git') continue
      if (it.isDirectory()) walk(path)
      else found.set(path, blobOf(contentOf(join(root, path))))
    }
  }
  walk('')
  return found
}

const contentOf = (path: string): Buffer =>
  lstatSync(path).isSymbolicLink() ? Buffer.from(readlinkSync(path)) : readFileSync(path)

function statusOf(path: string): Status {
  const loose = new Map<string, string>()
  const staged = new Map<string, string>()
  const text = git(
    path,
    '--no-optional-locks',
    'status',
    '--porcelain=v2',
    '-z',
    '--untracked-files=all',
    '--no-renames',
  )
  const put = (file: string): void => {
    if (!existsSync(join(path, file))) return
    const isFolder = lstatSync(join(path, file)).isDirectory()
    loose.set(file, isFolder ? 'a submodule' : blobOf(contentOf(join(path, file))))
  }
  for (const it of text.split('\0')) {
    if (it.startsWith('? ')) put(it.slice(2))
    else if (it.startsWith('u ')) put(it.split(' ').slice(10).join(' '))
    else if (it.startsWith('1 ')) {
      const [, xy = '', , , , , , oid = '', ...name] = it.split(' ')
      const file = name.join(' ')
      if (!xy.startsWith('.') && !/^0+$/.test(oid)) staged.set(file, oid)
      if (!xy.endsWith('.')) put(file)
    }
  }
  return { loose, staged }
}

/** Session of a managed tree, which its folder was named after; it stays git's name of it. */
export const sessionOf = (entry: string): string => /^s-[0-9A-HJKMNP-TV-Z]{26}/.exec(basename(entry))?.[0] ?? ''
