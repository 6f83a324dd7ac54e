/**
 * Whether a process that tells nothing about itself can have been started below another one. Facts of Linux used:
 *  1. A process's parent is always one of its ancestors: who adopts an orphan is an ancestor of it, or init.
 *  2. A session is joined by being forked in it alone, and the pid that names it is not given away while it lasts. So all
 *     members of a session that a descendant of the root began descend from the root: one older member disproves it.
 *  3. An adopter above a running process stays among the parents of that process.
 */
import type { ProcessIdentity } from '../processes.ts'
import type { Stat } from './proc.ts'

const INIT = 1
/** Longer than any chain of a machine; a chain read while it changes could be a circle. */
const MAX_PARENTS = 256

type Read = (pid: number) => Stat | undefined

/** The process table: `pids` are all there are, `read` answers undefined for what is gone. */
export interface ProcessTable {
  readonly read: Read
  readonly pids: () => readonly number[]
}

/**
 * True only when it is proven that `pid` does not descend from `root`, which leads a session of its own. An orphan that
 * init adopted is not proven to be a stranger. Pure but for the table.
 */
export function isStranger(pid: number, root: ProcessIdentity, table: ProcessTable): boolean {
  const { read } = table
  const earliest = BigInt(root.startIdentity)
  const isOlder = (it: Stat): boolean => BigInt(it.startIdentity) < earliest
  const now = read(root.pid)
  const running = now?.startIdentity === root.startIdentity ? now : undefined
  const above = running === undefined ? undefined : new Set(parents(running, read).map((it) => it.pid))
  const own = read(pid)
  if (own === undefined) return false
  const sessions = new Set<number>()
  for (const it of [{ pid, stat: own }, ...parents(own, read)]) {
    if (it.pid === root.pid || it.pid === INIT) break
    // 1 and 3: an older ancestor of what descends from the root is above the root as well.
    if (isOlder(it.stat)) {
      if (above !== undefined && !above.has(it.pid)) return true
      break
    }
    if (above?.has(it.pid)) break // of one clock tick with the root, so who came first is not known
    if (it.stat.session !== (running?.session ?? root.pid)) sessions.add(it.stat.session)
  }
  if (sessions.size === 0) return false
  // 2: the root's descendants are in its session, or in ones that they began.
  const isForeign = (it: Stat | undefined): boolean => it !== undefined && sessions.has(it.session) && isOlder(it)
  // The leader is the likely one; without it any older member will do.
  return [...sessions].some((it) => isForeign(read(it))) || table.pids().some((it) => isForeign(read(it)))
}

function parents(from: Stat, read: Read): { pid: number; stat: Stat }[] {
  const chain: { pid: number; stat: Stat }[] = []
  for (let pid = from.parent; pid > 0 && chain.length < MAX_PARENTS;) {
    const stat = read(pid)
    if (stat === undefined) break
    chain.push({ pid, stat })
    pid = stat.parent
  }
  return chain
}
