/** One daemon per runtime, data and state root: two would answer for the same sessions and write the same logs. */
import { closeSync, constants, ftruncateSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { catalogue } from '../protocol/fault.ts'
import type { Paths } from './paths.ts'
import { openPrivate, readPrivate } from './secure-files.ts'

export const lockFaults = catalogue({
  daemon_already_running: {
    class: 'daemon',
    say: (d: { path: string; pid: string | undefined }) =>
      `another pohunekd${d.pid === undefined ? '' : ` (pid ${d.pid})`} holds ${d.path}`,
    recover: 'use it, or stop it first: pohunek daemon stop',
  },
})

/**
 * Locks the three roots (`daemon.lock` in each) until disposed or until this process ends. The directories exist.
 * Throws Fault daemon_already_running naming the root and the holder; then none is kept.
 */
export async function lockRoots(
  paths: Pick<Paths, 'runtime' | 'data' | 'state'>,
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
      if (lock === 'held') throw lockFaults.daemon_already_running({ path, pid: holderOf(path) })
      held.push(lock)
      writeHolder(path)
    }
  } catch (failure) {
    release()
    throw failure
  }
  return { [Symbol.dispose]: release }
}

/** For people only; the lock itself decides. */
function holderOf(path: string): string | undefined {
  const text = readPrivate(path, 4_096)?.toString('latin1').trim()
  return text !== undefined && /^\d+$/.test(text) ? text : undefined
}

function writeHolder(path: string): void {
  const fd = openPrivate(path, constants.O_WRONLY)
  try {
    ftruncateSync(fd)
    writeSync(fd, `${process.pid}\n`)
  } catch {
    // a full disk does not make the lock weaker
  } finally {
    closeSync(fd)
  }
}
