import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { refused, Session } from '../harness/session.ts'
import { agentStation, say, VERSION_LINES } from './stub.ts'

const PROMPT = 'rename the función "x y"\nand say why'

test('a first prompt is the last argument, exactly once, not typed, and in no file of ours', async () => {
  const { it, stubs } = await agentStation()
  stubs.put('claude', say(VERSION_LINES.claude))
  const info = await it.create({ agent: 'claude', input: PROMPT })
  expect(info.applied_input).toBe(true)
  const session = new Session(it, info)
  const screen = await session.untilScreen(/argv 1:[\s\S]*why\]/)
  expect(screen.match(/función/g)).toHaveLength(1)
  const command = readFileSync(`/proc/${session.pid}/cmdline`, 'utf8') // exec cat: the arguments are gone
  expect(command).not.toContain('función')
  await session.input('typed later')
  await session.untilScreen('typed later')
  expect((await session.screen()).match(/función/g)).toHaveLength(1)
  for (const root of ['state', 'data'] as const) {
    for (const file of it.files(root).filter((path) => !path.endsWith('/'))) {
      expect(readFileSync(join(it.roots[root], file), 'utf8'), file).not.toContain('funci')
    }
  }
  expect(JSON.stringify(it.log)).not.toContain('funci')
})

test('hermes takes no prompt as an argument, nor does any agent through a host profile', async () => {
  const { it, stubs } = await agentStation({ input: { startupGraceMs: 300 } })
  stubs.put('claude', say(VERSION_LINES.claude))
  it.profile('mine', ['base = "claude"', 'args = ["--model", "x"]'])
  expect((await refused(it.create({ agent: 'mine', input: PROMPT }))).code).toBe('session_input_not_ready')
  expect(stubs.starts('claude').filter((line) => line !== '--version')).toEqual(['--model x'])
  expect(await it.call('session.list')).toEqual([])
})

test.each([
  ['an option', '--dangerously-skip-permissions'],
  ['a file', '@/etc/passwd'],
  ['more than one argument can hold', 'x'.repeat(131_072)],
])('what a program would take for %s is not passed', async (_, input) => {
  const { it, stubs } = await agentStation({ input: { startupGraceMs: 300 } })
  stubs.put('claude', say(VERSION_LINES.claude))
  expect((await refused(it.create({ agent: 'claude', input }))).code).toBe('session_input_not_ready')
  expect(stubs.starts('claude').filter((line) => line !== '--version')).toEqual([''])
})

test('FC-b4d2: a wrapped program under another name is the agent the launch named', async () => {
  const { it, stubs } = await agentStation()
  const path = stubs.put('.claude-unwrapped', say(VERSION_LINES.claude))
  it.profile('wrapped', ['base = "claude"', `program = ${JSON.stringify(path)}`])
  const info = await it.create({ agent: 'wrapped' })
  expect(info).toMatchObject({ agent: 'wrapped', agent_base: 'claude' })
  expect(stubs.probes('.claude-unwrapped')).toBe(1)
  stubs.put('.claude-unwrapped', say('1.0.0 (Claude Code)'))
  expect((await refused(it.create({ agent: 'wrapped' }))).code).toBe('agent_runtime_unsupported')
})
