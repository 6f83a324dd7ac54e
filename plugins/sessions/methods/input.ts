import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import type { Host } from '../host.ts'
import { inputWait, sendAndWait, sendInput } from '../input.ts'

/** Answers once the terminal took text and submit key or, with `wait`, once the program shows what was waited for. */
export const input =
  (host: Host): Handler<(typeof contract.methods)['session.input']> =>
  async ({ session_id, wait, ...request }, call) => {
    const session = host.registry.get(session_id)
    if (wait === undefined) {
      await sendInput(host, session, request, call.signal)
      return { accepted: true }
    }
    const found = await sendAndWait(host, session, request, inputWait(wait), call.signal)
    return {
      accepted: true,
      activity: found.activity,
      activity_source: found.source,
      runtime: found.runtime,
      activity_epoch: found.epoch,
      activity_revision: String(found.revision),
    }
  }
