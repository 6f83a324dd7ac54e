/** session.stop: the wish is durable before the program hears of it, and told as done only with its observed end. */
import { ulid } from 'ulid'
import { crashPoint } from '../../kernel/crash-points.ts'
import { Fault, messageOf } from '../../protocol/fault.ts'
import { WORKER_EXIT_TIMEOUT_MS } from '../../protocol/limits.ts'
import { examine, isSame, recordedProcess } from './examine.ts'
import { faults } from './faults.ts'
import { jobOf, type Host } from './host.ts'
import { isOfRecord, readJournals } from './journal.ts'
import { isOver } from './machine.ts'
import { programEnded } from './runtime.ts'
import type { Session } from './session.ts'
import type { Settle } from './settle.ts'
import { newPatience } from './sweep-session.ts'
import { WorkerRefusal, WorkerUnreachable, type WorkerLink } from './worker-link.ts'

/** False when the program had already ended. Faults by the state the runtime is in. Run from the command queue. */
export async function stopSession(host: Host, session: Session, settle: Settle): Promise<boolean> {
  if (hasEnded(session)) return false
  if (session.phase === 'conflict') return stopConflict(host, session, settle)
  session.running()
  crashPoint('stop.before')
  await wish(host, session)
  crashPoint('stop.recorded')
  try {
    // The program may have ended while the wish was being stored.
    if (!isOver(session.phase)) await sendStop(host, session)
  } catch (failure) {
    if (!(failure instanceof Fault && failure.code === 'session_runtime_reconnecting')) throw failure
    // The connection went while the program was being ended: what became of it is found out before this is answered.
    await settle(session, await examine(host, session), newPatience(host))
  }
  crashPoint('stop.after')
  if (!hasEnded(session)) session.running()
  return true
}

const hasEnded = (session: Session): boolean => session.phase === 'ended'

const wish = (host: Host, session: Session): Promise<void> =>
  host.registry.commit(session, (it) => ({ ...it, intent: 'stop', transaction: { kind: 'stop', id: `t-${ulid()}` } }))

/** Has the worker end the program of a running session and takes over the observed end. */
export async function sendStop(host: Host, session: Session): Promise<void> {
  const link = session.running()
  host.registry.move(session, 'stop_sent')
  await askStop(host, session, link)
}

/** The same without a word about the session's phase: also replays a stop that was not seen through. */
export async function askStop(host: Host, session: Session, link: WorkerLink): Promise<void> {
  const { id } = session
  const deadlineMs = WORKER_EXIT_TIMEOUT_MS + host.kernel.config.workers.stopGraceMs
  const stop = { transaction_id: session.record.transaction?.id ?? `t-${ulid()}` }
  try {
    const { exit } = await link.request('stop', { scope: session.scopeOf(link), stop }, deadlineMs)
    crashPoint('stop.answered')
    if (exit !== undefined) programEnded(host, session, exit)
  } catch (failure) {
    if (isOver(session.phase)) return
    if (failure instanceof WorkerUnreachable && failure.how === 'deadline')
      throw faults.session_exit_timeout({ id, ms: deadlineMs }, failure)
    if (failure instanceof WorkerUnreachable) throw faults.session_runtime_reconnecting({ id }, failure)
    if (failure instanceof WorkerRefusal)
      throw faults.worker_operation_failed({ id, problem: failure.message }, failure)
    throw failure
  }
  if (!isOver(session.phase))
    throw faults.worker_operation_failed({ id, problem: 'the end of the program was not observed' })
}

/** A quarantined worker is stopped only once journal and job prove that it is the recorded one. */
async function stopConflict(host: Host, session: Session, settle: Settle): Promise<boolean> {
  const { id } = session
  await proveRecorded(host, session)
  crashPoint('stop.before')
  await wish(host, session)
  crashPoint('stop.recorded')
  const { stopGraceMs, sweepGraceMs } = host.kernel.config.workers
  const outcome = await host.supervisor.retire(jobOf(session), stopGraceMs + sweepGraceMs).catch((failure: unknown) => {
    throw faults.runtime_supervision_unavailable({ id, problem: messageOf(failure) }, failure)
  })
  if (outcome === 'mismatch')
    throw faults.runtime_identity_mismatch({ id, problem: 'its job is not the recorded worker' })
  await settle(session, await examine(host, session), newPatience(host))
  crashPoint('stop.after')
  if (hasEnded(session)) return true
  // The worker had to be killed: its program is gone, without an observed end.
  if (session.phase === 'lost' && session.info.runtime?.loss_reason === 'runtime_lost') return true
  if (session.phase === 'lost')
    throw faults.runtime_supervision_ambiguous({ id, problem: 'what its program left could not be proven gone' })
  session.running()
  return true
}

/**
 * Throws unless the journal names the recorded worker and the supervised job is that worker's. Changes nothing.
 * Faults: runtime_identity_mismatch, runtime_supervision_ambiguous, runtime_supervision_unavailable.
 */
export async function proveRecorded(host: Host, session: Session): Promise<void> {
  const { id } = session
  const journals = readJournals(host.kernel.paths.journals(id), id)
  if ('unreadable' in journals)
    throw faults.runtime_supervision_ambiguous({ id, problem: `its journal cannot be read (${journals.unreadable})` })
  if (!journals.some((it) => isOfRecord(session.record.worker, it))) {
    throw faults.runtime_identity_mismatch({ id, problem: 'no journal names the recorded worker' })
  }
  const job = await host.supervisor.inspect(jobOf(session)).catch((failure: unknown) => {
    throw faults.runtime_supervision_unavailable({ id, problem: messageOf(failure) }, failure)
  })
  const recorded = recordedProcess(host, session)
  switch (job.state) {
    case 'mismatch':
      throw faults.runtime_identity_mismatch({ id, problem: job.reason })
    case 'absent':
      throw faults.runtime_supervision_ambiguous({ id, problem: 'no job of its worker is supervised' })
    case 'running':
      if (recorded === undefined || !isSame(recorded, job.process))
        throw faults.runtime_identity_mismatch({ id, problem: 'the job is another process' })
      return
    case 'ended':
      return
  }
}
