/**
 * The CLI's hot path: everyday commands in one small bundle that loads little more than files and sockets. Whatever it does not recognise at once it hands to the complete CLI beside it.
 */
import { dirname, join } from 'node:path'
import { Cli, HandOver } from '../cli/cli.ts'
import { leave } from '../cli/out.ts'
import { parse } from '../cli/parse.ts'
import { execute, isRunnable } from '../cli/run.ts'
import { commands as sessions } from '../plugins/sessions/commands.ts'
import { health } from '../plugins/system/commands.ts'

declare const POHUNEK_LOAD_ONLY: boolean | undefined
declare const require: (path: string) => unknown
declare const __dirname: string

/** Flags whose commands the small build does not run: they attach, or read an input that can be read once only. */
const ELSEWHERE = ['attach', 'stdin', 'input-stdin'] as const

async function main(argv: readonly string[]): Promise<void> {
  const cli = new Cli(process.env, { daemon: join(dirname(__dirname), 'bin/pohunekd') })
  const parsed = parse([...sessions, health], argv)
  if (isRunnable(parsed) && !ELSEWHERE.some((flag) => parsed.input.has(flag))) {
    try {
      leave(await execute(cli, parsed))
    } catch (failure) {
      if (!(failure instanceof HandOver)) throw failure
    }
  }
  require(join(__dirname, 'pohunek-full.cjs'))
}

// The code cache holds what ran before it was made.
if (typeof POHUNEK_LOAD_ONLY === 'undefined') void main(process.argv.slice(2))
else parse(sessions, ['session', 'list', '--json'])
