/** pohunek subscribe: events as NDJSON lines until it is interrupted. */
import type { Client } from '../client/client.ts'
import { JSON_FLAG, type Command } from '../protocol/command.ts'
import type { Cli } from './cli.ts'
import { lastingOptions } from './lasting.ts'
import { OutputClosed, out } from './out.ts'
import { safeJson } from './run.ts'

export const subscribeCommand = (cli: Cli<Client>): Command => ({
  path: ['subscribe'],
  about: 'print events as they happen, one JSON object a line',
  arguments: [],
  flags: [JSON_FLAG],
  hidden: true,
  json: false,
  plugin: 'system',
  async run() {
    await cli.ensureDaemon()
    try {
      for await (const event of cli.client.subscribe(lastingOptions(cli))) out(`${safeJson(event)}\n`)
    } catch (failure) {
      if (!(failure instanceof OutputClosed)) throw failure
    }
    return { ok: null, human: [] }
  },
})
