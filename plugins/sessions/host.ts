/** What the parts of this plugin share: one object, built in plugin.ts. */
import type { Kernel } from '../../kernel/plugin.ts'
import type { Scope } from '../../kernel/scope.ts'
import type { Log } from '../../kernel/log.ts'
import type { Processes } from '../../platform/processes.ts'
import type { Supervisor, WorkerJob } from '../../platform/supervisor.ts'
import type { ActivityReader, SessionHooks } from './api.ts'
import type { Attachments } from './attach.ts'
import type { Waiters } from './observe.ts'
import type { ProgramSearch } from './program.ts'
import type { Publish, Registry } from './registry.ts'
import type { Session } from './session.ts'
import type { Supply } from './supply.ts'
import type { RuntimeInventoryEntry } from './types.ts'

export interface Host {
  readonly kernel: Kernel
  readonly log: Log
  readonly scope: Scope
  readonly publish: Publish
  readonly registry: Registry
  readonly supervisor: Supervisor
  readonly processes: Processes
  readonly supply: Supply
  readonly attachments: Attachments
  readonly hooks: SessionHooks
  readonly programs: ProgramSearch
  /** Calls that wait, over all sessions. */
  readonly waiters: Waiters
  /** Whether the terminal of a process is in line mode. */
  readonly lineMode: (pid: number) => boolean
  /** Set while a plugin knows what agents do. */
  activity: ActivityReader | undefined
  /** What the last reconciliation found, for session.runtime_inventory. */
  inventory: RuntimeInventoryEntry[]
  /** Transactions a stopping daemon waits for. */
  readonly inFlight: Set<Promise<unknown>>
  /** Ended sessions whose worker still keeps the last output, oldest first. */
  readonly retained: Session[]
}

/** The supervised job of the session's recorded worker. */
export const jobOf = (session: Session): WorkerJob => ({
  sessionId: session.id,
  generation: session.record.worker.generation,
})

/** Runs a transaction that a stopping daemon should see through. */
export function tracked<T>(host: Host, transaction: Promise<T>): Promise<T> {
  host.inFlight.add(transaction)
  const done = (): void => void host.inFlight.delete(transaction)
  transaction.then(done, done)
  return transaction
}
