/** What is never typed into: questions and screens nobody knows, read as those of Claude, whenever they appear. */
import { describe, expect, test } from 'vitest'
import { refused, type Session } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import { manifestLike, report, screen, shows, theatre, title, type Stub, type Theatre } from './theatre.ts'

const RULE = '─'.repeat(80)
const BOX = [RULE, '❯\u00a0', RULE]
const COMPOSER = screen('● an answer', '', '✻ Brewed for 4s', ...BOX, '  ? for shortcuts')
const WORKING = screen('● an answer', '', '✶ Leavening… (3s · ↓ 12 tokens)', ...BOX, '  esc to interrupt')
const DIALOG = screen(
  ...['● an answer', '', RULE, ' Bash command', ' rm -rf build', ' Do you want to proceed?'],
  ...[' ❯ 1. Yes', '   2. No', '', ' Esc to cancel'],
)
const UNKNOWN = screen('=== Brand new consent ===', '', ' Delete everything', ' [ OK ]   [ No ]')
const PASTES = '\x1b[?2004h'
const NO_PASTES = '\x1b[?2004l'

type Agent = Session & { stub: Stub }

/** An agent that draws as Claude does and takes a paste, and the key a while later. */
async function claude(): Promise<{ it: Theatre; session: Agent }> {
  const it = await theatre({
    input_rules: 'composer = "required"\nwhile_working = "queue"',
    detect: manifestLike('claude'),
  })
  const session = await it.agent(undefined, undefined, [
    '[input_rules]',
    'bracketed_paste = true',
    'submit_delay_ms = 800',
  ])
  return { it, session }
}

const printed = (session: Session, text: string): Promise<unknown> =>
  until('the terminal has it', async () => Buffer.from((await session.output()).bytes).includes(text))

const code = async (session: Session, params: Record<string, unknown> = {}): Promise<string> =>
  (await refused(session.call('session.input', { text: 'PROMPT', ...params }))).code

