/** pohunek attach, as data. */
import type { Client } from '../client/client.ts'
import type { Command } from '../protocol/command.ts'
import { attachTo } from './attach/attach.ts'
import type { Cli } from './cli.ts'

export const attachCommand = (cli: Cli<Client>): Command => ({
  path: ['attach'],
  about: 'attach this terminal to a session',
  details: [
    'Keys: Ctrl-] detaches. Ctrl-\\ opens a menu: k then y kills the program, t then y ends and removes the session,',
    'd detaches, n starts a session in the same directory, r renames, Ctrl-\\ again sends Ctrl-\\ to the program.',
    'Without a terminal on standard input it works as a pipe and no key has a meaning; at the end of its input it goes on',
    'showing output.',
    '',
    'Exit codes: 0 detached; the status of the program once it ended (128+n for signal n), also when it had ended before;',
    '125 could not attach; 126 the connection was lost or dropped; 128+n this client was ended by signal n.',
  ],
  arguments: [{ name: 'target', about: 'session id, unique name or id prefix', session: true }],
  flags: [],
  json: false,
  plugin: 'sessions',
  async run(_context, input) {
    return { ok: null, human: [], exitCode: await attachTo(cli, input.argument('target') ?? '') }
  },
})
