/** Packages: tells sessions what an agent name runs, and keeps sessions of unknown runtimes from being changed. */
import { join } from 'node:path'
import { definePlugin } from '../../kernel/plugin.ts'
import { Sessions } from '../sessions/api.ts'
import contract from './contract.ts'
import { requireRuntime, resolvePlan, type Agents } from './resolve.ts'

export default definePlugin({
  contract,
  needs: { sessions: Sessions },
  setup({ kernel, needs }) {
    const agents: Agents = { directory: join(kernel.paths.config, 'agents'), env: kernel.env }
    needs.sessions.hooks.plan.tap('packages', (plan) => resolvePlan(plan, agents))
    kernel.admit.tap('packages', ({ spec, params }) => {
      if (spec.effect !== 'mutates' || spec.guard === undefined || spec.needsRuntime === false) return
      const session = needs.sessions.get(spec.guard.target(params) ?? '')
      if (session !== undefined) requireRuntime(session.agent_base)
    })
    return { methods: {} }
  },
})
