/** What work leaves in a heap is collected once the process rests, and a process that rests does nothing. */
import { expect, onTestFinished, test } from 'vitest'
import { manualClock } from '../../kernel/clock.ts'
import { collectAtRest } from '../../main/heap.ts'
import { until } from '../harness/wait.ts'

function observed(worth: number) {
  const clock = manualClock()
  let timers = 0
  let collections = 0
  const counted = {
    ...clock,
    after: (ms: number, run: () => void) => {
      timers++
      return clock.after(ms, run)
    },
  }
  const it = collectAtRest({ clock: counted, restMs: 1_000, worth, collect: () => collections++ })
  onTestFinished(() => it[Symbol.dispose]())
  return { clock, timers: () => timers, collections: () => collections }
}

/** Makes garbage until V8 was seen to collect some of it. */
async function work(timers: () => number): Promise<void> {
  const before = timers()
  await until('V8 collects new objects', () => {
    const made: unknown[] = []
    for (let i = 0; i < 50_000; i++) made.push({ i, text: `${i}` })
    return made.length > 0 && timers() > before
  })
}

test('work is followed by one collection, when it rests', async () => {
  const { clock, timers, collections } = observed(1)
  await work(timers)
  clock.advance(900)
  expect(collections()).toBe(0)
  clock.advance(1_200)
  expect(collections()).toBe(1)
  clock.advance(60_000)
  expect(collections()).toBe(1)
})

test('little garbage is not worth it', async () => {
  const { clock, timers, collections } = observed(1_000_000)
  await work(timers)
  clock.advance(60_000)
  expect(collections()).toBe(0)
})
