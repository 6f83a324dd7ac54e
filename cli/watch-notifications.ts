/** pohunek notifications watch: the inbox's events as they happen, until it is interrupted. */
import type { Client } from '../client/client.ts'
import { watchLine } from '../plugins/notifications/commands.ts'
import { JSON_FLAG, type Command } from '../protocol/command.ts'
import type { Cli } from './cli.ts'
import { lastingOptions } from './lasting.ts'
import { OutputClosed, out } from './out.ts'
import { safeJson } from './run.ts'
import { safeLine } from './text.ts'

export const watchNotificationsCommand = (cli: Cli<Client>): Command => ({
  path: ['notifications', 'watch'],
  about: 'print notifications as they come and change',
  details: [
    'With --json each line is one event as the daemon sends it. What changed while the daemon was restarted is told once',
    'it is back.',
  ],
  arguments: [],
  flags: [{ name: 'all-hosts', about: 'ask every host; this release knows the local one' }, JSON_FLAG],
  // Its JSON form is lines of events and no single document.
  json: false,
  plugin: 'notifications',
  async run(_context, input) {
    await cli.ensureDaemon()
    try {
      for await (const event of cli.client.watchNotifications(lastingOptions(cli))) {
        if (input.has('json')) out(`${safeJson(event)}\n`)
        else if (event.event === 'notification_deleted') out(`local  deleted  ${safeLine(event.notification_id)}\n`)
        else out(`${safeLine(watchLine(event.record, 'local'))}\n`)
      }
    } catch (failure) {
      if (!(failure instanceof OutputClosed)) throw failure
    }
    return { ok: null, human: [] }
  },
})
