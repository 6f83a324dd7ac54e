/**
 * The CLI's hot path: everyday commands in one small bundle that loads little more than files and sockets. Whatever it
 * does not recognise at once it hands to the complete CLI beside it.
 */
import { dirname, join } from 'node:path'
import { Cli, HandOver } from '../cli/cli.ts'
import { leave } from '../cli/out.ts'
import { parsePlain } from '../cli/plain.ts'
import { execute } from '../cli/run.ts'
import { Caller } from '../client/caller.ts'
import { commands as sessions } from '../plugins/sessions/commands.ts'
import { health } from '../plugins/system/commands.ts'

declare const require: (path: string) => unknown
declare const __dirname: string

/** Flags whose commands the small build does not run: they attach, or read an input that can be read once only. */
const ELSEWHERE = ['attach', 'follow', 'wait-ms', 'stdin', 'input-stdin'] as const

async function main(argv: readonly string[]): Promise<void> {
  const plain = parsePlain([...sessions, health], argv)
  if (plain !== undefined && !ELSEWHERE.some((flag) => plain.input.has(flag))) {
    const cli = new Cli(process.env, { daemon: join(dirname(__dirname), 'bin/pohunekd') }, Caller)
    try {
      leave(await execute(cli, plain))
    } catch (failure) {
      if (!(failure instanceof HandOver)) throw failure
    }
  }
  require(join(__dirname, 'pohunek-full.cjs'))
}

void main(process.argv.slice(2))
