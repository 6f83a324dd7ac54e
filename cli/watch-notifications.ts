/** pohunek notifications watch: the inbox's events as they happen, until it is interrupted. */
import type { Client } from '../client/client.ts'
import { watchLine } from '../plugins/notifications/commands.ts'
import { JSON_FLAG, type Command } from '../protocol/command.ts'
import type { Cli } from './cli.ts'
import { OutputClosed, out } from './out.ts'
import { safeJson } from './run.ts'
import { safeLine } from './text.ts'

export const watchNotificationsCommand = (cli: Cli<Client>): Command => ({
  path: ['notifications', 'watch'],
  about: 'print notifications as they come and change',
  details: ['With --json each line is one event as the daemon sends it.'],
  arguments: [],
  flags: [{ name: 'all-hosts', about: 'ask every host; this release knows the local one' }, JSON_FLAG],
  // Its JSON form is lines of events and no single document.
  json: false,
  plugin: 'notifications',
  async run(_context, input) {
    await cli.ensureDaemon()
    try {
      for await (const event of cli.client.subscribe()) {
        if (!event.event.startsWith('notification_')) continue
        if (input.has('json')) out(`${safeJson(event)}\n`)
        else if (event.event === 'notification_deleted') out(`local  deleted  ${safeLine(event.notification_id)}\n`)
        else if ('record' in event) out(`${safeLine(watchLine(event.record, 'local'))}\n`)
      }
    } catch (failure) {
      if (!(failure instanceof OutputClosed)) throw failure
    }
    return { ok: null, human: [] }
  },
})
