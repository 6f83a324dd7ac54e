import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import { faults } from '../faults.ts'
import type { Host } from '../host.ts'
import { sendInput } from '../input.ts'

/** Answers once the terminal took text and submit key; waiting for a state is refused before a byte is written. */
export const input =
  (host: Host): Handler<(typeof contract.methods)['session.input']> =>
  async ({ session_id, text, wait }) => {
    const session = host.registry.get(session_id)
    // A wait needs evidence of what the program does, which is the detection plugin's.
    if (wait !== undefined) throw faults.session_input_wait_unsupported({ id: session_id })
    await sendInput(host, session, text)
    return { accepted: true }
  }
