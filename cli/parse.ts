/**
 * Arguments to a command and its input, strictly and without coercion: `--name 007` stays "007". Pure.
 * An unknown flag, a missing value or a superfluous argument is a usage problem and never another meaning.
 */
import type { Argument, Command, Flag, Input } from '../protocol/command.ts'

export interface Globals {
  readonly host: string
  readonly help: boolean
  readonly version: boolean
  /** Do not start a daemon. */
  readonly noStart: boolean
}

export type Parsed =
  | { readonly command: Command; readonly input: Input; readonly globals: Globals }
  /** No command was named; `group` holds the words that were. */
  | { readonly group: readonly string[]; readonly globals: Globals }
  | { readonly problem: string; readonly json: boolean; readonly command?: Command }

const NO_VALUE = Symbol('flag')
type Given = Map<string, (string | typeof NO_VALUE)[]>

export function parse(commands: readonly Command[], argv: readonly string[]): Parsed {
  const end = argv.indexOf('--')
  const json = argv.slice(0, end === -1 ? argv.length : end).includes('--json')
  try {
    return parseStrictly(commands, argv)
  } catch (failure) {
    if (failure instanceof Usage)
      return { problem: failure.message, json, ...(failure.command ? { command: failure.command } : {}) }
    throw failure
  }
}

class Usage extends Error {
  readonly command: Command | undefined
  constructor(problem: string, command?: Command) {
    super(problem)
    this.command = command
  }
}

function parseStrictly(commands: readonly Command[], argv: readonly string[]): Parsed {
  const global = { host: 'local', help: false, version: false, noStart: false }
  const rest = [...argv]
  const words: string[] = []
  let command: Command | undefined
  // Words up to the command; only global flags may stand between them.
  while (command === undefined && rest.length > 0) {
    const token = rest[0] as string
    if (takeGlobal(rest, global)) continue
    if (token.startsWith('-')) throw new Usage(`unknown option ${quoted(token)} before a command`)
    const next = [...words, token]
    if (!commands.some((it) => startsWith(it, next))) {
      throw new Usage(
        words.length === 0 ? `unknown command ${quoted(token)}` : `unknown command ${quoted(next.join(' '))}`,
      )
    }
    words.push(token)
    rest.shift()
    command = commands.find((it) => it.path.length === words.length && startsWith(it, words))
  }
  if (command === undefined) return { group: words, globals: global }

  const found = command
  const given: Given = new Map()
  const positional: string[] = []
  const flags = new Map(found.flags.flatMap((it) => names(it).map((name) => [name, it] as const)))
  while (rest.length > 0) {
    if (takeGlobal(rest, global)) continue
    const token = rest.shift() as string
    if (token === '--') {
      positional.push(...rest.splice(0))
    } else if (token.startsWith('-') && token !== '-') takeFlag(found, flags, token, rest, given)
    else positional.push(token)
  }
  if (global.help) return { command: found, input: inputOf(found, [], new Map()), globals: global }
  checkArguments(found, positional)
  const input = inputOf(found, positional, given)
  checkExclusive(found, input)
  const problem = found.check?.(input)
  if (problem !== undefined) throw new Usage(problem, found)
  return { command: found, input, globals: global }
}

function startsWith(command: Command, words: readonly string[]): boolean {
  return words.every((word, at) => {
    const own = command.path[at]
    return word === own || (at === command.path.length - 1 && (command.aliases?.includes(word) ?? false))
  })
}

/** Takes a global flag off the front. */
function takeGlobal(
  rest: string[],
  global: { host: string; help: boolean; version: boolean; noStart: boolean },
): boolean {
  const token = rest[0] as string
  if (token === '--help' || token === '-h') global.help = true
  else if (token === '--version' || token === '-V') global.version = true
  else if (token === '--no-start') global.noStart = true
  else if (token === '--host') {
    const value = rest[1]
    if (value === undefined || value === '' || value.startsWith('-')) throw new Usage('--host needs a value')
    global.host = value
    rest.shift()
  } else if (token.startsWith('--host=')) {
    global.host = token.slice('--host='.length)
    if (global.host === '') throw new Usage('--host needs a value')
  } else return false
  rest.shift()
  return true
}

const names = (flag: Flag): string[] => [
  `--${flag.name}`,
  ...(flag.aliases ?? []).map((it) => `--${it}`),
  ...(flag.short === undefined ? [] : [`-${flag.short}`]),
]

function takeFlag(
  command: Command,
  flags: ReadonlyMap<string, Flag>,
  token: string,
  rest: string[],
  given: Given,
): void {
  const equals = token.startsWith('--') ? token.indexOf('=') : -1
  const name = equals === -1 ? token : token.slice(0, equals)
  const flag = flags.get(name)
  if (flag === undefined) throw new Usage(`unknown option ${quoted(name)}`, command)
  const held = given.get(flag.name) ?? []
  if (held.length > 0 && !flag.repeat) throw new Usage(`${name} is given twice`, command)
  given.set(flag.name, held)
  if (flag.value === undefined) {
    if (equals !== -1) throw new Usage(`${name} takes no value`, command)
    held.push(NO_VALUE)
    return
  }
  // A value that begins with a dash is more likely a forgotten value; `--flag=-value` says it is meant.
  const value = equals === -1 ? rest[0] : token.slice(equals + 1)
  if (value === undefined || (equals === -1 && value.startsWith('-') && value !== '-'))
    throw new Usage(`${name} needs a value`, command)
  if (equals === -1) rest.shift()
  checkValue(command, flag, name, value)
  held.push(value)
}

function checkValue(command: Command, flag: Flag, name: string, value: string): void {
  if (flag.choices !== undefined && !flag.choices.includes(value)) {
    throw new Usage(`${name} takes ${flag.choices.join(', ')}; not ${quoted(value)}`, command)
  }
  if (flag.integer === undefined) return
  const { minimum, maximum } = flag.integer
  const number = /^[0-9]{1,15}$/.test(value) ? Number(value) : Number.NaN
  if (!(number >= minimum && number <= maximum)) {
    throw new Usage(`${name} takes a whole number from ${minimum} to ${maximum}; not ${quoted(value)}`, command)
  }
}

function checkArguments(command: Command, positional: readonly string[]): void {
  const most = command.arguments.length
  const required = command.arguments.filter((it) => !it.optional)
  const missing = required[positional.length]
  if (missing !== undefined) throw new Usage(`${command.path.join(' ')} needs <${missing.name}>`, command)
  if (positional.length > most) throw new Usage(`unexpected argument ${quoted(positional[most] as string)}`, command)
  command.arguments.forEach((it, at) => checkArgument(command, it, positional[at]))
}

function checkArgument(command: Command, argument: Argument, value: string | undefined): void {
  if (value === undefined) return
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

function inputOf(command: Command, positional: readonly string[], given: Given): Input {
  const values = (flag: string): string[] => (given.get(flag) ?? []).filter((it) => typeof it === 'string')
  return {
    argument: (name) => positional[command.arguments.findIndex((it) => it.name === name)],
    has: (flag) => given.has(flag),
    value: (flag) => values(flag).at(-1),
    values,
    integer: (flag) => {
      const value = values(flag).at(-1)
      return value === undefined ? undefined : Number(value)
    },
  }
}

const quoted = (text: string): string => JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text)
