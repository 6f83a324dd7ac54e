/** pohunek attach, as data. */
import type { Client } from '../client/client.ts'
import type { Command } from '../protocol/command.ts'
import { attachTo } from './attach/attach.ts'
import type { Cli } from './cli.ts'

export const attachCommand = (cli: Cli<Client>): Command => ({
  path: ['attach'],
  about: 'attach this terminal to a session',
  details: [
    'Ctrl-]\tdetach; the program runs on',
    'Ctrl-\\\topen the menu',
    '',
    'In the menu, while the picture stands still and output is kept for later:',
    '',
    'k y\tkill the program',
    't y\tterminate: kill the program and remove the session',
    'd\tdetach',
    'n\tstart a session of the same kind in the directory the program is in, and go there',
    'r\trename the session',
    'Ctrl-\\\tsend Ctrl-\\ to the program',
    'Esc\tback',
    '',
    'Without a terminal on standard input it works as a pipe and no key has a meaning; at the end of its input it goes on',
    'showing output.',
    '',
    'Exit codes:',
    '',
    '0\tdetached',
    'n\tthe status of the program once it ended, 128+n for signal n; also when it had ended before',
    '125\tcould not attach',
    '126\tthe connection was lost or dropped',
    '128+n\tthis client was ended by signal n',
  ],
  arguments: [{ name: 'target', about: 'session id, unique name or id prefix', session: true }],
  flags: [],
  json: false,
  plugin: 'sessions',
  async run(_context, input) {
    return { ok: null, human: [], exitCode: await attachTo(cli, input.argument('target') ?? '') }
  },
})
