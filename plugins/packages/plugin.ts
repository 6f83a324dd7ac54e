/** Packages: tells sessions what an agent name runs, and keeps sessions of unknown runtimes from being changed. */
import { join } from 'node:path'
import { definePlugin } from '../../kernel/plugin.ts'
import { Sessions } from '../sessions/api.ts'
import contract from './contract.ts'
import { requireRuntime, resolvePlan, type Agents } from './resolve.ts'

/** Ending a session needs nothing of its runtime. */
const NEEDS_NO_RUNTIME = new Set(['session.stop', 'session.remove', 'session.remove_accepting_unconfirmed'])

export const packagesPlugin = (env: Agents['env'] = process.env) =>
  definePlugin({
    contract,
    needs: { sessions: Sessions },
    setup({ kernel, needs }) {
      const agents: Agents = { directory: join(kernel.paths.config, 'agents'), env }
      needs.sessions.hooks.plan.tap('packages', (plan) => resolvePlan(plan, agents))
      kernel.admit.tap('packages', ({ method, spec, params }) => {
        if (spec.effect !== 'mutates' || spec.guard === undefined || NEEDS_NO_RUNTIME.has(method)) return
        const session = needs.sessions.get(spec.guard.target(params) ?? '')
        if (session !== undefined) requireRuntime(session.agent_base)
      })
      return { methods: {} }
    },
  })

export default packagesPlugin()
