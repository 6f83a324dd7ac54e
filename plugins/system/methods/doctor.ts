import type { Diagnostics, Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'

/** Runs every check there is now. */
export const doctor =
  (diagnostics: Diagnostics): Handler<(typeof contract.methods)['daemon.doctor']> =>
  async () => {
    const { checks, overall } = await diagnostics.run()
    return { report: { checks: checks.map((it) => ({ ...it })), overall } }
  }
