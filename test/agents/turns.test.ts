/** One turn of each real agent after another: what it does is known, told once, and what was sent is what arrived. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { delay, systemClock } from '../../kernel/clock.ts'
import { until } from '../harness/wait.ts'
import type { AgentKey } from './agents.ts'
import { SLOW_MS, Stage } from './stage.ts'

const AGENTS: readonly AgentKey[] = ['claude', 'claude-2.1.197', 'codex', 'pi']
const ATTENTION = ['agent_blocked', 'approval_required']
/** Longer than what is held before it is told, so that a second report of it would have been seen. */
const SETTLED_MS = 7_000

describe.each(AGENTS)('%s', (key) => {
  test('starts to its prompt, which is idle; a turn is working, then idle, and is completed once', async () => {
    const stage = await Stage.open()
    const agent = await stage.agent(key)
    expect(agent.created.activity).not.toBe('idle') // nothing was seen of it yet
    await agent.ready()
    await agent.session.untilScreen(agent.look.ready)
    const from = agent.activities.length
    const { cursor } = await agent.turnEvent({ timeout_ms: 1 })
    await agent.prompt('slow 4')
    await agent.until('working', from)
    const completed = await agent.turnEvent({ kinds: ['turn_completed'], after: cursor })
    expect(completed).toMatchObject({ reason: 'event', event: { session_id: agent.id, kind: 'turn_completed' } })
    expect(agent.activities.slice(from)).toEqual(['working', 'idle'])
    const more = await agent.turnEvent({ after: completed.cursor, timeout_ms: SETTLED_MS })
    expect(more.reason).toBe('timeout')
    expect(await agent.notices('turn_completed', ...ATTENTION)).toHaveLength(1)
    expect(agent.models.prompts).toEqual(['slow 4'])
    expect(agent.falseIdles()).toEqual([])
  })

  test('the initial prompt is submitted once', async () => {
    const stage = await Stage.open()
    const agent = await stage.agent(key, { input: 'say hello from the start' })
    expect(agent.created.applied_input).toBe(true)
    await agent.received(1)
    await agent.ready()
    await delay(systemClock, 2_000)
    expect(agent.models.prompts).toEqual(['say hello from the start'])
    expect(await agent.session.screen()).toContain('hello')
  })

  test('prompts of many lines and of 100 KB arrive whole', async () => {
    const stage = await Stage.open()
    const agent = await stage.agent(key)
    await agent.ready()
    const lines = ['say got it', ...Array.from({ length: 60 }, (_, n) => `  ${n}: "quotes" \\ 日本語 ${'é'.repeat(n)}`)]
    const big = `say got it too\n${Array.from({ length: 1_024 }, (_, n) => `${n} ${'x'.repeat(95)}`).join('\n')}`
    for (const text of [lines.join('\n'), big]) {
      const from = agent.activities.length
      await agent.prompt(text)
      expect(agent.models.prompts.at(-1)).toContain(text)
      await agent.until('idle', from)
    }
    expect(agent.models.prompts).toHaveLength(2)
  })

  test('Ctrl-C in a turn leaves it idle and alive, at its prompt it ends the agent', async () => {
    const stage = await Stage.open()
    const agent = await stage.agent(key)
    await agent.ready()
    const from = agent.activities.length
    await agent.prompt('slow 60')
    await agent.until('working', from)
    // Without any answer yet the prompt would go back into the input box.
    await agent.session.untilScreen('tick 2', SLOW_MS)
    const attached = await agent.session.attach({ cols: 100, rows: 30 })
    await attached.until('\x1b[?2026l')
    // Pi has Escape for this; its Ctrl-C clears what is typed.
    attached.write(key === 'pi' ? '\x1b' : '\x03')
    await agent.until('idle', from)
    expect((await agent.session.info()).state).toBe('running')
    const interrupted = agent.activities.length
    await agent.prompt('say still here')
    // So short a turn may pass between two looks: its end is told all the same (FC-0f38).
    await agent.until('idle', interrupted)
    await until(
      'the agent has ended',
      async () => {
        attached.write('\x03')
        await delay(systemClock, 300)
        return (await agent.session.info()).state !== 'running'
      },
      { deadlineMs: SLOW_MS },
    )
    expect((await agent.session.ended()).activity).toBeUndefined()
  })

  test('its own command ends it, and then it has no activity', async () => {
    const stage = await Stage.open()
    const agent = await stage.agent(key)
    await agent.ready()
    const { cursor } = await agent.turnEvent({ timeout_ms: 1 })
    await agent.input(agent.look.quit)
    const info = await agent.session.ended(SLOW_MS)
    expect(info).toMatchObject({ state: 'done' })
    expect(info.activity).toBeUndefined()
    const exited = await agent.turnEvent({ after: cursor, kinds: ['exited'] })
    expect(exited).toMatchObject({ reason: 'event', event: { kind: 'exited' } })
  })

  test('a daemon killed in the middle of a turn: the turn goes on, is seen again and is completed once', async () => {
    const stage = await Stage.open()
    const agent = await stage.agent(key)
    await agent.ready()
    const { cursor } = await agent.turnEvent({ timeout_ms: 1 })
    await agent.prompt('slow 12')
    await agent.until('working')
    await stage.world.crash()
    await stage.subscribe()
    await agent.is('working')
    const completed = await agent.turnEvent({ kinds: ['turn_completed'], after: cursor })
    expect(completed).toMatchObject({ reason: 'event', event: { kind: 'turn_completed' } })
    expect((await agent.turnEvent({ after: completed.cursor, timeout_ms: SETTLED_MS })).reason).toBe('timeout')
    expect(agent.models.prompts).toEqual(['slow 12'])
    expect(agent.falseIdles()).toEqual([])
    expect(await agent.notices('turn_completed')).toHaveLength(1)
  })
})

