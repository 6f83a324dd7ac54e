import { describe, expect, test } from 'vitest'
import { parse } from '../../cli/parse.ts'
import { resolveTarget, splitTarget } from '../../cli/target.ts'
import { commands } from '../../plugins/sessions/commands.ts'

const problem = (line: string[]): string | undefined => {
  const parsed = parse(commands, line)
  return 'problem' in parsed ? parsed.problem : undefined
}
const input = (line: string[]) => {
  const parsed = parse(commands, line)
  if (!('input' in parsed)) throw new Error(JSON.stringify(parsed))
  return parsed.input
}

describe('FC-94e0: unexpected arguments are usage errors', () => {
  test.each([
    [['session', 'read', 'x', '--lines']],
    [['session', 'read', 'x', '--lines', '0']],
    [['session', 'read', 'x', '--lines', '1e2']],
    [['session', 'read', 'x', '--lines', '-1']],
    [['session', 'inspect']],
    [['session', 'inspect', '']],
    [['session', 'inspect', 'a', 'b']],
    [['session', 'frobnicate']],
    [['session', 'new', '--branch', 'x']],
    [['frobnicate']],
    [['session', 'list', '--jsn']],
    [['session', 'list', '-x']],
    [['session', 'list', '--json', '-q']],
    [['session', 'list', '--json=yes']],
    [['session', 'list', '--json', '--json']],
    [['session', 'list', '--filter', 'nope=1']],
    [['session', 'list', '--filter', 'state']],
    [['session', 'new', '--name', '']],
    [['session', 'new', '--name', '   ']],
    [['session', 'new', '--name', '-x']],
    [['session', 'new', '--name=-x']],
    [['session', 'new', '--name', 'x'.repeat(10_000)]],
    [['session', 'new', '--name', 'a\x1b[2J']],
    [['session', 'new', '--name']],
    [['session', 'new', '--name', '--json']],
    [['session', 'new', 'stray']],
    [['session', 'new', '--project', 'a', '--repo', 'b']],
    [['session', 'new', '--base-branch', 'b']],
    [['session', 'new', '--input', 'a', '--stdin']],
    [['session', 'new', '--meta', 'novalue']],
    [['session', 'new', '--meta', '=v']],
    [['session', 'new', '--meta', 'k=1', '--meta', 'k=2']],
    [['session', 'new', '--cols', '0']],
    [['session', 'new', '--request-timeout-ms', '0']],
    [['session', 'input', 'x']],
    [['session', 'input', 'x', 'text', '--stdin']],
    [['session', 'input', 'x', 'text', '--timeout', '8001']],
    [['session', 'output', 'x', '--worker-instance-id', 'r']],
    [['session', 'output', 'x', '--wait-ms', '5']],
    [['session', 'rename', 'x']],
    [['session', 'rename', 'x', 'name', '--clear']],
    [['session', 'rename', 'x', '']],
    [['session', 'resize', 'x', '--cols', '80']],
    [['session', 'metadata', 'x']],
    [['session', 'metadata', 'x', '--set', 'k=1', '--clear', 'k']],
    [['--nope', 'session', 'list']],
    [['--host']],
    [['--host', '']],
    [['--host', '--json']],
    // Spellings cac folds into others, and what it takes for a value or an argument.
    [['session', 'list', '--q']],
    [['session', 'list', '-qq']],
    [['session', 'list', '---json']],
    [['session', 'list', '-json']],
    [['session', 'list', '--no-json']],
    [['session', 'list', '--no-quiet']],
    [['session', 'list', '--json.x']],
    [['session', 'list', '--json=']],
    [['session', 'list', '--__proto__=x']],
    [['session', 'list', '--constructor']],
    [['session', 'list', '--metaEq', 'a=b']],
    [['session', 'list', '--meta-eq', '--json']],
    [['session', 'list', '--meta-eq', 'a=b', '--meta-eq']],
    [['session', 'list', '--', 'x']],
    [['session', 'new', '--inputStdin']],
    [['session', 'new', '--stdin', '--input-stdin']],
    [['session', 'new', '--nostart']],
    [['session', 'stop', '--', 'a', 'b']],
  ])('%j', (line) => {
    const told = problem(line)
    expect(told).toBeTypeOf('string')
    expect(told).not.toContain('\n')
    expect((told as string).length).toBeLessThan(400)
  })
})

