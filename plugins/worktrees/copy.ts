/**
 * The copy list: ignored files of the main checkout a new tree needs (`.env` and the like), named by `.pohunek/copy` in
 * gitignore syntax. Only files git ignores in both places are copied, nothing that is there is replaced, and nothing is
 * read or written outside of the two trees. What is left out is a warning; a copy never fails a session.
 */
import { constants, existsSync, readFileSync } from 'node:fs'
import { copyFile, lstat, mkdir, readlink, symlink } from 'node:fs/promises'
import { dirname, isAbsolute, join, relative, resolve, sep } from 'node:path'
import { messageOf } from '../../protocol/fault.ts'
import { GitFailure, type Git } from './git/run.ts'

export const COPY_LIST = '.pohunek/copy'
const MAX_LIST_BYTES = 65_536
const MAX_FILES = 10_000
const MAX_BYTES = 1_073_741_824
/** Named one by one in the warnings; the rest is counted. */
const MAX_NAMED = 5

/** Copies and answers what was left out, as problems for a person. */
export async function copyListed(git: Git, from: string, to: string): Promise<string[]> {
  const file = join(from, COPY_LIST)
  if (!existsSync(file)) return []
  try {
    const patterns = readList(file)
    const listed = await git.list(['ls-files', '--others', '--ignored', `--exclude-from=${file}`, '-z', '--', ':/'], {
      cwd: from,
    })
    const here = await ignoredOf(git, from, listed)
    const there = await ignoredOf(git, to, listed)
    const chosen = listed.filter((it) => here.has(it) && there.has(it)).slice(0, MAX_FILES)
    const problems = await copyAll(from, to, chosen)
    const left = listed.filter((it) => !(here.has(it) && there.has(it)))
    if (left.length > 0)
      problems.push(`${some(left)} not copied: git does not ignore ${left.length === 1 ? 'it' : 'them'}`)
    if (listed.length - left.length > MAX_FILES) problems.push(`over ${MAX_FILES} files: the rest is not copied`)
    const missing = unmatched(patterns, listed)
    if (missing.length > 0) problems.push(`${some(missing)} not copied: not there, or not a file git could ignore`)
    return problems
  } catch (failure) {
    if (failure instanceof GitFailure || failure instanceof Error) return [`${COPY_LIST}: ${messageOf(failure)}`]
    throw failure
  }
}

function readList(file: string): string[] {
  const text = readFileSync(file)
  if (text.length > MAX_LIST_BYTES) throw new Error(`is over ${MAX_LIST_BYTES} bytes`)
  return text.toString('utf8').split('\n')
}

/** Pure. Patterns without wildcards that no listed file answers. */
export function unmatched(patterns: readonly string[], listed: readonly string[]): string[] {
  return patterns
    .map((it) => it.replace(/\r$/, '').replace(/\s+$/, ''))
    .filter((it) => it !== '' && !/^[#!]/.test(it) && !/[*?[\\]/.test(it))
    .filter((pattern) => {
      const name = pattern.replace(/\/$/, '')
      const anchored = name.includes('/')
      const plain = name.replace(/^\//, '')
      return !listed.some((it) =>
        anchored ? it === plain || it.startsWith(`${plain}/`) : it.split('/').includes(plain),
      )
    })
}

async function ignoredOf(git: Git, cwd: string, paths: readonly string[]): Promise<Set<string>> {
  if (paths.length === 0) return new Set()
  // Tracked files are never ignored: that is what the index is asked for here.
  const { stdout } = await git.run(['check-ignore', '-z', '--stdin'], {
    cwd,
    stdin: paths.map((it) => `${it}\0`).join(''),
    accept: [0, 1],
  })
  return new Set(stdout.toString('utf8').split('\0'))
}

async function copyAll(from: string, to: string, paths: readonly string[]): Promise<string[]> {
  const refused = new Map<string, string[]>()
  let bytes = 0
  for (const path of paths) {
    let why: string | undefined
    try {
      const found = await lstat(join(from, path))
      bytes += found.size
      why = bytes > MAX_BYTES ? `over ${MAX_BYTES} bytes together` : await copyOne(from, to, path, found)
    } catch (failure) {
      why = (failure as NodeJS.ErrnoException).code ?? messageOf(failure)
    }
    if (why !== undefined) refused.set(why, [...(refused.get(why) ?? []), path])
    if (bytes > MAX_BYTES) break
  }
  return [...refused].map(([why, which]) => `${some(which)} not copied: ${why}`)
}

async function copyOne(
  from: string,
  to: string,
  path: string,
  found: { isFile(): boolean; isSymbolicLink(): boolean },
): Promise<string | undefined> {
  const target = join(to, path)
  if (!(await realFolder(to, dirname(path)))) return 'a folder on the way is a link'
  if (await lstat(target).catch(() => undefined)) return 'something of that name is there'
  if (found.isSymbolicLink()) {
    const link = await readlink(join(from, path))
    if (isAbsolute(link) || !isInside(from, resolve(dirname(join(from, path)), link))) return 'it links outside'
    await symlink(link, target)
    return undefined
  }
  if (!found.isFile()) return 'it is no regular file'
  await copyFile(join(from, path), target, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
  return undefined
}

/** Makes the folder below `root` where needed; false when a link on the way leads who knows where. */
async function realFolder(root: string, folder: string): Promise<boolean> {
  let at = root
  for (const part of folder.split(sep).filter((it) => it !== '' && it !== '.')) {
    at = join(at, part)
    const found = await lstat(at).catch(() => undefined)
    if (found === undefined) await mkdir(at)
    else if (!found.isDirectory()) return false
  }
  return true
}

export const isInside = (root: string, path: string): boolean => {
  const way = relative(root, path)
  return way === '' || (way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way))
}

function some(names: readonly string[]): string {
  const shown = names.slice(0, MAX_NAMED).map((it) => JSON.stringify(it))
  return names.length > MAX_NAMED ? `${shown.join(', ')} and ${names.length - MAX_NAMED} more` : shown.join(', ')
}
