import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import { tracked, type Host } from '../host.ts'
import { removeSession } from '../remove.ts'

type Remove = Handler<(typeof contract.methods)['session.remove']>

export const remove = (host: Host): Remove => removal(host, false)
export const removeAcceptingUnconfirmed = (host: Host): Remove => removal(host, true)

function removal(host: Host, accept: boolean): Remove {
  return async (id) => {
    const session = host.registry.get(id)
    const { stopped, accepted } = await tracked(
      host,
      session.enqueue(() => removeSession(host, session, accept)),
    )
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
