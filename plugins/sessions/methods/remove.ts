import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import { tracked, type Host } from '../host.ts'
import { explainOwed } from '../interrupted.ts'
import { isOver } from '../machine.ts'
import { removeSession } from '../remove.ts'
import type { Examine } from '../runtime.ts'
import type { Session } from '../session.ts'
import type { SessionRemoveResult } from '../types.ts'

type Remove = Handler<(typeof contract.methods)['session.remove']>

/** Answers once everything of the session is proven gone and its record deleted. */
export const remove = (host: Host, examine: Examine): Remove => removal(host, examine, false)
/** The same, going past processes whose environment cannot be read; it answers with their list. */
export const removeAcceptingUnconfirmed = (host: Host, examine: Examine): Remove => removal(host, examine, true)

const removal =
  (host: Host, examine: Examine, accept: boolean): Remove =>
  (id) =>
    removeAndAnswer(host, examine, host.registry.get(id), accept)

/** Removes and says what that took. A session that could not be removed is examined again. */
export async function removeAndAnswer(
  host: Host,
  examine: Examine,
  session: Session,
  accept: boolean,
): Promise<SessionRemoveResult> {
  const { stopped, accepted, worktreesRemoved, worktreesFailed, rescued } = await tracked(
    host,
    session.enqueue(() => removeSession(host, session, accept)),
  ).catch((failure: unknown) => {
    // Its connection was given up on the way: what runs now has to be found out again.
    if (!session.removed && session.intent === 'remove' && !isOver(session.phase)) {
      explainOwed(host, session, failure)
      examine(session)
    }
    throw failure
  })
  return {
    removed: true,
    stopped,
    worktrees_removed: worktreesRemoved,
    worktrees_failed: worktreesFailed,
    ...(rescued.length === 0 ? {} : { rescued: [...rescued] }),
    ...(accepted.length === 0
      ? {}
      : {
          accepted_unconfirmed_processes: accepted.map((it) => ({
            pid: it.pid,
            start_identity: it.startIdentity,

            command: it.command.replace(
              /[^\x20-\x7e]/g,
              (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`,
            ),
          })),
        }),
  }
}
