/**
 * session.remove: ends what lives, proves it gone, then deletes files and record. The wish is durable before the first
 * effect, so a removal that was interrupted or refused half way is finished by the next one or the next start.
 */
import { ulid } from 'ulid'
import { crashPoint } from '../../kernel/crash-points.ts'
import { pollUntil } from '../../platform/timing.ts'
import { Fault, messageOf } from '../../protocol/fault.ts'
import type { Leaving, Rescued } from './api.ts'
import { faultOf } from '../../kernel/hooks.ts'
import { recordedProcess } from './examine.ts'
import { faults } from './faults.ts'
import { jobOf, type Host } from './host.ts'
import { readJournals, withRunningWorker } from './journal.ts'
import { isOver } from './machine.ts'
import { purgeFiles } from './purge.ts'
import { forgetRetained, letGo } from './runtime.ts'
import type { Session } from './session.ts'
import { askStop, proveRecorded, sendStop } from './stop.ts'
import { newPatience, sweepSession } from './sweep-session.ts'
import { nameProcess, type Patience, type SweepResult, type Unreadable } from './sweep.ts'

const MAX_ACCEPTED = 64

export interface Removal {
  readonly stopped: boolean
  readonly worktreesRemoved: number
  readonly worktreesFailed: number
  readonly rescued: readonly Rescued[]
  /** Processes whose environment cannot be read and whose end is therefore not confirmed. */
  readonly accepted: readonly Unreadable[]
}

export interface RemovalTerms {
  /** Go past processes whose environment cannot be read; never stored. */
  readonly accept: boolean
  readonly patience: Patience
}

/** Run from the command queue. */
export async function removeSession(host: Host, session: Session, accept: boolean): Promise<Removal> {
  if (session.removed) throw faults.session_not_found({ id: session.id })
  await proveConflict(host, session)
  crashPoint('remove.before')
  await host.registry.commit(session, (it) => ({
    ...it,
    intent: 'remove',
    transaction: { kind: 'remove', id: `t-${ulid()}` },
  }))
  crashPoint('remove.recorded')
  return finishRemoval(host, session, { accept, patience: newPatience(host) })
}

/** The effects of a removal whose wish is durable, or of a creation that is undone; repeatable. Emits session_removed. */
export async function finishRemoval(host: Host, session: Session, terms: RemovalTerms): Promise<Removal> {
  const result = await tearDown(host, session, terms)
  await host.registry.forget(session)
  crashPoint('remove.forgotten')
  await host.registry.evict(session)
  host.attachments.sessionGone(session)
  return result
}

/** Everything but the record: program, worker, job, marked processes, files. Throws what keeps the session listed. */
async function tearDown(host: Host, session: Session, { accept, patience }: RemovalTerms): Promise<Removal> {
  await proveConflict(host, session)
  const stopped = !isOver(session.phase)
  await endOrderly(host, session)
  crashPoint('teardown.stopped')
  // A lost runtime has ended and its job was retired with it: another job of that name is none of ours.
  if (session.phase !== 'lost') await retireJob(host, session)
  crashPoint('teardown.retired')
  await proveWorkersGone(host, session)
  const swept = await sweepSession(host, session, patience)
  crashPoint('teardown.swept')
  requireClean(session, swept, accept)
  for (const it of swept.unreadable) {
    host.log.warn(
      { session_id: session.id, pid: it.pid, start_identity: it.startIdentity, command: it.command },
      'removed although this process may belong to the session',
    )
  }
  forgetRetained(host, session)
  const leaving = await takeLeave(host, session)
  crashPoint('teardown.left')
  await purgeFiles(host.kernel.paths, session.id)
  crashPoint('purge.after')
  return { stopped, accepted: swept.unreadable, ...leaving }
}

/** Other plugins take away what they made for the session; it stays listed when one of them cannot. */
async function takeLeave(
  host: Host,
  session: Session,
): Promise<Pick<Removal, 'worktreesRemoved' | 'worktreesFailed' | 'rescued'>> {
  const leaving: Leaving = {
    session: session.info,
    why: session.record.transaction?.kind === 'create' ? 'undo' : 'remove',
    worktreesRemoved: 0,
    worktreesFailed: 0,
    rescued: [],
  }
  await host.hooks.leaving.promise(leaving).catch((failure: unknown) => {
    throw faultOf(failure)
  })
  const { worktreesRemoved, worktreesFailed, rescued } = leaving
  return { worktreesRemoved, worktreesFailed, rescued }
}

