/** session.wait_turn over a real kernel and a real journal file. */
import { appendFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import waits from '../../plugins/waits/plugin.ts'
import { cursorText, parseCursor } from '../../plugins/waits/cursor.ts'
import { RETAINED } from '../../plugins/waits/journal.ts'
import { privateRoot, testKernel, type TestKernelOptions } from '../harness/kernel.ts'
import { fakeDisk } from '../notifications/full-disk.ts'
import { Double } from './double.ts'

interface Turn {
  reason: string
  event?: { session_id: string; kind: string; at: string }
  cursor: string
  targets: Record<string, unknown>[]
}

async function turns(double = new Double(), options: TestKernelOptions = {}) {
  const root = options.root ?? privateRoot()
  for (const id of ['s-1', 's-2']) if (!double.infos.has(id)) double.add(id)
  const kernel = await testKernel([waits], double.fakes(), { root, ...options })
  const wait = (params: Record<string, unknown> = {}): Promise<Turn> =>
    kernel.call('session.wait_turn', { session_ids: ['s-1'], timeout_ms: 1_000, ...params }) as Promise<Turn>
  const here = async (): Promise<string> => {
    const answer = wait({ timeout_ms: 1 })
    await settle()
    kernel.clock.advance(1)
    return (await answer).cursor
  }
  return { double, wait, here, file: join(root, 'data/pohunek/turns.jsonl'), ...kernel, root }
}

const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve))
}

test('an event wakes the wait; the next one behind its cursor is not missed', async () => {
  const { double, wait } = await turns()
  const first = wait()
  await settle()
  void double.report('s-1', 'turn_completed')
  const one = await first
  expect(one).toMatchObject({ reason: 'event', event: { session_id: 's-1', kind: 'turn_completed' } })
  void double.report('s-1', 'agent_blocked')
  void double.report('s-1', 'approval_required')
  const two = await wait({ after: one.cursor })
  expect(two).toMatchObject({ event: { kind: 'agent_blocked' } })
  expect(await wait({ after: two.cursor })).toMatchObject({ event: { kind: 'approval_required' } })
  expect(await wait({ after: one.cursor, kinds: ['approval_required'] })).toMatchObject({
    event: { kind: 'approval_required' },
  })
})

test('without a cursor only what comes after the call counts; other sessions and kinds do not', async () => {
  const { double, wait, here, clock } = await turns()
  void double.report('s-1', 'turn_completed')
  await here()
  const answer = wait({ kinds: ['exited', 'agent_blocked'] })
  await settle()
  void double.report('s-2', 'agent_blocked')
  void double.report('s-1', 'turn_completed')
  await settle()
  clock.advance(1_000)
  expect(await answer).toMatchObject({ reason: 'timeout' })
})

test('a turn_completed of an agent that works again is dropped, and so is a report of a user', async () => {
  const { double, wait, clock } = await turns()
  const answer = wait()
  await settle()
  double.act('s-1', 'working')
  void double.report('s-1', 'turn_completed')
  void double.report('s-1', 'agent_blocked', false)
  void double.report('s-gone', 'agent_blocked')
  await settle()
  clock.advance(1_000)
  expect(await answer).toMatchObject({ reason: 'timeout', targets: [{ activity: 'working' }] })
})

test('the end of a program is one event; then all targets have ended', async () => {
  const { double, wait } = await turns()
  const both = wait({ session_ids: ['s-1', 's-2'] })
  await settle()
  double.end('s-1')
  const one = await both
  expect(one).toMatchObject({ reason: 'event', event: { session_id: 's-1', kind: 'exited' } })
  double.end('s-1') // told again, as after an adoption
  double.end('s-2', 'failed')
  const two = await wait({ session_ids: ['s-1', 's-2'], after: one.cursor })
  expect(two).toMatchObject({ event: { session_id: 's-2', kind: 'exited' } })
  expect(await wait({ session_ids: ['s-1', 's-2'], after: two.cursor })).toMatchObject({ reason: 'targets_ended' })
  expect(await wait({ session_ids: ['s-1', 's-2'] })).toMatchObject({ reason: 'targets_ended' })
})

