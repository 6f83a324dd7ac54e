/**
 * Arguments to a command and its input, through cac: the one command the line names is declared to it from the command's
 * data. cac takes more than it should (it reads numbers, folds spellings, guesses at missing values), so each word is put
 * to it in a form it can take in one way only. Pure.
 * Invariants
 *  1. A value reaches the command as it was typed: cac sees it behind a mark and reads no number and no flag in it.
 *  2. A flag counts in a declared spelling only; all spellings of one flag are one name to cac.
 *  3. An unknown flag, a missing value or a superfluous argument is a usage problem and never another meaning.
 */
import { cac } from 'cac'
import type { Argument, Command, Flag, Input } from '../protocol/command.ts'
import { checkedInput, inputOf, quoted, Usage, type Given } from './input.ts'

interface Globals {
  readonly host: string
  readonly help: boolean
  readonly version: boolean
  /** Do not start a daemon. */
  readonly noStart: boolean
}

export interface Runnable {
  readonly command: Command
  readonly input: Input
  readonly globals: Globals
}

export type Parsed =
  | Runnable
  /** No command was named; `group` holds the words that were. */
  | { readonly group: readonly string[]; readonly globals: Globals }
  | { readonly problem: string; readonly json: boolean; readonly command?: Command }

/** Flags every command takes, anywhere before `--`; the last one counts. */
export const GLOBAL_FLAGS: readonly Flag[] = [
  { name: 'host', value: 'name', repeat: true, about: 'the host; only local in this release' },
  {
    name: 'no-start',
    repeat: true,
    about: 'do not start a daemon when none answers (also POHUNEK_NO_START=1)',
  },
  { name: 'help', short: 'h', repeat: true, about: 'show help' },
  { name: 'version', short: 'V', repeat: true, about: 'show the version' },
]

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

function parseStrictly(commands: readonly Command[], argv: readonly string[]): Parsed {
  const { command, words, rest } = findCommand(commands, argv)
  const { positional, given } = readWithCac(command, rest)
  const globals = globalsOf(given)
  if (command === undefined) return { group: words, globals }
  if (globals.help) return { command, input: inputOf(command, [], new Map()), globals }
  return { command, input: checkedInput(command, positional, given), globals }
}

/** The command whose words come first, only global flags between them; `rest` is the line without those words. */
function findCommand(
  commands: readonly Command[],
  argv: readonly string[],
): { command: Command | undefined; words: readonly string[]; rest: readonly string[] } {
  const flags = byName(GLOBAL_FLAGS)
  const words: string[] = []
  const globals: string[] = []
  for (let at = 0; at < argv.length; at++) {
    const token = argv[at] as string
    if (token.startsWith('-')) {
      const { name, value } = split(token)
      const flag = flags.get(name)
      if (flag === undefined) throw new Usage(`unknown option ${quoted(token)} before a command`)
      globals.push(token)
      if (flag.value !== undefined && value === undefined && at + 1 < argv.length) globals.push(argv[++at] as string)
      continue
    }
    words.push(token)
    const possible = commands.filter((it) => startsWith(it, words))
    if (possible.length === 0) throw new Usage(`unknown command ${quoted(words.join(' '))}`)
    const command = possible.find((it) => it.path.length === words.length)
    if (command !== undefined) return { command, words, rest: [...globals, ...argv.slice(at + 1)] }
  }
  return { command: undefined, words, rest: globals }
}

function startsWith(command: Command, words: readonly string[]): boolean {
  return words.every((word, at) => {
    const own = command.path[at]
    return word === own || (at === command.path.length - 1 && (command.aliases?.includes(word) ?? false))
  })
}

interface Read {
  readonly positional: readonly string[]
  readonly given: Given
}

