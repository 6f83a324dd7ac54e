import { expect, test } from 'vitest'
import { delay, manualClock, Scope } from '../../kernel/index.ts'

const scope = () => {
  const clock = manualClock()
  return { clock, it: new Scope('s', clock) }
}

test('releases once, newest first, after the signal', async () => {
  const { it } = scope()
  const seen: string[] = []
  it.signal.addEventListener('abort', () => seen.push('signal'))
  it.defer('a', () => seen.push('a'))
  const early = it.defer('b', () => seen.push('b'))
  it.defer('c', async () => void seen.push('c'))
  early[Symbol.dispose]()
  early[Symbol.dispose]()
  await Promise.all([it.close(), it.close()])
  expect(seen).toEqual(['b', 'signal', 'c', 'a'])
  expect(it.live).toEqual([])
})

test('one failing release does not skip the others, and all failures surface', async () => {
  const { it } = scope()
  const seen: string[] = []
  it.defer('a', () => seen.push('a'))
  it.defer('b', () => Promise.reject(new Error('b failed')))
  it.defer('c', () => {
    throw new Error('c failed')
  })
  const failure = (await it.close().catch((e: unknown) => e)) as AggregateError
  expect(failure.errors.map((e) => (e as Error).message)).toEqual(['c failed', 'b failed'])
  expect(seen).toEqual(['a'])
})

test('a closed scope takes nothing: what is offered is released at once', async () => {
  const { it } = scope()
  await it.close()
  let released = false
  expect(() => it.defer('late', () => (released = true))).toThrow('s is closed')
  expect(released).toBe(true)
  expect(() => it.child('late')).toThrow()
  expect(() => it.after(1, 'late', () => undefined)).toThrow()
})

test('a release that closes its own scope again, or waits for the signal to, starts no second round', async () => {
  const { it } = scope()
  const seen: string[] = []
  const closing: Promise<void>[] = []
  it.signal.addEventListener('abort', () => void closing.push(it.close()))
  it.defer('a', () => seen.push('a'))
  it.defer('b', () => {
    seen.push('b')
    closing.push(it.close())
    expect(it.closed).toBe(true)
    expect(() => it.defer('late', () => seen.push('late'))).toThrow('s is closed')
  })
  await it.close()
  expect(closing).toHaveLength(2)
  await Promise.all(closing)
  expect(seen).toEqual(['b', 'late', 'a'])
})

test('a child closes with its parent, and alone without a trace', async () => {
  const { it } = scope()
  const seen: string[] = []
  const gone = it.child('gone')
  const stays = it.child('stays')
  gone.defer('x', () => seen.push('gone'))
  stays.defer('x', () => seen.push('stays'))
  await gone.close()
  expect(it.live).toEqual(['s/stays'])
  await it.close()
  expect(seen).toEqual(['gone', 'stays'])
})

test('timers fire once, can be cancelled, and die with their scope', async () => {
  const { it, clock } = scope()
  const seen: string[] = []
  it.after(10, 'a', () => seen.push('a'))
  it.after(10, 'b', () => seen.push('b'))[Symbol.dispose]()
  it.after(30, 'c', () => seen.push('c'))
  clock.advance(20)
  expect(seen).toEqual(['a'])
  expect(it.live).toEqual(['s/c'])
  await it.close()
  clock.advance(20)
  expect(seen).toEqual(['a'])
})

test('a delay rejects with the reason of its signal and leaves no timer', async () => {
  const { clock } = scope()
  const stop = new AbortController()
  const waiting = delay(clock, 10, stop.signal).catch((e: unknown) => e)
  stop.abort(new Error('stopped'))
  expect(((await waiting) as Error).message).toBe('stopped')
  expect(
    await delay(clock, 1, AbortSignal.abort(new Error('before'))).catch((e: unknown) => (e as Error).message),
  ).toBe('before')
})
