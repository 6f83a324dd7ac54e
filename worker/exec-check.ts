/**
 * What can only be known after the fork: did the program's image replace ours? forkpty tells a failed exec by words on
 * the terminal and exit status 1, and execvp runs what the kernel cannot as a shell script.
 */
import type { Processes } from '../platform/processes.ts'
import { WorkerFailure } from './failure.ts'
import { isBinary } from './launch-check.ts'
import type { Session } from './session.ts'

/** Turns of the event loop the exec may take before it is believed. */
const LOOKS = 2_000
// Written by node-pty's child half (src/unix/pty.cc).
const FAILED = /^(execvp\(3\)|chdir\(2\)) failed\.: ([^\r\n]*)/

/** Resolves once the program runs or has run. Throws `spawn_failed` or `cwd_failed`; the session has ended then. */
export async function confirmExec(
  session: Session,
  it: { processes: Processes; executable: string; cwd: string },
): Promise<void> {
  const ours = it.processes.argv(process.pid)?.join('\0')
  for (let look = 0; look < LOOKS && !session.leaderExited; look++) {
    const argv = it.processes.argv(session.child.pid)
    if (ours === undefined || (argv !== undefined && argv.length > 0 && argv.join('\0') !== ours)) {
      return refuseFallback(session, it.executable, argv ?? [])
    }
    await new Promise((resolve) => setImmediate(resolve))
  }
  if (!session.leaderExited) return
  await session.whenLeaderExited()
  const words = FAILED.exec(session.ring.copy(0, 256).toString('utf8'))
  if (words === null) return
  await session.whenEnded()
  if (session.exit?.code !== 1) return
  if (words[1] === 'chdir(2)') throw new WorkerFailure('cwd_failed', `working directory ${it.cwd}: ${words[2]}`)
  throw new WorkerFailure('spawn_failed', `${it.executable}: ${words[2]}`)
}

async function refuseFallback(session: Session, executable: string, argv: readonly string[]): Promise<void> {
  if (argv[0] !== '/bin/sh' || argv[1] !== executable || !isBinary(executable)) return
  await session.stop(false)
  throw new WorkerFailure('spawn_failed', `${executable}: not a program for this machine`)
}