describe.each(['claude', 'claude-2.1.197', 'codex'] as const)('%s', (key) => {
  test('an approval is blocked with one notice; a prompt is refused, an answer goes through', async () => {
    const stage = await Stage.open()
    const agent = await stage.agent(key)
    await agent.ready()
    const from = agent.activities.length
    const made = join(agent.cwd, 'made.txt')
    const { cursor } = await agent.turnEvent({ timeout_ms: 1 })
    // Long enough for the work behind it to be seen.
    const command = 'touch made.txt; sleep 3'
    await agent.prompt(`bash ${command}`)
    await agent.until('blocked', from)
    await agent.session.untilScreen(agent.look.dialog)
    await expect(agent.input('say something else')).rejects.toMatchObject({
      code: expect.stringMatching(/^session_(input|agent)_blocked$/) as string,
    })
    const blocked = await agent.turnEvent({ kinds: ATTENTION, after: cursor })
    expect(blocked).toMatchObject({ reason: 'event' })
    expect((await agent.turnEvent({ after: blocked.cursor, timeout_ms: SETTLED_MS })).reason).toBe('timeout')
    expect(await agent.notices(...ATTENTION)).toMatchObject([{ status: 'unread' }])
    expect(existsSync(made)).toBe(false)
    const answered = agent.activities.length
    // The text of an answer is thrown away by these dialogs; its Enter takes the choice that is marked, "Yes".
    await agent.input('y', { force: true })
    await until('the command ran', () => existsSync(made), { deadlineMs: SLOW_MS })
    await agent.until('idle', answered)
    expect(agent.activities.slice(answered)).toEqual(['working', 'idle'])
    expect(await agent.notices(...ATTENTION)).toMatchObject([{ status: 'acknowledged' }])
    expect(agent.models.prompts).toEqual([`bash ${command}`])
    expect(agent.falseIdles()).toEqual([])
  })
})

describe.each(['claude', 'codex'] as const)('%s', (key) => {
  test('a turn that fails is one error, an end of a turn for waits, and no completed turn in the inbox', async () => {
    const stage = await Stage.open()
    const agent = await stage.agent(key)
    await agent.ready()
    const { cursor } = await agent.turnEvent({ timeout_ms: 1 })
    await agent.input('fail 400')
    const ended = await agent.turnEvent({ kinds: ['turn_completed'], after: cursor })
    expect(ended).toMatchObject({ reason: 'event', event: { kind: 'turn_completed' } })
    expect(await agent.notices('error', 'turn_completed', ...ATTENTION)).toMatchObject([
      { kind: 'error', status: 'unread' },
    ])
  })
})

describe.each(AGENTS)('%s', (key) => {
  test('a half-typed line is named and nothing is glued to it; cleared, the prompt arrives as it is', async () => {
    const stage = await Stage.open()
    const agent = await stage.agent(key)
    await agent.ready()
    const attached = await agent.session.attach({ cols: 100, rows: 30 })
    await attached.until('\x1b[?2026l')
    attached.write('half a line')
    await agent.session.untilScreen('half a line')
    await expect(agent.input('say never')).rejects.toMatchObject({ code: 'session_input_draft' })
    attached.write('\x15') // kills the line
    await until('the line is gone', async () => !(await agent.session.screen()).includes('half a line'))
    await agent.prompt('say as it is')
    expect(agent.models.prompts).toEqual(['say as it is'])
  })
})

describe.each(['claude', 'claude-2.1.197'] as const)('%s', (key) => {
  test('a prompt that was interrupted at once goes back into the box; the next one is not glued to it', async () => {
    const stage = await Stage.open()
    const agent = await stage.agent(key)
    await agent.ready()
    const from = agent.activities.length
    await agent.prompt('hang')
    await agent.until('working', from)
    const attached = await agent.session.attach({ cols: 100, rows: 30 })
    await attached.until('\x1b[?2026l')
    attached.write('\x1b')
    await agent.until('idle', from)
    // Between its two rules; what was sent stands above it.
    await agent.session.untilScreen(/^─{20}.*\n❯.hang\n─{20}/mu, SLOW_MS)
    await expect(agent.input('say never')).rejects.toMatchObject({ code: 'session_input_draft' })
    expect(agent.models.prompts.at(-1)).toBe('hang')
  })
})

test('codex: a command it does not know stays in its box; the next prompt is not glued to it', async () => {
  const stage = await Stage.open()
  const agent = await stage.agent('codex')
  await agent.ready()
  await agent.input('/nonsense')
  await agent.session.untilScreen('Unrecognized command', SLOW_MS)
  await expect(agent.input('say never')).rejects.toMatchObject({ code: 'session_input_draft' })
  expect(agent.models.prompts).toEqual([])
})

test('two agents side by side are told apart', async () => {
  const stage = await Stage.open()
  const [claude, codex] = await Promise.all([
    stage.agent('claude', { name: 'left' }),
    stage.agent('codex', { name: 'right' }),
  ])
  await Promise.all([claude.ready(), codex.ready()])
  const from = codex.activities.length
  await Promise.all([claude.prompt('bash touch made.txt'), codex.prompt('slow 10')])
  await Promise.all([claude.until('blocked'), codex.until('working', from)])
  await codex.until('idle', from)
  expect((await claude.session.info()).activity).toBe('blocked')
  expect(codex.activities.slice(from)).toEqual(['working', 'idle'])
  expect(codex.falseIdles()).toEqual([])
  expect(codex.models.prompts).toEqual(['slow 10'])
  expect(claude.models.prompts).toEqual(['bash touch made.txt'])
})
