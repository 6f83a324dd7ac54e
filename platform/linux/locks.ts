import { closeSync, constants, fstatSync, openSync, statSync } from 'node:fs'
import { asOwned } from '../private-files.ts'
import { attempt } from './proc.ts'
import { EAGAIN, EINTR, native } from './native.ts'

const LOCK_EX = 2
const LOCK_NB = 4

/**
 * Takes the lock of `path` (created 0600 when missing) until it is disposed or this process ends; the file stays.
 * 'held' when another open file holds it. Throws Fault path_not_private for a symlink, another owner or loose bits.
 */
export async function lockFile(path: string): Promise<Disposable | 'held'> {
  for (;;) {
    const fd = asOwned(path, () => openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600))
    const taken = tryLock(path, fd)
    if (taken === 'held' || taken === 'replaced') closeSync(fd)
    if (taken === 'held') return 'held'
    if (taken === 'taken') return { [Symbol.dispose]: closeOnce(fd) }
  }
}

/** Closing the only descriptor of an open file gives its lock back. */
function closeOnce(fd: number): () => void {
  let open = true
  return () => {
    if (open) closeSync(fd)
    open = false
  }
}

function tryLock(path: string, fd: number): 'taken' | 'held' | 'replaced' {
  const { flock, errno } = native()
  while (flock(fd, LOCK_EX | LOCK_NB) !== 0) {
    if (errno() === EAGAIN) return 'held'
    if (errno() !== EINTR) throw new Error(`flock ${path}: errno ${errno()}`)
  }
  // A file unlinked or replaced between open and lock guards nothing: whoever comes next locks another one.
  const mine = fstatSync(fd)
  const now = attempt(() => statSync(path))
  return now?.ino === mine.ino && now.dev === mine.dev ? 'taken' : 'replaced'
}
