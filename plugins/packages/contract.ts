/** Wire surface of packages (contract/methods.md, "daemon / host"). Data only: the CLI and the client import this. */
import * as v from 'valibot'
import { contract } from '../../protocol/contract.ts'
import { Int, NoParams } from '../../protocol/scalars.ts'

export const HostRuntime = v.object({
  /** Host profile or runtime id. */
  agent: v.string(),
  /** Runtime behind it; absent for a profile that cannot be read. */
  agent_base: v.optional(v.string()),
  available: v.boolean(),
  /** Its program as a launch would find it. */
  path: v.optional(v.string()),
  /** Only for a program that is there and whose runtime asks for its release. Launchable: available and not unsupported. */
  version: v.optional(v.string()),
  supported: v.optional(v.boolean()),
  /** The same value means the same directory. */
  config_home_id: v.optional(v.pipe(v.string(), v.regex(/^[0-9a-f]{32}$/))),
})
export type HostRuntime = v.InferOutput<typeof HostRuntime>

export const HostCapabilities = v.object({
  daemon_version: v.string(),
  protocol_version: Int,
  supported_agents: v.array(v.string()),
  runtimes: v.array(HostRuntime),
  git_available: v.boolean(),
  worktree_supported: v.boolean(),
  terminal_read_supported: v.boolean(),
  output_read_supported: v.boolean(),
  session_wait_supported: v.boolean(),
})
export type HostCapabilities = v.InferOutput<typeof HostCapabilities>

export default contract({
  name: 'packages',
  methods: {
    'host.inspect': {
      about: 'What this host can run: agents with their programs and releases, looked at now.',
      params: NoParams,
      result: HostCapabilities,
      effect: 'reads',
      faults: [],
    },
  },
  events: {},
})
