import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import type { Host } from '../host.ts'

/** What the last reconciliation found. */
export const runtimeInventory =
  (host: Host): Handler<(typeof contract.methods)['session.runtime_inventory']> =>
  () => ({ entries: host.inventory })
