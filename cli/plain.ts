/**
 * The plainest command lines, read without a parser: a command by its words, then whole flags by their names and plain
 * arguments. Everything that could mean something else is left to cli/parse.ts, and so is every problem; where this
 * answers, that one answers the same. Pure.
 */
import type { Command, Flag } from '../protocol/command.ts'
import { checkedInput, Usage } from './input.ts'
import type { Runnable } from './parse.ts'

const PLAIN_GLOBALS = { host: 'local', help: false, version: false, noStart: false }

/** undefined when the line is not plain. */
export function parsePlain(commands: readonly Command[], argv: readonly string[]): Runnable | undefined {
  const command = commands.find((it) => isNamedBy(it, argv))
  if (command === undefined) return undefined
  const given = new Map<string, string[] | undefined[]>()
  const positional: string[] = []
  for (let at = command.path.length; at < argv.length; at++) {
    const token = argv[at] as string
    if (!token.startsWith('-')) {
      positional.push(token)
      continue
    }
    const flag = command.flags.find((it) => isFlag(it, token))
    if (flag === undefined || given.has(flag.name)) return undefined
    if (flag.value === undefined) given.set(flag.name, [undefined])
    else {
      const value = argv[++at]
      if (value === undefined || value.startsWith('-')) return undefined
      given.set(flag.name, [value])
    }
  }
  const required = command.arguments.filter((it) => !it.optional).length
  if (positional.length < required || positional.length > command.arguments.length) return undefined
  try {
    return { command, input: checkedInput(command, positional, given), globals: PLAIN_GLOBALS }
  } catch (failure) {
    if (failure instanceof Usage) return undefined
    throw failure
  }
}

const isNamedBy = ({ path, aliases = [] }: Command, argv: readonly string[]): boolean =>
  path.every((word, at) => argv[at] === word || (at === path.length - 1 && aliases.includes(argv[at] ?? '')))

const isFlag = (flag: Flag, token: string): boolean =>
  token === `--${flag.name}` || (flag.short !== undefined && token === `-${flag.short}`)
