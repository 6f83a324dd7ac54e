/** What may be typed at an agent, and what counts as its answer. */
import { describe, expect, test } from 'vitest'
import { decide, NO_MEMORY } from '../../plugins/detection/decide.ts'
import { keyRefusalOf, refusalOf, showsPrompt, type Refusal } from '../../plugins/detection/gate.ts'
import { NOTHING_READ, type Readings } from '../../plugins/detection/readings.ts'
import type { Look } from '../../plugins/detection/tracker.ts'
import type { InputPlan } from '../../plugins/sessions/api.ts'
import { refused, type Session } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import { question, rule } from './stage.ts'
import { COMPOSER, QUESTION, report, screen, shows, STUB, theatre, title, UNKNOWN, WORKING } from './theatre.ts'

const REQUIRED = 'composer = "required"'

describe('refusals', () => {
  const plan: InputPlan = {
    bracketedPaste: true,
    submitDelayMs: 0,
    ready: 'screen_idle',
    textPolicy: 'unrestricted',
    composer: 'required',
    whileWorking: 'queue',
  }
  const idle = rule('idle')
  const WORKS = { noPrompt: 'it works, and its input box is not on the screen' }
  const RESTS = { noPrompt: 'it says that it rests, and its prompt is not on the screen' }
  const spinner = { ...rule('working'), source: 'osc_title' as const }
  const plain = { ...rule('idle'), source: 'osc_title' as const }
  /** A look whose evidence was given time to settle. */
  function look(readings: Partial<Readings>, identity: 'agent' | 'other' | 'unknown' = 'agent'): Look {
    let memory = NO_MEMORY
    for (let now = 0; ; now += 100) {
      const sight = {
        now,
        watermark: 1,
        partial: false,
        told: 'x',
        readings: { ...NOTHING_READ, ...readings },
        identity,
        group: undefined,
        evidence: { title_at: now, working_reports: 0 },
        reportApp: undefined,
      }
      const decision = decide(memory, sight)
      memory = decision.memory
      if (now < 2_000) continue
      return { sight, decision, front: { identity, group: undefined, why: 'because' } } as unknown as Look
    }
  }
  test.each<[string, Look, Partial<InputPlan>, Refusal | undefined]>([
    ['a composer', look({ screen: idle }), {}, undefined],
    ['a question', look({ screen: question }), {}, 'blocked'],
    ['a question, whatever the program is', look({ screen: question }), { composer: 'none' }, 'blocked'],
    ['a working agent that queues', look({ screen: rule('working') }), {}, undefined],
    ['a working agent that steers', look({ title: spinner, screen: idle }), { whileWorking: 'steer' }, undefined],
    ['a working agent that does neither', look({ title: spinner }), { whileWorking: 'refuse' }, 'busy'],
    ['a spinner over a screen nobody knows', look({ title: spinner }), {}, WORKS],
    ['a spinner over something else than the input box', look({ title: spinner, composer: false }), {}, WORKS],
    ['a spinner over the input box', look({ title: spinner, composer: true }), {}, undefined],
    ['work on the screen without the input box', look({ screen: rule('working'), composer: false }), {}, WORKS],
    ['work on the screen of an agent whose box is not known', look({ screen: rule('working') }), {}, undefined],
    ['a prompt without the input box', look({ screen: idle, composer: false }), {}, RESTS],
    ['a question behind a prompt', look({ screen: idle, composer: true, asked: question }), {}, 'blocked'],
    [
      'a working program without rules',
      look({ title: spinner }),
      { whileWorking: 'refuse', composer: 'none' },
      undefined,
    ],
    ['an unknown screen', look({}), {}, { noPrompt: 'nothing known is on its screen' }],
    [
      'an unknown screen under an idle title',
      look({ title: plain }),
      {},
      { noPrompt: 'nothing known is on its screen' },
    ],
    ['an unknown screen of a plain program', look({}), { composer: 'none' }, undefined],
    ['an idle title of an agent without an idle screen', look({ title: plain, knowsIdleScreen: false }), {}, undefined],
    ['another program in front', look({ screen: idle }, 'other'), {}, { noPrompt: 'because' }],
    ['nobody knows who', look({ screen: idle }, 'unknown'), {}, { noPrompt: 'because' }],
  ])('%s', (_, seen, more, expected) => {
    expect(refusalOf(seen, { ...plan, ...more })).toEqual(expected)
  })

  test('the middle of a drawing takes nothing', () => {
    const { sight, ...more } = look({ screen: idle })
    const half = { ...more, sight: { ...sight, partial: true } }
    expect(refusalOf(half, plan)).toEqual({ noPrompt: 'it is in the middle of drawing' })
    expect(keyRefusalOf(half, 'hi')).toBe('it is in the middle of drawing')
    expect(refusalOf(half, { ...plan, composer: 'none' })).toBeUndefined()
  })

  test('the key alone may follow a text that hides what else is known', () => {
    const draft = look({ composer: true })
    expect(refusalOf(draft, plan)).toEqual({ noPrompt: 'nothing known is on its screen' })
    expect(refusalOf(draft, plan, true)).toBeUndefined()
    expect(refusalOf(look({ composer: false }), plan, true)).toMatchObject({ noPrompt: expect.any(String) as string })
    expect(refusalOf(look({}), plan, true)).toMatchObject({ noPrompt: expect.any(String) as string })
  })

  test('the key follows a text only into the input box', () => {
    expect(keyRefusalOf(look({ composer: true }), 'hi')).toBeUndefined()
    expect(keyRefusalOf(look({ screen: idle }), 'hi')).toBeUndefined()
    expect(keyRefusalOf(look({ screen: question, asked: question }), 'hi')).toBe('a question is on its screen')
    expect(keyRefusalOf(look({ screen: question, asked: question, composer: true }), 'hi')).toBe(
      'a question is on its screen',
    )
    expect(keyRefusalOf(look({ title: spinner, composer: false }), 'hi')).toBe('its input box is not on the screen')
    expect(keyRefusalOf(look({ composer: true }, 'other'), 'hi')).toBe('because')
  })

  test.each([
    ['hi', 'hi', undefined],
    ['half a line hi', 'hi', 'it came behind another text'],
    ['half a linesay\n  hi', 'say\nhi', 'it came behind another text'],
    ['say\n  hi', 'say hi\n', undefined],
    ['[Pasted text #1 +60 lines]', 'a text of many lines', undefined],
    ['the end of a longtext', 'a text longer than the box: the end of a long text', undefined],
    ['half a line', '\n', undefined],
  ])('the key behind %j, where %j was sent', (draft, text, why) => {
    expect(keyRefusalOf(look({ composer: true, draft }), text)).toBe(why)
  })

  test('a prompt is an idle screen and no question', () => {
    const none = NOTHING_READ
    expect(showsPrompt({ ...none, screen: idle })).toBe(true)
    expect(showsPrompt({ ...none, screen: question })).toBe(false)
    expect(showsPrompt({ ...none, screen: rule('working') })).toBe(false)
    expect(showsPrompt({ ...none, screen: idle, composer: false })).toBe(false)
    expect(showsPrompt({ ...none, screen: idle, composer: true, asked: question })).toBe(false)
    expect(showsPrompt({ ...none, title: plain })).toBe(false)
    expect(showsPrompt({ ...none, title: plain, knowsIdleScreen: false })).toBe(true)
  })
})

