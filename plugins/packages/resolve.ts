/** Who an agent name stands for: name guard, then host profile, then installed runtime, then nobody. */
import { join } from 'node:path'
import { FILE_NAME, RUNTIME_ID } from '../../protocol/scalars.ts'
import type { LaunchPlan } from '../sessions/api.ts'
import { faults } from './faults.ts'
import { readProfile, type Profile } from './profile.ts'
import { isInstalled, SHELL_RUNTIME, shellLaunch, shellRules } from './runtimes.ts'

export interface Agents {
  /** <config>/agents. */
  readonly directory: string
  readonly env: Readonly<Record<string, string | undefined>>
}

const MAX_NAME_BYTES = 128

/**
 * Completes a launch plan; one whose name is unknown is answered as it came, and sessions refuse it. Throws invalid_name,
 * invalid_profile, runtime_not_installed, agent_binary_missing.
 */
export function resolvePlan(plan: LaunchPlan, agents: Agents): LaunchPlan {
  const { agent } = plan
  if (!FILE_NAME.test(agent) || agent.length > MAX_NAME_BYTES) throw faults.invalid_name({ name: agent })
  const profile = readProfile(agents.directory, agent)
  if (profile !== undefined) return fromProfile(plan, profile, agents, join(agents.directory, `${agent}.toml`))
  if (agent !== SHELL_RUNTIME) return plan
  const { program, args, input, capabilities } = shellLaunch(agents.env)
  return { ...plan, agentBase: SHELL_RUNTIME, program, args, input: { ...input }, capabilities }
}

function fromProfile(plan: LaunchPlan, profile: Profile, agents: Agents, file: string): LaunchPlan {
  if (!isInstalled(profile.base)) throw faults.runtime_not_installed({ runtime: profile.base })
  if (profile.package !== undefined)
    throw faults.invalid_profile({ file, key: 'package', problem: `${profile.base} is built in and pins no package` })
  const { bracketed_paste, submit_delay_ms } = profile.input_rules
  const launch = profile.program === undefined ? shellLaunch(agents.env) : { program: profile.program, args: [] }
  return {
    ...plan,
    agentBase: profile.base,
    program: launch.program,
    args: profile.args ?? launch.args,
    env: profile.env,
    input: {
      ...shellRules.input,
      ...(bracketed_paste === undefined ? {} : { bracketedPaste: bracketed_paste }),
      ...(submit_delay_ms === undefined ? {} : { submitDelayMs: submit_delay_ms }),
    },
    capabilities: shellRules.capabilities,
  }
}

/** Throws for a label no enabled runtime serves: what it needs to be changed safely is not known. */
export function requireRuntime(label: string): void {
  if (!RUNTIME_ID.test(label)) throw faults.agent_kind_unsupported({ label })
  if (!isInstalled(label)) throw faults.runtime_not_installed({ runtime: label })
}
