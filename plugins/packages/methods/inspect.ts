import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { Handler, Kernel } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import type { HostRuntime } from '../contract.ts'
import { inspectAgent, type InspectEdges } from '../inspect.ts'
import { profileNames } from '../profile.ts'

/** Probes that run side by side: an agent that starts slowly is not made slower by the others. */
const LANES = 2

/** Looks at every runtime and host profile now; a runtime whose name a profile has is that profile. */
export const inspectHost =
  (kernel: Kernel, edges: InspectEdges): Handler<(typeof contract.methods)['host.inspect']> =>
  async (_, call) => {
    const { runtimes } = edges.agents.official
    const names = [...new Set([...runtimes.keys(), ...profileNames(edges.agents.directory)])].sort()
    const { plugins } = kernel.surface()
    const serves = (name: string): boolean => plugins.some((it) => it.name === name)
    return {
      daemon_version: kernel.daemonVersion,
      protocol_version: call.version,
      supported_agents: [...runtimes.keys()],
      runtimes: await inLanes(names, (name) => inspectAgent(name, edges)),
      git_available: isOnPath('git', [...kernel.config.environment.searchPath, ...directories(kernel.env['PATH'])]),
      worktree_supported: serves('worktrees'),
      terminal_read_supported: serves('sessions'),
      output_read_supported: serves('sessions'),
      session_wait_supported: serves('waits'),
    }
  }

/** In the order of the names, at most LANES at once. */
async function inLanes(
  names: readonly string[],
  inspect: (name: string) => Promise<HostRuntime>,
): Promise<HostRuntime[]> {
  const results: HostRuntime[] = []
  const rest = names.entries()
  const lane = async (): Promise<void> => {
    for (const [at, name] of rest) results[at] = await inspect(name)
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  return results
}

const directories = (path: string | undefined): string[] => (path ?? '').split(delimiter).filter((it) => it !== '')

function isOnPath(name: string, path: readonly string[]): boolean {
  return path.some((directory) => {
    try {
      accessSync(join(directory, name), constants.X_OK)
      return statSync(join(directory, name)).isFile()
    } catch {
      return false
    }
  })
}
