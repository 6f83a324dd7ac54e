/** --help from the command data. Pure. */
import type { Command, Flag } from '../protocol/command.ts'

const GLOBAL = [
  ['--host <name>', 'the host; only local in this release'],
  ['--no-start', 'do not start a daemon when none answers (also POHUNEK_NO_START=1)'],
  ['--help, -h', 'this'],
  ['--version, -V', 'the version'],
] as const

const column = (rows: readonly (readonly [string, string])[]): string => {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}\n`).join('')
}

const words = (command: Command): string =>
  [command.path.join(' '), ...command.arguments.map((it) => (it.optional ? `[${it.name}]` : `<${it.name}>`))].join(' ')

function flagLine(flag: Flag): readonly [string, string] {
  const all = [flag.name, ...(flag.aliases ?? [])].map((it) => `--${it}`)
  const short = flag.short === undefined ? [] : [`-${flag.short}`]
  const value = flag.value === undefined ? '' : ` <${flag.value}>`
  const choices = flag.choices === undefined ? '' : ` (${flag.choices.join(', ')})`
  return [
    `${[...all, ...short].join(', ')}${value}`,
    `${flag.about}${choices}${flag.repeat ? '; may be repeated' : ''}`,
  ]
}

export function helpOf(command: Command): string {
  const flags = command.flags.filter((it) => !it.hidden)
  const parts = [`${command.about}\n\nusage: pohunek ${words(command)}${flags.length > 0 ? ' [options]' : ''}\n`]
  if (command.details !== undefined) parts.push(`\n${command.details.join('\n')}\n`)
  if (command.arguments.length > 0) {
    const rows = command.arguments.map(
      (it) => [`<${it.name}>`, `${it.about}${it.choices ? ` (${it.choices.join(', ')})` : ''}`] as const,
    )
    parts.push(`\narguments:\n${column(rows)}`)
  }
  if (flags.length > 0) parts.push(`\noptions:\n${column(flags.map(flagLine))}`)
  return parts.join('')
}

/** Commands below `group`, all of them for an empty one. */
export function overview(commands: readonly Command[], group: readonly string[], version: string): string {
  const shown = commands.filter((it) => !it.hidden && group.every((word, at) => it.path[at] === word))
  return [
    group.length === 0 ? `pohunek ${version}: durable terminal sessions\n\n` : '',
    `usage: pohunek ${group.join(' ')}${group.length > 0 ? ' ' : ''}<command> [options]\n\n`,
    `commands:\n${column(shown.map((it) => [words(it), it.about] as const))}`,
    `\nglobal options:\n${column(GLOBAL)}`,
    group.length === 0
      ? '\npohunek session new --attach starts your shell in a session; Ctrl-] leaves it running.\n'
      : '',
  ].join('')
}
