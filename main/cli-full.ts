/** The complete CLI: every command, help and completions. */
import { dirname, join } from 'node:path'
import { attach } from '../cli/attach/attach.ts'
import { checkTerminal } from '../cli/attach/terminal.ts'
import { attachCommand } from '../cli/attach-command.ts'
import { refuseElsewhere, startDaemon } from '../cli/autostart.ts'
import { Cli, outputLook, VERSION } from '../cli/cli.ts'
import { completionsCommand } from '../cli/completions.ts'
import { daemonCommands } from '../cli/daemon-commands.ts'
import { doctorCommand } from '../cli/doctor.ts'
import { follow } from '../cli/follow.ts'
import { helpOf, overview, welcome } from '../cli/help.ts'
import { err, leave, out } from '../cli/out.ts'
import { lastingCall } from '../cli/lasting.ts'
import { parse } from '../cli/parse.ts'
import { execute, EXIT_OK, EXIT_USAGE, fail, failUsage } from '../cli/run.ts'
import { serviceCommands } from '../cli/service-commands.ts'
import { subscribeCommand } from '../cli/subscribe.ts'
import { watchNotificationsCommand } from '../cli/watch-notifications.ts'
import { Client } from '../client/client.ts'
import type { Command } from '../protocol/command.ts'
import { otherCommands, sessionCommands } from './plugin-commands.ts'

declare const POHUNEK_LOAD_ONLY: boolean | undefined
declare const __dirname: string

/** For the list of commands: `help x` is `x --help`, before anything is parsed. */
const HELP: Command = {
  path: ['help'],
  about: 'show the help of a command, or the commands of a group',
  arguments: [{ name: 'command', about: 'the command', optional: true }],
  flags: [],
  json: false,
  run: () => Promise.resolve({ ok: null, human: [] }),
}

async function run(argv: readonly string[]): Promise<number> {
  const cli = new Cli(process.env, { daemon: join(dirname(__dirname), 'bin/pohunekd') }, Client)
  cli.attacher = { check: checkTerminal, attach: (id) => attach(cli, id) }
  cli.follower = (id, afterOffset) => follow(cli, id, afterOffset)
  cli.waiter = lastingCall(cli)
  cli.starter = startDaemon
  cli.finder = refuseElsewhere
  const commands: Command[] = [
    ...sessionCommands,
    attachCommand(cli),
    ...otherCommands,
    watchNotificationsCommand(cli),
    doctorCommand(cli),
    ...daemonCommands(cli),
    ...serviceCommands(cli),
    subscribeCommand(cli),
  ]
  commands.push(completionsCommand(commands), HELP)
  const parsed = parse(commands, argv[0] === 'help' ? [...argv.slice(1), '--help'] : argv)
  if ('problem' in parsed) return failUsage(parsed)
  const { help, version } = parsed.globals
  if ('input' in parsed && !help && !version) return await execute(cli, parsed)
  if (version) out(`pohunek ${VERSION}\n`)
  else {
    const { columns } = outputLook(cli.env)
    if ('input' in parsed) out(helpOf(parsed.command, columns))
    else if (help) out(overview(commands, parsed.group, VERSION, columns))
    else if (parsed.group.length === 0) out(welcome(VERSION, columns))
    else {
      // A group alone does nothing: that is a mistake, told with what there is.
      err(overview(commands, parsed.group, VERSION, columns))
      return EXIT_USAGE
    }
  }
  return EXIT_OK
}

async function main(): Promise<void> {
  try {
    leave(await run(process.argv.slice(2)))
  } catch (failure) {
    leave(fail(failure, false))
  }
}

if (typeof POHUNEK_LOAD_ONLY === 'undefined') void main()
