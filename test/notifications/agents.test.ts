/** Real terminals, processes and detection: what an agent's screen does to the inbox. */
import { expect, test } from 'vitest'
import { processes } from '../../platform/index.ts'
import { detectionPlugin } from '../../plugins/detection/plugin.ts'
import notifications from '../../plugins/notifications/plugin.ts'
import { COMPOSER, QUESTION, report, shows, theatre, title, WORKING, type Theatre } from '../detection/theatre.ts'
import { until } from '../harness/wait.ts'
import type { Answer } from '../harness/wire.ts'

async function inboxTheatre(): Promise<Theatre> {
  const it = await theatre({ plugins: [detectionPlugin(processes), notifications] })
  const { policy } = await it.station.call('notification.policy.get')
  const enabled = { ...policy.enabled, turn_completed: true }
  await it.station.call('notification.policy.set', { policy: { ...policy, enabled, attention_debounce_secs: 1 } })
  return it
}

const list = async (it: Theatre): Promise<Answer[]> => (await it.station.call('notification.list')).notifications
const found = (it: Theatre, kind: string, status: string): Promise<Answer> =>
  until(
    `${kind} is ${status}`,
    async () => (await list(it)).find((one) => one.kind === kind && one.status === status),
    {
      show: () => it.station.log.slice(-5),
    },
  )

test('FC-6596, FC-9b28: a question on the screen alone is one item; an answer resolves it; the turn behind it is one', async () => {
  const it = await inboxTheatre()
  const session = await it.agent()
  await session.stub.write(COMPOSER)
  await shows(session, 'idle')
  await session.stub.write(title('⠋ job'), WORKING)
  await shows(session, 'working')
  // The spinner stays in the title: the question beats it.
  await session.stub.write(QUESTION)
  await shows(session, 'blocked')
  const item = await found(it, 'agent_blocked', 'unread')
  expect(item).toMatchObject({ session_id: session.id, severity: 'action_required', metadata: { reason: 'blocked' } })
  await it.station.restart()
  await shows(session, 'blocked')
  await session.stub.write(WORKING)
  await found(it, 'agent_blocked', 'acknowledged')
  await session.stub.write(title('stub'), COMPOSER)
  await shows(session, 'idle')
  await found(it, 'turn_completed', 'unread')
  expect((await list(it)).map((one) => [one.kind, one.status])).toEqual([
    ['turn_completed', 'unread'],
    ['agent_blocked', 'acknowledged'],
  ])
})

test('a turn that ends while no daemon runs is told once, also over one more restart', async () => {
  const it = await inboxTheatre()
  const session = await it.agent()
  await session.stub.write(WORKING)
  await shows(session, 'working')
  await it.station.drop()
  await session.stub.write(COMPOSER)
  await it.station.start()
  const turn = await found(it, 'turn_completed', 'unread')
  await it.station.restart()
  await shows(session, 'idle')
  expect(await list(it)).toEqual([turn])
})

/** Unread questions are told; each of them is dealt with before the next one comes. */
async function questions(it: Theatre): Promise<string[]> {
  return (await list(it)).filter((one) => one.kind === 'agent_blocked').map((one) => String(one.status))
}
const askedTimes = (it: Theatre, times: number): Promise<string[]> =>
  until(
    `${times} questions were told`,
    async () => {
      const found = await questions(it)
      return found.length === times ? found : undefined
    },
    { show: () => it.station.log.slice(-5) },
  )

test('each question is told, also where no work is seen between them', async () => {
  const it = await inboxTheatre()
  const session = await it.agent()
  await session.stub.write(COMPOSER)
  await shows(session, 'idle')
  for (let times = 1; times <= 3; times++) {
    await session.stub.write(QUESTION)
    await shows(session, 'blocked')
    expect(await askedTimes(it, times)).toEqual(['unread', ...Array.from({ length: times - 1 }, () => 'acknowledged')])
    await session.stub.order('submit', [COMPOSER])
    await session.call('session.input', { text: 'n', force: true })
    await shows(session, 'idle')
  }
  // The answer of the last one resolves it: rest alone would not.
  await found(it, 'agent_blocked', 'acknowledged')
  expect(new Set(await questions(it))).toEqual(new Set(['acknowledged']))
})

