import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import type { Registry } from '../registry.ts'

/** The session as it is known now; no worker is asked. */
export const inspect =
  (registry: Registry, glance: (id: string) => void): Handler<(typeof contract.methods)['session.inspect']> =>
  (id) => {
    glance(id)
    return registry.get(id).info
  }