test('targets tell state, activity, output since the cursor and the start of the turn', async () => {
  const { double, wait, here, clock } = await turns()
  const cursor = await here()
  clock.advance(1_000)
  double.act('s-1', 'working')
  double.print('s-1', 3, clock.now(), clock.monotonic())
  const answer = wait({ session_ids: ['s-1', 's-2', 's-1'], after: cursor, timeout_ms: 10 })
  await settle()
  clock.advance(10)
  const at = new Date(clock.now() - 10).toISOString()
  expect((await answer).targets).toEqual([
    {
      session_id: 's-1',
      state: 'running',
      activity: 'working',
      last_output_at: at,
      output_advanced: true,
      turn_started_at: at,
    },
    { session_id: 's-2', state: 'running', output_advanced: false },
  ])
})

test('a clock that is set moves nothing: output behind the cursor is output behind the cursor', async () => {
  const { double, wait, here, clock } = await turns()
  const advanced = async (after: string): Promise<unknown> => {
    const answer = wait({ after, timeout_ms: 1 })
    await settle()
    clock.advance(1)
    return (await answer).targets[0]?.['output_advanced']
  }
  const cursor = await here()
  clock.shiftWall(-86_400_000)
  clock.advance(10)
  expect(await advanced(cursor)).toBe(false)
  double.print('s-1', 3, clock.now(), clock.monotonic())
  expect(await advanced(cursor)).toBe(true)
  clock.advance(10)
  const later = await here()
  clock.shiftWall(2 * 86_400_000)
  expect(await advanced(later)).toBe(false)
  // A cursor of a boot that lasted longer than this one.
  const { journal, seq } = parseCursor(later) ?? never()
  expect(await advanced(cursorText({ journal, seq, atMs: clock.monotonic() + 1e9 }))).toBe(true)
  clock.shiftWall(-1_800_000_000_000)
  double.act('s-1', 'working')
  expect(await advanced(await here())).toBe(false)
})

test('a report told again by the next daemon is one event', async () => {
  const root = privateRoot()
  const before = await turns(new Double(), { root })
  const cursor = await before.here()
  await before.double.report('s-1', 'agent_blocked', true, 'n-1')
  await before.double.report('s-1', 'agent_blocked', true, 'n-1')
  const one = await before.wait({ after: cursor })
  await before.running[Symbol.asyncDispose]()
  const after = await turns(new Double(), { root })
  await after.double.report('s-1', 'agent_blocked', true, 'n-1')
  await after.double.report('s-1', 'turn_completed', true, 'n-2')
  const two = await after.wait({ after: one.cursor })
  expect(two).toMatchObject({ event: { kind: 'turn_completed' } })
  expect(readFileSync(after.file, 'utf8').match(/"event"/g)).toHaveLength(2)
})

test('a full disk: events are told at once and stored once there is room', async () => {
  const disk = fakeDisk()
  const root = privateRoot()
  const before = await turns(new Double(), { root, allowErrors: true })
  const cursor = await before.here()
  disk.full = true
  const answer = before.wait()
  await settle()
  await before.double.report('s-1', 'agent_blocked')
  expect(await answer).toMatchObject({ event: { kind: 'agent_blocked' } })
  disk.full = false
  before.clock.advance(5_000)
  await settle()
  await before.running[Symbol.asyncDispose]()
  const after = await turns(new Double(), { root })
  expect(await after.wait({ after: cursor })).toMatchObject({ event: { kind: 'agent_blocked' } })
})

test('a cursor behind an event that was never stored means nothing to the next daemon', async () => {
  const disk = fakeDisk()
  const root = privateRoot()
  const before = await turns(new Double(), { root, allowErrors: true })
  const cursor = await before.here()
  disk.full = true
  await before.double.report('s-1', 'agent_blocked')
  const lost = await before.wait({ after: cursor })
  expect(lost).toMatchObject({ event: { kind: 'agent_blocked' } })
  void before.double.report('s-1', 'turn_completed')
  expect(await before.wait({ after: lost.cursor })).toMatchObject({ event: { kind: 'turn_completed' } })
  await before.running[Symbol.asyncDispose]()
  disk.full = false
  const after = await turns(new Double(), { root })
  await after.double.report('s-1', 'agent_blocked')
  expect(await after.wait({ after: lost.cursor })).toMatchObject({ reason: 'cursor_reset' })
  expect(await after.wait({ after: cursor })).toMatchObject({ event: { kind: 'agent_blocked' } })
})

test('a cursor means the same after a restart, and events between two waits are not lost', async () => {
  const root = privateRoot()
  const before = await turns(new Double(), { root })
  const cursor = await before.here()
  void before.double.report('s-1', 'turn_completed')
  await settle()
  await before.running[Symbol.asyncDispose]()
  const after = await turns(new Double(), { root })
  const event = await after.wait({ after: cursor })
  expect(event).toMatchObject({ reason: 'event', event: { kind: 'turn_completed' } })
  const next = after.wait({ after: event.cursor })
  await settle()
  void after.double.report('s-1', 'agent_blocked')
  expect(await next).toMatchObject({ event: { kind: 'agent_blocked' } })
})

