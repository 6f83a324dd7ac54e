/** Everything that may come between a look and the keys behind it: nothing is answered, glued or lost by it. */
import { describe, expect, test } from 'vitest'
import { refused, type Session } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import { manifestLike, report, screen, shows, STUB, theatre, title, type Stub, type Theatre } from './theatre.ts'

const RULE = '─'.repeat(80)
const box = (text = ''): string[] => [RULE, `❯\u00a0${text}`, RULE]
/** The cursor stands in the box, behind its text. */
const composer = (text = '', columns = 80): string =>
  `${screen('● an answer', '', '✻ Brewed for 4s', ...box(text).map((it) => it.slice(0, columns)), '  ? for shortcuts')}\x1b[5;${3 + text.length}H`
const DIALOG = screen(RULE, ' Bash command', ' rm -rf build', ' Do you want to proceed?', ' ❯ 1. Yes', '   2. No')

type Agent = Session & { stub: Stub }
async function claude(program?: string, args?: (it: Theatre) => string[]): Promise<{ it: Theatre; session: Agent }> {
  const it = await theatre({ input_rules: 'composer = "required"', detect: manifestLike('claude') })
  const session = await it.agent(program, args?.(it), ['[input_rules]', 'submit_delay_ms = 600'])
  await session.stub.write(composer())
  await shows(session, 'idle')
  return { it, session }
}
const code = async (session: Session): Promise<string> =>
  (await refused(session.call('session.input', { text: 'PROMPT' }))).code

/** Sends a prompt; `meanwhile` happens once its text is there. Answers the code of the refusal. */
async function between(
  { it, session }: { it: Theatre; session: Agent },
  meanwhile: () => Promise<unknown>,
): Promise<string> {
  const before = session.stub.typed.length
  const wire = it.station.keep(await it.station.connect()) // one request at a time
  const sent = refused(wire.call('session.input', { session_id: session.id, text: 'PROMPT' }))
  sent.catch(() => undefined) // awaited below
  await until('the text arrived', () => session.stub.typed.slice(before) === 'PROMPT', { pollMs: 1 })
  await meanwhile()
  const { code: refusal } = await sent
  expect(session.stub.typed.slice(before)).toBe('PROMPT')
  return refusal
}

describe('between the text and its Enter', () => {
  test.each([
    ['a line somebody typed just before stands in front of it', composer('half a linePROMPT')],
    ['an interrupted prompt went back into the box', composer('slow 30PROMPT')],
    ['the screen was cleared', '\x1b[2J\x1b[H'],
    ['another screen came over it', '\x1b[?1049h\x1b[H(END)'],
    ['a dialog came over it on another screen', `\x1b[?1049h${DIALOG}`],
    ['a dialog came and its update was never ended', `\x1b[?2026h${DIALOG}`],
    ['the agent reports a question it has not drawn', report('blocked', ':kind=permission')],
  ])('%s: no key', async (_, drawn) => {
    const stage = await claude()
    expect(await between(stage, () => stage.session.stub.write(drawn))).toBe('session_input_unsubmitted')
  })

  test('the window gets another size and the agent draws a dialog for it: no key; once it is gone, the key goes', async () => {
    const stage = await claude()
    const { session } = stage
    const { stub } = session
    await session.attach({ cols: 90, rows: 20 })
    const watcher = await session.attach({ cols: 40, rows: 20 })
    await stub.write(composer('', 40))
    await session.untilScreen(/^─{40}$/m)
    const back = async (): Promise<void> => {
      watcher.close() // the size goes back to that of the other one
      await until('it is wide again', async () => (await session.info()).cols > 40)
      await stub.write(DIALOG)
    }
    expect(await between(stage, back)).toBe('session_input_unsubmitted')
    await stub.write(composer('PROMPT'))
    await session.untilScreen('PROMPT')
    await session.call('session.input', { text: '' })
    await until('Enter arrived', () => stub.typed === 'PROMPT\r')
  })

  test('the agent ended and its shell is in front: no key', async () => {
    const stage = await claude('/bin/bash', (it) => [
      '-c',
      `set -m; ${process.execPath} ${STUB} ${it.socketPath}; read line; echo "ran: $line"; sleep 600`,
    ])
    expect(await between(stage, () => stage.session.stub.order('exit', 0))).toBe('session_input_unsubmitted')
    expect(await stage.session.screen()).not.toContain('ran:')
  })
})

describe('a terminal that changes hands', () => {
  test('an agent that is suspended gets nothing, and takes it again in front', async () => {
    const { session } = await claude('/bin/bash', (it) => [
      '-c',
      `set -m; ${process.execPath} ${STUB} ${it.socketPath}; read line; fg`,
    ])
    process.kill(await session.stub.pid(), 'SIGTSTP')
    await shows(session, undefined)
    expect(await code(session)).toBe('session_input_no_prompt')
    await session.call('session.input', { text: 'go on\n', force: true }) // its terminal was left raw
    await until(
      'it is in front again',
      async () => (await session.call('session.explain')).identity.in_front === 'agent',
    )
    await session.stub.write(composer())
    await session.call('session.input', { text: 'PROMPT' })
    await until('it arrived', () => session.stub.typed.endsWith('PROMPT\r'), { show: () => session.stub.typed })
  })

  test('what the agent before reported says nothing of the one after it', async () => {
    const stub = (it: Theatre): string => `${process.execPath} ${STUB} ${it.socketPath}`
    const { it, session } = await claude('/bin/bash', (at) => ['-c', `set -m; ${stub(at)}; ${stub(at)}`])
    await session.stub.write(report('idle'), title('✳ topic'))
    await session.stub.order('exit', 0)
    const next = await until('the next one runs', () => it.arrived[1])
    await next.write(screen('=== Brand new consent ===', ' [ OK ]'))
    await shows(session, undefined)
    expect(await code(session)).toBe('session_input_no_prompt')
    await next.write(report('working'), composer())
    await shows(session, 'working')
    await next.write(report('done'))
    await shows(session, 'idle')
    expect(next.typed).toBe('')
  })

  test('a file that is shown cannot say that a question is over, nor that its shell is an agent at rest', async () => {
    const it = await theatre({ detect: manifestLike('claude') })
    const run = `set -m; ${process.execPath} ${STUB} ${it.socketPath}; cat`
    const session = await it.agent('/bin/bash', ['-c', run], [], 'shell')
    await session.stub.write(report('blocked', ':kind=permission'))
    await shows(session, 'blocked')
    await session.stub.order('run', ['/usr/bin/printf', composer()])
    await session.untilScreen('Brewed')
    expect(await code(session)).toBe('session_input_blocked')
    await session.stub.order('exit', 0)
    await session.call('session.input', { text: 'x', force: true })
    await shows(session, undefined)
  })
})
