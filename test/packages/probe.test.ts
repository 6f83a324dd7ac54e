import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { systemClock } from '../../kernel/clock.ts'
import { probe } from '../../plugins/packages/probe.ts'
import { privateRoot } from '../harness/kernel.ts'
import { carrying } from '../harness/processes.ts'
import { refused, Session } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import { agentStation, say, Stubs, VERSION_LINES } from './stub.ts'

test.each(Object.entries(VERSION_LINES))('%s of a known release is started, and asked once', async (agent, line) => {
  const { it, stubs } = await agentStation()
  stubs.put(agent, agent === 'pi' ? `${say(line)} >&2` : say(line))
  for (let n = 0; n < 2; n++) {
    const info = await it.create({ agent })
    expect(info).toMatchObject({ agent, agent_base: agent, state: 'running' })
    await new Session(it, info).untilScreen(/argv \d:/)
  }
  expect(stubs.probes(agent)).toBe(1)
  stubs.put(agent, `${agent === 'pi' ? `${say(line)} >&2` : say(line)}\n# another file`)
  await it.create({ agent })
  expect(stubs.probes(agent)).toBe(2)
})

const refusals: [string, string, RegExp][] = [
  [
    'an older release',
    say('2.1.196 (Claude Code)'),
    /is release 2\.1\.196; supported are releases in \[2\.1\.197, 2\.2\.0\)/,
  ],
  ['a newer release', say('2.2.0 (Claude Code)'), /is release 2\.2\.0;/],
  ['a pre-release', say('2.1.300-beta (Claude Code)'), /known form/],
  ['leading zeros', say('2.01.300 (Claude Code)'), /known form/],
  ['something else', say('SECRET-OUTPUT'), /known form/],
  ['nothing', 'true', /known form/],
  ['its release on standard error', `${say('2.1.300 (Claude Code)')} >&2`, /known form/],
  ['its release in the second line', `echo; ${say('2.1.300 (Claude Code)')}`, /known form/],
  ['a failure', `${say('2.1.300 (Claude Code)')}; exit 3`, /ended with code 3/],
  ['a signal', 'kill -9 $$', /ended by SIGKILL/],
  ['a huge answer', 'head -c 100000 /dev/zero | tr "\\0" x; exec sleep 1000', /over 4096 bytes/],
  ['no answer', `${say('2.1.300 (Claude Code)')}; sleep 1000`, /within 10000 ms/],
]
test.each(refusals)('%s is refused before anything is made, its output is not told', async (_, script, words) => {
  const { it, stubs } = await agentStation()
  const path = stubs.put('claude', script)
  const error = await refused(it.create({ agent: 'claude' }))
  expect(error.code).toBe('agent_runtime_unsupported')
  expect(error.body.msg).toMatch(words)
  expect(error.body.msg).toContain(path)
  expect(error.body.msg).not.toContain('SECRET')
  expect(error.body.recover).toContain('[2.1.197, 2.2.0)')
  expect(await it.call('session.list')).toEqual([])
  await until('the asked program is gone', () => carrying(it.roots.base).length === 0)
  expect(it.traces()).toEqual([])
  // What failed may be mended or only slow: it is asked again.
  stubs.put('claude', say(VERSION_LINES.claude))
  expect((await it.create({ agent: 'claude' })).state).toBe('running')
})

test('a child that a probe leaves behind is ended, and does not hold its answer up', async () => {
  const { it, stubs } = await agentStation()
  stubs.put('claude', `sleep 1017 &\n${say(VERSION_LINES.claude)}`)
  expect((await it.create({ agent: 'claude' })).state).toBe('running')
  await until('the child is gone', () => !carrying(it.roots.base).some((seen) => seen.argv.includes('1017')))
})

test('a child that a probe puts into another group only delays its answer', async () => {
  const { it, stubs } = await agentStation()
  stubs.put('claude', `setsid sleep 3 &\n${say(VERSION_LINES.claude)}`)
  expect((await it.create({ agent: 'claude' })).state).toBe('running')
})

test('the group of a program that was waited for is not signalled by its number later', async () => {
  const kills = vi.spyOn(process, 'kill')
  onTestFinished(() => kills.mockRestore())
  const signal = new AbortController().signal
  const answer = await probe(
    {
      program: '/bin/sh',
      args: ['-c', 'setsid sleep 0.5 & echo 1.2.3'],
      path: '/usr/bin:/bin',
      timeoutMs: 10_000,
    },
    { directory: join(privateRoot(), 'probes'), clock: systemClock, signal },
  )
  expect(answer).toEqual({ stdout: '1.2.3\n', stderr: '' })
  // Once, right when it ended; the answer came half a second later, when its number may be anybody's.
  expect(kills.mock.calls.filter(([, name]) => name === 'SIGKILL')).toHaveLength(1)
})

