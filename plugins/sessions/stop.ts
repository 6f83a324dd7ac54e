/** session.stop: the wish is durable before the program hears of it, and told as done only with its observed end. */
import { ulid } from 'ulid'
import { WORKER_EXIT_TIMEOUT_MS } from '../../protocol/limits.ts'
import { examine, recordedProcess } from './examine.ts'
import { faults } from './faults.ts'
import { jobOf, type Host } from './host.ts'
import { readJournals } from './journal.ts'
import { isOver } from './machine.ts'
import type { Settle } from './adopt.ts'
import { programEnded } from './runtime.ts'
import type { Session } from './session.ts'
import { WorkerRefusal, WorkerUnreachable } from './worker-link.ts'

/** False when the program had already ended. Faults by the state the runtime is in. Run from the command queue. */
export async function stopSession(host: Host, session: Session, settle: Settle): Promise<boolean> {
  if (session.phase === 'ended') return false
  if (session.phase === 'conflict') return stopConflict(host, session, settle)
  session.running()
  await host.registry.commit(session, (it) => ({
    ...it,
    intent: 'stop',
    transaction: { kind: 'stop', id: `t-${ulid()}` },
  }))
  // The program may have ended while the wish was being stored.
  if (!isOver(session.phase)) await sendStop(host, session)
  return true
}

/** Has the worker end its program and takes over the observed end. Also replays a stop a daemon did not see through. */
export async function sendStop(host: Host, session: Session): Promise<void> {
  const link = session.running()
  const id = session.record.transaction?.id ?? `t-${ulid()}`
  host.registry.move(session, 'stop_sent', undefined, undefined)
  const deadlineMs = WORKER_EXIT_TIMEOUT_MS + host.kernel.config.workers.stopGraceMs
  try {
    const { exit } = await link.request(
      'stop',
      { scope: session.scopeOf(link), stop: { transaction_id: id } },
      deadlineMs,
    )
    if (exit !== undefined) programEnded(host, session, exit)
  } catch (failure) {
    if (isOver(session.phase)) return
    if (failure instanceof WorkerUnreachable && failure.how === 'deadline')
      throw faults.session_exit_timeout({ id: session.id, ms: deadlineMs }, failure)
    if (failure instanceof WorkerUnreachable) throw faults.session_runtime_reconnecting({ id: session.id }, failure)
    if (failure instanceof WorkerRefusal)
      throw faults.worker_operation_failed({ id: session.id, problem: failure.message }, failure)
    throw failure
  }
  if (!isOver(session.phase))
    throw faults.worker_operation_failed({ id: session.id, problem: 'the end of the program was not observed' })
}

/** A quarantined worker is stopped only once journal and job prove that it is the recorded one. */
async function stopConflict(host: Host, session: Session, settle: Settle): Promise<boolean> {
  await proveRecorded(host, session)
  await host.supervisor.retire(
    jobOf(session),
    host.kernel.config.workers.stopGraceMs + host.kernel.config.workers.sweepGraceMs,
  )
  await settle(session, await examine(host, session))
  if (session.phase !== 'ended') session.running()
  return true
}

/** Throws unless the journal names the recorded worker and the supervised job is that worker's. Changes nothing. */
export async function proveRecorded(host: Host, session: Session): Promise<void> {
  const { id } = session
  const { worker_id, generation } = session.record.worker
  const journals = readJournals(host.kernel.paths.journals(id), id)
  if ('unreadable' in journals)
    throw faults.runtime_supervision_ambiguous({ id, problem: `its journal cannot be read (${journals.unreadable})` })
  if (!journals.some((it) => it.workerId === worker_id && it.generation === generation)) {
    throw faults.runtime_identity_mismatch({ id, problem: 'no journal names the recorded worker' })
  }
  const job = await host.supervisor.inspect(jobOf(session)).catch((failure: unknown) => {
    throw faults.runtime_supervision_unavailable(
      { id, problem: failure instanceof Error ? failure.message : String(failure) },
      failure,
    )
  })
  const recorded = recordedProcess(host, session)
  if (job.state === 'mismatch') throw faults.runtime_identity_mismatch({ id, problem: job.reason })
  if (
    job.state === 'running' &&
    (recorded === undefined || recorded.pid !== job.process.pid || recorded.startIdentity !== job.process.startIdentity)
  ) {
    throw faults.runtime_identity_mismatch({ id, problem: 'the job is another process' })
  }
}
