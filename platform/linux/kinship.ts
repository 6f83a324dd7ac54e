/**
 * Whether a process that tells nothing about itself can have been started below another one. Facts of Linux used:
 *  1. A process's parent is always one of its ancestors: who adopts an orphan is an ancestor of it, or init.
 *  2. A session is joined by being forked in it alone, and the pid that names it is not given away while it lasts.
 *  3. An adopter above a running process stays among the parents of that process.
 */
import type { ProcessIdentity } from '../processes.ts'
import type { Stat } from './proc.ts'

const INIT = 1
/** Longer than any chain of a machine; a chain read while it changes could be a circle. */
const MAX_PARENTS = 256

type Read = (pid: number) => Stat | undefined

/**
 * True only when it is proven that `pid` does not descend from `root`, which leads a session of its own. An orphan that
 * init adopted is not proven to be a stranger. Pure but for `read`.
 */
export function isStranger(pid: number, root: ProcessIdentity, read: Read): boolean {
  const earliest = BigInt(root.startIdentity)
  const isOlder = (it: Stat): boolean => BigInt(it.startIdentity) < earliest
  const now = read(root.pid)
  const running = now?.startIdentity === root.startIdentity ? now : undefined
  const above = running === undefined ? undefined : new Set(parents(running, read).map((it) => it.pid))
  const own = read(pid)
  if (own === undefined) return false
  for (const it of [{ pid, stat: own }, ...parents(own, read)]) {
    if (it.pid === root.pid || it.pid === INIT) return false
    // 1 and 3: an older ancestor of what descends from the root is above the root as well.
    if (isOlder(it.stat)) return above !== undefined && !above.has(it.pid)
    // 2: the root's descendants are in its session, or in ones that began after it.
    const leader = read(it.stat.session)
    if (leader !== undefined && isOlder(leader) && it.stat.session !== (running?.session ?? root.pid)) return true
  }
  return false
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