/** Only processes that cannot be read can be accepted, and only they are listed: nothing else is the operator's to judge. */
function requireClean({ id }: Session, { surviving, unattributed, unreadable }: SweepResult, accept: boolean): void {
  if (surviving.length > 0)
    throw faults.runtime_supervision_ambiguous({ id, problem: 'processes of the session do not end' })
  if (unattributed.length > 0) {
    const problem = 'a process carries the marker of its runtime, which no journal proves, and names no session'
    throw faults.runtime_supervision_ambiguous({ id, problem })
  }
  if (unreadable.length > (accept ? MAX_ACCEPTED : 0)) {
    throw faults.runtime_supervision_ambiguous({
      id,
      problem: 'processes whose environment cannot be read may belong to the session',
      processes: unreadable.map(nameProcess),
    })
  }
}

/** A conflict for another reason than silence needs proof before anything is stopped. */
async function proveConflict(host: Host, session: Session): Promise<void> {
  if (session.phase === 'conflict' && session.info.runtime?.loss_reason !== 'runtime_supervision_ambiguous')
    await proveRecorded(host, session)
}

/** The worker's own stop is kinder to the program; what it cannot do, the retirement does. */
async function endOrderly(host: Host, session: Session): Promise<void> {
  const { link, phase } = session
  if (link?.alive !== true || (phase !== 'running' && phase !== 'stopping' && phase !== 'unreachable')) return
  try {
    await (phase === 'unreachable' ? askStop(host, session, link) : sendStop(host, session))
  } catch (failure) {
    if (!(failure instanceof Fault)) throw failure
    host.log.warn({ session_id: session.id, code: failure.code }, 'removal goes on without an orderly stop')
  }
}

async function retireJob(host: Host, session: Session): Promise<void> {
  const { id } = session
  const { stopGraceMs, sweepGraceMs } = host.kernel.config.workers
  await letGo(session)
  await session.disconnect()
  let outcome: 'retired' | 'absent' | 'mismatch'
  try {
    outcome = await host.supervisor.retire(jobOf(session), stopGraceMs + sweepGraceMs)
  } catch (failure) {
    throw faults.runtime_supervision_unavailable({ id, problem: messageOf(failure) }, failure)
  }
  if (outcome === 'mismatch')
    throw faults.runtime_identity_mismatch({ id, problem: 'its job is not the recorded worker' })
  if (outcome === 'absent' && !(await hasLeft(host, session)))
    throw faults.runtime_supervision_ambiguous({ id, problem: 'its worker runs without a job' })
}

const LEAVES_MS = 1_000

async function hasLeft(host: Host, session: Session): Promise<boolean> {
  const recorded = recordedProcess(host, session)
  if (recorded === undefined) return true
  return await pollUntil(host.kernel.clock, LEAVES_MS, () => !host.processes.isRunning(recorded), host.scope.signal)
}

async function proveWorkersGone(host: Host, session: Session): Promise<void> {
  const { id } = session
  const journals = readJournals(host.kernel.paths.journals(id), id)
  if ('unreadable' in journals) {
    const problem = `its journal cannot be read (${journals.unreadable}); move the file away once no process of the session runs`
    throw faults.runtime_supervision_ambiguous({ id, problem })
  }
  const running = (): typeof journals => withRunningWorker(journals, host.processes)
  if (running().some((it) => it.generation !== session.record.worker.generation))
    throw faults.runtime_identity_mismatch({ id, problem: 'a worker journaled under another generation still runs' })
  // A worker that was told to go may still be on its way out.
  if (!(await pollUntil(host.kernel.clock, LEAVES_MS, () => running().length === 0, host.scope.signal)))
    throw faults.runtime_supervision_ambiguous({ id, problem: 'a worker it journaled still runs' })
}
