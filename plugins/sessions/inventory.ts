/** What the runtime inventory tells: the workers of known sessions, and those that belong to none. */
import { delay } from '../../kernel/clock.ts'
import type { JobState, WorkerJob } from '../../platform/supervisor.ts'
import type { Host } from './host.ts'
import { readJournals } from './journal.ts'
import { purgeFiles } from './purge.ts'
import type { Session } from './session.ts'
import type { RuntimeInventoryEntry } from './types.ts'

/** A spare of the daemon before this one ends when its connection closes; it needs a moment. */
const SPARE_LEAVES_MS = 1_000

/** A worker no record manages: what is left of an ended one is cleaned up, a living one is shown and left alone. */
export async function examineUnrecorded(host: Host, job: WorkerJob, first: JobState): Promise<void> {
  const { supervisor, kernel, inventory, log } = host
  let status = first
  if (status.state === 'running' && runsNothing(host, job)) {
    // Ours, unrecorded and without a program: a spare that was starting when its daemon died waits for nobody.
    await supervisor.retire(job, SPARE_LEAVES_MS)
    return purgeFiles(kernel.paths, job.sessionId)
  }
  const until = kernel.clock.monotonic() + SPARE_LEAVES_MS
  while (status.state === 'running' && kernel.clock.monotonic() < until) {
    await delay(kernel.clock, 20, host.scope.signal)
    status = await supervisor.inspect(job)
  }
  if (status.state === 'ended') {
    await supervisor.retire(job, 0)
    if (host.registry.find(job.sessionId) === undefined) await purgeFiles(kernel.paths, job.sessionId)
    return
  }
  if (status.state === 'absent') return
  const stale = host.registry.find(job.sessionId) !== undefined
  log.warn({ session_id: job.sessionId, generation: job.generation }, 'a worker no record manages')
  inventory.push({
    runtime_slot: `${job.sessionId}.${job.generation}`,
    claimed_session_id: job.sessionId,
    status: status.state === 'mismatch' ? 'identity_mismatch' : 'orphaned',
    reason:
      status.state === 'mismatch' ? status.reason : stale ? 'stale_worker_generation' : 'worker_without_session_record',
  })
}

/** A program is started only after its session was recorded, and the journal tells it first. */
function runsNothing(host: Host, job: WorkerJob): boolean {
  if (host.registry.find(job.sessionId) !== undefined) return false
  const journals = readJournals(host.kernel.paths.journals(job.sessionId), job.sessionId)
  return (
    !('unreadable' in journals) && journals.every(({ phase }) => phase === 'bootstrap' || phase === 'never_initialized')
  )
}

/** Pure but for what it reads of the session. */
export function inventoryOf(session: Session): RuntimeInventoryEntry {
  const { worker } = session.record
  const reason = session.info.runtime?.loss_reason
  const status =
    session.phase === 'conflict'
      ? reason === 'runtime_identity_mismatch'
        ? 'identity_mismatch'
        : 'conflict'
      : session.phase === 'incompatible'
        ? 'incompatible'
        : 'managed'
  return {
    runtime_slot: `${session.id}.${worker.generation}`,
    claimed_session_id: session.id,
    worker_id: worker.worker_id,
    ...(worker.runtime_id === undefined ? {} : { worker_instance_id: worker.runtime_id }),
    status,
    ...(reason === undefined ? {} : { reason }),
  }
}
