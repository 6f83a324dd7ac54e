import { readFileSync, readdirSync, statSync, symlinkSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { manualClock } from '../../kernel/clock.ts'
import { openEventLog, type EventLog, type EventLogOptions } from '../../kernel/event-log.ts'
import { memoryLog } from '../store/fixtures/tables.ts'
import { temporary } from './fixtures/temporary.ts'

function open(options: Partial<EventLogOptions> = {}): {
  events: EventLog
  file: string
  lines: () => Record<string, unknown>[]
} {
  const file = options.file ?? join(temporary(), 'events/events.jsonl')
  const events = openEventLog({ file, clock: manualClock(0), log: memoryLog().log, ...options })
  onTestFinished(() => events[Symbol.asyncDispose]())
  return {
    events,
    file,
    lines: () =>
      readFileSync(file, 'utf8')
        .split('\n')
        .slice(0, -1)
        .map((it) => JSON.parse(it) as never),
  }
}

test('events are lines with time, name and payload, in order, in a private place', async () => {
  const { events, file, lines } = open()
  events.append('session_started', { session_id: 's-1' })
  events.append('session_stopped', { session_id: 's-1', exit: { code: 0 } })
  expect(lines()).toEqual([])
  await events.flush()
  events.append('session_removed', { session_id: 's-1' })
  await events.flush()
  expect(lines()).toEqual([
    { ts: '1970-01-01T00:00:00.000Z', event: 'session_started', session_id: 's-1' },
    { ts: '1970-01-01T00:00:00.000Z', event: 'session_stopped', session_id: 's-1', exit: { code: 0 } },
    { ts: '1970-01-01T00:00:00.000Z', event: 'session_removed', session_id: 's-1' },
  ])
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(statSync(dirname(file)).mode & 0o777).toBe(0o700)
})

test('beyond the bound events are dropped, counted and told; the caller never waits', async () => {
  const { events, lines } = open({ maxQueuedBytes: 1_000 })
  for (let n = 0; n < 100; n++) events.append('e', { n })
  expect(events.dropped).toBeGreaterThan(50)
  const { dropped } = events
  await events.flush()
  expect(lines()).toContainEqual({ ts: '1970-01-01T00:00:00.000Z', event: 'events_dropped', dropped })
  expect(lines().filter(({ event }) => event === 'e')).toHaveLength(100 - dropped)
  events.append('e', { n: 100 })
  await events.flush()
  expect(lines().at(-1)).toMatchObject({ n: 100 })
  expect(events.dropped).toBe(dropped)
})

test('the files are rotated within the limits', async () => {
  const { events, file } = open({ maxFileBytes: 1_000, maxFiles: 4 })
  for (let n = 0; n < 300; n++) events.append('e', { n })
  await events.flush()
  expect(readdirSync(dirname(file)).sort()).toEqual([
    'events.jsonl',
    'events.jsonl.1',
    'events.jsonl.2',
    'events.jsonl.3',
  ])
  for (const name of readdirSync(dirname(file)))
    expect(statSync(join(dirname(file), name)).size).toBeLessThanOrEqual(1_000)
})

test('FC-4987: events after a torn one are intact', async () => {
  const whole = Buffer.from('{"ts":"x","event":"torn","label":"a€b"}')
  for (const kept of [5, whole.indexOf('€') + 1, whole.indexOf('€') + 2, whole.length - 1]) {
    const file = join(temporary(), 'events/events.jsonl')
    mkdirSync(dirname(file), { mode: 0o700 })
    writeFileSync(file, Buffer.concat([Buffer.from('{"n":0}\n'), whole.subarray(0, kept)]), { mode: 0o600 })
    const { events } = open({ file })
    events.append('first', {})
    events.append('second', {})
    await events.flush()
    const lines = readFileSync(file).toString('latin1').split('\n')
    expect(lines).toHaveLength(5)
    expect([lines[2], lines[3]].map((line) => (JSON.parse(line as string) as { event: string }).event)).toEqual([
      'first',
      'second',
    ])
  }
})

test('what cannot be said as JSON is dropped, a symlink is refused, a closed log takes nothing', async () => {
  const { events } = open()
  const loop: Record<string, unknown> = {}
  loop['self'] = loop
  events.append('e', loop)
  expect(events.dropped).toBe(1)
  await events[Symbol.asyncDispose]()
  events.append('late', {})
  expect(events.dropped).toBe(2)
  const file = join(temporary(), 'events/events.jsonl')
  mkdirSync(dirname(file), { mode: 0o700 })
  symlinkSync('/dev/null', file)
  expect(() => open({ file })).toThrow('symbolic link')
})
