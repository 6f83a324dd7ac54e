import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import { readOutput, type Waiters } from '../observe.ts'
import type { Registry } from '../registry.ts'

/** Raw bytes of the worker's ring, waiting for more where that is asked for. */
export const output =
  (registry: Registry, waiters: Waiters): Handler<(typeof contract.methods)['session.output']> =>
  ({ session_id, ...request }, call) =>
    readOutput(registry.get(session_id), request, waiters, call.signal)
