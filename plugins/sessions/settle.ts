/** Gives a session the phase its evidence proves. What an interrupted operation still owes is done elsewhere. */
import { messageOf } from '../../protocol/fault.ts'
import { crashPoint } from '../../kernel/crash-points.ts'
import type { ChildExit } from '../../protocol/worker/messages.ts'
import type { Finding } from './examine.ts'
import { jobOf, type Host } from './host.ts'
import { removeUnfinished } from './journal.ts'
import { endOf, isOver } from './machine.ts'
import { connectSession, importSnapshot, programEnded, retireEnded, type Examine } from './runtime.ts'
import type { Session } from './session.ts'
import { sweepSession } from './sweep-session.ts'
import { isClean, type Patience } from './sweep.ts'

/** What a settling needs of whoever looks after the sessions. */
export interface Keeper {
  readonly host: Host
  readonly examine: Examine
  /** A worker was taken over. */
  readonly reconnected: (session: Session) => void
}

export type Settle = (session: Session, finding: Finding, patience: Patience) => Promise<void>

/** Steps the session to what `finding` proves: takes its worker over, tells its end, or says why neither can be done. */
export async function settle(keeper: Keeper, session: Session, finding: Finding, patience: Patience): Promise<void> {
  const { host } = keeper
  const { registry } = host
  switch (finding.found) {
    case 'worker':
      return takeWorker(keeper, session, finding, patience)
    case 'journal':
      if (!isOver(session.phase)) programEnded(host, session, finding.journal.exit ?? unknownExit(host))
      removeUnfinished(host.kernel.paths.journals(session.id))
      return retireEnded(host, session)
    case 'gone':
      return lost(host, session, patience, finding.exit)
    case 'incompatible':
      return registry.move(session, 'no_common_protocol', { ...why(finding), event: 'session_updated' })
    case 'conflict':
      return registry.move(session, 'evidence_conflicts', { ...why(finding), event: 'session_runtime_conflict' })
    case 'unknown':
      return registry.move(session, 'link_lost', { ...why(finding), event: 'session_updated' })
  }
}

const why = ({ reason, problem }: { reason: string; problem: string }): { reason: string; problem: string } => ({
  reason,
  problem,
})

async function takeWorker(
  keeper: Keeper,
  session: Session,
  { link, scope, snapshot }: Extract<Finding, { found: 'worker' }>,
  patience: Patience,
): Promise<void> {
  const { host } = keeper
  switch (snapshot.phase) {
    case 'uninitialized':
      await scope.close()
      return host.registry.move(session, 'evidence_conflicts', {
        reason: 'runtime_identity_mismatch',
        problem: 'the recorded worker runs nothing',
        event: 'session_runtime_conflict',
      })
    case 'faulted':
      await scope.close()
      return lost(host, session, patience, snapshot.exit)
    case 'exited':
    case 'starting':
    case 'running':
    case 'stopping':
      connectSession(host, session, link, scope, keeper.examine)
      crashPoint('adopt.taken')
      // A stop or a removal that was under way is told by its end alone: the session is not live once more.
      if (session.intent === 'run') host.registry.move(session, 'adopted')
      else {
        host.registry.move(session, 'link_lost', {
          reason: openReason(session),
          problem: `an interrupted operation is to ${session.intent} it`,
          event: 'session_updated',
        })
      }
      importSnapshot(host, session, snapshot)
      if (snapshot.exit !== undefined) return programEnded(host, session, snapshot.exit)
      if (session.intent === 'run') keeper.reconnected(session)
  }
}

/** What kept the operation open before stays its reason: each is told once, not again with every try. */
const openReason = ({ phase, info }: Session): string =>
  (phase === 'unreachable' ? info.runtime?.loss_reason : undefined) ?? 'runtime_supervision_unavailable'

/**
 * The worker is gone, or holds a runtime it could not end: told once what it left is dealt with and its job forgotten.
 * `exit` is what was observed of the root process, although not of all that it started.
 */
async function lost(host: Host, session: Session, patience: Patience, exit?: ChildExit): Promise<void> {
  const swept = await sweepSession(host, session, patience)
  crashPoint('lost.swept')
  try {
    const retired = await host.supervisor.retire(jobOf(session), host.kernel.config.workers.stopGraceMs)
    if (retired === 'mismatch') {
      return host.registry.move(session, 'evidence_conflicts', {
        reason: 'runtime_identity_mismatch',
        problem: 'its job is not the recorded worker',
        event: 'session_runtime_conflict',
      })
    }
  } catch (failure) {
    return host.registry.move(session, 'link_lost', {
      reason: 'runtime_supervision_unavailable',
      problem: messageOf(failure),
      event: 'session_updated',
    })
  }
  crashPoint('lost.retired')
  removeUnfinished(host.kernel.paths.journals(session.id))
  if (isOver(session.phase)) return
  host.registry.move(session, 'worker_gone', {
    reason: isClean(swept) ? 'runtime_lost' : 'runtime_lost_cleanup_unconfirmed',
    event: 'session_runtime_lost',
    change: (it) => {
      const { activity: _over, ...info } = it.info
      // What a stop made of the program is no status of its own.
      const byItself = exit !== undefined && !exit.stopped_by_user && it.intent === 'run'
      const exitCode = byItself ? endOf(exit, it.intent).exitCode : undefined
      const known = exitCode === undefined ? {} : { exit_code: exitCode }
      return { ...it, info: { ...info, ...known, state: 'failed', state_source: 'process' } }
    },
  })
  crashPoint('lost.recorded')
  host.attachments.sessionGone(session)
  session.changed()
  host.hooks.ended.call(session.info)
}

const unknownExit = (host: Host): ChildExit => ({
  stopped_by_user: false,
  exited_at_ms: host.kernel.clock.now(),
  output_force_closed: false,
})
