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
  test('what follows -- is no option', () =>
    expect(input(['session', 'input', 'x', '--', '--json']).argument('text')).toBe('--json'))
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
    expect('globals' in parsed && parsed.globals).toMatchObject({ host: 'local', noStart: true })
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
