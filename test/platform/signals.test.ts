import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { firstOf } from '../../platform/signals.ts'

test('it aborts with the first, for its reason', () => {
  const [one, two] = [new AbortController(), new AbortController()]
  using either = firstOf(one.signal, two.signal)
  expect(either.signal.aborted).toBe(false)
  two.abort(new Error('two'))
  one.abort(new Error('one'))
  expect(either.signal.reason).toEqual(new Error('two'))
})

test('one that has aborted before counts', () => {
  using either = firstOf(new AbortController().signal, AbortSignal.abort(new Error('long ago')))
  expect(either.signal.reason).toEqual(new Error('long ago'))
})

test('nothing stays in a long-lived signal', () => {
  const daemon = new AbortController()
  for (let i = 0; i < 20; i++) {
    using either = firstOf(daemon.signal, new AbortController().signal)
    expect(getEventListeners(daemon.signal, 'abort')).toHaveLength(1)
    either.signal.throwIfAborted()
  }
  expect(getEventListeners(daemon.signal, 'abort')).toHaveLength(0)
  const symbols = Object.getOwnPropertySymbols(daemon.signal)
  const dependants = symbols.find((it) => it.description === 'kDependantSignals')
  expect(
    dependants === undefined ? 0 : ((daemon.signal as never as Record<symbol, Set<unknown>>)[dependants]?.size ?? 0),
  ).toBe(0)
})
