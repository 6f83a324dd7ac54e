import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parsePlain } from '../../cli/plain.ts'
import { parse } from '../../cli/parse.ts'
import { commands as sessions } from '../../plugins/sessions/commands.ts'
import { health } from '../../plugins/system/commands.ts'
import type { Command, Input } from '../../protocol/command.ts'

const commands = [...sessions, health]
const shown = (command: Command, input: Input) => ({
  path: command.path,
  arguments: command.arguments.map((it) => input.argument(it.name)),
  flags: command.flags.map((it) => [it.name, input.has(it.name), input.values(it.name), input.integer(it.name)]),
})

const VALUES = ['007', '1e3', '0x10', 'true', 'false', '', '-', 'x', 'a b', '10', 'k=v', 'visible', '__proto__', 'ň']
const line = fc.constantFrom(...commands).chain((command) => {
  const names = command.flags.flatMap((it) => [
    `--${it.name}`,
    ...(it.aliases ?? []).map((alias) => `--${alias}`),
    ...(it.short === undefined ? [] : [`-${it.short}`]),
  ])
  const token = fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...VALUES) },
    { weight: 4, arbitrary: fc.constantFrom(...names) },
    fc.tuple(fc.constantFrom(...names), fc.constantFrom(...VALUES)).map(([name, value]) => `${name}=${value}`),
    fc.constantFrom('--', '--help', '--host', '--host=local', '--no-start', '--no-json', '---json', '-json', '--js.on'),
    fc.string({ maxLength: 6 }),
  )
  const word = [command.path.at(-1) as string, ...(command.aliases ?? [])]
  return fc
    .tuple(fc.constantFrom(...word), fc.array(token, { maxLength: 6 }))
    .map(([last, rest]) => [...command.path.slice(0, -1), last, ...rest])
})

test('a plain line means what the parser says it means', () => {
  let plain = 0
  fc.assert(
    fc.property(line, (argv) => {
      const quick = parsePlain(commands, argv)
      if (quick === undefined) return
      plain++
      const full = parse(commands, argv)
      expect('input' in full && { ...shown(full.command, full.input), globals: full.globals }).toEqual({
        ...shown(quick.command, quick.input),
        globals: quick.globals,
      })
    }),
    { numRuns: 5_000 },
  )
  expect(plain).toBeGreaterThan(200)
})

test('everyday lines are plain', () => {
  for (const argv of [
    ['session', 'list', '--json'],
    ['session', 'ls', '-q'],
    ['session', 'new', '--name', 'work', '--cols', '100', '--json'],
    ['session', 'input', 'work', 'make test'],
    ['session', 'screen', 'work'],
    ['health'],
  ]) {
    expect(parsePlain(commands, argv)?.command.path.at(-1), argv.join(' ')).toBeDefined()
  }
})

test('what could mean something else is not plain', () => {
  for (const argv of [
    [],
    ['session'],
    ['session', 'list', '--help'],
    ['--host', 'local', 'session', 'list'],
    ['session', 'list', '--filter', 'state=done', '--filter', 'agent=shell'],
    ['session', 'new', '--name=work'],
    ['session', 'input', 'work', '--', '--json'],
    ['session', 'new', '--name', ''],
    ['session', 'resize', 'work', '--cols', 'x', '--rows', '1'],
  ]) {
    expect(parsePlain(commands, argv), argv.join(' ')).toBeUndefined()
  }
})