describe('between the text and the key', () => {
  test('a question that appears gets no key; the key can be sent once it is gone', async () => {
    const { session } = await claude()
    const { stub } = session
    for (const face of [WORKING, COMPOSER]) {
      const before = stub.typed.length
      await stub.write(face)
      await shows(session, face === WORKING ? 'working' : 'idle')
      const sent = refused(session.call('session.input', { text: 'PROMPT' }))
      await until('the text arrived', () => stub.typed.slice(before) === 'PROMPT', { pollMs: 1 })
      await stub.write(DIALOG)
      expect((await sent).code).toBe('session_input_unsubmitted')
      expect(stub.typed.slice(before)).toBe('PROMPT')
    }
    const before = stub.typed.length
    expect(await code(session, { text: '' })).toBe('session_input_blocked')
    await stub.write(screen('● an answer', '', '● text', RULE, '❯\u00a0PROMPT', RULE, '  manual mode'))
    await shows(session, undefined)
    expect(await code(session)).toBe('session_input_no_prompt')
    await session.call('session.input', { text: '' })
    await until('Enter arrived', () => stub.typed.length > before)
    expect(stub.typed.slice(before)).toBe('\r')
  })

  test('an unknown screen gets no key, nor does a drawing that is not complete', async () => {
    const { session } = await claude()
    const { stub } = session
    for (const face of [UNKNOWN, `\x1b[?2026h\x1b[1;1H${RULE}`]) {
      await stub.write('\x1b[?2026l', COMPOSER)
      await shows(session, 'idle')
      const before = stub.typed.length
      const sent = refused(session.call('session.input', { text: 'PROMPT' }))
      await until('the text arrived', () => stub.typed.length > before, { pollMs: 1 })
      await stub.write(face)
      expect((await sent).code).toBe('session_input_unsubmitted')
      expect(stub.typed.slice(before)).toBe('PROMPT')
    }
  })

  test('force sends body and key whatever appears', async () => {
    const { session } = await claude()
    const { stub } = session
    await stub.write(COMPOSER)
    await shows(session, 'idle')
    const sent = session.call('session.input', { text: 'PROMPT', force: true })
    await until('the text arrived', () => stub.typed === 'PROMPT', { pollMs: 1 })
    await stub.write(DIALOG)
    await sent
    await until('Enter arrived', () => stub.typed === 'PROMPT\r')
  })

  test('inputs all the while questions come and go: no key after one was drawn', async () => {
    const { it, session } = await claude()
    const { stub } = session
    await stub.write(COMPOSER)
    await shows(session, 'idle')
    // What was typed while a question stood there, as far as the program can tell.
    const wrong: string[] = []
    let submitted = 0
    const inputs = Array.from({ length: 30 }, async (_, n) => {
      const wire = it.station.keep(await it.station.connect())
      await until('its turn', () => rounds * 3 >= n || rounds === 8, { deadlineMs: 60_000, pollMs: 20 })
      await wire.call('session.input', { session_id: session.id, text: `P${n}` }).then(
        () => submitted++,
        () => undefined,
      )
      wire.close()
    })
    let rounds = 0
    for (; rounds < 8; rounds++) {
      await stub.write(COMPOSER)
      await stub.order('later', { ms: 1_200 + 97 * rounds, tag: `composer ${rounds}` })
      await until('a while', () => stub.heard.some((one) => one.tag === `composer ${rounds}`))
      await stub.write(DIALOG)
      await session.untilScreen('Do you want')
      await session.call('session.explain') // whatever was written before is on its way
      await stub.order('later', { ms: 0, tag: '' })
      await stub.order('later', { ms: 0, tag: '' })
      const drawn = stub.heard.length
      await stub.order('later', { ms: 700, tag: `dialog ${rounds}` })
      await until('a while', () => stub.heard.some((one) => one.tag === `dialog ${rounds}`))
      const typed = stub.heard.slice(drawn).map((one) => String(one.typed ?? ''))
      wrong.push(...typed.filter((text) => text.includes('\r')))
    }
    await stub.write(COMPOSER)
    await Promise.all(inputs)
    expect(wrong).toEqual([])
    expect(submitted).toBeGreaterThan(0)
  }, 90_000)
})

describe('a word of work over a screen nobody knows', () => {
  test.each([
    ['title', title('⠂ task'), title('✳ task')],
    ['report', report('working'), report('idle')],
  ])('of the %s admits nothing, and ends', async (_, says, ends) => {
    const { session } = await claude()
    const { stub } = session
    await stub.write(says, WORKING)
    await shows(session, 'working')
    await session.call('session.input', { text: 'queued' })
    await until('it arrived', () => stub.typed === 'queued\r')
    await stub.write(says, UNKNOWN)
    await session.untilScreen('Brand new')
    expect(await code(session)).toBe('session_input_no_prompt')
    await shows(session, undefined, 8_000)
    expect(await code(session)).toBe('session_input_no_prompt')
    await stub.write(ends)
    await session.call('session.explain')
    expect(await code(session)).toBe('session_input_no_prompt')
    expect(stub.typed).toBe('queued\r')
  })

  test('no dialog of these is typed into behind a spinner, whatever it looks like', async () => {
    const { session } = await claude()
    const { stub } = session
    const faces = [
      ['● an answer', '', RULE, ' Bash command', ' rm -rf /'],
      ['● x', '', ' Select model', ' > Opus', '   Sonnet', ''],
      ['● x', '', 'Overwrite file? [y/N] '],
      ['● x', '', '--More--'],
      ['Password: '],
      [RULE, ' Paste code here:', ' > '],
      [RULE, ' Do you trust the files in this folder?', '', ' ❯ Yes, proceed', '   No, exit'],
      [RULE, ' Allow edit?', ' ❯ 1. Yes', '   2. No', ...BOX, '  ? for shortcuts'],
      ['● x', RULE, ' Allow edit?', '   1. Yes', ' ❯ 2. No', ' Esc to cancel', ...BOX, '  esc to interrupt'],
    ]
    for (const [n, rows] of faces.entries()) {
      await stub.write(title('⠂ t'), screen(...rows, `  ${n}`))
      await session.untilScreen(rows.at(-1)?.trim() ?? '')
      expect(await code(session), rows.join('\n')).toMatch(/^session_input_(blocked|no_prompt)$/)
    }
    expect(stub.typed).toBe('')
  }, 60_000)
})

