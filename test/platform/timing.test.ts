import { getEventListeners } from 'node:events'
import { expect, onTestFinished, test } from 'vitest'
import { manualClock } from '../../kernel/clock.ts'
import { within, type Timing } from '../../platform/timing.ts'

/** A clock moved by hand that fails its test when a timer is left, beside a signal that fails it for a listener. */
function edges() {
  const clock = manualClock()
  const live = new Set<object>()
  const timing: Timing = {
    monotonic: () => clock.monotonic(),
    after(ms, run) {
      const timer = clock.after(ms, () => {
        live.delete(timer)
        run()
      })
      live.add(timer)
      return {
        [Symbol.dispose]: () => {
          live.delete(timer)
          timer[Symbol.dispose]()
        },
      }
    },
  }
  const controller = new AbortController()
  onTestFinished(() => {
    expect(live.size).toBe(0)
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0)
  })
  return { clock, timing, controller }
}
const never = new Promise<string>(() => undefined)

test('work that is done in time is the answer, its failure too', async () => {
  const { timing, controller } = edges()
  const late = () => 'late'
  expect(await within(timing, 10, Promise.resolve('done'), late, controller.signal)).toBe('done')
  await expect(within(timing, 10, Promise.reject(new Error('broke')), late, controller.signal)).rejects.toThrow('broke')
})

test('after the time, what is said for that case', async () => {
  const { clock, timing, controller } = edges()
  const told = within(timing, 10, never, () => 'late', controller.signal)
  clock.advance(10)
  expect(await told).toBe('late')
  const refused = within(
    timing,
    10,
    never,
    () => {
      throw new Error('too late')
    },
    controller.signal,
  )
  clock.advance(10)
  await expect(refused).rejects.toThrow('too late')
})

test('the signal ends the wait with its reason, also one that had aborted; work that fails behind it is no failure of anybody', async () => {
  const { timing, controller } = edges()
  let fail = (_: Error): void => undefined
  const work = new Promise<string>((_, reject) => (fail = reject))
  const waiting = within(timing, 10, work, () => 'late', controller.signal)
  controller.abort(new Error('gone'))
  await expect(waiting).rejects.toThrow('gone')
  await expect(within(timing, 10, work, () => 'late', controller.signal)).rejects.toThrow('gone')
  fail(new Error('nobody waits'))
})
