import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import type { Registry } from '../registry.ts'

/** The session as it is known now; nobody is asked. */
export const inspect =
  (registry: Registry): Handler<(typeof contract.methods)['session.inspect']> =>
  (id) =>
    registry.get(id).info