describe('values are taken as they are', () => {
  test.each(['007', '1e3', '0x10', 'true', 'a=b', '-'])('--input %s', (value) =>
    expect(input(['session', 'new', '--input', value]).value('input')).toBe(value),
  )
  test('an empty input and one that begins with a dash', () => {
    expect(input(['session', 'new', '--input', '']).value('input')).toBe('')
    expect(input(['session', 'new', '--input=--help']).value('input')).toBe('--help')
  })
  test('what follows -- is no option', () => {
    expect(input(['session', 'input', 'x', '--', '--json']).argument('text')).toBe('--json')
    expect(input(['session', 'input', '--', '-x', '--']).argument('text')).toBe('--')
    expect(input(['session', 'stop', '--', '007']).argument('target')).toBe('007')
  })
  test('an argument behind a flag without a value stays an argument', () => {
    for (const target of ['true', 'false', '007', '-']) {
      expect(input(['session', 'rm', '--accept-unconfirmed-cleanup', target]).argument('target')).toBe(target)
      expect(input(['session', 'inspect', '--json', target]).argument('target')).toBe(target)
    }
  })
  test('a repeated flag keeps its values in order, as they are', () => {
    expect(
      input(['session', 'metadata', 'x', '--set=a=1', '--json', '--set', 'b=', '--set=c=-']).values('set'),
    ).toEqual(['a=1', 'b=', 'c=-'])
    expect(input(['session', 'input', 'x', '', '--until', 'idle', '--until', 'blocked']).values('until')).toEqual([
      'idle',
      'blocked',
    ])
  })
  test('metadata splits at the first equals sign', () =>
    expect(input(['session', 'new', '--meta', 'k=a=b']).values('meta')).toEqual(['k=a=b']))
  test('aliases and short names', () => {
    expect(input(['session', 'ls', '-q']).has('quiet')).toBe(true)
    expect(input(['session', 'new', '--stdin']).has('input-stdin')).toBe(true)
    expect(
      input(['session', 'output', 'x', '--runtime-id', 'r', '--runtime-generation', '1']).value('worker-instance-id'),
    ).toBe('r')
  })
  test('global flags anywhere before --', () => {
    const parsed = parse(commands, ['--no-start', 'session', '--host', 'local', 'list', '--json'])
    expect('globals' in parsed && parsed.globals).toEqual({ host: 'local', noStart: true, help: false, version: false })
    const last = parse(commands, ['--host=a', 'session', 'list', '--host', '7'])
    expect('globals' in last && last.globals.host).toBe('7')
    const help = parse(commands, ['session', 'stop', '-h'])
    expect('globals' in help && help.globals.help).toBe(true)
  })
})

describe('targets', () => {
  const sessions = [
    { id: 's-01ABCDEFGHJKMNPQRSTVWXYZ01', name: 'one' },
    { id: 's-01ABCDEFGHJKMNPQRSTVWXYZ02', name: 'two' },
    { id: 's-01BBCDEFGHJKMNPQRSTVWXYZ03', name: 'two' },
    { id: 's-01CBCDEFGHJKMNPQRSTVWXYZ04', name: 's-01ABCDEFGHJKMNPQRSTVWXYZ01' },
    { id: 's-01DBCDEFGHJKMNPQRSTVWXYZ05', name: 's-01AB' },
  ]
  const code = (target: string): string => {
    try {
      return resolveTarget(target, sessions)
    } catch (failure) {
      return (failure as { code: string }).code
    }
  }
  test.each([
    ['one', 's-01ABCDEFGHJKMNPQRSTVWXYZ01'],
    ['s-01ABCDEFGHJKMNPQRSTVWXYZ01', 's-01ABCDEFGHJKMNPQRSTVWXYZ01'],
    ['s-01BB', 's-01BBCDEFGHJKMNPQRSTVWXYZ03'],
    ['s-01bb', 's-01BBCDEFGHJKMNPQRSTVWXYZ03'],
    ['s-01AB', 's-01DBCDEFGHJKMNPQRSTVWXYZ05'],
    ['two', 'ambiguous_session_name'],
    ['s-01ABC', 'ambiguous_session_name'],
    ['s-01B', 'session_not_found'],
    ['no-such', 'session_not_found'],
    ['', 'session_not_found'],
  ])('%s is %s', (target, expected) => expect(code(target)).toBe(expected))
  test('hosts', () => {
    expect(splitTarget('local/x')).toEqual({ host: 'local', target: 'x' })
    expect(() => splitTarget('a/b/c')).toThrow()
    expect(() => splitTarget('/x')).toThrow()
  })
})
