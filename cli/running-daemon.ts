/**
 * Which daemon holds this user's directories, found by its locks: a daemon that serves another runtime directory, one
 * that hangs and one of another release are found too.
 */
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Roots } from '../platform/roots.ts'
import { exists } from './start-claim.ts'

/** The directories a daemon says it serves. */
export interface ServedRoots {
  readonly runtime: string
  readonly data: string
  readonly state: string
  readonly config: string
  readonly socket: string
}

export interface Holder {
  readonly pid: number
  /** undefined when it did not say: an older release, or a full disk. */
  readonly serves: ServedRoots | undefined
}

/** Lines of the lock file: the pid, and what that daemon serves. */
function readLock(root: string): readonly string[] | undefined {
  try {
    return readFileSync(join(root, 'daemon.lock'), 'utf8').split('\n')
  } catch {
    return undefined // no daemon ran on this root
  }
}

/** The daemon that holds `daemon.lock` in a root; undefined when none does. */
function lockHolder(root: string): Holder | undefined {
  try {
    const [first = '', facts = ''] = readLock(root) ?? []
    const told = /^\d+$/.test(first) ? Number(first) : undefined
    const pid = process.platform === 'linux' ? lockedBy(statSync(join(root, 'daemon.lock')).ino, told) : told
    return pid === undefined || pid <= 1 || !exists(pid)
      ? undefined
      : { pid, serves: pid === told ? servedRoots(facts) : undefined }
  } catch {
    return undefined // no lock file: no daemon ran on this root
  }
}

/**
 * The kernel's list of locks decides, since a file stays behind its daemon. It names a file by an inode number that
 * another file system may use as well, so the process must be the one the file names, or a pohunekd.
 */
function lockedBy(inode: number, told: number | undefined): number | undefined {
  return readFileSync('/proc/locks', 'latin1')
    .split('\n')
    .map((it) => it.trim().split(/\s+/))
    .filter((it) => it[1] === 'FLOCK' && it[5]?.split(':').at(-1) === String(inode))
    .map((it) => Number(it[4]))
    .find((pid) => pid === told || (pid > 1 && isDaemon(pid)))
}

function isDaemon(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('pohunekd')
  } catch {
    return false // gone meanwhile, or another user's
  }
}

function servedRoots(text: string): ServedRoots | undefined {
  try {
    const { runtime, data, state, config, socket } = JSON.parse(text) as Record<string, unknown>
    const all = { runtime, data, state, config, socket }
    return Object.values(all).every((it) => typeof it === 'string') ? (all as ServedRoots) : undefined
  } catch {
    return undefined
  }
}

/**
 * The daemon that serves the caller's runtime directory. One that made a wiped directory again holds no lock in it; its
 * others name it.
 */
export const daemonHere = (roots: Roots): Holder | undefined =>
  lockHolder(roots.runtime) ??
  [roots.state, roots.data].map(lockHolder).find((holder) => holder?.serves?.runtime === roots.runtime)

/** A daemon that holds the caller's data or state directory but answers on another socket; undefined when none does. */
export function daemonElsewhere(roots: Roots): Holder | undefined {
  for (const root of [roots.state, roots.data]) {
    const holder = lockHolder(root)
    if (
      holder !== undefined &&
      holder.serves?.runtime !== roots.runtime &&
      lockHolder(roots.runtime)?.pid !== holder.pid
    )
      return holder
  }
  return undefined
}

/**
 * Where the daemon that answered this caller keeps its sessions and settings, when that is not where the caller's are:
 * two homes may share a runtime directory. Costs every command one small read.
 */
export function foreignRoots(roots: Roots): readonly string[] {
  const serves = servedRoots(readLock(roots.runtime)?.[1] ?? '')
  if (serves === undefined) return []
  return (['data', 'state', 'config'] as const).filter((it) => serves[it] !== roots[it]).map((it) => serves[it])
}
