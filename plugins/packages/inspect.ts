/** What one agent name would run on this host now. */
import { messageOf } from '../../protocol/fault.ts'
import type { Log } from '../../kernel/log.ts'
import type { FoundProgram, SessionService } from '../sessions/api.ts'
import { configHome } from './config-home.ts'
import type { HostRuntime } from './contract.ts'
import type { RuntimeDescriptor } from './descriptor.ts'
import { hostHmac } from './host-key.ts'
import { resolveAgent, type Agent, type Agents } from './resolve.ts'
import type { Versions } from './versions.ts'

export interface InspectEdges {
  readonly agents: Agents
  readonly sessions: Pick<SessionService, 'findProgram'>
  readonly versions: Versions
  /** Names passed from the daemon's environment to sessions. */
  readonly allowlist: readonly string[]
  /** <state>. */
  readonly state: string
  readonly log: Pick<Log, 'warn'>
}

/** PATH that a program of an agent is run with. */
export const pathOf = (
  env: Readonly<Record<string, string>>,
  found: FoundProgram,
  daemon: Readonly<Record<string, string | undefined>>,
): string => env['PATH'] ?? found.searchPath ?? daemon['PATH'] ?? '/usr/bin:/bin'

/** Never throws: what cannot be told is left out. */
export async function inspectAgent(name: string, edges: InspectEdges): Promise<HostRuntime> {
  let agent: Agent | undefined
  try {
    agent = resolveAgent(name, edges.agents)
  } catch (failure) {
    edges.log.warn({ agent: name, problem: messageOf(failure) }, 'an agent cannot be used')
  }
  if (agent === undefined) return { agent: name, available: false }
  const { descriptor, env, program } = agent
  const known = { agent: name, agent_base: descriptor.runtime.id, ...homeId(descriptor, env, edges) }
  const found = await edges.sessions.findProgram(program).catch(() => undefined)
  if (found === undefined) return { ...known, available: false }
  const { versions } = descriptor.runtime
  if (versions === undefined) return { ...known, available: true, path: found.path }
  const path = pathOf(env, found, edges.agents.env)
  const { supported, version } = await edges.versions.verdict(found.path, path, versions)
  return { ...known, available: true, path: found.path, supported, ...(version === undefined ? {} : { version }) }
}

function homeId(
  descriptor: RuntimeDescriptor,
  profile: Readonly<Record<string, string>>,
  { agents, allowlist, state, log }: InspectEdges,
): Pick<HostRuntime, 'config_home_id'> {
  const home = configHome(descriptor, { daemon: agents.env, allowlist, profile })
  if (home === undefined) return {}
  try {
    return { config_home_id: hostHmac(state, 'pohunek-config-home-v1', home).slice(0, 32) }
  } catch (failure) {
    log.warn({ problem: messageOf(failure) }, 'configuration directories of agents cannot be named')
    return {}
  }
}
