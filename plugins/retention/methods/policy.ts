import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import type { PolicyFile } from '../policy.ts'

/** The policy in force. */
export const getPolicy =
  (policy: PolicyFile): Handler<(typeof contract.methods)['session.policy.get']> =>
  () => ({ retention: policy.now })

/** Answers once the policy is durable and in force. */
export const setPolicy =
  (policy: PolicyFile, changed: () => void): Handler<(typeof contract.methods)['session.policy.set']> =>
  async ({ retention }) => {
    await policy.set(retention)
    changed()
    return { retention: policy.now }
  }
