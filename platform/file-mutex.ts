/**
 * A mutex between processes without native code: a file made with O_EXCL that names its holder. For short sections
 * only; a holder that died is recognised by its identity and its file taken away.
 */
import { closeSync, constants, openSync, readFileSync, renameSync, statSync, writeSync } from 'node:fs'
import type { ProcessIdentity, Processes } from './processes.ts'
import { removeFile } from './private-files.ts'

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants
/** A section takes well under a millisecond. A holder stopped in it must not stop the others for longer than this. */
const MAX_WAIT_MS = 200
/** Making and filling are two system calls; an empty file older than this has no living maker. */
const MAX_EMPTY_MS = 1_000

const sleeper = new Int32Array(new SharedArrayBuffer(4))

/** Answers a function that runs `section` under the mutex of `path`, or without it once `MAX_WAIT_MS` passed. */
export function fileMutex(
  path: string,
  { processes, self }: { processes: Pick<Processes, 'isRunning'>; self: ProcessIdentity },
): (section: () => void) => void {
  return (section) => {
    let held = tryTake(path, self)
    for (let waitedMs = 0; !held && waitedMs < MAX_WAIT_MS; waitedMs++) {
      if (isAbandoned(path, processes)) takeAway(path, self)
      else Atomics.wait(sleeper, 0, 0, 1)
      held = tryTake(path, self)
    }
    try {
      section()
    } finally {
      if (held) removeFile(path)
    }
  }
}

function tryTake(path: string, self: ProcessIdentity): boolean {
  try {
    const fd = openSync(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
    try {
      writeSync(fd, `${self.pid} ${self.startIdentity}`)
    } finally {
      closeSync(fd)
    }
    return true
  } catch {
    return false // held, or the disk is full: the section runs unlocked in the end
  }
}

function isAbandoned(path: string, processes: Pick<Processes, 'isRunning'>): boolean {
  try {
    const [pid, startIdentity] = readFileSync(path, 'latin1').split(' ')
    // Empty: its holder is between making and filling it, or died there.
    if (!pid || startIdentity === undefined) return Date.now() - statSync(path).mtimeMs > MAX_EMPTY_MS
    return !processes.isRunning({ pid: Number(pid), startIdentity })
  } catch {
    return false // given back meanwhile
  }
}

/** Renamed to a name of our own first: of two that found it abandoned, one gets it and the other gets ENOENT. */
function takeAway(path: string, self: ProcessIdentity): void {
  const aside = `${path}.${self.pid}`
  try {
    renameSync(path, aside)
    removeFile(aside)
  } catch {
    // another one was faster
  }
}
