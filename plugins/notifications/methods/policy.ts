import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import type { PolicyFile } from '../policy.ts'

export const getPolicy =
  (policy: PolicyFile): Handler<(typeof contract.methods)['notification.policy.get']> =>
  () => ({ policy: policy.now })

export const setPolicy =
  (policy: PolicyFile, changed: () => void): Handler<(typeof contract.methods)['notification.policy.set']> =>
  async (params) => {
    const set = await policy.set(params.policy)
    changed()
    return { policy: set }
  }
