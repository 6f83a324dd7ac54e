/** Real terminals, processes and detection: what an agent's screen does to the inbox. */
import { expect, test } from 'vitest'
import { processes } from '../../platform/index.ts'
import { detectionPlugin } from '../../plugins/detection/plugin.ts'
import notifications from '../../plugins/notifications/plugin.ts'
import { COMPOSER, QUESTION, shows, theatre, title, WORKING, type Theatre } from '../detection/theatre.ts'
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