describe('input', () => {
  const code = async (session: Session, params: Record<string, unknown> = {}): Promise<string> =>
    (await refused(session.call('session.input', { text: 'hi', ...params }))).code

  test('is refused at a question, at an unknown screen and at another program; force takes the risk', async () => {
    const it = await theatre({ input_rules: REQUIRED })
    const session = await it.agent()
    const { stub } = session
    await stub.write(COMPOSER)
    await session.input('one')
    await stub.write(QUESTION)
    await session.untilScreen('Allow this?')
    expect(await code(session)).toBe('session_input_blocked')
    expect(await code(session, { wait: { timeout_ms: 5_000 } })).toBe('session_agent_blocked')
    expect(await code(session, { wait: { timeout_ms: 5_000 }, force: true })).toBe('session_agent_blocked')
    await stub.write(UNKNOWN)
    await session.untilScreen('quite new')
    expect(await code(session)).toBe('session_input_no_prompt')
    await stub.write(title('⠋ job'), WORKING)
    await session.untilScreen('Pondering')
    await session.input('queued')
    await until('both arrived', () => stub.typed === 'one\rqueued\r', { show: () => stub.typed })
    await stub.write(QUESTION)
    await session.untilScreen('Allow this?')
    await session.call('session.input', { text: '1', force: true })
    await until('it arrived', () => stub.typed === 'one\rqueued\r1\r', { show: () => stub.typed })
  })

  test('is refused while a turn runs that would not take it', async () => {
    const it = await theatre({ input_rules: `${REQUIRED}\nwhile_working = "refuse"` })
    const session = await it.agent()
    await session.stub.write(report('working'), COMPOSER)
    await shows(session, 'working')
    expect(await code(session)).toBe('session_input_busy')
    await session.stub.write(report('idle'))
    await session.input('now')
    await until('it arrived', () => session.stub.typed === 'now\r')
  })

  test('of a plain program is nobody else’s question', async () => {
    const it = await theatre()
    const session = await it.agent()
    await session.stub.write(QUESTION)
    await shows(session, 'blocked')
    await session.input('1')
    await until('it arrived', () => session.stub.typed === '1\r')
    expect(await code(session, { wait: { timeout_ms: 5_000 } })).toBe('session_agent_blocked')
  })

  test('FC-8e29: the first prompt waits for the composer, past a start that reads nothing and a dialog', async () => {
    const it = await theatre({ input_rules: `${REQUIRED}\nready = "screen_idle"`, input: { startupGraceMs: 20_000 } })
    const session = await (async () => {
      const agent = it.agent(undefined, undefined, [], 'stub', { input: 'first', accept_startup_grace: true })
      agent.catch(() => undefined)
      const stub = await until('the agent runs', () => it.arrived[0])
      await stub.write(UNKNOWN)
      await stub.order('later', { ms: 700, tag: 'a' })
      await until('a while', () => stub.heard.some((one) => one.tag === 'a'))
      await stub.write(QUESTION)
      await stub.order('later', { ms: 700, tag: 'b' })
      await until('a while', () => stub.heard.some((one) => one.tag === 'b'))
      expect(stub.typed).toBe('')
      await stub.write(COMPOSER)
      return await agent
    })()
    await until('it arrived', () => session.stub.typed === 'first\r')
  })
})

