/**
 * The CLI's hot path: everyday commands in one small bundle that loads little more than files and sockets. Whatever it does not recognise at once it hands to the complete CLI beside it.
 */
import { dirname, join } from 'node:path'
import { Cli } from '../cli/cli.ts'
import { leave } from '../cli/out.ts'
import { parse } from '../cli/parse.ts'
import { execute, isRunnable } from '../cli/run.ts'
import { commands as sessions } from '../plugins/sessions/commands.ts'
import { health } from '../plugins/system/commands.ts'

declare const POHUNEK_LOAD_ONLY: boolean | undefined
declare const require: (path: string) => unknown
declare const __dirname: string

async function main(argv: readonly string[]): Promise<void> {
  const cli = new Cli(process.env, { daemon: join(dirname(__dirname), 'bin/pohunekd') })
  const parsed = parse([...sessions, health], argv)
  if (isRunnable(parsed) && !parsed.input.has('attach')) leave(await execute(cli, parsed))
  else require(join(__dirname, 'pohunek-full.cjs'))
}

if (typeof POHUNEK_LOAD_ONLY === 'undefined') void main(process.argv.slice(2))
