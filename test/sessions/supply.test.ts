import { expect, test } from 'vitest'
import { runs } from '../harness/processes.ts'
import { Session } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import { station } from './station.ts'

test('a spare worker becomes the next session, and another one takes its place', async () => {
  const it = await station({ spares: 1 })
  await until('a spare runs', () => it.workers().length === 1)
  const [spare] = it.workers()
  await until(
    'the spare is ready',
    () => it.log.length > 0 && it.files('runtime').some((path) => path.endsWith('control.sock')),
  )
  const session = new Session(it, await it.create({ agent: 'shell' }))
  await until('the spare is replaced', () => it.workers().length === 2)
  const mine = session.worker()
  expect([spare?.pid, ...it.workers().map((worker) => worker.pid)]).toContain(mine.pid)
  await it.drop()
  await until('only the worker of the session is left', () => it.workers().length === 1, { show: () => it.workers() })
  expect(runs(session.pid)).toBe(true)
  await it.start()
  expect((await session.info()).runtime.state).toBe('live')
})

test('a session takes the spare that is being started rather than start another worker', async () => {
  const it = await station({ spares: 1 })
  await until('a spare is being started', () => it.workers().length === 1)
  const [spare] = it.workers()
  const session = new Session(it, await it.create({ agent: 'shell' }))
  expect(session.worker().pid).toBe(spare?.pid)
})

test('after a burst of sessions one more spare is kept', async () => {
  const it = await station({ spares: 1 })
  const wires = await Promise.all(Array.from({ length: 3 }, () => it.connect()))
  await Promise.all(wires.map((wire) => wire.call('session.new', { agent: 'shell', cols: 80, rows: 24 })))
  await until('two spares run', () => it.workers().length === 5, { show: () => it.workers() })
})

test('a spare that dies is replaced and leaves nothing', async () => {
  const it = await station({ spares: 1 })
  await until('a spare runs', () => it.workers().length === 1)
  const [spare] = it.workers()
  if (spare === undefined) throw new Error('no spare')
  await until('it is negotiated', () => it.files('runtime').some((path) => path.endsWith('control.sock')))
  process.kill(spare.pid, 'SIGKILL')
  await until('another one runs', () => it.workers().some((worker) => worker.pid !== spare.pid && runs(worker.pid)), {
    deadlineMs: 15_000,
  })
  expect((await it.create()).state).toBe('running')
})

test('sessions made at once each get a worker of their own', async () => {
  const it = await station({ spares: 2 })
  const wires = await Promise.all(Array.from({ length: 5 }, () => it.connect()))
  const made = await Promise.all(wires.map((wire) => wire.call('session.new', { agent: 'shell', cols: 80, rows: 24 })))
  expect(new Set(made.map((info) => info.runtime.worker_id)).size).toBe(5)
  expect(new Set(made.map((info) => info.pid)).size).toBe(5)
})
