import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import { faults } from '../faults.ts'
import type { Host } from '../host.ts'
import { sendInput } from '../input.ts'

export const input =
  (host: Host): Handler<(typeof contract.methods)['session.input']> =>
  async ({ session_id, text, wait }) => {
    const session = host.registry.get(session_id)
    // A wait needs evidence of what the program does, which is the detection plugin's.
    if (wait !== undefined) throw faults.session_input_wait_unsupported({ id: session_id })
    await sendInput(host, session, text)
    return { accepted: true }
  }
