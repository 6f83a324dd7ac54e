/** Agents that nobody launched as such: one that was typed into a shell, and a program of one's own with a manifest. */
import { expect, test } from 'vitest'
import { refused } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import { COMPOSER, MANIFEST, QUESTION, report, shows, STUB, theatre, WORKING } from './theatre.ts'

test('in a plain shell, what the program in front says of itself counts, and a question it says it asks gets no text', async () => {
  const it = await theatre()
  const session = await it.agent(
    '/bin/bash',
    ['-c', `set -m; ${process.execPath} ${STUB} ${it.socketPath}; cat`],
    [],
    'shell',
  )
  await session.stub.write(WORKING)
  await session.untilScreen('Pondering')
  expect((await session.info()).activity).toBeUndefined()
  await session.stub.write(report('working'))
  expect(await shows(session, 'working')).toMatchObject({ state_source: 'report' })
  await session.stub.write(report('blocked', ':kind=permission'), QUESTION)
  await shows(session, 'blocked')
  expect((await refused(session.call('session.input', { text: 'no' }))).code).toBe('session_input_blocked')
  expect(session.stub.typed).toBe('')
  await session.call('session.input', { text: '2', force: true })
  await until('it arrived', () => session.stub.typed === '2\r')
  await session.stub.write(report('idle'), COMPOSER)
  await shows(session, 'idle')
  // Its end leaves a shell, not an agent at rest.
  await session.stub.order('exit', 0)
  await session.call('session.input', { text: 'hello' })
  await shows(session, undefined)
})

test('a program of one’s own asks for a visible prompt in its profile', async () => {
  const it = await theatre()
  it.manifest('mine', MANIFEST)
  const lines = ['manifest = "mine"', '[input_rules]', 'composer = "required"', 'while_working = "refuse"']
  const session = await it.agent(process.execPath, [STUB, it.socketPath], lines, 'shell')
  await session.stub.write(QUESTION)
  await shows(session, 'blocked')
  expect((await refused(session.call('session.input', { text: 'x' }))).code).toBe('session_input_blocked')
  await session.stub.write(WORKING)
  await shows(session, 'working')
  expect((await refused(session.call('session.input', { text: 'x' }))).code).toBe('session_input_busy')
  await session.stub.write(COMPOSER)
  await shows(session, 'idle')
  await session.call('session.input', { text: 'x' })
  await until('it arrived', () => session.stub.typed === 'x\r')
})
