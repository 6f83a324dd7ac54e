import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import { tracked, type Host } from '../host.ts'
import { explainOwed } from '../interrupted.ts'
import { isOver } from '../machine.ts'
import { removeSession } from '../remove.ts'
import type { Examine } from '../runtime.ts'

type Remove = Handler<(typeof contract.methods)['session.remove']>

/** Answers once everything of the session is proven gone and its record deleted. */
export const remove = (host: Host, examine: Examine): Remove => removal(host, examine, false)
/** The same, going past processes whose environment cannot be read; it answers with their list. */
export const removeAcceptingUnconfirmed = (host: Host, examine: Examine): Remove => removal(host, examine, true)

function removal(host: Host, examine: Examine, accept: boolean): Remove {
  return async (id) => {
    const session = host.registry.get(id)
    const { stopped, accepted } = await tracked(
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
      worktrees_removed: 0,
      worktrees_failed: 0,
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
}
