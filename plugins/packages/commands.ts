/** CLI commands of packages. Imports the contract's types alone. */
import {
  JSON_FLAG,
  type Block,
  type Command,
  type CommandContext,
  type Outcome,
  type TypedCall,
} from '../../protocol/command.ts'
import { Fault } from '../../protocol/fault.ts'
import type contract from './contract.ts'
import type { HostCapabilities, HostRuntime } from './contract.ts'

const typed = (context: CommandContext): TypedCall<typeof contract> =>
  context.call.bind(context) as TypedCall<typeof contract>

/** Programs are asked for their releases, each within a bound of its own. */
const INSPECT_TIMEOUT_MS = 60_000

const LOCAL = 'local'

const unknownHost = (host: string): Fault =>
  new Fault({
    class: 'discovery',
    code: 'host_unknown',
    msg: `no host ${JSON.stringify(host)}`,
    recover: `this release reaches the local daemon only: pohunek host inspect ${LOCAL}`,
  })

const yesNo = (it: boolean | undefined): string => (it === undefined ? '-' : String(it))

/** Pure. */
function runtimeLine({ agent, available, supported, version, path, config_home_id }: HostRuntime): string {
  return (
    `${agent} available=${yesNo(available)} supported=${yesNo(supported)} version=${version ?? '-'} ` +
    `path=${path ?? '-'} config_home_id=${config_home_id ?? '-'}`
  )
}

function hostBlocks(host: string, it: HostCapabilities): readonly Block[] {
  return [
    { line: `host ${host}` },
    {
      fields: [
        ['daemon_version', it.daemon_version],
        ['protocol_version', String(it.protocol_version)],
        ['git_available', String(it.git_available)],
        ['worktree_supported', String(it.worktree_supported)],
        ['supported_agents', it.supported_agents.join(', ')],
      ],
    },
    { line: 'runtimes:' },
    ...it.runtimes.map((runtime) => ({ line: `  ${runtimeLine(runtime)}` })),
  ]
}

export const hostInspect: Command = {
  path: ['host', 'inspect'],
  about: 'show which agents a host can run, with their programs and releases',
  arguments: [{ name: 'host', about: `the host; only ${LOCAL} in this release` }],
  flags: [JSON_FLAG],
  json: true,
  plugin: 'packages',
  async run(context, input): Promise<Outcome> {
    const host = input.argument('host') ?? LOCAL
    if (host !== LOCAL) throw unknownHost(host)
    const ok = await typed(context)('host.inspect', null, { timeoutMs: INSPECT_TIMEOUT_MS })
    return { ok, human: hostBlocks(host, ok) }
  },
}

export const commands: readonly Command[] = [hostInspect]
