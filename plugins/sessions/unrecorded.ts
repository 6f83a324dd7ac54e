/**
 * Workers and files no record names: what a daemon left that died between two steps. What is proven to run nothing, or
 * to be gone, is cleaned up; everything else is shown in the inventory and left alone.
 */
import { messageOf } from '../../protocol/fault.ts'
import { dirname } from 'node:path'
import { crashPoint } from '../../kernel/crash-points.ts'
import { pollUntil } from '../../platform/timing.ts'
import type { JobState, WorkerJob } from '../../platform/supervisor.ts'
import { ISSUED_SESSION_ID } from '../../protocol/session-id.ts'
import { sessionOfLog } from '../../protocol/worker/files.ts'
import { isSame } from './examine.ts'
import type { Host } from './host.ts'
import { readJournals, withRunningWorker, type WorkerJournal } from './journal.ts'
import { namesIn, purgeFiles } from './purge.ts'

/** A spare of the daemon before this one ends when its connection closes; it needs a moment. */
const SPARE_LEAVES_MS = 1_000

/** Ends and forgets a job that is proven to hold no program; lists any other. */
export async function examineUnrecorded(host: Host, job: WorkerJob, first: JobState): Promise<void> {
  let status = first
  try {
    status = await whenLeft(host, job, first)
    if (status.state === 'absent') return
    const idle = status.state === 'running' && runsNothing(host, job, status)
    if (idle || (status.state === 'ended' && workersGone(host, job))) {
      if ((await host.supervisor.retire(job, SPARE_LEAVES_MS)) !== 'mismatch') {
        crashPoint('unrecorded.retired')
        if (!isKnown(host, job.sessionId)) await purgeFiles(host.kernel.paths, job.sessionId)
        return
      }
    }
  } catch (failure) {
    if (host.scope.closed) return
    host.log.warn({ session_id: job.sessionId, problem: messageOf(failure) }, 'an unrecorded worker cannot be judged')
  }
  const reason = status.state === 'mismatch' ? status.reason : 'stale_worker_generation'
  host.log.warn({ session_id: job.sessionId, generation: job.generation, reason }, 'a worker no record manages')
  host.inventory.push({
    runtime_slot: `${job.sessionId}.${job.generation}`,
    claimed_session_id: job.sessionId,
    status: status.state === 'mismatch' ? 'identity_mismatch' : 'orphaned',
    reason,
  })
}

/** The state of the job once it ended or is known to run nothing, or after the time a spare takes to leave. */
async function whenLeft(host: Host, job: WorkerJob, first: JobState): Promise<JobState> {
  let status = first
  const isDecided = (): boolean => status.state !== 'running' || runsNothing(host, job, status)
  const look = async (): Promise<boolean> => {
    if (!isDecided()) status = await host.supervisor.inspect(job)
    return isDecided()
  }
  await pollUntil(host.kernel.clock, SPARE_LEAVES_MS, look, host.scope.signal)
  return status
}

/** A program is started only after its session was recorded, and the worker's journal tells it first. */
function runsNothing(host: Host, job: WorkerJob, { process }: Extract<JobState, { state: 'running' }>): boolean {
  if (isKnown(host, job.sessionId)) return false
  const journals = readJournals(host.kernel.paths.journals(job.sessionId), job.sessionId)
  return !('unreadable' in journals) && journals.every(isIdle) && journals.some((it) => isSame(it.worker, process))
}

const isIdle = ({ phase }: WorkerJournal): boolean => phase === 'bootstrap' || phase === 'never_initialized'

/** No worker that a journal names for this job runs any more. */
function workersGone(host: Host, job: WorkerJob): boolean {
  const journals = readJournals(host.kernel.paths.journals(job.sessionId), job.sessionId)
  if ('unreadable' in journals) return false
  return !withRunningWorker(journals, host.processes).some((it) => it.generation === job.generation)
}

/** A record that could not be read may be of any session: while there is one, no file is without an owner. */
const isKnown = (host: Host, sessionId: string): boolean =>
  host.registry.find(sessionId) !== undefined || host.kernel.tables.quarantined.length > 0

/** Deletes files of workers that never ran anything and have neither record nor job. */
export async function purgeUnrecorded(host: Host, withJob: ReadonlySet<string>): Promise<void> {
  const { paths } = host.kernel
  const sample = `s-${'0'.repeat(26)}`
  const directories = [dirname(paths.workerSocket(sample)), paths.journals(sample), paths.sessionTmp(sample)].map(
    dirname,
  )
  let names: string[]
  try {
    names = (await Promise.all([...directories, paths.logs].map(namesIn))).flat()
  } catch (failure) {
    host.log.warn({ problem: messageOf(failure) }, 'files without an owner cannot be looked for')
    return
  }
  const ids = new Set(names.map((it) => sessionOfLog(it) ?? it).filter((it) => ISSUED_SESSION_ID.test(it)))
  for (const id of ids) {
    if (withJob.has(id) || isKnown(host, id)) continue
    const journals = readJournals(paths.journals(id), id)
    if ('unreadable' in journals || !journals.every(isIdle)) continue
    if (withRunningWorker(journals, host.processes).length > 0) continue
    host.log.info({ session_id: id }, 'files of a worker that ran nothing are removed')
    await purgeFiles(paths, id).catch((failure: unknown) =>
      host.log.warn({ session_id: id, problem: messageOf(failure) }, 'files without an owner stay'),
    )
  }
}
