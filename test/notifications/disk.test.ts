/** A full disk: what was observed is told all the same, kept, and stored once there is room. */
import { expect, test } from 'vitest'
import { until } from '../harness/wait.ts'
import { desk, type Desk } from './desk.ts'
import { fakeDisk } from './full-disk.ts'

const WINDOW_MS = 5_000

async function keeping(options: Parameters<typeof desk>[0] = {}): Promise<Desk> {
  const d = await desk({ allowErrors: true, ...options })
  const { policy } = await d.call('policy.get')
  await d.call('policy.set', { policy: { ...policy, enabled: { ...policy.enabled, turn_completed: true } } })
  return d
}
const listed = async (d: Desk): Promise<string[]> => (await d.list()).map((it) => `${it.kind} ${it.status}`)
/** There is room again: time alone has to do it, not the last try of a daemon that stops. */
const becomes = (d: Desk, wanted: readonly string[]): Promise<unknown> =>
  until(
    wanted.join(', '),
    async () => {
      d.kernel.clock.advance(1_000)
      return JSON.stringify(await listed(d)) === JSON.stringify(wanted)
    },
    { show: () => listed(d) },
  )

test('a question asked while the disk is full is told at its time, and is in the inbox once there is room', async () => {
  const disk = fakeDisk()
  const d = await keeping()
  disk.full = true
  d.see('blocked')
  await d.pass(WINDOW_MS)
  expect(d.settled).toMatchObject([{ kind: 'agent_blocked', counts: true }])
  expect(await d.list()).toEqual([])
  await d.pass(60_000)
  disk.full = false
  await becomes(d, ['agent_blocked unread'])
  await d.pass(60_000)
  expect(d.settled).toHaveLength(1)
  expect(await listed(d)).toEqual(['agent_blocked unread'])
  await d.stop()
  const again = await desk({ root: d.root })
  again.see('blocked')
  await again.pass(WINDOW_MS)
  expect([await listed(again), again.settled]).toEqual([['agent_blocked unread'], []])
})

test('questions and turns that came and went while the disk was full become records that are dealt with', async () => {
  const disk = fakeDisk()
  const d = await keeping()
  d.see('working')
  await d.pass(2_000)
  disk.full = true
  d.see('blocked')
  await d.pass(WINDOW_MS + 500)
  d.see('working')
  await d.pass(2_000)
  d.see('idle')
  await d.pass(WINDOW_MS + 500)
  expect(d.settled.map((it) => it.kind)).toEqual(['agent_blocked', 'turn_completed'])
  disk.full = false
  await becomes(d, ['turn_completed unread', 'agent_blocked acknowledged'])
  await d.stop()
  const again = await desk({ root: d.root })
  again.see('idle')
  await again.pass(WINDOW_MS)
  expect(again.settled).toEqual([])
})

test('a hook hears that the disk is full; its report is told and recorded all the same, once', async () => {
  const disk = fakeDisk()
  const d = await keeping()
  disk.full = true
  await expect(d.hook({ source_id: 'one' })).rejects.toMatchObject({ code: 'notification_store_error' })
  await expect(d.hook({ source_id: 'one' })).resolves.toMatchObject({ created: false })
  await d.pass(WINDOW_MS)
  expect(d.settled).toMatchObject([{ kind: 'approval_required', provider: 'claude' }])
  disk.full = false
  await becomes(d, ['approval_required unread'])
})

test('what its owner answered while the disk was full resolves later, and an end is recorded later', async () => {
  const disk = fakeDisk()
  const d = await keeping()
  d.see('blocked')
  await d.pass(WINDOW_MS)
  disk.full = true
  d.see('working')
  await d.pass(2_000)
  expect(await listed(d)).toEqual(['agent_blocked unread'])
  d.change({ state: 'failed', exit_code: 3 })
  await d.pass(4_000)
  disk.full = false
  await becomes(d, ['error unread', 'agent_blocked acknowledged'])
})

test('told before the record could be stored: a daemon that dies over it does not tell again', async () => {
  const disk = fakeDisk()
  const d = await keeping()
  d.see('blocked')
  await d.pass(1_000)
  disk.full = ['notifications.jsonl']
  await d.pass(WINDOW_MS)
  expect(d.settled).toHaveLength(1)
  await d.stop()
  disk.full = false
  const again = await desk({ root: d.root })
  await again.pass(WINDOW_MS)
  again.see('blocked')
  await again.pass(WINDOW_MS)
  expect([await listed(again), again.settled]).toEqual([['agent_blocked unread'], []])
})

test('a turn that failed while the disk was full is one error once there is room, and its end is told at its time', async () => {
  const disk = fakeDisk()
  const d = await desk({ allowErrors: true })
  d.see('working')
  await d.pass(2_000)
  disk.full = true
  d.see('idle', { failedAt: 7 })
  await d.pass(WINDOW_MS)
  expect(d.settled.map((it) => it.kind)).toEqual(['turn_completed'])
  expect(await d.list()).toEqual([])
  disk.full = false
  await becomes(d, ['error unread'])
  await d.pass(60_000)
  expect([await listed(d), d.settled.length]).toEqual([['error unread'], 1])
})
