import { readFileSync, readlinkSync } from 'node:fs'
import type { MarkedSweep, ProcessIdentity, Processes } from '../processes.ts'
import { isStranger, type ProcessTable } from './kinship.ts'
import {
  allPids,
  attempt,
  couldNotLook,
  hasEntry,
  isAlive,
  readArgv,
  readEntry,
  readEnviron,
  readProgram,
  readStat,
  readUid,
  type Stat,
} from './proc.ts'

const errno = (failure: unknown): string | undefined => (failure as NodeJS.ErrnoException).code

function identify(pid: number): ProcessIdentity | undefined {
  const stat = readStat(pid)
  return stat === undefined ? undefined : { pid, startIdentity: stat.startIdentity }
}

function isRunning(process: ProcessIdentity): boolean {
  const stat = readStat(process.pid)
  return stat !== undefined && stat.startIdentity === process.startIdentity && isAlive(stat)
}

/** Living processes that `picks` accepts. */
function alive(picks: (stat: Stat) => boolean): ProcessIdentity[] {
  return allPids().flatMap((pid) => {
    const stat = readStat(pid)
    return stat !== undefined && isAlive(stat) && picks(stat) ? [{ pid, startIdentity: stat.startIdentity }] : []
  })
}

const table: ProcessTable = { read: readStat, pids: allPids }

/**
 * An environment that cannot be read says nothing; a process older than `since`, or proven not to descend from it, cannot
 * belong.
 */
function findMarked({ name, value, since }: { name: string; value: string; since?: ProcessIdentity }): MarkedSweep {
  const uid = process.geteuid?.()
  const earliest = since === undefined ? 0n : BigInt(since.startIdentity)
  const sweep: MarkedSweep = { marked: [], unreadable: [] }
  for (const pid of allPids()) {
    if (pid === process.pid) continue
    const stat = readStat(pid)
    if (stat === undefined || !isAlive(stat) || BigInt(stat.startIdentity) < earliest || readUid(pid) !== uid) continue
    const found = { pid, startIdentity: stat.startIdentity }
    const seen = lookInto(found, `${name}=${value}`)
    if (seen === 'marked') sweep.marked.push(found)
    else if (seen === 'withheld' && (since === undefined || !isStranger(pid, since, table)))
      sweep.unreadable.push({ ...found, command: stat.command })
  }
  return sweep
}

/** What the environment of exactly this process says. Withheld is looked at twice: its process may be ending or changing. */
function lookInto(it: ProcessIdentity, entry: string): 'marked' | 'unmarked' | 'withheld' | 'gone' {
  for (let isSecond = false; ; isSecond = true) {
    let seen: 'marked' | 'unmarked' | 'withheld'
    try {
      seen = hasEntry(readEnviron(it.pid), entry) ? 'marked' : 'unmarked'
    } catch (failure) {
      if (couldNotLook(failure)) throw failure
      if (errno(failure) !== 'EACCES' && errno(failure) !== 'EPERM') return 'gone' // ENOENT, ESRCH: it ended meanwhile
      seen = 'withheld'
    }
    if (!isRunning(it)) return 'gone'
    if (seen !== 'withheld' || isSecond) return seen
  }
}

/**
 * Checks the identity, then signals the pid. Between the two the process could end and its pid be given away; the
 * daemon closes that gap with pidfd.ts, the worker keeps this form since it must not load native code.
 */
function signalChecked(target: ProcessIdentity, signal: NodeJS.Signals): 'sent' | 'gone' | 'denied' {
  if (!isRunning(target)) return 'gone'
  try {
    process.kill(target.pid, signal)
    return 'sent'
  } catch (failure) {
    if (errno(failure) === 'ESRCH') return 'gone'
    if (errno(failure) === 'EPERM') return 'denied'
    throw failure
  }
}

function descendantsOf(root: ProcessIdentity): ProcessIdentity[] {
  const children = new Map<number, { pid: number; stat: Stat }[]>()
  for (const pid of allPids()) {
    const stat = readStat(pid)
    if (stat === undefined) continue
    const siblings = children.get(stat.parent)
    if (siblings === undefined) children.set(stat.parent, [{ pid, stat }])
    else siblings.push({ pid, stat })
  }
  // Looked at last: while it is there, its pid is nobody else's.
  if (identify(root.pid)?.startIdentity !== root.startIdentity) return []
  const found: ProcessIdentity[] = []
  const next = [root.pid]
  for (let parent = next.pop(); parent !== undefined; parent = next.pop()) {
    for (const { pid, stat } of children.get(parent) ?? []) {
      next.push(pid)
      if (isAlive(stat)) found.push({ pid, startIdentity: stat.startIdentity })
    }
    children.delete(parent) // a pid that was given away meanwhile must not make a circle
  }
  return found
}

let boot: string | undefined

export const linuxProcesses: Processes = {
  identify,
  isRunning,
  argv: readArgv,
  cwd: (pid) => attempt(() => readlinkSync(`/proc/${pid}/cwd`)),
  program: readProgram,
  variable(process, name) {
    const value = attempt(() => readEntry(readEnviron(process.pid), name))
    return identify(process.pid)?.startIdentity === process.startIdentity ? value : undefined
  },
  foregroundGroup(pid) {
    const stat = readStat(pid)
    return stat === undefined || stat.foreground <= 0 ? undefined : stat.foreground
  },
  membersOf({ group, session }) {
    if (group === undefined && session === undefined) return []
    return alive(
      (stat) => (group === undefined || stat.group === group) && (session === undefined || stat.session === session),
    )
  },
  descendantsOf,
  findMarked,
  signal: signalChecked,
  bootId: () => (boot ??= readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()),
}
