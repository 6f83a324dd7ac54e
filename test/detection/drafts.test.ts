/** A text that stands in an agent's input box: nothing is glued to it, and no hint of an empty box is taken for one. */
import { describe, expect, test } from 'vitest'
import { refused, type Session } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import { manifestLike, screen, shows, theatre, type Stub, type Theatre } from './theatre.ts'

const RULE = '─'.repeat(80)
const LAST_ROW = 24

/** The screen of each agent at rest with `text` in its box and the cursor `at` characters into it. */
const FACES = {
  claude: (text: string, at: number): string =>
    `${screen('● an answer', '', '✻ Brewed for 4s', RULE, `❯\u00a0${text}`, RULE, '  ? for shortcuts')}\x1b[5;${3 + at}H`,
  codex: (text: string, at: number): string =>
    `${screen('• an answer', '', `› ${text}`, '', '  test-model default · ~/project', '  ? for shortcuts')}\x1b[3;${3 + at}H`,
  pi: (text: string, at: number): string =>
    `${screen(' an answer', '', RULE, text, RULE, '~/project', '0.0%/1.0M (auto)     test-model')}\x1b[4;${1 + at}H`,
}
type Name = keyof typeof FACES
const NAMES = Object.keys(FACES) as Name[]
const DIM = (text: string): string => `\x1b[2m${text}\x1b[22m`

async function agent(
  name: Name,
  more = '',
  params: Record<string, unknown> = {},
): Promise<{ it: Theatre; session: Session & { stub: Stub } }> {
  const it = await theatre({
    input_rules: `composer = "required"\n${more}`,
    detect: manifestLike(name),
    input: { startupGraceMs: 3_000 },
  })
  return { it, session: await it.agent(undefined, undefined, [], 'stub', params) }
}

const sent = (session: Session, text = 'PROMPT', more: Record<string, unknown> = {}): Promise<unknown> =>
  session.call('session.input', { text, ...more })

describe.each(NAMES)('%s', (name) => {
  const face = FACES[name]

  test('a line somebody left is named, with the ways out, and nothing is typed; cleared, the prompt goes in', async () => {
    const { session } = await agent(name)
    const { stub } = session
    await stub.write(face('half a line', 11))
    await shows(session, 'idle')
    const fault = await refused(sent(session))
    expect(fault.body).toMatchObject({ code: 'session_input_draft', class: 'runtime' })
    expect(fault.body.msg).toContain('("half a line")')
    expect(fault.body.recover).toMatch(/attach and clear.*--force/)
    expect(stub.typed).toBe('')
    await stub.write(face('', 0))
    await sent(session)
    await until('it arrived', () => stub.typed === 'PROMPT\r', { show: () => stub.typed })
  })

  test('Enter alone sends what stands there, force puts more behind it', async () => {
    const { session } = await agent(name)
    const { stub } = session
    await stub.write(face('half a line', 11))
    await shows(session, 'idle')
    await sent(session, '')
    await until('Enter arrived', () => stub.typed === '\r')
    await sent(session, 'more', { force: true })
    await until('it arrived', () => stub.typed === '\rmore\r')
  })

  test('a hint behind the cursor is no text', async () => {
    const { session } = await agent(name)
    await session.stub.write(face(DIM('Try "fix lint errors"'), 0))
    await shows(session, 'idle')
    await sent(session)
    await until('it arrived', () => session.stub.typed === 'PROMPT\r')
  })

  test('the prompt itself, shown before its Enter, is none; nor is one that is being taken', async () => {
    const { session } = await agent(name, 'while_working = "queue"')
    const { stub } = session
    await stub.write(face('', 0))
    await shows(session, 'idle')
    for (const text of ['one', 'two']) {
      await stub.order('submit', [500, face('', 0)]) // slow to take it
      const sending = sent(session, text)
      await until('the text arrived', () => stub.typed.includes(text), { pollMs: 1 })
      await stub.write(face(text, text.length))
      await sending
    }
    await until('both arrived', () => stub.typed === 'one\rtwo\r', { show: () => stub.typed })
  })
})

test('codex: a command it did not take stands behind the cursor, and is no hint', async () => {
  const { session } = await agent('codex')
  await session.stub.write(FACES.codex('/help', 0))
  await shows(session, 'idle')
  expect((await refused(sent(session))).message).toContain('"/help"')
  expect(session.stub.typed).toBe('')
})

test('claude: what cannot be told from a suggestion is admitted', async () => {
  const { session } = await agent('claude')
  await session.stub.write(FACES.claude('half a line', 0))
  await shows(session, 'idle')
  await sent(session)
  await until('it arrived', () => session.stub.typed === 'PROMPT\r')
})

test('a long text of many lines and wide characters is told as one short line without controls', async () => {
  const { session } = await agent('pi')
  const lines = ['日本語 '.repeat(8), '\u202eabc', 'x'.repeat(70)]
  await session.stub.write(
    screen('an answer', RULE, ...lines, RULE, '~/project', '0.0%/1.0M (auto)     test-model'),
    '\x1b[5;60H',
  )
  await shows(session, 'idle')
  const { message } = await refused(sent(session))
  const [, quoted = ''] = /\((".*")\)/.exec(message) ?? []
  expect(JSON.parse(quoted)).toMatch(/^日本語 日本語.* abc x+…$/)
  expect(Array.from(quoted).length).toBeLessThanOrEqual(63)
})

test('a cursor elsewhere on the screen says nothing of the box', async () => {
  const { session } = await agent('claude')
  await session.stub.write(FACES.claude('half a line', 0), `\x1b[${LAST_ROW};1H`)
  await shows(session, 'idle')
  await sent(session)
  await until('it arrived', () => session.stub.typed === 'PROMPT\r')
})

test('work that runs with a half-typed line below it takes no second prompt either', async () => {
  const { session } = await agent('claude', 'while_working = "queue"')
  const box = [RULE, '❯\u00a0and then', RULE, '  esc to interrupt']
  await session.stub.write(screen('● an answer', '', '✶ Leavening… (3s · ↓ 12 tokens)', ...box), '\x1b[5;11H')
  await shows(session, 'working')
  expect((await refused(sent(session))).code).toBe('session_input_draft')
  expect(session.stub.typed).toBe('')
})

test('a first prompt is not glued to a text either', async () => {
  const it = await theatre({
    input_rules: 'composer = "required"\nready = "screen_idle"',
    detect: manifestLike('claude'),
    input: { startupGraceMs: 5_000 },
  })
  const creating = refused(it.agent(undefined, undefined, [], 'stub', { input: 'first', accept_startup_grace: true }))
  const stub = await until('the agent runs', () => it.arrived[0])
  await stub.write(FACES.claude('half a line', 11))
  const fault = await creating
  expect(fault.code).toBe('session_input_not_ready')
  expect(stub.typed).toBe('')
})
