/** CLI commands of the daemon itself. Imports the contract's types alone. */
import { JSON_FLAG, type Command, type CommandContext, type Outcome, type TypedCall } from '../../protocol/command.ts'
import type contract from './contract.ts'

const plugin = 'system'
const typed = (context: CommandContext): TypedCall<typeof contract> =>
  context.call.bind(context) as TypedCall<typeof contract>

export const health: Command = {
  path: ['health'],
  aliases: ['status'],
  about: 'show that the daemon answers',
  arguments: [],
  flags: [JSON_FLAG],
  json: true,
  plugin,
  async run(context): Promise<Outcome> {
    const ok = await typed(context)('daemon.health', null)
    return {
      ok,
      human: [
        {
          fields: [
            ['status', ok.status],
            ['daemon_version', ok.daemon_version],
            ['protocol_version', String(ok.protocol_version)],
          ],
        },
      ],
    }
  },
}

export const capabilities: Command = {
  path: ['capabilities'],
  about: 'show what this daemon serves',
  arguments: [],
  flags: [JSON_FLAG],
  json: true,
  plugin,
  async run(context): Promise<Outcome> {
    const ok: unknown = await typed(context)('daemon.capabilities', null)
    return { ok, human: [{ stream: `${JSON.stringify(ok, null, 2)}\n` }] }
  },
}

export const commands: readonly Command[] = [health, capabilities]
