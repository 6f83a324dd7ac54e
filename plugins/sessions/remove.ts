/**
 * session.remove: ends what lives, proves it gone, then deletes files and record. The wish is durable before the first
 * effect, so a removal that was interrupted or refused half way is finished by the next one or the next start.
 */
import { ulid } from 'ulid'
import { Fault } from '../../protocol/fault.ts'
import { recordedProcess, sweepSession } from './examine.ts'
import { faults } from './faults.ts'
import { jobOf, type Host } from './host.ts'
import { readJournals } from './journal.ts'
import { isOver } from './machine.ts'
import { purgeFiles } from './purge.ts'
import { message } from './registry.ts'
import type { Session } from './session.ts'
import { proveRecorded, sendStop } from './stop.ts'
import { nameProcess, type Unreadable } from './sweep.ts'

const MAX_ACCEPTED = 64

export interface Removal {
  readonly stopped: boolean
  /** Processes whose environment cannot be read and whose end is therefore not confirmed. */
  readonly accepted: readonly Unreadable[]
}

/** Run from the command queue. `accept`: go past processes whose environment cannot be read. */
export async function removeSession(host: Host, session: Session, accept: boolean): Promise<Removal> {
  if (session.removed) throw faults.session_not_found({ id: session.id })
  await proveConflict(host, session)
  await host.registry.commit(session, (it) => ({
    ...it,
    intent: 'remove',
    transaction: { kind: 'remove', id: `t-${ulid()}` },
  }))
  return finishRemoval(host, session, accept)
}

/** The effects of a removal whose wish is durable; repeatable. Emits session_removed. */
export async function finishRemoval(host: Host, session: Session, accept: boolean): Promise<Removal> {
  const result = await tearDown(host, session, accept)
  await host.registry.forget(session)
  await host.registry.evict(session)
  host.attachments.sessionGone(session)
  return result
}

/** Everything but the record: program, worker, job, marked processes, files. Throws what keeps the session listed. */
export async function tearDown(host: Host, session: Session, accept: boolean): Promise<Removal> {
  await proveConflict(host, session)
  const stopped = !isOver(session.phase)
  if (session.phase === 'running' || session.phase === 'stopping') await endOrderly(host, session)
  await retireJob(host, session)
  proveWorkersGone(host, session)
  const swept = await sweepSession(host, session)
  const { id } = session
  if (swept.surviving.length > 0) {
    throw faults.runtime_supervision_ambiguous({
      id,
      problem: 'processes of the session do not end',
      processes: swept.surviving.map(nameProcess),
    })
  }
  if (swept.unreadable.length > 0 && (!accept || swept.unreadable.length > MAX_ACCEPTED)) {
    throw faults.runtime_supervision_ambiguous({
      id,
      problem: 'processes whose environment cannot be read may belong to the session',
      processes: swept.unreadable.map(nameProcess),
    })
  }
  const at = host.retained.indexOf(session)
  if (at >= 0) host.retained.splice(at, 1)
  await purgeFiles(host.kernel.paths, id)
  return { stopped, accepted: swept.unreadable }
}

/** A conflict for another reason than silence needs proof before anything is stopped. */
async function proveConflict(host: Host, session: Session): Promise<void> {
  if (session.phase === 'conflict' && session.info.runtime?.loss_reason !== 'runtime_supervision_ambiguous')
    await proveRecorded(host, session)
}

/** The worker's own stop is kinder to the program; what it cannot do, the retirement does. */
async function endOrderly(host: Host, session: Session): Promise<void> {
  try {
    await sendStop(host, session)
  } catch (failure) {
    if (!(failure instanceof Fault)) throw failure
    host.log.warn({ session_id: session.id, code: failure.code }, 'removal goes on without an orderly stop')
  }
}

async function retireJob(host: Host, session: Session): Promise<void> {
  const { id } = session
  const { stopGraceMs, sweepGraceMs } = host.kernel.config.workers
  await session.disconnect()
  let outcome: 'retired' | 'absent' | 'mismatch'
  try {
    outcome = await host.supervisor.retire(jobOf(session), stopGraceMs + sweepGraceMs)
  } catch (failure) {
    throw faults.runtime_supervision_unavailable({ id, problem: message(failure) }, failure)
  }
  if (outcome === 'mismatch')
    throw faults.runtime_identity_mismatch({ id, problem: 'its job is not the recorded worker' })
  if (outcome === 'absent') {
    const recorded = recordedProcess(host, session)
    if (recorded !== undefined && host.processes.isRunning(recorded)) {
      throw faults.runtime_supervision_ambiguous({
        id,
        problem: 'its worker runs without a job',
        processes: [nameProcess(recorded)],
      })
    }
  }
}

function proveWorkersGone(host: Host, session: Session): void {
  const { id } = session
  const journals = readJournals(host.kernel.paths.journals(id), id)
  if ('unreadable' in journals)
    throw faults.runtime_supervision_ambiguous({ id, problem: `its journal cannot be read (${journals.unreadable})` })
  const running = journals.filter((it) => host.processes.isRunning(it.worker))
  if (running.length === 0) return
  const processes = running.map((it) => nameProcess(it.worker))
  if (running.some((it) => it.generation !== session.record.worker.generation)) {
    throw faults.runtime_identity_mismatch({
      id,
      problem: `a worker of another generation still runs (${processes.join(', ')})`,
    })
  }
  throw faults.runtime_supervision_ambiguous({ id, problem: 'a worker it recorded still runs', processes })
}