describe('pictures that are not complete', () => {
  test('nothing is typed while an update is drawn, at any time of it', async () => {
    const { session } = await claude()
    const { stub } = session
    await stub.write(COMPOSER)
    await shows(session, 'idle')
    await stub.write('\x1b[?2026h', '\x1b[1;1H● so ')
    await printed(session, '● so ')
    expect(await code(session)).toBe('session_input_no_prompt')
    expect(await code(session)).toBe('session_input_no_prompt')
    const late = session.call('session.input', { text: 'PROMPT' })
    await stub.write(`\x1b[3;1H✻ Baked for 1s`, '\x1b[?2026l')
    await late
    await until('it arrived', () => stub.typed === 'PROMPT\r')
  })

  test.each([
    [PASTES, NO_PASTES, 'a\nb\r'],
    [NO_PASTES, PASTES, '\x1b[200~a\nb\x1b[201~\r'],
  ])('a text is framed by what the admitting look shows: %j, then %j', async (before, then, typed) => {
    const { session } = await claude()
    const { stub } = session
    await stub.write(before, COMPOSER)
    await shows(session, 'idle')
    await stub.write('\x1b[?2026h', '\x1b[1;1H●')
    await printed(session, '\x1b[1;1H●')
    const sent = session.call('session.input', { text: 'a\nb' })
    await stub.order('later', { ms: 150, tag: 'a' })
    await until('a while', () => stub.heard.some((it) => it.tag === 'a'))
    expect(stub.typed).toBe('')
    await stub.write(then, '\x1b[?2026l')
    await sent
    await until('it arrived', () => stub.typed.endsWith('\r'))
    expect(stub.typed).toBe(typed)
  })
})

test('a question above an intact prompt box is one; what an answer quotes is not', async () => {
  const { session } = await claude()
  const { stub } = session
  const list = [' Allow edit?', ' ❯ 1. Yes', '   2. No']
  await stub.write(screen('● x', RULE, ...list, ...BOX, '  ? for shortcuts'))
  await shows(session, 'blocked')
  expect(await code(session)).toBe('session_input_blocked')
  // FC-8d56
  await stub.write(screen('● Look:', ...list.map((it) => ` ${it}`), '', ...BOX, '  ? for shortcuts'))
  await shows(session, 'idle')
  await stub.write(screen(RULE, '● Look:', ...list, '', '✻ Brewed for 1s', ...BOX, '  ? for shortcuts'))
  await session.untilScreen('Brewed')
  await session.call('session.input', { text: 'ok' })
  await until('it arrived', () => stub.typed === 'ok\r')
})

test('Enter at the prompt, and a text that is merely echoed, prove no turn', async () => {
  const { it, session } = await claude()
  const { stub } = session
  await stub.write(COMPOSER)
  await shows(session, 'idle')
  await stub.order('submit', [COMPOSER])
  await session.call('session.input', { text: '' })
  const again = (): number => it.changes.filter((one) => one.sessionId === session.id && !one.fresh).length
  await until('the revision moved', () => again() === 1)
  await stub.order('submit', [COMPOSER.replace('❯\u00a0', '❯\u00a0hello')])
  await session.call('session.input', { text: 'hello' })
  await until('the revision moved', () => again() === 2)
  expect(it.changes.filter((one) => !one.fresh).every((one) => one.unproven === true)).toBe(true)
  expect(it.changes.map((one) => one.now?.activity)).toEqual(['idle', 'idle', 'idle'])
})
