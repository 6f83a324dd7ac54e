/** Finishes what a daemon that died, or a step that failed, left undone. Every step may be repeated. */
import { Fault, messageOf } from '../../protocol/fault.ts'
import type { Host } from './host.ts'
import { isOver } from './machine.ts'
import type { SessionRecord } from './record.ts'
import { finishRemoval } from './remove.ts'
import type { Session } from './session.ts'
import { askStop } from './stop.ts'
import type { Patience } from './sweep.ts'

/** A creation that was not told, or whose first prompt, which only that daemon knew, was not delivered. */
export const isHalfCreated = (session: Session): boolean => session.record.transaction?.kind === 'create'

/**
 * A start that found damaged records cannot tell a creation that was interrupted from one whose later record is lost:
 * none is undone, each is judged by its worker like any other session. Durable before the damage is forgotten by the
 * next start.
 */
export async function keepDoubtfulCreations(host: Host): Promise<void> {
  if (host.kernel.tables.quarantined.length === 0) return
  for (const session of host.registry.sessions()) {
    if (!isHalfCreated(session)) continue
    host.log.warn({ session_id: session.id }, 'a creation that looks interrupted is kept: records are damaged')
    const kept = ({ transaction: _doubtful, ...it }: SessionRecord): SessionRecord => ({
      ...it,
      info: { ...it.info, state: 'running' },
    })
    // While the disk refuses it, it holds for this daemon at least.
    await host.registry.commit(session, kept).catch(() => host.registry.observe(session, kept))
  }
}

/** Whether an operation is to be finished now. */
export function owes(session: Session): boolean {
  if (session.removed) return false
  if (isHalfCreated(session) || session.owed === 'remove') return true
  return session.owed === 'send_stop' && session.link?.alive === true
}

/** Run from the command queue. Throws what keeps the operation open. */
export async function payOwed(host: Host, session: Session, patience: Patience): Promise<void> {
  if (isHalfCreated(session) || session.owed === 'remove')
    await finishRemoval(host, session, { accept: false, patience })
  // The session is told as stopped by what the worker answers; until then it stays reconnecting.
  else if (session.link?.alive === true) await askStop(host, session, session.link)
}

const SHOWN = ['runtime_supervision_ambiguous', 'runtime_supervision_unavailable'] as const

/** Shows on the session why an operation is still open. */
export function explainOwed(host: Host, session: Session, failure: unknown): void {
  const code = failure instanceof Fault ? failure.code : undefined
  const problem = messageOf(failure)
  host.log.info({ session_id: session.id, code, problem }, 'an interrupted operation is not finished yet')
  // The reason of a conflict decides what a removal has to prove: it stays.
  if (session.phase === 'conflict' || session.phase === 'incompatible') return
  const reason = isHalfCreated(session)
    ? 'create_compensation_pending'
    : (SHOWN.find((it) => it === code) ?? 'runtime_supervision_unavailable')
  if (isOver(session.phase)) host.registry.explain(session, reason, problem)
  else host.registry.move(session, 'link_lost', { reason, problem, event: 'session_updated' })
}
