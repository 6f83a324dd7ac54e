/** What may wait for its turn to be written to a terminal is bounded: a program that does not read makes all of it wait. */
import { expect, test } from 'vitest'
import { Session as Kept } from '../../plugins/sessions/session.ts'
import type { SessionRecord } from '../../plugins/sessions/record.ts'
import type { Fault } from '../../protocol/fault.ts'
import { refused } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import { station } from './station.ts'

const kept = (): Kept =>
  new Kept({ info: { id: 's-1' } } as unknown as SessionRecord, 'running', () => {
    throw new Error('needs no scope')
  })
const codeOf = (queued: Promise<unknown>): Promise<string> =>
  queued.then(
    () => 'taken',
    (failure: unknown) => (failure as Fault).code,
  )

test('64 inputs wait in their order, one more is refused at once and without being tried', async () => {
  const session = kept()
  const order: number[] = []
  let open = (): void => undefined
  const gate = new Promise<void>((resolve) => (open = resolve))
  const taken = Array.from({ length: 64 }, (_, n) =>
    codeOf(session.enqueueInput(async () => (await gate, void order.push(n)))),
  )
  const beyond = () => codeOf(session.enqueueInput(() => Promise.resolve(order.push(-1))))
  expect(await beyond()).toBe('session_waiter_limit_reached')
  open()
  expect(await Promise.all(taken)).toEqual(Array.from({ length: 64 }, () => 'taken'))
  expect(order).toEqual(Array.from({ length: 64 }, (_, n) => n))
  expect(await beyond()).toBe('taken')
})

test('a place is given back whatever became of the input; one that is over the bytes alone is taken', async () => {
  const session = kept()
  const fails = () => session.enqueueInput(() => Promise.reject(new Error('stalled')), 2_000_000)
  for (let n = 0; n < 100; n++) await expect(fails()).rejects.toThrow('stalled')
  const both = [fails(), codeOf(session.enqueueInput(() => Promise.resolve(), 1))] as const
  await expect(both[0]).rejects.toThrow('stalled')
  expect(await both[1]).toBe('session_waiter_limit_reached')
})

test('a crowd before a program that does not read: what is kept for it is bounded, the rest is told at once', async () => {
  const it = await station({ input: { writeStallTimeoutMs: 8_000 } })
  const slow = await it.sh('stty raw -echo; echo ready; sleep 1000')
  await slow.untilScreen('ready')
  const wires = await Promise.all(Array.from({ length: 8 }, () => it.connect()))
  const codes: string[] = []
  const answers = wires.map(async (wire) => {
    const call = wire.call('session.input', { session_id: slow.id, text: 'x'.repeat(262_144) }, { deadlineMs: 60_000 })
    codes.push((await refused(call)).code)
  })
  // Four make up 1 MiB. The other four have their answers while the first one still waits to be read.
  await until('four are refused', () => codes.length >= 4)
  expect(codes).toEqual(Array.from({ length: 4 }, () => 'session_waiter_limit_reached'))
  process.kill(slow.pid, 'SIGKILL')
  await Promise.all(answers)
})