describe('waited input', () => {
  test('FC-1138: an agent that starts late is waited for, and answers with causal evidence', async () => {
    const it = await theatre()
    const session = await it.agent()
    await session.stub.write(COMPOSER)
    const before = await shows(session, 'idle')
    expect(before.activity).toBe('idle')
    const { revision } = await session.call('session.explain')
    await session.stub.order('submit', [1_500, WORKING, 600, COMPOSER])
    const answer = await session.call('session.input', { text: 'go', wait: { until: ['idle'], timeout_ms: 8_000 } })
    expect(answer).toMatchObject({
      accepted: true,
      activity: 'idle',
      activity_source: 'screen',
      runtime: await session.identity(),
    })
    // Working came between.
    expect(BigInt(answer.activity_revision)).toBeGreaterThanOrEqual(BigInt(revision) + 2n)
  })

  test('ends with the question, the end of the program, or its time', async () => {
    const it = await theatre()
    const session = await it.agent()
    const { stub } = session
    await stub.write(COMPOSER)
    await shows(session, 'idle')
    await stub.order('submit', [WORKING, 300, QUESTION])
    const asked = await session.call('session.input', { text: 'a', wait: { timeout_ms: 8_000 } })
    expect(asked.activity).toBe('blocked')
    await stub.order('submit', [])
    await stub.write(COMPOSER)
    await shows(session, 'idle')
    expect(
      (await refused(session.call('session.input', { text: 'b', wait: { until: ['blocked'], timeout_ms: 700 } }))).code,
    ).toBe('session_input_timeout')
    const wire = it.station.keep(await it.station.connect())
    const waiting = refused(
      wire.call('session.input', {
        session_id: session.id,
        text: 'c',
        wait: { until: ['working'], timeout_ms: 8_000 },
      }),
    )
    await until('it arrived', () => stub.typed.endsWith('c\r'))
    await stub.order('exit', 0)
    expect((await waiting).code).toBe('session_not_running')
  })

  test('a question that appears in a screen of text is not typed into', async () => {
    const it = await theatre({ input_rules: REQUIRED })
    const session = await it.agent(process.execPath, [STUB, it.socketPath])
    await session.stub.write(screen('text', '> '))
    await shows(session, 'idle')
    await session.stub.write(QUESTION)
    await session.untilScreen('Allow this?')
    expect((await refused(session.call('session.input', { text: 'x' }))).code).toBe('session_input_blocked')
    expect(session.stub.typed).toBe('')
  })
})
