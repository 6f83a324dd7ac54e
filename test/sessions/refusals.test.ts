import { chmodSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { refused } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import { station } from './station.ts'

const long = (bytes: number): string => 'x'.repeat(bytes)
const cases: [string, Record<string, unknown>, string, RegExp?][] = [
  ['zero columns', { cols: 0 }, 'bad_request', /zero/],
  ['zero rows', { rows: 0 }, 'bad_request', /zero/],
  ['too many cells', { cols: 65_535, rows: 65_535 }, 'bad_request', /4000000/],
  ['a size over u16', { cols: 65_536 }, 'bad_request'],
  ['a text size', { cols: '80' }, 'bad_request'],
  ['no agent', { agent: undefined }, 'bad_request'],
  ['an unknown agent', { agent: 'nobody' }, 'agent_profile_not_found', /nobody/],
  ['an agent outside the tree', { agent: '../evil' }, 'invalid_name'],
  ['an empty agent', { agent: '' }, 'invalid_name'],
  ['an agent with a dash', { agent: '-rf' }, 'invalid_name'],
  ['a name that is too long', { name: long(129) }, 'bad_request', /128/],
  ['a name with an escape', { name: 'a\u001b[2J' }, 'bad_request', /control/],
  ['a missing directory', { cwd: '/tmp/pohunek-gone' }, 'cwd_failed', /\/tmp\/pohunek-gone/],
  ['a file as directory', { cwd: '/etc/passwd' }, 'cwd_failed', /\/etc\/passwd/],
  ['a home path', { cwd: '~/x' }, 'bad_request', /absolute/],
  ['a relative path', { cwd: 'x' }, 'bad_request', /absolute/],
  [
    'too many metadata keys',
    { metadata: Object.fromEntries(Array.from({ length: 33 }, (_, n) => [`k${n}`, 'v'])) },
    'bad_request',
  ],
  ['metadata that is a list', { metadata: [] }, 'bad_request'],
  ['metadata that is no text', { metadata: { a: 1 } }, 'bad_request'],
  ['a project', { project: 'p' }, 'bad_request', /worktrees plugin/],
  ['a branch', { branch: 'b' }, 'bad_request', /worktrees plugin/],
  ['a prompt that is too long', { input: long(262_145) }, 'session_input_rejected'],
]

test('FC-5e81, FC-2e51, FC-94ef: what session.new refuses leaves nothing behind', async () => {
  const it = await station()
  for (const [what, params, code, words] of cases) {
    const error = await refused(it.create(params))
    expect(error.code, what).toBe(code)
    if (words) expect(error.body.msg, what).toMatch(words)
  }
  expect(await it.call('session.list')).toEqual([])
  expect(it.traces()).toEqual([])
})

test('FC-94ef: a display name never becomes a file name', async () => {
  const it = await station()
  const before = it.files('state').filter((path) => !path.includes('logs/'))
  for (const name of ['../evil', 'a/b', '.', '..', '-rf']) {
    const info = await it.create({ name })
    expect(info.name).toBe(name)
    await it.call('session.remove', info.id)
  }
  expect((await it.create({ name: '  \n'.trim() })).name).toBeUndefined()
  expect(
    it.files('state').filter((path) => !path.includes('logs/') && !/s-[0-9A-Z]{26}|jobs|workers/.test(path)),
  ).toEqual(before.filter((path) => !/jobs|workers/.test(path)))
})

test('a program that cannot run is named, and nothing is left', async () => {
  const it = await station()
  it.profile('missing', ['base = "shell"', 'program = "no-such-program"'])
  it.profile('absolute', ['base = "shell"', 'program = "/no/such/program"'])
  const script = join(it.roots.work, 'plain.txt')
  writeFileSync(script, 'hello')
  it.profile('plain', ['base = "shell"', `program = ${JSON.stringify(script)}`])
  const missing = await refused(it.create({ agent: 'missing' }))
  expect(missing.code).toBe('agent_binary_missing')
  expect(missing.body.msg).toMatch(/no-such-program.*\/usr\/bin/)
  expect((await refused(it.create({ agent: 'absolute' }))).code).toBe('agent_binary_missing')
  expect((await refused(it.create({ agent: 'plain' }))).code).toBe('agent_binary_missing')
  const broken = join(it.roots.work, 'broken')
  writeFileSync(broken, '#!/no/such/interpreter\n')
  chmodSync(broken, 0o700)
  it.profile('broken', ['base = "shell"', `program = ${JSON.stringify(broken)}`])
  expect((await refused(it.create({ agent: 'broken' }))).code).toBe('spawn_failed')
  expect(it.traces()).toEqual([])
})

test("the caller's search path finds what the daemon's does not", async () => {
  const it = await station()
  const tool = join(it.roots.work, 'only-here')
  writeFileSync(tool, '#!/bin/sh\necho found me\nsleep 1000\n')
  chmodSync(tool, 0o700)
  it.profile('tool', ['base = "shell"', 'program = "only-here"'])
  expect((await refused(it.create({ agent: 'tool' }))).code).toBe('agent_binary_missing')
  const info = await it.create({ agent: 'tool', search_path: `relative:${it.roots.work}` })
  await until('the tool runs', async () =>
    (await it.call('session.read', { session_id: info.id })).text.includes('found me'),
  )
})

test('an unreadable or missing shell is a typed refusal', async () => {
  const it = await station({ env: { SHELL: '/no/such/shell' } })
  const error = await refused(it.create())
  expect(error.code).toBe('agent_binary_missing')
  expect(error.body.msg).toContain('/no/such/shell')
  expect(it.traces()).toEqual([])
})

test('a temporary directory that is not private refuses the session', async () => {
  const it = await station()
  const first = await it.create()
  await it.call('session.remove', first.id)
  const tmp = join(it.roots.cache, 'pohunek/session-tmp')
  chmodSync(tmp, 0o777)
  const error = await refused(it.create())
  expect(error.code).toBe('session_tmpdir_unsafe')
  expect(it.traces()).toEqual([])
  chmodSync(tmp, 0o700)
})

test.each([
  ['an unknown key', ['base = "shell"', 'colour = "red"'], 0o600, 'invalid_profile', /colour/],
  ['a missing base', ['program = "cat"'], 0o600, 'invalid_profile', /base/],
  ['a wrong type', ['base = "shell"', 'args = "x"'], 0o600, 'invalid_profile', /args/],
  ['broken TOML', ['base = '], 0o600, 'invalid_profile', /line 1/],
  ['a file others may write', ['base = "shell"'], 0o666, 'invalid_profile', /others may write/],
  [
    'a pin on a built-in base',
    ['base = "shell"', 'package = "p"', `digest = "sha256:${'0'.repeat(64)}"`],
    0o600,
    'invalid_profile',
    /package/,
  ],
  ['half a pin', ['base = "shell"', 'package = "p"'], 0o600, 'invalid_profile', /digest/],
  ['a runtime nobody installed', ['base = "gemini"'], 0o600, 'runtime_not_installed', /gemini/],
  [
    'a secret of the wrong type',
    ['base = "shell"', '[env]', 'TOKEN = 12345678'],
    0o600,
    'invalid_profile',
    /^(?!.*12345678).*TOKEN/,
  ],
  ['a profile that is too large', ['base = "shell"', `# ${'x'.repeat(70_000)}`], 0o600, 'invalid_profile', /65536/],
] as const)('a profile with %s is refused by file and key', async (_, lines, mode, code, words) => {
  const it = await station()
  it.profile('mine', lines, mode)
  chmodSync(join(it.roots.config, 'pohunek/agents/mine.toml'), mode)
  const error = await refused(it.create({ agent: 'mine' }))
  expect(error.code).toBe(code)
  expect(error.body.msg).toMatch(words)
  if (code === 'invalid_profile') expect(error.body.msg).toContain('mine.toml')
})

test('a profile behind a symbolic link is refused', async () => {
  const it = await station()
  it.profile('real', ['base = "shell"'])
  symlinkSync(join(it.roots.config, 'pohunek/agents/real.toml'), join(it.roots.config, 'pohunek/agents/link.toml'))
  expect((await refused(it.create({ agent: 'link' }))).code).toBe('invalid_profile')
})

test('without packages no agent is known', async () => {
  const it = await station({ without: ['packages'] })
  expect((await refused(it.create())).code).toBe('agent_profile_not_found')
  expect(it.traces()).toEqual([])
})
