/** session.wait over a real kernel: every reason, every refusal, and nothing left behind. */
import { expect, test } from 'vitest'
import waits from '../../plugins/waits/plugin.ts'
import { testKernel } from '../harness/kernel.ts'
import { Double } from './double.ts'

const RUNTIME = { worker_instance_id: 'w-s-1', runtime_generation: '1' }

async function waiting() {
  const double = new Double()
  double.add('s-1')
  const kernel = await testKernel([waits], double.fakes())
  const wait = (params: Record<string, unknown>, signal?: AbortSignal): Promise<Record<string, unknown>> =>
    kernel.call(
      'session.wait',
      { session_id: 's-1', timeout_ms: 8_000, ...params },
      signal === undefined ? undefined : { signal },
    ) as Promise<Record<string, unknown>>
  return { double, wait, ...kernel }
}

/** Lets everything that is ready run; no time passes. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

test.each([
  ['state_matched', { states: ['done'] }, (it: Double) => it.end('s-1')],
  ['activity_matched', { activities: ['idle'] }, (it: Double) => it.act('s-1', 'idle')],
  ['session_updated', { after_updated_at: '2026-01-01T00:00:00.500Z' }, (it: Double) => it.change('s-1', { cols: 81 })],
  ['terminal_changed', { runtime: RUNTIME, after_terminal_watermark: '4' }, (it: Double) => it.print('s-1', 5, 1)],
  ['output_advanced', { runtime: RUNTIME, after_output_offset: '4' }, (it: Double) => it.print('s-1', 5, 1)],
  [
    'runtime_changed',
    { runtime: RUNTIME, states: ['done'] },
    (it: Double) =>
      it.change('s-1', { runtime: { state: 'live', runtime_generation: '2', worker_instance_id: 'w-2' } }),
  ],
])('%s: at the change and not before', async (reason, params, happens) => {
  const { double, wait } = await waiting()
  let answered: unknown
  const answer = wait(params).then((it) => (answered = it))
  await settle()
  expect(answered).toBeUndefined()
  expect(double.watching('s-1')).toBe(1)
  happens(double)
  expect(await answer).toMatchObject({ reason, session: { id: 's-1' } })
  expect(double.watching('s-1')).toBe(0)
})

test('FC-247c: what holds already is answered at once; fresh asks for a new observation', async () => {
  const { double, wait } = await waiting()
  double.act('s-1', 'idle')
  expect(await wait({ activities: ['idle'] })).toMatchObject({ reason: 'activity_matched' })
  let answered: unknown
  const fresh = wait({ activities: ['idle'], fresh: true }).then((it) => (answered = it))
  await settle()
  expect(answered).toBeUndefined()
  // FC-0f38: a turn too quick to be seen still counts as an observation.
  double.act('s-1', 'idle')
  expect(await fresh).toMatchObject({ reason: 'activity_matched' })
})

test('a timeout is an answer of the same shape', async () => {
  const { clock, double, wait } = await waiting()
  double.print('s-1', 7, 1)
  const answer = wait({ states: ['done'], timeout_ms: 50 })
  await settle()
  clock.advance(50)
  expect(await answer).toMatchObject({
    reason: 'timeout',
    session: { state: 'running' },
    terminal_watermark: '7',
    output_offset: '7',
  })
})

test.each([
  ['bad_request', {}, 'name at least one'],
  ['bad_request', { states: [] }, 'states'],
  ['bad_request', { after_output_offset: '1' }, 'need runtime'],
  ['bad_request', { states: ['done'], timeout_ms: 0 }, 'timeout_ms'],
  ['bad_request', { states: ['gone'] }, 'states'],
  ['bad_request', { after_updated_at: '2026-02-31T00:00:00Z' }, 'after_updated_at'],
  ['bad_request', { after_updated_at: '2025-02-29T00:00:00+02:00' }, 'after_updated_at'],
  ['session_wait_limit_exceeded', { states: ['done'], timeout_ms: 8_001 }, '8000'],
  ['session_runtime_changed', { states: ['done'], runtime: { ...RUNTIME, runtime_generation: '9' } }, 's-1'],
  ['session_not_found', { session_id: 's-none', states: ['done'] }, 's-none'],
])('%s for %j', async (code, params, says) => {
  const { wait, double } = await waiting()
  await expect(wait(params)).rejects.toMatchObject({ code, message: expect.stringContaining(says) as string })
  expect(double.watching('s-1')).toBe(0)
})

test('a session that ended does nothing any more, and one that is removed is not found', async () => {
  const { double, wait } = await waiting()
  const idle = wait({ activities: ['idle'] })
  await settle()
  double.end('s-1')
  await expect(idle).rejects.toMatchObject({ code: 'session_not_running' })
  const stopped = wait({ states: ['stopped'] })
  await settle()
  double.remove('s-1')
  await expect(stopped).rejects.toMatchObject({ code: 'session_not_found' })
})

test('a terminal that cannot be reached is no terminal to wait for', async () => {
  const { double, wait } = await waiting()
  double.progress.delete('s-1')
  await expect(wait({ runtime: RUNTIME, after_output_offset: '0' })).rejects.toMatchObject({
    code: 'session_terminal_unavailable',
  })
})

test('eight wait for one session, the ninth is refused, and a caller that leaves frees its place at once', async () => {
  const { double, wait } = await waiting()
  const leaving = new AbortController()
  const held = Array.from({ length: 8 }, (_, at) => wait({ states: ['done'] }, at === 0 ? leaving.signal : undefined))
  const first = held[0]?.catch(() => 'left')
  await settle()
  await expect(wait({ states: ['done'] })).rejects.toMatchObject({ code: 'session_waiter_limit_reached' })
  leaving.abort(new Error('gone'))
  expect(await first).toBe('left')
  const again = wait({ states: ['done'] })
  await settle()
  expect(double.watching('s-1')).toBe(8)
  double.end('s-1')
  expect(await Promise.all([...held.slice(1), again])).toHaveLength(8)
})
