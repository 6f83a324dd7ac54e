/** What the daemon does with a failure nobody took. */
import { asIncident } from '../kernel/incident.ts'
import type { Log } from '../kernel/log.ts'

interface Failing {
  on(event: 'unhandledRejection' | 'uncaughtException', listener: (failure: unknown) => void): unknown
}

/**
 * A rejection nobody took belongs to one operation: it is logged as an incident and the daemon goes on, because what is
 * kept is kept per session. After an exception nothing is known about what was being changed: `exit` is called, workers
 * and their programs go on, and the next start joins them from what is durable.
 */
export function takeFailures(process: Failing, log: Log, exit: () => void): void {
  process.on('unhandledRejection', (failure) => void asIncident(log, failure, { where: 'unhandled rejection' }))
  process.on('uncaughtException', (failure) => {
    asIncident(log, failure, { where: 'uncaught exception' })
    exit()
  })
}
