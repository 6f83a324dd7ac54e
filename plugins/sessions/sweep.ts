/**
 * Ends what a gone worker left behind: every process that carries a runtime's marker. What cannot be proven to belong
 * is never signalled, and what cannot be proven gone is named.
 */
import { delay, type Clock } from '../../kernel/clock.ts'
import type { MarkedSweep, ProcessIdentity, Processes } from '../../platform/processes.ts'

export const RUNTIME_MARKER = 'POHUNEK_WORKER_INSTANCE_ID'
/** Between two looks at the process table; one look reads /proc once. */
const LOOK_MS = 50
/** After SIGKILL a process is gone at once unless the kernel holds it. */
const KILL_WAIT_MS = 2_000

export type Unreadable = MarkedSweep['unreadable'][number]
export interface SweepResult {
  /** Marked processes that are still there. */
  readonly surviving: readonly ProcessIdentity[]
  /** Processes whose environment the kernel withholds: they may belong. */
  readonly unreadable: readonly Unreadable[]
}

export interface SweepRequest {
  readonly processes: Processes
  readonly clock: Clock
  readonly signal: AbortSignal
  /** Worker instance ids; all share one grace. */
  readonly runtimeIds: readonly string[]
  /** The oldest process that can belong. */
  readonly since: ProcessIdentity | undefined
  readonly graceMs: number
}

/** SIGTERM, one grace, SIGKILL. Waits for unreadable candidates up to the grace: they may be caught between images. */
export async function sweep(request: SweepRequest): Promise<SweepResult> {
  const { processes, clock, graceMs, signal } = request
  const told = new Set<string>()
  const startMs = clock.monotonic()
  for (;;) {
    const found = look(request)
    if (found.marked.length === 0 && found.unreadable.length === 0) return { surviving: [], unreadable: [] }
    const elapsedMs = clock.monotonic() - startMs
    const killing = found.marked.length > 0 && elapsedMs >= graceMs
    for (const it of found.marked) {
      const key = `${it.pid}:${it.startIdentity}`
      if (killing) processes.signal(it, 'SIGKILL')
      else if (!told.has(key)) processes.signal(it, 'SIGTERM')
      told.add(key)
    }
    if (elapsedMs >= graceMs + (found.marked.length > 0 ? KILL_WAIT_MS : 0)) {
      return { surviving: found.marked, unreadable: found.unreadable }
    }
    await delay(clock, LOOK_MS, signal)
  }
}

function look({ processes, runtimeIds, since }: SweepRequest): MarkedSweep {
  const all: MarkedSweep = { marked: [], unreadable: [] }
  for (const value of runtimeIds) {
    const found = processes.findMarked({ name: RUNTIME_MARKER, value, ...(since === undefined ? {} : { since }) })
    all.marked.push(...found.marked)
    for (const it of found.unreadable) {
      if (!all.unreadable.some((known) => known.pid === it.pid && known.startIdentity === it.startIdentity))
        all.unreadable.push(it)
    }
  }
  return all
}

const CONTROL = /[^\x20-\x7e]/g
/** One candidate for a person: `pid 7 (start 42, sleep)`. */
export const nameProcess = (it: ProcessIdentity & { command?: string }): string =>
  `pid ${it.pid} (start ${it.startIdentity}${it.command === undefined ? '' : `, ${it.command.replace(CONTROL, '?').slice(0, 64)}`})`
