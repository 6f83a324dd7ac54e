/** Packages: which runtimes there are, what an agent name runs, and whether its program is one that is known. */
import { join } from 'node:path'
import { definePlugin } from '../../kernel/plugin.ts'
import { INPUT_SUBMIT_DELAY_MS } from '../../protocol/limits.ts'
import { Sessions } from '../sessions/api.ts'
import { Runtimes } from './api.ts'
import { packageChecks } from './checks.ts'
import contract from './contract.ts'
import { inspectHost } from './methods/inspect.ts'
import { pathOf } from './inspect.ts'
import { officialDirectory, officialSet } from './official.ts'
import { runtimeService } from './registry.ts'
import { planOf, requireRuntime, resolveAgent, type Agents } from './resolve.ts'
import { Versions } from './versions.ts'

/** Behind the start, so that what is broken is told without anybody asking. */
const LOAD_MS = 1_000

/** What this plugin takes from outside the kernel. */
export interface PackageEdges {
  /** Directory of the runtimes that come with this build. */
  readonly official: string
}

export const packagesPlugin = (given: Partial<PackageEdges> = {}) =>
  definePlugin({
    contract,
    needs: { sessions: Sessions },
    provides: Runtimes,
    setup({ kernel, needs, scope, log }) {
      const { sessions } = needs
      const { clock, config, env, paths } = kernel
      const official = officialSet(given.official ?? officialDirectory(), (problem) =>
        log.warn({ problem }, 'a runtime of this build is broken'),
      )
      kernel.lifecycle.ready.tap('packages', () => void scope.after(LOAD_MS, 'runtimes', () => void official.problems))
      for (const check of packageChecks(official, sessions)) scope.own(check.name, kernel.diagnostics.add(check))
      const versions = new Versions({ directory: join(paths.cache, 'probes'), clock, signal: scope.signal })
      const agents: Agents = {
        directory: join(paths.config, 'agents'),
        env,
        official,
        // The default is what a host has that set nothing: each runtime's own delay is better.
        submitDelayMs: config.input.submitDelayMs === INPUT_SUBMIT_DELAY_MS ? undefined : config.input.submitDelayMs,
      }
      sessions.hooks.plan.tap('packages', (plan) => {
        const agent = resolveAgent(plan.agent, agents)
        if (agent === undefined) return plan
        const { name, versions: policy } = agent.descriptor.runtime
        return {
          ...planOf(plan, agent),
          ...(policy === undefined
            ? {}
            : { verify: (found) => versions.require(name, found, pathOf(agent.env, found, env), policy) }),
        }
      })
      kernel.admit.tap('packages', ({ spec, params }) => {
        if (spec.effect !== 'mutates' || spec.guard === undefined || spec.needsRuntime === false) return
        const session = sessions.get(spec.guard.target(params) ?? '')
        if (session !== undefined) requireRuntime(session.agent_base, official)
      })
      const inspect = { agents, sessions, versions, allowlist: config.environment.allowlist, state: paths.state, log }
      return {
        service: runtimeService(official, agents.directory),
        methods: { 'host.inspect': inspectHost(kernel, inspect) },
      }
    },
  })

export default packagesPlugin()
