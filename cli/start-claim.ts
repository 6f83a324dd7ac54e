/** One starter at a time: of many first calls only the one with the claim spawns a daemon, the others wait for it. */
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, statSync, writeSync } from 'node:fs'
import { join } from 'node:path'

// A claim older than any start takes belongs to a starter that was killed.
const STALE_MS = 30_000

/** Takes the claim in the runtime directory; undefined while another process has it. */
export function claimStart(runtime: string): Disposable | undefined {
  const path = join(runtime, 'daemon.starting')
  mkdirSync(runtime, { recursive: true, mode: 0o700 })
  try {
    const fd = openSync(path, 'wx', 0o600)
    writeSync(fd, `${process.pid}\n`)
    closeSync(fd)
    return { [Symbol.dispose]: () => rmSync(path, { force: true }) }
  } catch (failure) {
    if ((failure as NodeJS.ErrnoException).code !== 'EEXIST') throw failure
    if (isStale(path)) rmSync(path, { force: true })
    return undefined
  }
}

function isStale(path: string): boolean {
  try {
    if (Date.now() - statSync(path).mtimeMs > STALE_MS) return true
    const pid = Number(readFileSync(path, 'latin1').trim())
    // Not written yet: its owner is between two system calls.
    return pid > 0 && !exists(pid)
  } catch {
    return false // released meanwhile
  }
}

export function exists(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (failure) {
    return (failure as NodeJS.ErrnoException).code === 'EPERM'
  }
}
