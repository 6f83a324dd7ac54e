/**
 * A mutex between processes without native code: a file that names its holder. For short sections only; a holder that
 * died is recognised by its identity and its file taken away.
 * Invariants
 *  1. The file appears with its content: it is made under another name and linked. So one that names nobody was left by
 *     a crash of the machine, whatever its age; no clock is asked.
 *  2. Only the file that was found abandoned is taken away, never the one of whoever was faster.
 */
import { linkSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import type { ProcessIdentity, Processes } from './processes.ts'
import { removeFile } from './private-files.ts'

/**
 * Looks at one hold, a millisecond or what the machine makes of it apart. A section takes well under one; a holder that
 * is stopped in it must not stop the others for longer.
 */
const MAX_LOOKS = 200
/** The same over all holds of others: a busy lock is had in the end, or gone without. */
const MAX_BUSY_LOOKS = 4 * MAX_LOOKS

const sleeper = new Int32Array(new SharedArrayBuffer(4))

type Facts = Pick<Processes, 'isRunning' | 'bootId'>

/**
 * Answers a function that runs `section` under the mutex of `path`, or without it when it cannot be had: its holder is
 * stopped, or no file can be made.
 */
export function fileMutex(
  path: string,
  { processes, self }: { processes: Facts; self: ProcessIdentity },
): (section: () => void) => void {
  const identity = `${self.pid} ${self.startIdentity} ${processes.bootId()}`
  let holds = 0
  const own = `${path}.${self.pid}`
  /** The hold that one section waited for in vain: the next ones do not. */
  let stuck: string | undefined
  return (section) => {
    const holder = `${identity} ${++holds}`
    let taken = tryTake(path, own, holder)
    let found: string | undefined
    for (let [looks, all] = [0, 0]; taken === 'held' && looks < MAX_LOOKS && all < MAX_BUSY_LOOKS; looks++, all++) {
      const before = found
      found = readHolder(path)
      if (found !== before) looks = 0
      if (found !== undefined && !isAbandoned(found, processes)) {
        if (found === stuck) break
        Atomics.wait(sleeper, 0, 0, 1)
        continue
      }
      if (found !== undefined) takeAway(path, own, found)
      taken = tryTake(path, own, holder)
    }
    stuck = taken === 'held' ? found : undefined
    try {
      section()
    } finally {
      if (taken === 'ours') removeFile(path)
    }
  }
}

function tryTake(path: string, own: string, holder: string): 'ours' | 'held' | 'impossible' {
  try {
    removeFile(own) // of an earlier process with this pid
    writeFileSync(own, holder, { flag: 'wx', mode: 0o600 })
    linkSync(own, path) // 1
    return 'ours'
  } catch (failure) {
    return (failure as NodeJS.ErrnoException).code === 'EEXIST' ? 'held' : 'impossible'
  } finally {
    quietly(() => removeFile(own))
  }
}

function readHolder(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return undefined // given back meanwhile
  }
}

function isAbandoned(holder: string, processes: Facts): boolean {
  const [pid, startIdentity, bootId] = holder.split(' ')
  if (startIdentity === undefined || bootId !== processes.bootId()) return true
  return !processes.isRunning({ pid: Number(pid), startIdentity })
}

/** Of two that found it abandoned, the slower one may get the file the faster one has made since: it is given back (2). */
function takeAway(path: string, own: string, abandoned: string): void {
  quietly(() => {
    renameSync(path, own)
    if (readHolder(own) !== abandoned) linkSync(own, path)
    removeFile(own)
  })
}

/** Runs what another process may have been faster with, or what a full disk refuses: the next round sees what is there. */
function quietly(act: () => void): void {
  try {
    act()
  } catch {
    // the caller looks again
  }
}
