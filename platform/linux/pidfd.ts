/** Signals through a descriptor that pins the process: no other process can get the signal, whatever happens to the pid. */
import { closeSync } from 'node:fs'
import { constants as os } from 'node:os'
import type { ProcessIdentity, Processes } from '../processes.ts'
import { EPERM, ESRCH, native } from './native.ts'

const SYS_PIDFD_SEND_SIGNAL = 424 // both the same on every architecture Node runs on
const SYS_PIDFD_OPEN = 434

/**
 * `processes` with `signal` going through pidfd (Linux 5.3). Loads koffi at the first signal: for the daemon only.
 * Falls back to check-then-kill where the kernel or a sandbox does not offer the calls.
 */
export function withPidfd(processes: Processes): Processes {
  return {
    ...processes,
    signal(target, signal) {
      return signalPinned(processes, target, signal) ?? processes.signal(target, signal)
    },
  }
}

function signalPinned(
  processes: Processes,
  target: ProcessIdentity,
  signal: NodeJS.Signals,
): 'sent' | 'gone' | 'denied' | undefined {
  const { syscall, errno } = native()
  const fd = syscall(SYS_PIDFD_OPEN, target.pid, 0, 0, 0, 0, 0)
  if (fd < 0) return errno() === ESRCH ? 'gone' : undefined
  try {
    // Asked after opening: if the pid is the recorded process now, the descriptor pins exactly it.
    if (!processes.isRunning(target)) return 'gone'
    if (syscall(SYS_PIDFD_SEND_SIGNAL, fd, os.signals[signal], 0, 0, 0, 0) === 0) return 'sent'
    if (errno() === ESRCH) return 'gone'
    return errno() === EPERM ? 'denied' : undefined
  } finally {
    closeSync(fd)
  }
}
