/** Which runtimes of a session are swept, and on what proof. */
import { ofBoot, readJournals } from './journal.ts'
import { recordedProcess } from './examine.ts'
import type { Host } from './host.ts'
import type { Session } from './session.ts'
import { Patience, sweep, type SweepResult, type SweepTarget } from './sweep.ts'

/** One for each operation: a start of the daemon, a look in the background, a removal, a stop. */
export const newPatience = (host: Host): Patience =>
  new Patience(host.kernel.clock, host.kernel.config.workers.sweepGraceMs)

/** Ends the processes of this session's runtimes: those its journals prove, and the recorded one. */
export function sweepSession(host: Host, session: Session, patience: Patience): Promise<SweepResult> {
  const { processes, kernel, scope } = host
  return sweep({
    processes,
    clock: kernel.clock,
    signal: scope.signal,
    targets: sweepTargets(host, session),
    graceMs: kernel.config.workers.sweepGraceMs,
    patience,
  })
}

/** A runtime of another boot has no process left. One that no journal names needs the session's marker as well. */
function sweepTargets(host: Host, session: Session): SweepTarget[] {
  const journals = readJournals(host.kernel.paths.journals(session.id), session.id)
  const bootId = host.processes.bootId()
  const targets = new Map<string, SweepTarget>()
  if (!('unreadable' in journals)) {
    for (const it of journals) {
      if (it.runtimeId === undefined || !ofBoot(it, bootId)) continue
      targets.set(it.runtimeId, { runtimeId: it.runtimeId, since: it.worker })
    }
  }
  const runtimeId = session.record.worker.runtime_id
  const since = recordedProcess(host, session)
  if (runtimeId !== undefined && since !== undefined && !targets.has(runtimeId))
    targets.set(runtimeId, { runtimeId, since, onlyOf: session.id })
  return [...targets.values()]
}
