/**
 * One starter at a time: of many first calls only the one with the claim spawns a daemon, the others wait for it. The
 * claim only saves work, since the daemon's lock decides: where it cannot be kept, the start goes on without one.
 */
import { closeSync, lstatSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { makeDirectories } from '../platform/directories.ts'

// A claim older than any start takes belongs to a starter that was killed.
const STALE_MS = 30_000
// Between its making and its first byte a claim names nobody; one that stays so is nobody's.
const UNWRITTEN_MS = 1_000

const WITHOUT: Disposable = { [Symbol.dispose]: () => undefined }

/** Takes the claim in the runtime directory; undefined while another process has it. */
export function claimStart(runtime: string): Disposable | undefined {
  const path = join(runtime, 'daemon.starting')
  makeDirectories(runtime)
  let fd: number
  try {
    fd = openSync(path, 'wx', 0o600)
  } catch (failure) {
    if ((failure as NodeJS.ErrnoException).code !== 'EEXIST') throw failure
    return isStale(path) && !removed(path) ? WITHOUT : undefined
  }
  try {
    writeSync(fd, `${process.pid}\n`)
  } catch {
    removed(path) // a full disk
    return WITHOUT
  } finally {
    closeSync(fd)
  }
  return { [Symbol.dispose]: () => void removed(path) }
}

/** False where something is there that cannot be removed, such as a directory. */
function removed(path: string): boolean {
  try {
    rmSync(path, { force: true })
    return true
  } catch {
    return false
  }
}

function isStale(path: string): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (found === undefined) return false // released meanwhile
  if (!found.isFile()) return true
  // A clock that was set since must not keep it for hours: the further away in time, the more stale, either way.
  const ageMs = Math.abs(Date.now() - found.mtimeMs)
  const pid = ownerOf(path)
  return ageMs > STALE_MS || (pid === undefined ? ageMs > UNWRITTEN_MS : !exists(pid))
}

function ownerOf(path: string): number | undefined {
  try {
    const pid = Number(readFileSync(path, 'latin1').trim())
    return Number.isSafeInteger(pid) && pid > 0 ? pid : undefined
  } catch {
    return undefined
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
