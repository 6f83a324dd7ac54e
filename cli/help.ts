/** --help from the command data. Pure. */
import type { Argument, Command, Flag } from '../protocol/command.ts'
import { GLOBAL_FLAGS } from './parse.ts'
import { wrap } from './text.ts'

/** Wider lines are hard to read; also the width where there is no terminal. */
const WIDEST = 100
/** A text column narrower than this is no help. */
const LEAST_TEXT = 30
const GAP = '  '

/** Two aligned columns; the right one goes on below itself. */
function table(rows: readonly (readonly [string, string])[], columns: number): string {
  const left = Math.max(...rows.map(([name]) => name.length))
  const indent = GAP.length + left + GAP.length
  const room = Math.max(LEAST_TEXT, columns - indent)
  return rows
    .map(([name, text]) => `${GAP}${name.padEnd(left)}${GAP}${wrap(text, room).join(`\n${' '.repeat(indent)}`)}\n`)
    .join('')
}

/** Lines that follow each other are one paragraph, or a table where each begins with its key and a tab. */
function paragraphs(lines: readonly string[], columns: number): string {
  const texts = lines.join('\n').split('\n\n')
  return texts.map((text) => `\n${text.includes('\t') ? keyed(text, columns) : flowing(text, columns)}`).join('')
}

const flowing = (text: string, columns: number): string => `${wrap(text.replaceAll('\n', ' '), columns).join('\n')}\n`

const keyed = (text: string, columns: number): string =>
  table(
    text.split('\n').map((line) => {
      const [key = '', what = ''] = line.split('\t')
      return [key, what] as const
    }),
    columns,
  )

/** What a command line does stands beside it, or below it where all do not fit. A line to copy is never broken. */
function examples(lines: readonly string[], columns: number): string {
  const rows = lines.map((line) => line.split('\t') as [string, string])
  const longest = Math.max(...rows.map(([line]) => line.length))
  if (GAP.length * 2 + longest + LEAST_TEXT <= columns) return table(rows, columns)
  return rows.map(([line, what]) => `${GAP}${line}\n${table([['', what]], columns)}`).join('')
}

const widthOf = (columns: number | undefined): number => Math.min(columns ?? WIDEST, WIDEST)

const shownPlace = ({ name, optional = false, repeat = false }: Argument): string =>
  `${optional ? `[${name}]` : `<${name}>`}${repeat ? '...' : ''}`

const words = (command: Command): string => [command.path.join(' '), ...command.arguments.map(shownPlace)].join(' ')

function flagRow(flag: Flag): readonly [string, string] {
  const all = [flag.name, ...(flag.aliases ?? [])].map((it) => `--${it}`)
  const short = flag.short === undefined ? [] : [`-${flag.short}`]
  const value = flag.value === undefined ? '' : ` <${flag.value}>`
  const choices = flag.choices === undefined ? '' : ` (${flag.choices.join(', ')})`
  const repeat = flag.repeat === true && !GLOBAL_FLAGS.includes(flag) ? '; may be repeated' : ''
  return [`${[...all, ...short].join(', ')}${value}`, `${flag.about}${choices}${repeat}`]
}

const globals = (columns: number): string => `\nglobal options:\n${table(GLOBAL_FLAGS.map(flagRow), columns)}`

/** Help of one command, for a terminal of `columns`. */
export function helpOf(command: Command, columns?: number): string {
  const width = widthOf(columns)
  const flags = command.flags.filter((it) => !it.hidden)
  const aliases = command.aliases === undefined ? '' : `also: ${command.aliases.join(', ')}\n`
  const parts = [
    `${command.about}\n\nusage: pohunek ${words(command)}${flags.length > 0 ? ' [options]' : ''}\n${aliases}`,
  ]
  if (command.details !== undefined) parts.push(paragraphs(command.details, width))
  if (command.arguments.length > 0) {
    const rows = command.arguments.map(
      (it) => [`<${it.name}>`, `${it.about}${it.choices ? ` (${it.choices.join(', ')})` : ''}`] as const,
    )
    parts.push(`\narguments:\n${table(rows, width)}`)
  }
  if (flags.length > 0) parts.push(`\noptions:\n${table(flags.map(flagRow), width)}`)
  if (command.examples !== undefined) parts.push(`\nexamples:\n${examples(command.examples, width)}`)
  return [...parts, globals(width)].join('')
}

const COMMON =
  'Commands take --json and then print one JSON document on standard output; attach, completions, daemon start and prompt ' +
  'render have none, notifications watch prints a line for each event. Exit codes: 0 done, 1 a failure with a code of its own, 2 wrong usage; attach has those of its program.'

/** All commands below `group`, every one there is for an empty one. */
export function overview(
  commands: readonly Command[],
  group: readonly string[],
  version: string,
  columns?: number,
): string {
  const width = widthOf(columns)
  const found = commands.filter((it) => !it.hidden && group.every((word, at) => it.path[at] === word))
  // Commands of a group stand together, in whatever order the plugins are composed.
  const groups = [...new Set(found.map((it) => it.path[0]))]
  const shown = groups.flatMap((first) => found.filter((it) => it.path[0] === first))
  return [
    group.length === 0 ? `${title(version)}\n\n` : '',
    `usage: pohunek ${[...group, '<command>'].join(' ')} [options]\n`,
    `\ncommands:\n${table(
      shown.map((it) => [
        words(it),
        `${it.about}${it.aliases === undefined ? '' : ` (also: ${it.aliases.join(', ')})`}`,
      ]),
      width,
    )}`,
    globals(width),
    group.length === 0 ? `\n${flowing(COMMON, width)}` : '',
    `\npohunek ${[...group, '<command>'].join(' ')} --help tells more.\n`,
  ].join('')
}

const title = (version: string): string =>
  `pohunek ${version}: terminals that outlive windows, connections and daemon restarts`

/** What a person needs on the first day. */
export function welcome(version: string, columns?: number): string {
  const rows = [
    ['pohunek session new --name work --attach', 'your shell in a session; Ctrl-] leaves it running'],
    ['pohunek session list', 'what there is'],
    ['pohunek attach work', 'back again'],
    [`pohunek session input work 'make test'`, 'type a line from outside'],
    ['pohunek session screen work', 'look at its screen'],
    ['pohunek session rm work', 'end and remove it'],
    ['pohunek doctor', 'is everything in order here?'],
  ] as const
  return `${title(version)}\n\n${table(rows, widthOf(columns))}\npohunek --help lists all commands.\n`
}
