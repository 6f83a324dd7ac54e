import { cpSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { definePlugin } from '../../kernel/index.ts'
import { officialDirectory } from '../../plugins/packages/official.ts'
import { packagesPlugin } from '../../plugins/packages/plugin.ts'
import type { HostCapabilities, HostRuntime } from '../../plugins/packages/contract.ts'
import { contract } from '../../protocol/contract.ts'
import { refused } from '../harness/session.ts'
import { world } from '../harness/world.ts'
import { station, type Station } from '../sessions/station.ts'
import { agentStation, say, stubsOf, VERSION_LINES } from './stub.ts'

const inspect = async (it: Station): Promise<HostCapabilities> => (await it.call('host.inspect')) as HostCapabilities
const of = ({ runtimes }: HostCapabilities, agent: string): HostRuntime | undefined =>
  runtimes.find((it) => it.agent === agent)

test('what a host can run is looked at now', async () => {
  const { it, stubs } = await agentStation()
  const claude = stubs.put('claude', say(VERSION_LINES.claude))
  const codex = stubs.put('codex', say('codex-cli 0.1.0'))
  const pi = stubs.put('pi', 'exit 1')
  it.profile('work', ['base = "claude"', '[env]', `CLAUDE_CONFIG_DIR = "${it.roots.work}/claude"`])
  it.profile('broken', ['base = ['])
  const told = await inspect(it)
  expect(told).toMatchObject({
    daemon_version: '0.0.0-test',
    protocol_version: 4,
    supported_agents: ['claude', 'codex', 'hermes', 'pi', 'shell'],
    worktree_supported: false,
    terminal_read_supported: true,
    output_read_supported: true,
    session_wait_supported: false,
  })
  expect(told.runtimes.map((entry) => entry.agent)).toEqual([
    'broken',
    'claude',
    'codex',
    'hermes',
    'pi',
    'shell',
    'work',
  ])
  const id = { config_home_id: expect.stringMatching(/^[0-9a-f]{32}$/) as string }
  expect(of(told, 'claude')).toEqual({
    agent: 'claude',
    agent_base: 'claude',
    available: true,
    path: claude,
    supported: true,
    version: '2.1.300',
    ...id,
  })
  expect(of(told, 'codex')).toEqual({
    agent: 'codex',
    agent_base: 'codex',
    available: true,
    path: codex,
    supported: false,
    version: '0.1.0',
    ...id,
  })
  expect(of(told, 'pi')).toEqual({ agent: 'pi', agent_base: 'pi', available: true, path: pi, supported: false })
  expect(of(told, 'hermes')).toEqual({ agent: 'hermes', agent_base: 'hermes', available: false })
  expect(of(told, 'shell')).toEqual({ agent: 'shell', agent_base: 'shell', available: true, path: '/bin/sh' })
  expect(of(told, 'broken')).toEqual({ agent: 'broken', available: false })
  expect(of(told, 'work')).toMatchObject({ agent_base: 'claude', version: '2.1.300', ...id })
  expect(stubs.probes('claude')).toBe(1)
  rmSync(claude)
  expect(of(await inspect(it), 'claude')).toMatchObject({ available: false })
})

test('an agent without a program hangs no other one up', async () => {
  const { it, stubs } = await agentStation()
  stubs.put('claude', 'sleep 1000')
  stubs.put('codex', say(VERSION_LINES.codex))
  const told = await inspect(it)
  expect(of(told, 'claude')).toMatchObject({ available: true, supported: false })
  expect(of(told, 'codex')).toMatchObject({ supported: true, version: '0.171.0' })
})

test('one directory has one id, also behind a link and after a restart, and another host has another', async () => {
  const { it, stubs } = await agentStation()
  const home = join(it.roots.home, '.claude')
  mkdirSync(home)
  symlinkSync(home, join(it.roots.work, 'link'))
  it.profile('same', ['base = "claude"', '[env]', `CLAUDE_CONFIG_DIR = "${it.roots.work}/link"`])
  it.profile('other', ['base = "claude"', '[env]', `CLAUDE_CONFIG_DIR = "${it.roots.work}/other"`])
  it.profile('relative', ['base = "claude"', '[env]', 'CLAUDE_CONFIG_DIR = "claude"'])
  const id = async (agent: string): Promise<string | undefined> => of(await inspect(it), agent)?.config_home_id
  const first = await id('claude')
  expect(first).toMatch(/^[0-9a-f]{32}$/)
  expect(await id('same')).toBe(first)
  expect(await id('other')).not.toBe(first)
  expect(await id('relative')).toBeUndefined()
  const key = join(it.roots.state, 'pohunek/host/profile-revision.key')
  expect(statSync(key).mode & 0o777).toBe(0o600)
  expect(statSync(join(it.roots.state, 'pohunek/host')).mode & 0o777).toBe(0o700)
  const bytes = readFileSync(key)
  // A variable of the daemon counts only where sessions are given it.
  await it.restart({ env: { ...stubs.env, CLAUDE_CONFIG_DIR: join(it.roots.work, 'other') } })
  expect(await id('claude')).toBe(first)
  await it.restart({
    env: { ...stubs.env, CLAUDE_CONFIG_DIR: join(it.roots.work, 'other') },
    environment: { allowlist: ['CLAUDE_CONFIG_DIR'], searchPath: [] },
  })
  expect(await id('claude')).toBe(await id('other'))
  expect(readFileSync(key)).toEqual(bytes)
  rmSync(key)
  expect(await id('same')).not.toBe(first)
  writeFileSync(key, 'short', { mode: 0o600 })
  expect(await id('claude')).toBeUndefined()
  expect(await id('shell')).toBeUndefined()
})

test('plugins that are served are told', async () => {
  const { boot } = await import('./with-plugins.ts')
  const serving = (name: string) =>
    definePlugin({ contract: contract({ name, methods: {}, events: {} }), needs: {}, setup: () => ({ methods: {} }) })
  const told = await boot([serving('worktrees'), serving('waits')])
  expect(told).toMatchObject({ worktree_supported: true, session_wait_supported: true, git_available: false })
})

test('a runtime whose files are broken takes only itself away, and doctor tells it', async () => {
  const packages = (it: Station): string => join(it.roots.work, 'packages')
  const { it, stubs } = await agentStation()
  stubs.put('claude', say(VERSION_LINES.claude))
  stubs.put('codex', say(VERSION_LINES.codex))
  const claude = await it.create({ agent: 'claude' })
  cpSync(officialDirectory(), packages(it), { recursive: true })
  const file = join(packages(it), 'claude/runtime.toml')
  writeFileSync(file, readFileSync(file, 'utf8').replace('prompt_arg = true', 'prompt_arg = 1'))
  rmSync(join(packages(it), 'shell'), { recursive: true })
  rmSync(join(packages(it), 'hermes/runtime.toml'))
  await it.restart({ env: stubs.env, packages: packagesPlugin({ official: packages(it) }) })
  expect((await inspect(it)).supported_agents).toEqual(['codex', 'pi', 'shell'])
  expect((await refused(it.create({ agent: 'claude' }))).code).toBe('agent_profile_not_found')
  it.profile('mine', ['base = "claude"'])
  expect((await refused(it.create({ agent: 'mine' }))).code).toBe('runtime_not_installed')
  expect((await it.create({ agent: 'codex' })).state).toBe('running')
  expect((await it.create()).state).toBe('running')
  expect((await refused(it.call('session.rename', { session_id: claude.id, name: 'x' }))).code).toBe(
    'runtime_not_installed',
  )
  expect((await it.call('session.inspect', claude.id)).state).toBe('running')
  const problems = it.log.filter((entry) => entry.message.includes('broken')).map((entry) => entry.fields['problem'])
  expect(problems).toContainEqual(expect.stringContaining(`${file}, runtime.prompt_arg: `))
  const { checks } = await it.kernel.kernel.diagnostics.run()
  const check = checks.find((entry) => entry.name === 'runtime_packages')
  expect(check?.status).toBe('warn')
  expect(check?.detail).toContain(`${file}, runtime.prompt_arg: `)
  expect(check?.detail).toContain('hermes/runtime.toml: is missing')
  await it.restart({ env: stubs.env })
})

test('without any file of runtimes there is the shell', async () => {
  const it = await station()
  await it.restart({ packages: packagesPlugin({ official: join(it.roots.work, 'nowhere') }) })
  expect((await inspect(it)).supported_agents).toEqual(['shell'])
  expect((await it.create()).state).toBe('running')
})

test('host inspect in both forms', async () => {
  const it = await world({ daemon: false })
  const stubs = stubsOf(it.roots)
  const claude = stubs.put('claude', say(VERSION_LINES.claude))
  await it.start({ env: stubs.env })
  const human = await it.cli(['host', 'inspect', 'local'])
  expect(human).toMatchObject({ code: 0, stderr: '' })
  expect(human.stdout).toMatch(/^host local\n/)
  for (const line of [
    /^daemon_version +\S+$/m,
    /^protocol_version +4$/m,
    /^git_available +(true|false)$/m,
    /^worktree_supported +(true|false)$/m,
    /^supported_agents +claude, codex, hermes, pi, shell$/m,
    new RegExp(
      `^ *claude available=true supported=true version=2.1.300 path=${claude} config_home_id=[0-9a-f]{32}$`,
      'm',
    ),
    /^ *hermes available=false supported=- version=- path=- config_home_id=-$/m,
  ])
    expect(human.stdout).toMatch(line)
  const json = JSON.parse((await it.cli(['host', 'inspect', 'local', '--json'])).stdout) as { ok: HostCapabilities }
  expect(of(json.ok, 'claude')).toMatchObject({ path: claude, supported: true })
  expect(await it.cli(['host', 'inspect', 'far'])).toMatchObject({ code: 1, stdout: '' })
  expect((await it.cli(['host', 'inspect', 'far'])).stderr).toContain('no host "far"')
  expect((await it.cli(['host', 'inspect'])).code).toBe(2)
})
