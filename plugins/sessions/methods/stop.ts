import type { Handler } from '../../../kernel/plugin.ts'
import type { Settle } from '../settle.ts'
import type contract from '../contract.ts'
import { tracked, type Host } from '../host.ts'
import { stopSession } from '../stop.ts'

/** Answers once the program is proven gone and its end is on disk; false when it had ended before. */
export const stop =
  (host: Host, settle: Settle): Handler<(typeof contract.methods)['session.stop']> =>
  async (id) => {
    const session = host.registry.get(id)
    const stopped = await tracked(
      host,
      session.enqueue(() => stopSession(host, session, settle)),
    )
    // A daemon that took over before would date the end anew.
    await host.registry.written(session)
    return { stopped }
  }
