/**
 * Three agents at work side by side for POHUNEK_AGENTS_MINUTES (an hour is `60`): no false idle, no question missed, no
 * notice twice, every prompt once, and every state told within a second of the screen that shows it. Left out by
 * default: it takes its time.
 */
import { expect, test } from 'vitest'
import { delay, systemClock } from '../../kernel/clock.ts'
import { until } from '../harness/wait.ts'
import type { AgentKey } from './agents.ts'
import { Stage, type Agent } from './stage.ts'

const minutes = Number(process.env['POHUNEK_AGENTS_MINUTES'] ?? 0)
const ATTENTION = ['agent_blocked', 'approval_required']
const SETTLED_MS = 1_000
/** Longer than reports are held before they are told. */
const HELD_MS = 6_000

interface Count {
  turns: number
  questions: number
  /** Milliseconds from the screen that shows it to its state, the slowest. */
  slowest: number
  problems: string[]
}

const pick = <T>(from: readonly T[]): T => from[Math.floor(Math.random() * from.length)] as T
/** Every prompt is another one, so that one that came twice shows. */
let serial = 0
const named = (step: string): string => `${step}\nstep ${++serial}`

/** Waits for an activity that is told behind `from`; answers what had been told until then. */
async function turn(agent: Agent, prompt: string, count: Count): Promise<void> {
  const from = agent.activities.length
  await agent.prompt(prompt)
  await agent.until('idle', from)
  const story = agent.activities.slice(from).join(' ')
  if (!/^(working )?idle$/.test(story)) count.problems.push(`${JSON.stringify(prompt)}: ${story}`)
  count.turns++
}

async function question(agent: Agent, count: Count): Promise<void> {
  const from = agent.activities.length
  await agent.prompt(named(`bash touch made-${serial}.txt`))
  await agent.session.untilScreen(agent.look.dialog, 30_000)
  const shownAt = performance.now()
  await agent.until('blocked', from)
  count.slowest = Math.max(count.slowest, performance.now() - shownAt)
  await delay(systemClock, HELD_MS)
  const open = (await agent.notices(...ATTENTION)).filter((it) => it.status === 'unread')
  if (open.length !== 1) count.problems.push(`${open.length} notices of one question`)
  const answered = agent.activities.length
  await agent.input('', { force: true })
  await agent.until('idle', answered)
  const story = agent.activities.slice(from).join(' ')
  if (!/^(working )?blocked (working )?idle$/.test(story)) count.problems.push(`a question: ${story}`)
  count.turns++
  count.questions++
}

async function interrupted(agent: Agent, count: Count): Promise<void> {
  const from = agent.activities.length
  await agent.prompt(named('slow 60'))
  // Without any answer yet the prompt would go back into the input box, where it is in the way of the next one.
  await until('an answer is under way', () => performance.now() - (agent.models.turns.at(-1)?.at ?? Infinity) > 3_000)
  const attached = await agent.session.attach({ cols: 100, rows: 30 })
  await attached.until('\x1b[?2026l')
  attached.write('\x1b')
  await agent.until('idle', from)
  attached.close()
  count.turns++
}

async function work(agent: Agent, end: number): Promise<Count> {
  const count: Count = { turns: 0, questions: 0, slowest: 0, problems: [] }
  const steps: (() => Promise<void>)[] = [
    () => turn(agent, named('say a few words'), count),
    () => turn(agent, named(`slow ${2 + Math.floor(Math.random() * 8)}`), count),
    () => turn(agent, named('long 300'), count),
    () => turn(agent, named('fail 500 1'), count),
    () => interrupted(agent, count),
    () => delay(systemClock, Math.random() * 5_000),
  ]
  // Pi never asks.
  if (agent.key !== 'pi')
    steps.push(
      () => question(agent, count),
      () => question(agent, count),
    )
  while (performance.now() < end) await pick(steps)()
  return count
}

test.runIf(minutes > 0)(
  'three agents at work',
  async () => {
    const stage = await Stage.open()
    const keys: AgentKey[] = ['claude', 'codex', 'pi']
    const agents = await Promise.all(keys.map((key) => stage.agent(key)))
    await Promise.all(agents.map((it) => it.ready()))
    const end = performance.now() + minutes * 60_000
    const counts = await Promise.all(agents.map((it) => work(it, end)))
    console.log(JSON.stringify(counts.map(({ problems: _, ...it }, n) => ({ agent: keys[n], ...it }))))
    for (const [n, agent] of agents.entries()) {
      const { problems, slowest } = counts[n] as Count
      expect(problems, agent.key).toEqual([])
      expect(agent.falseIdles(), agent.key).toEqual([])
      expect(slowest, agent.key).toBeLessThan(SETTLED_MS)
      const sent = agent.models.prompts.map((it) => /step \d+/.exec(it)?.[0])
      expect(new Set(sent).size, `${agent.key} was sent each prompt once`).toBe(
        // A failed request is sent again by the agent itself.
        sent.filter((it, at) => it !== sent[at - 1]).length,
      )
    }
  },
  minutes * 60_000 + 300_000,
)
