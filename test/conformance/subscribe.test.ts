/** `subscribe`: ack, events in order, withheld and renamed ones, slow and silent subscribers. */
import { expect, test } from 'vitest'
import { systemClock } from '../../kernel/index.ts'
import { SUBSCRIBER_QUEUE_BYTES } from '../../protocol/limits.ts'
import { testKernel } from '../harness/kernel.ts'
import { until } from '../harness/wait.ts'
import type { Json } from '../harness/ndjson.ts'
import { demo } from '../kernel/fixtures.ts'

async function world() {
  const it = demo()
  const kernel = await testKernel([it.bootable], [], { clock: systemClock })
  const served = await kernel.serve()
  const emit = (event: string, payload: Json, times = 1) => kernel.call('demo.emit', { event, payload, times })
  return { ...served, emit, kernel, demo: it }
}

test('acknowledges, then sends flattened events and answers nothing else', async () => {
  const { connect, emit } = await world()
  const raw = await connect()
  expect(await raw.ask('subscribe')).toEqual({ v: 4, id: 't-subscribe', ok: { subscribed: true } })
  raw.sendJson({ v: { minimum: 3, maximum: 4 }, id: 'late', method: 'demo.nothing' })
  raw.send('garbage\n')
  raw.send(Buffer.alloc(3_000_000, 'x')) // ignored input is not held, and no line bound applies to it
  await until('the input was taken', () => raw.socket.writableLength === 0)
  await emit('demo_event', { session_id: 's-1', n: 1 })
  await emit('background_state', { session_id: 's-1' })
  expect(await raw.line()).toBe('{"v":4,"event":"demo_event","session_id":"s-1","n":1}')
  expect(await raw.json()).toEqual({ v: 4, event: 'background_state', session_id: 's-1' })
  expect(raw.waiting).toEqual([])
})

test('params are refused and do not subscribe', async () => {
  const { connect } = await world()
  const raw = await connect()
  expect(await raw.ask('subscribe', {})).toMatchObject({ err: { class: 'daemon', code: 'bad_request' } })
  expect((await raw.ask('demo.nothing')).ok).toBeNull()
})

test('a version 3 subscriber gets its spelling and no newer event', async () => {
  const { connect, emit } = await world()
  const raw = await connect()
  expect((await raw.ask('subscribe', null, { v: { minimum: 3, maximum: 3 } })).v).toBe(3)
  await emit('background_state', { session_id: 's-1' })
  const runtime = { state: 'live', runtime_generation: '1', worker_instance_id: 'w-1' }
  const metadata = { worker_instance_id: 'mine' }
  await emit('session_updated', {
    session: {
      id: 's-1',
      runtime,
      metadata,
      background: {},
      warnings: [{ kind: 'hook' }, { kind: 'native_recovery' }],
    },
  })
  expect(await raw.json()).toEqual({
    v: 3,
    event: 'session_updated',
    session: {
      id: 's-1',
      runtime: { state: 'live', runtime_generation: '1', runtime_id: 'w-1' },
      metadata,
      warnings: [{ kind: 'hook' }],
    },
  })
  expect(raw.waiting).toEqual([])
})

test('a slow subscriber loses events, holds bounded memory and is told how many it lost', async () => {
  const { connect, emit } = await world()
  const [slow, quick] = [await connect(), await connect()]
  await slow.ask('subscribe')
  await quick.ask('subscribe')
  slow.socket.pause()
  const payload = { text: 'x'.repeat(10_000) }
  const total = 600
  for (let n = 0; n < total / 20; n++) {
    await emit('demo_event', payload, 20)
    await until('the quick one keeps up', () => quick.waiting.length === (n + 1) * 20, { pollMs: 1 })
  }
  slow.socket.resume()
  const seen = await collect(slow)
  const gap = seen.at(-1) as Json
  expect(Object.keys(gap)).toEqual(['v', 'event', 'dropped'])
  const kept = seen.slice(0, -1)
  expect(kept.every((it) => it.event === 'demo_event')).toBe(true)
  expect(kept.length + (gap.dropped as number)).toBe(total)
  expect(kept.length * 10_000).toBeLessThan(SUBSCRIBER_QUEUE_BYTES + 1_500_000) // the rest is the kernel's own buffer
  await emit('demo_event', { after: true })
  expect(await slow.json()).toEqual({ v: 4, event: 'demo_event', after: true })
})

async function collect(raw: { json(): Promise<Json> }): Promise<Json[]> {
  const seen: Json[] = []
  do seen.push(await raw.json())
  while (seen.at(-1)?.event !== 'subscription_gap')
  return seen
}

test('a subscriber that goes away is let go, also after it ended its writing', async () => {
  const { connect, server, emit } = await world()
  const [closing, halfClosed] = [await connect(), await connect()]
  await closing.ask('subscribe')
  await halfClosed.ask('subscribe')
  halfClosed.socket.end()
  closing.socket.destroy()
  await until('one is gone', () => server.connections === 1)
  await emit('demo_event', { n: 1 })
  expect(await halfClosed.json()).toMatchObject({ n: 1 })
  halfClosed.socket.destroy()
  await until('both are gone', () => server.connections === 0)
})

test('an event with an envelope key is a bug of its publisher and reaches nobody', async () => {
  const it = demo()
  const kernel = await testKernel([it.bootable], [], { clock: systemClock, allowErrors: true })
  const raw = await (await kernel.serve()).connect()
  await raw.ask('subscribe')
  await kernel.call('demo.emit', { event: 'demo_event', payload: { id: 'x' } })
  expect(await raw.json()).toEqual({ v: 4, event: 'subscription_gap', dropped: 1 })
  expect(kernel.log.filter((entry) => entry.level === 'error')).toHaveLength(1)
})
