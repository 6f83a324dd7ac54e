/** What was given to a command, checked against its data and made its input. Pure; shared by every way to parse. */
import type { Argument, Command, Flag, Input } from '../protocol/command.ts'

/** A usage problem, in one line. */
export class Usage extends Error {
  readonly command: Command | undefined
  constructor(problem: string, command?: Command) {
    super(problem)
    this.command = command
  }
}

/** Flags by their long name: their values, or none for each time a flag without a value was given. */
export type Given = ReadonlyMap<string, readonly (string | undefined)[]>

/** The input of a command once every value is one it takes. Throws Usage. */
export function checkedInput(command: Command, positional: readonly string[], given: Given): Input {
  for (const flag of command.flags) for (const value of given.get(flag.name) ?? []) checkValue(command, flag, value)
  command.arguments.forEach((it, at) => {
    for (const value of it.repeat ? positional.slice(at) : positional.slice(at, at + 1))
      checkArgument(command, it, value)
  })
  const input = inputOf(command, positional, given)
  checkExclusive(command, input)
  const problem = command.check?.(input)
  if (problem !== undefined) throw new Usage(problem, command)
  return input
}

function checkValue(command: Command, flag: Flag, value: string | undefined): void {
  if (value === undefined) return
  if (flag.choices !== undefined && !flag.choices.includes(value)) {
    throw new Usage(`--${flag.name} takes ${flag.choices.join(', ')}; not ${quoted(value)}`, command)
  }
  if (flag.integer === undefined) return
  const { minimum, maximum } = flag.integer
  const number = /^[0-9]{1,15}$/.test(value) ? Number(value) : Number.NaN
  if (!(number >= minimum && number <= maximum)) {
    throw new Usage(`--${flag.name} takes a whole number from ${minimum} to ${maximum}; not ${quoted(value)}`, command)
  }
}

function checkArgument(command: Command, argument: Argument, value: string): void {
  if (value === '' && argument.session) throw new Usage(`<${argument.name}> is empty`, command)
  if (argument.choices !== undefined && !argument.choices.includes(value)) {
    throw new Usage(`<${argument.name}> is one of ${argument.choices.join(', ')}; not ${quoted(value)}`, command)
  }
}

function checkExclusive(command: Command, input: Input): void {
  for (const group of command.exclusive ?? []) {
    const used = group.filter((name) => input.has(name) || input.argument(name) !== undefined)
    const shown = used.map((name) => (command.flags.some((it) => it.name === name) ? `--${name}` : `<${name}>`))
    if (used.length > 1) throw new Usage(`${shown.join(' and ')} exclude each other`, command)
  }
}

/** The input as it was given, unchecked. */
export function inputOf(command: Command, positional: readonly string[], given: Given): Input {
  const values = (flag: string): string[] => (given.get(flag) ?? []).filter((it) => it !== undefined)
  return {
    argument: (name) => positional[command.arguments.findIndex((it) => it.name === name)],
    arguments: (name) => {
      const at = command.arguments.findIndex((it) => it.name === name)
      return at === -1 ? [] : positional.slice(at)
    },
    has: (flag) => given.has(flag),
    value: (flag) => values(flag).at(-1),
    values,
    integer: (flag) => {
      const value = values(flag).at(-1)
      return value === undefined ? undefined : Number(value)
    },
  }
}

/** A word of the command line in a message, of bounded length. */
export const quoted = (text: string): string => JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text)