test('a question that goes by itself stays unread, and the next one is another', async () => {
  const it = await inboxTheatre()
  const session = await it.agent()
  await session.stub.write(QUESTION)
  await askedTimes(it, 1)
  await session.stub.write(COMPOSER)
  await shows(session, 'idle')
  expect(await questions(it)).toEqual(['unread'])
  await session.stub.write(QUESTION)
  expect(await askedTimes(it, 2)).toEqual(['unread', 'acknowledged'])
})

test('several approvals in a row are several, however short the work between them', async () => {
  const it = await inboxTheatre()
  const session = await it.agent()
  await session.stub.write(WORKING)
  await shows(session, 'working')
  await session.stub.write(QUESTION)
  for (let times = 1; times <= 3; times++) {
    await askedTimes(it, times)
    await session.stub.order('submit', [WORKING, 250, QUESTION])
    await session.call('session.input', { text: '1', force: true })
  }
  expect(await askedTimes(it, 4)).toEqual(['unread', 'acknowledged', 'acknowledged', 'acknowledged'])
})

test('FC-cb0c: a flicker that nobody caused is the same question', async () => {
  const it = await inboxTheatre()
  const session = await it.agent()
  await session.stub.write(WORKING)
  await shows(session, 'working')
  await session.stub.write(QUESTION)
  await askedTimes(it, 1)
  await session.stub.order('steps', [WORKING, 200, QUESTION, 300, WORKING, 700, QUESTION])
  await session.stub.order('later', { ms: 3_500, tag: 'over' })
  await until('the flicker is over', () => session.stub.heard.some((one) => one.tag === 'over'))
  await shows(session, 'blocked')
  expect(await questions(it)).toEqual(['unread'])
})

test('a turn whose agent reports an error is one error and no completed turn, also when its daemon was away', async () => {
  const it = await inboxTheatre()
  const session = await it.agent()
  const kinds = async (): Promise<string[]> => (await list(it)).map((one) => String(one.kind))
  for (const times of [1, 2]) {
    await session.stub.write(report('working'), WORKING)
    await shows(session, 'working')
    if (times === 2) await it.station.drop()
    await session.stub.write(report('error', ':msg=QVBJIEVycm9y'), COMPOSER)
    if (times === 2) await it.station.start()
    await shows(session, 'idle')
    await until('the error is told', async () => (await kinds()).length === times)
  }
  await it.station.restart()
  await shows(session, 'idle')
  await session.stub.order('later', { ms: 2_000, tag: 'window' })
  await until('the window is over', () => session.stub.heard.some((one) => one.tag === 'window'))
  expect(await kinds()).toEqual(['error', 'error'])
  await session.stub.write(report('working'), WORKING)
  await shows(session, 'working')
  await session.stub.write(report('done'), COMPOSER)
  await found(it, 'turn_completed', 'unread')
  expect(await kinds()).toEqual(['turn_completed', 'error', 'error'])
  expect((await list(it))[1]).toMatchObject({
    severity: 'error',
    status: 'unread',
    metadata: { reason: 'turn_failed' },
  })
})

test('a question that was answered while its daemon was away, and the next one behind it, are two', async () => {
  const it = await inboxTheatre()
  const session = await it.agent()
  await session.stub.write(report('blocked', ':kind=permission'), QUESTION)
  await askedTimes(it, 1)
  await it.station.restart()
  await shows(session, 'blocked')
  expect(await questions(it)).toEqual(['unread'])
  await it.station.drop()
  await session.stub.write(report('working'), WORKING, report('blocked', ':kind=permission'), QUESTION)
  await it.station.start()
  expect(await askedTimes(it, 2)).toEqual(['unread', 'acknowledged'])
})
