/** One daemon per runtime, data and state root: two would answer for the same sessions and write the same logs. */
import { closeSync, constants, ftruncateSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { wayTo } from '../platform/roots.ts'
import { catalogue } from '../protocol/fault.ts'
import type { Paths } from './paths.ts'
import { openPrivate, readPrivate } from './secure-files.ts'

/** A daemon of the same data or state root that serves another runtime root. */
interface Elsewhere {
  readonly socket: string
  /** What makes the caller's environment name its runtime root. */
  readonly way: string
}

export const lockFaults = catalogue({
  daemon_already_running: {
    class: 'daemon',
    say: (d: { path: string; pid: string | undefined; elsewhere: Elsewhere | undefined }) =>
      `another pohunekd${d.pid === undefined ? '' : ` (pid ${d.pid})`} holds ${d.path}` +
      (d.elsewhere === undefined ? '' : ` and answers on ${d.elsewhere.socket}`),
    recover: (d: { elsewhere: Elsewhere | undefined }) =>
      `use it${d.elsewhere === undefined ? '' : ` (${d.elsewhere.way})`}, or stop it first: pohunek daemon stop`,
  },
})

/**
 * Locks the three roots (`daemon.lock` in each) until disposed or until this process ends. The directories exist.
 * Throws Fault daemon_already_running naming the root and the holder; then none is kept.
 */
export async function lockRoots(
  paths: Pick<Paths, 'runtime' | 'data' | 'state' | 'config' | 'daemonSocket'>,
  lockFile: (path: string) => Promise<Disposable | 'held'>,
): Promise<Disposable> {
  const held: Disposable[] = []
  const release = (): void => {
    for (const lock of held.splice(0).reverse()) lock[Symbol.dispose]()
  }
  try {
    // One order for everybody: two daemons that share only some roots cannot each hold what the other wants.
    for (const root of new Set([paths.runtime, paths.data, paths.state])) {
      const path = join(root, 'daemon.lock')
      const lock = await lockFile(path)
      if (lock === 'held') throw lockFaults.daemon_already_running({ path, ...holderOf(path, paths.runtime) })
      held.push(lock)
      writeHolder(path, paths)
    }
  } catch (failure) {
    release()
    throw failure
  }
  return { [Symbol.dispose]: release }
}

/** For people only; the lock itself decides. The first line is the pid, the second what that daemon serves. */
function holderOf(path: string, runtime: string): { pid: string | undefined; elsewhere: Elsewhere | undefined } {
  const [pid = '', facts = ''] = readPrivate(path, MAX_HOLDER_BYTES)?.toString('utf8').split('\n') ?? []
  return { pid: /^\d+$/.test(pid) ? pid : undefined, elsewhere: elsewhereOf(facts, runtime) }
}

/** Five paths of the system's longest kind, quoted. */
const MAX_HOLDER_BYTES = 65_536

function elsewhereOf(facts: string, mine: string): Elsewhere | undefined {
  try {
    const { runtime, socket } = JSON.parse(facts) as { runtime?: unknown; socket?: unknown }
    if (typeof runtime !== 'string' || typeof socket !== 'string' || runtime === mine) return undefined
    return { socket, way: wayTo(runtime) }
  } catch {
    return undefined // an older release, or not written
  }
}

function writeHolder(path: string, paths: Parameters<typeof lockRoots>[0]): void {
  const { runtime, data, state, config, daemonSocket: socket } = paths
  const fd = openPrivate(path, constants.O_WRONLY)
  try {
    ftruncateSync(fd)
    writeSync(fd, `${process.pid}\n${JSON.stringify({ runtime, data, state, config, socket })}\n`)
  } catch {
    // a full disk does not make the lock weaker
  } finally {
    closeSync(fd)
  }
}