test('a probe has its own directories and nothing of the daemon but PATH; they are gone afterwards', async () => {
  const { it, stubs } = await agentStation({ env: { SECRET: 'hidden' } })
  stubs.put('claude', `env >"$here/env"; pwd >"$here/pwd"; echo x >"$HOME/kept"\n${say(VERSION_LINES.claude)}`)
  await it.restart({ env: { ...stubs.env, SECRET: 'hidden', CLAUDE_CONFIG_DIR: it.roots.home } })
  await it.create({ agent: 'claude' })
  const lines = readFileSync(join(stubs.directory, 'env'), 'utf8').trim().split('\n')
  const env = new Map(lines.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]))
  for (const name of ['PWD', 'SHLVL', '_', 'OLDPWD']) env.delete(name) // of the shell itself
  const probes = join(it.roots.cache, 'pohunek/probes')
  expect(env.get('PATH')).toBe(stubs.env['PATH'])
  env.delete('PATH')
  expect([...env.keys()].sort()).toEqual([
    'HOME',
    'TMPDIR',
    'XDG_CACHE_HOME',
    'XDG_CONFIG_HOME',
    'XDG_DATA_HOME',
    'XDG_RUNTIME_DIR',
    'XDG_STATE_HOME',
  ])
  for (const path of env.values()) expect(path.startsWith(`${probes}/`)).toBe(true)
  expect(readFileSync(join(stubs.directory, 'pwd'), 'utf8').startsWith(`${probes}/`)).toBe(true)
  expect(readdirSync(probes)).toEqual([])
})

test('a program that replaces itself while it is asked is asked once more; what it became is what counts', async () => {
  const { it, stubs } = await agentStation()
  const become = (version: string): string => {
    const other = stubs.put('other', version)
    return `${say(VERSION_LINES.claude)}; cp ${other} ${other}.new; mv ${other}.new "$0"`
  }
  const path = stubs.put('claude', become(say('9.9.9 (Claude Code)')))
  const error = await refused(it.create({ agent: 'claude' }))
  expect([error.code, error.body.msg]).toEqual([
    'agent_runtime_unsupported',
    expect.stringMatching(/is release 9\.9\.9;/) as string,
  ])
  stubs.put('claude', become(say('2.1.301 (Claude Code)')))
  const info = await it.create({ agent: 'claude' })
  await new Session(it, info).untilScreen(/argv \d:/)
  // One that does so each time is never what was asked.
  stubs.put('claude', `${say(VERSION_LINES.claude)}; cp "$0" "$0.new"; mv "$0.new" "$0"`)
  const restless = await refused(it.create({ agent: 'claude' }))
  expect(restless.code).toBe('agent_runtime_unsupported')
  expect(restless.body.msg).toContain(`${path} became another file while it was asked for its release`)
})

test('side by side the same program is asked once', async () => {
  const { it, stubs } = await agentStation()
  stubs.put('claude', `sleep 0.3\n${say(VERSION_LINES.claude)}`)
  const wires = await Promise.all([it.connect(), it.connect(), it.connect()])
  await Promise.all(
    wires.map((wire) => wire.call('session.new', { agent: 'claude', cols: 80, rows: 24, cwd: it.roots.work })),
  )
  expect(stubs.probes('claude')).toBe(1)
})

test('FC-a823: a missing agent is told with the PATH that was searched', async () => {
  const { it, stubs } = await agentStation()
  const error = await refused(it.create({ agent: 'claude' }))
  expect(error.code).toBe('agent_binary_missing')
  expect(error.body.msg).toContain(stubs.directory)
})

test('FC-a823: an agent only the caller can find is asked and started with the caller’s PATH', async () => {
  const { it, stubs } = await agentStation()
  const other = `${it.roots.home}/.local/bin`
  const mine = new Stubs(other)
  mine.put('helper', 'true')
  mine.put('claude', `helper --version && ${say(VERSION_LINES.claude)}`)
  await it.create({ agent: 'claude', search_path: `${other}:/usr/bin:/bin` })
  expect(mine.probes('claude')).toBe(1)
  expect(mine.probes('helper')).toBe(1)
  expect(stubs.starts('claude')).toEqual([])
})
