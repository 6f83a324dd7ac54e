/** Wires retention: the policy file, sweeps on request, and one sweep per interval while they are on. */
import { join } from 'node:path'
import { definePlugin } from '../../kernel/plugin.ts'
import { messageOf } from '../../protocol/fault.ts'
import { Notifications } from '../notifications/api.ts'
import { Sessions } from '../sessions/api.ts'
import { Worktrees } from '../worktrees/api.ts'
import contract from './contract.ts'
import { getPolicy, setPolicy } from './methods/policy.ts'
import { sweep } from './methods/sweep.ts'
import { PolicyFile } from './policy.ts'
import { Sweeps } from './sweep.ts'

export default definePlugin({
  contract,
  needs: { sessions: Sessions, worktrees: Worktrees, notifications: Notifications },
  setup({ kernel, needs, scope, log }) {
    const policy = new PolicyFile(join(kernel.paths.data, 'session-policy.json'))
    const sweeps = new Sweeps({ ...needs, policy: () => policy.now, clock: kernel.clock, log })
    let timer: Disposable | undefined
    const arm = (): void => {
      timer?.[Symbol.dispose]()
      timer = undefined
      if (!policy.now.enabled) return
      timer = scope.after(policy.now.sweep_interval_secs * 1_000, 'retention sweep', () => {
        void sweeps
          .run({ dryRun: false, limit: undefined }, scope.signal)
          .then(
            ({ sessions: _listed, ...counts }) => log.info(counts, 'retention sweep'),
            (failure: unknown) => log.warn({ problem: messageOf(failure) }, 'the retention sweep failed'),
          )
          .then(() => scope.closed || arm())
      })
    }
    kernel.lifecycle.load.tap('retention', () => policy.load())
    kernel.lifecycle.ready.tap('retention', arm)
    scope.own(
      'doctor',
      kernel.diagnostics.add({
        name: 'session_policy',
        required: false,
        run: () =>
          policy.problem === undefined
            ? { status: 'ok', detail: policy.now.enabled ? 'automatic sweeps are on' : 'automatic sweeps are off' }
            : {
                status: 'warn',
                detail: `${policy.problem}; the defaults hold, set it anew with pohunek session policy set`,
              },
      }),
    )
    return {
      methods: {
        'session.policy.get': getPolicy(policy),
        'session.policy.set': setPolicy(policy, arm),
        'session.retention.sweep': sweep(sweeps),
      },
    }
  },
})
