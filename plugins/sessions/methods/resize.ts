import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import type { Host } from '../host.ts'
import { terminalSize } from '../request.ts'
import { resized } from '../runtime.ts'
import { workerFault } from '../worker-faults.ts'

/** Asks the worker; the session shows the size the worker answers with. */
export const resize =
  (host: Host): Handler<(typeof contract.methods)['session.resize']> =>
  async ({ session_id, stream_id, ...asked }) => {
    const session = host.registry.get(session_id)
    const size = terminalSize(asked)
    const link = session.running()
    try {
      const { dimensions } = await link.request('resize', {
        scope: session.scopeOf(link),
        resize: {
          source_id: host.kernel.daemonId,
          // Later requests win in the worker whatever order they are answered in.
          sequence: ++session.resizeSequence,
          dimensions: { columns: size.cols, rows: size.rows },
          ...(stream_id === undefined ? {} : { stream_id }),
        },
      })
      resized(host, session, dimensions)
    } catch (failure) {
      throw workerFault(session.id, failure, { invalidState: 'session_not_running' })
    }
    return { session: session.info }
  }
