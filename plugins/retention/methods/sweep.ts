import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import type { Sweeps } from '../sweep.ts'

/** A sweep on request, for real unless told otherwise. */
export const sweep =
  (sweeps: Sweeps): Handler<(typeof contract.methods)['session.retention.sweep']> =>
  (params, call) =>
    sweeps.run({ dryRun: params?.dry_run ?? false, limit: params?.limit }, call.signal)