test('an end that was stored but not recorded is recorded by the next start, once', async () => {
  const root = privateRoot()
  const before = await turns(new Double(), { root })
  const cursor = await before.here()
  await before.running[Symbol.asyncDispose]()
  const double = new Double()
  double.add('s-1')
  const info = double.infos.get('s-1')
  if (info !== undefined)
    double.infos.set('s-1', { ...info, state: 'failed', updated_at: new Date(Date.now() + 1e9).toISOString() })
  const one = await turns(double, { root })
  expect(await one.wait({ after: cursor })).toMatchObject({ event: { kind: 'exited' } })
  await one.running[Symbol.asyncDispose]()
  const two = await turns(double, { root })
  const first = await two.wait({ after: cursor })
  expect(await two.wait({ after: first.cursor })).toMatchObject({ reason: 'targets_ended' })
})

test.each([
  ['nonsense', () => 'nonsense'],
  ['of another journal', () => cursorText({ journal: 'other', seq: 0, atMs: 0 })],
  ['from the future', (cursor: string) => cursorText({ ...(parseCursor(cursor) ?? never()), seq: 99 })],
])('a cursor that is %s is answered with cursor_reset and a fresh one', async (_, spoil) => {
  const { double, wait, here } = await turns()
  const reset = await wait({ after: spoil(await here()) })
  expect(reset).toMatchObject({ reason: 'cursor_reset' })
  void double.report('s-1', 'turn_completed')
  expect(await wait({ after: reset.cursor })).toMatchObject({ reason: 'event' })
})

test(`more than ${RETAINED} events: an old cursor is reset, a newer one goes on`, { timeout: 30_000 }, async () => {
  const { double, wait, here, file } = await turns()
  const old = await here()
  for (let at = 0; at < RETAINED + 600; at++) void double.report('s-2', 'agent_blocked')
  const recent = await waitFor(here, RETAINED + 600)
  void double.report('s-1', 'turn_completed')
  expect(await wait({ after: recent })).toMatchObject({ reason: 'event', event: { kind: 'turn_completed' } })
  expect(await wait({ after: old })).toMatchObject({ reason: 'cursor_reset' })
  expect(readFileSync(file, 'utf8').split('\n').length).toBeLessThan(2 * RETAINED)
})

test('a torn or damaged journal costs the damaged lines only', async () => {
  const root = privateRoot()
  const before = await turns(new Double(), { root })
  const cursor = await before.here()
  void before.double.report('s-1', 'turn_completed')
  await settle()
  await before.running[Symbol.asyncDispose]()
  appendFileSync(before.file, '{"schema_version":1,"kind":"turn","key":"2","seq":"x"}\n{"schema_ver')
  const after = await turns(new Double(), { root })
  expect(await after.wait({ after: cursor })).toMatchObject({ reason: 'event', event: { kind: 'turn_completed' } })
})

test.each([
  [{ session_ids: [] }, 'bad_request'],
  [{ session_ids: Array.from({ length: 33 }, (_, at) => `s-${at}`) }, 'bad_request'],
  [{ kinds: [] }, 'bad_request'],
  [{ kinds: ['started'] }, 'bad_request'],
  [{ timeout_ms: 1_800_001 }, 'session_wait_limit_exceeded'],
  [{ session_ids: ['s-1', 's-none'] }, 'session_not_found'],
])('%j is refused with %s', async (params, code) => {
  const { wait } = await turns()
  await expect(wait(params)).rejects.toMatchObject({ code })
})

test('100 waits hear of one event, 128 are the most', async () => {
  const { double, wait } = await turns()
  const all = Array.from({ length: 128 }, () => wait())
  await settle()
  await expect(wait()).rejects.toMatchObject({ code: 'session_waiter_limit_reached' })
  void double.report('s-1', 'turn_completed')
  const cursors = new Set((await Promise.all(all)).map((it) => it.event?.at))
  expect(cursors.size).toBe(1)
})

function never(): never {
  throw new Error('no cursor')
}

/** A cursor behind at least `seq` events. */
async function waitFor(here: () => Promise<string>, seq: number): Promise<string> {
  for (;;) {
    const cursor = await here()
    if ((parseCursor(cursor)?.seq ?? 0) >= seq) return cursor
  }
}
