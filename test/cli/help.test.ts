/** --help as it is read: every option says something, every example is a command line that is taken. */
import { describe, expect, test } from 'vitest'
import { helpOf, overview } from '../../cli/help.ts'
import { parse } from '../../cli/parse.ts'
import { pluginCommands as all } from '../../main/plugin-commands.ts'

const examples = all.flatMap((it) => it.examples ?? [])

/** The words of the pohunek command in a line a person would copy. */
function argv(line: string): string[] {
  const own = /(?:^|\| )pohunek ([^|]*)/.exec(line)?.[1] ?? ''
  return [...own.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '')
}

test('there are examples, and each says what it does', () => {
  expect(examples.length).toBeGreaterThan(15)
  for (const it of examples) expect(it).toMatch(/^[^\t]+\t[^\t]+$/)
})

test.each(examples.map((it) => it.split('\t')[0] ?? ''))('%s', (line) => {
  const parsed = parse(all, argv(line))
  expect('problem' in parsed ? parsed.problem : undefined).toBeUndefined()
})

describe.each(all.map((it) => [it.path.join(' '), it] as const))('%s', (_, command) => {
  test('every option and argument is explained, in letters any terminal has', () => {
    for (const it of [...command.flags, ...command.arguments]) expect(it.about.length).toBeGreaterThan(3)
    expect(helpOf(command, 80)).toMatch(/^[\x20-\x7e\n]*$/)
  })
  test.each([40, 80, 100])('%d columns: only what is to be copied or named is wider', (columns) => {
    const whole = (command.examples ?? []).map((it) => `  ${it.split('\t')[0] ?? ''}`)
    const wide = helpOf(command, columns)
      .split('\n')
      .filter((it) => it.length > columns && !whole.includes(it))
    if (columns >= 80) expect(wide).toEqual([])
    // A column of text beside long names needs its room.
    for (const it of wide) expect(it.length).toBeLessThanOrEqual(80)
  })
})

test('commands of a group stand together, whichever plugins they come from', () => {
  const groups = overview(all, [], '1')
    .split('\n')
    .flatMap((it) => /^ {2}([a-z]+) .*\S {2,}\S/.exec(it)?.[1] ?? [])
  const runs = groups.filter((it, at) => it !== groups[at - 1])
  expect(runs).toEqual([...new Set(runs)])
})
