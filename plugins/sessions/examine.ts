/**
 * Finds out what became of a worker: joins its record with the supervisor's job, its socket and its journals. Decides
 * only on proof: a worker is adopted when it is the recorded one, lost when it is proven gone, and otherwise left
 * alone. Nothing is ever killed on a guess.
 */
import { messageOf } from '../../protocol/fault.ts'
import { delay } from '../../kernel/clock.ts'
import { crashPoint } from '../../kernel/crash-points.ts'
import type { ChildExit, InspectSnapshot } from '../../protocol/worker/messages.ts'
import type { ProcessIdentity } from '../../platform/processes.ts'
import type { JobState } from '../../platform/supervisor.ts'
import type { Scope } from '../../kernel/scope.ts'
import { jobOf, type Host } from './host.ts'
import { isOfRecord, journalProblem, readJournals, type Journals, type WorkerJournal } from './journal.ts'
import type { Session } from './session.ts'
import { WorkerLink, WorkerRefusal } from './worker-link.ts'

export type Finding =
  /** The recorded worker answers; the connection is leased and has to be taken or closed. */
  | { found: 'worker'; link: WorkerLink; scope: Scope; snapshot: InspectSnapshot }
  /** The worker is gone; its journal says how the program ended. */
  | { found: 'journal'; journal: WorkerJournal }
  /** The worker is gone without a proof of the runtime's end; `exit` is what it saw of the root process. */
  | { found: 'gone'; exit?: ChildExit }
  | { found: 'incompatible'; reason: 'worker_protocol_incompatible' | 'worker_marker_legacy'; problem: string }
  | { found: 'conflict'; reason: Conflict; problem: string }
  /** Nothing is known for now. */
  | { found: 'unknown'; reason: 'runtime_supervision_unavailable' | 'worker_unavailable'; problem: string }

type Conflict =
  | 'runtime_supervision_ambiguous'
  | 'runtime_identity_mismatch'
  | 'worker_journal_identity_mismatch'
  | 'multiple_worker_candidates'

/** A worker that runs accepts at once; this is for a machine under load. */
const ANSWER_MS = 2_000
const RETRY_MS = 100

/** One look. A worker that does not answer is looked at again until ANSWER_MS is over, because it may just be ending. */
export async function examine(host: Host, session: Session): Promise<Finding> {
  const { clock } = host.kernel
  const until = clock.monotonic() + ANSWER_MS
  for (;;) {
    const finding = await look(host, session)
    const silent = finding.found === 'conflict' && finding.reason === 'runtime_supervision_ambiguous'
    if (!silent || clock.monotonic() >= until) return finding
    await delay(clock, RETRY_MS, host.scope.signal)
  }
}

async function look(host: Host, session: Session): Promise<Finding> {
  let job: JobState
  try {
    job = await host.supervisor.inspect(jobOf(session))
  } catch (failure) {
    return { found: 'unknown', reason: 'runtime_supervision_unavailable', problem: messageOf(failure) }
  }
  if (job.state === 'mismatch') return { found: 'conflict', reason: 'runtime_identity_mismatch', problem: job.reason }
  const recorded = recordedProcess(host, session)
  const journals = readJournals(host.kernel.paths.journals(session.id), session.id)
  // Without a job the process itself is still proof of life.
  const alive =
    job.state === 'running' || (job.state === 'absent' && recorded !== undefined && host.processes.isRunning(recorded))
  if (job.state === 'ended' && recorded !== undefined && host.processes.isRunning(recorded)) {
    return {
      found: 'conflict',
      reason: 'runtime_identity_mismatch',
      problem: 'its job names a process that is gone, the recorded worker runs',
    }
  }
  if (!alive) return fromJournal(session, journals)
  if (job.state === 'running' && recorded !== undefined && !isSame(job.process, recorded)) {
    return {
      found: 'conflict',
      reason: 'runtime_identity_mismatch',
      problem: 'the job is another process than the recorded worker',
    }
  }
  return journalProblem(session.record.worker, journals, host.processes) ?? (await ask(host, session))
}

async function ask(host: Host, session: Session): Promise<Finding> {
  const scope = session.scope.child('worker connection')
  try {
    const link = await WorkerLink.open({
      socketPath: host.kernel.paths.workerSocket(session.id),
      daemonId: host.kernel.daemonId,
      scope,
      requestMs: ANSWER_MS,
    })
    const { snapshot } = await link.request('inspect', { lease_id: link.leaseId })
    crashPoint('adopt.asked')
    const problem = identityProblem(session, snapshot)
    if (problem === undefined) return { found: 'worker', link, scope, snapshot }
    await scope.close()
    return { found: 'conflict', reason: 'runtime_identity_mismatch', problem }
  } catch (failure) {
    await scope.close()
    if (failure instanceof WorkerRefusal && failure.error.code === 'worker_protocol_incompatible')
      return { found: 'incompatible', reason: 'worker_protocol_incompatible', problem: failure.message }
    if (failure instanceof WorkerRefusal)
      return { found: 'unknown', reason: 'worker_unavailable', problem: failure.message }
    // Present but silent: it may still own a live terminal.
    return { found: 'conflict', reason: 'runtime_supervision_ambiguous', problem: messageOf(failure) }
  }
}

function identityProblem(session: Session, snapshot: InspectSnapshot): string | undefined {
  const { worker } = session.record
  if (snapshot.session_id !== session.id) return 'the worker serves another session'
  if (snapshot.worker_id !== worker.worker_id) return 'the worker has another id'
  if (worker.runtime_id !== undefined && snapshot.runtime_id !== worker.runtime_id)
    return 'the worker has another runtime'
  if (
    snapshot.worker_process.pid !== worker.process.pid ||
    snapshot.worker_process.start_identity !== worker.process.start_identity
  ) {
    return 'the worker is another process'
  }
  return undefined
}

function fromJournal(session: Session, journals: Journals): Finding {
  if ('unreadable' in journals) return { found: 'gone' }
  const own = journals.find((it) => it.workerId === session.record.worker.worker_id)
  if (own?.exit === undefined || !isOfRecord(session.record.worker, own)) return { found: 'gone' }
  return own.phase === 'terminal' ? { found: 'journal', journal: own } : { found: 'gone', exit: own.exit }
}

/** The recorded worker process, undefined when its identity belongs to an earlier boot. */
export function recordedProcess(host: Host, session: Session): ProcessIdentity | undefined {
  const { process, boot_id } = session.record.worker
  return boot_id === host.processes.bootId() ? { pid: process.pid, startIdentity: process.start_identity } : undefined
}

export const isSame = (a: ProcessIdentity, b: ProcessIdentity): boolean =>
  a.pid === b.pid && a.startIdentity === b.startIdentity