/** What cac makes of the line; `command` is undefined where only global flags may stand. Throws Usage. */
function readWithCac(command: Command | undefined, line: readonly string[]): Read {
  const declared = command ?? { path: [], arguments: [], flags: [] }
  const flags = [...declared.flags, ...GLOBAL_FLAGS]
  const { tokens, unknown } = shield(flags, line, command)
  const cli = cac('pohunek')
  // cac knows commands of one word only; ours was found by its words and is the unnamed one here.
  const its = cli.command(declared.arguments.map(placeOf).join(' '))
  for (const it of flags) its.option(`--${keyOf(it)}${it.value === undefined ? '' : ` <${it.value}>`}`, it.about)
  const { args, options } = cli.parse(['', '', ...tokens], { run: false })
  if (refuses(() => its.checkUnknownOptions())) throw new Usage(`unknown option ${quoted(unknown[0] ?? '')}`, command)
  const given = new Map<string, readonly (string | undefined)[]>()
  for (const flag of flags) {
    const held: unknown = options[keyOf(flag)]
    if (held !== undefined) given.set(flag.name, valuesOf(flag, Array.isArray(held) ? held : [held], command))
  }
  const positional = args.map(unmarked)
  if (given.has('help')) return { positional: [], given }
  if (refuses(() => its.checkRequiredArgs())) {
    const missing = declared.arguments.filter((it) => !it.optional)[positional.length]
    throw new Usage(`${declared.path.join(' ')} needs <${missing?.name ?? ''}>`, command)
  }
  if (refuses(() => its.checkUnusedArgs()))
    throw new Usage(`unexpected argument ${quoted(positional[declared.arguments.length] ?? '')}`, command)
  return { positional, given }
}

function valuesOf(flag: Flag, held: readonly unknown[], command: Command | undefined): readonly (string | undefined)[] {
  if (held.length > 1 && !flag.repeat) throw new Usage(`--${flag.name} is given twice`, command)
  if (flag.value === undefined) return held.map(() => undefined)
  // cac puts `true` where no value followed. A value that begins with a dash needs `=`: without it it is more likely the
  // next flag behind a forgotten value.
  const values = held.filter((it) => typeof it === 'string').map(unmarked)
  if (values.length < held.length) throw new Usage(`--${flag.name} needs a value`, command)
  return values
}

/** An argument as cac declares it. */
function placeOf({ name, optional = false, repeat = false }: Argument): string {
  const text = repeat ? `...${name}` : name
  return optional ? `[${text}]` : `<${text}>`
}

/** A character no argument can hold, before each value: cac then has nothing to coerce. */
const MARK = '\0'
const unmarked = (text: string): string => text.slice(MARK.length)

/** The line as cac takes it in one way only, and the flags in it that were never declared. */
function shield(
  flags: readonly Flag[],
  line: readonly string[],
  command: Command | undefined,
): { tokens: readonly string[]; unknown: readonly string[] } {
  const known = byName(flags)
  const end = line.indexOf('--')
  const before = end === -1 ? line : line.slice(0, end)
  const unknown: string[] = []
  const tokens = before.map((token) => {
    if (!isFlag(token)) return MARK + token
    const { name, value } = split(token)
    const flag = known.get(name)
    if (flag === undefined) {
      unknown.push(name)
      return `--${MARK}${name}`
    }
    if (value === undefined) return `--${keyOf(flag)}`
    if (flag.value === undefined) throw new Usage(`${name} takes no value`, command)
    return `--${keyOf(flag)}=${MARK}${value}`
  })
  return { tokens: [...tokens, ...(end === -1 ? [] : line.slice(end + 1).map((it) => MARK + it))], unknown }
}

const isFlag = (token: string): boolean => token.startsWith('-') && token !== '-'

/** `--flag=value` at its first equals sign; short flags take no value this way. */
function split(token: string): { name: string; value: string | undefined } {
  const equals = token.startsWith('--') ? token.indexOf('=') : -1
  return equals === -1
    ? { name: token, value: undefined }
    : { name: token.slice(0, equals), value: token.slice(equals + 1) }
}

/** The name of a flag in cac, which folds dashes to capitals in some places and not in others. */
const keyOf = (flag: Flag): string => flag.name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())

const byName = (flags: readonly Flag[]): ReadonlyMap<string, Flag> =>
  new Map(
    flags.flatMap((it) =>
      [
        ...[it.name, ...(it.aliases ?? [])].map((name) => `--${name}`),
        ...(it.short === undefined ? [] : [`-${it.short}`]),
      ].map((name) => [name, it] as const),
    ),
  )

/** Whether a check of cac says no. */
function refuses(check: () => void): boolean {
  try {
    check()
    return false
  } catch (failure) {
    if ((failure as Error).name === 'CACError') return true
    throw failure
  }
}

function globalsOf(given: Given): Globals {
  const host = given.get('host')?.at(-1)
  if (host === '') throw new Usage('--host needs a value')
  return {
    host: host ?? 'local',
    help: given.has('help'),
    version: given.has('version'),
    noStart: given.has('no-start'),
  }
}
