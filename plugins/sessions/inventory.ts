/** What the runtime inventory tells of a known session; workers of none are told by unrecorded.ts. */
import type { Session } from './session.ts'
import type { RuntimeInventoryEntry } from './types.ts'

/** Pure but for what it reads of the session. */
export function inventoryOf(session: Session): RuntimeInventoryEntry {
  const { worker } = session.record
  const reason = session.info.runtime?.loss_reason
  const status =
    session.phase === 'conflict'
      ? reason === 'runtime_identity_mismatch' || reason === 'worker_journal_identity_mismatch'
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
