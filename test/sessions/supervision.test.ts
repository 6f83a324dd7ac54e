/** A service manager that cannot be asked, or cannot do what it is asked: nothing is told that was not proven. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { pinnedProcesses, detachedSupervisor } from '../../platform/index.ts'
import type { Supervisor } from '../../platform/supervisor.ts'
import type { SessionEdges } from '../../plugins/sessions/plugin.ts'
import { runs } from '../harness/processes.ts'
import { refused } from '../harness/session.ts'
import { monotonicMs, until } from '../harness/wait.ts'
import { station, type Station } from './station.ts'

interface Troubles {
  list?: boolean
  inspect?: boolean
  retire?: boolean
  /** When each inspection was asked for. */
  inspected: number[]
}

/** The real supervisor, out of reach while the test says so. */
const troubled =
  (troubles: Troubles): SessionEdges['supervisor'] =>
  ({ paths, clock }) => {
    const real = detachedSupervisor({
      state: paths.state,
      processes: pinnedProcesses,
      clock,
      workerLog: (id) => join(paths.logs, id),
    })
    const refuse = (): Promise<never> => Promise.reject(new Error('the bus does not answer'))
    return {
      kind: real.kind,
      start: (job, signal) => real.start(job, signal),
      list: () => (troubles.list ? refuse() : real.list()),
      inspect(job) {
        troubles.inspected.push(monotonicMs())
        return troubles.inspect ? refuse() : real.inspect(job)
      },
      retire: (job, graceMs) => (troubles.retire ? refuse() : real.retire(job, graceMs)),
      [Symbol.asyncDispose]: () => real[Symbol.asyncDispose](),
    } satisfies Supervisor
  }

const classifications = (it: Station): string[] =>
  it.log.filter(({ message }) => message.startsWith('session runtime is')).map(({ message }) => message)

test('a daemon starts without an answer of the manager; sessions are reconnecting and looked at with growing pauses', async () => {
  const troubles: Troubles = { inspected: [] }
  const it = await station({ edges: { supervisor: troubled(troubles) } })
  const session = await it.program('/bin/cat', [])
  const worker = session.worker()
  await it.drop()
  Object.assign(troubles, { list: true, inspect: true, retire: true, inspected: [] })
  await it.start()
  const { runtime } = await session.info()
  expect(runtime).toMatchObject({ state: 'reconnecting', loss_reason: 'runtime_supervision_unavailable' })
  expect((await refused(session.input('x'))).code).toBe('session_runtime_reconnecting')
  expect((await refused(session.stop())).code).toBe('session_runtime_reconnecting')
  expect(runs(worker.pid)).toBe(true)
  expect((await session.info()).state).toBe('running')

  await until('it was looked at three times', () => troubles.inspected.length >= 3, { deadlineMs: 15_000 })
  const [first = 0, second = 0, third = 0] = troubles.inspected
  expect(second - first).toBeGreaterThanOrEqual(950)
  expect(third - second).toBeGreaterThanOrEqual(1_950)
  expect(classifications(it)).toEqual(['session runtime is reconnecting: runtime_supervision_unavailable'])

  expect((await refused(session.remove())).code).toBe('runtime_supervision_unavailable')
  expect(runs(worker.pid)).toBe(true)
  // The removal was wished for: it is finished as soon as the manager can be asked.
  Object.assign(troubles, { list: false, inspect: false, retire: false })
  await until('the removal is finished', async () => (await it.call('session.list')).length === 0, {
    deadlineMs: 15_000,
  })
  expect(runs(worker.pid)).toBe(false)
})

test('a session is told as lost only after its ended job was retired', async () => {
  const troubles: Troubles = { inspected: [] }
  const it = await station({ edges: { supervisor: troubled(troubles) } })
  const session = await it.program('/bin/cat', [])
  const events = await it.events()
  troubles.retire = true
  process.kill(session.worker().pid, 'SIGKILL')
  await until('the retirement was tried', async () => {
    const { runtime } = await session.info()
    return runtime.state === 'reconnecting' && runtime.loss_reason === 'runtime_supervision_unavailable'
  })
  expect((await session.info()).state).toBe('running')
  expect(events.of('session_runtime_lost')).toEqual([])
  troubles.retire = false
  await events.until('session_runtime_lost')
  expect(classifications(it)).toEqual([
    'session runtime is reconnecting: worker_connection_lost',
    'session runtime is reconnecting: runtime_supervision_unavailable',
    'session runtime is lost: runtime_lost',
  ])
})

test('a creation that cannot be undone is listed as such, and undone later', async () => {
  const troubles: Troubles = { inspected: [] }
  const it = await station({ edges: { supervisor: troubled(troubles) } })
  const events = await it.events()
  const program = join(it.roots.work, 'no-program')
  writeFileSync(program, '#!/no/such/interpreter\n', { mode: 0o755 })
  it.profile('broken', ['base = "shell"', `program = ${JSON.stringify(program)}`])
  troubles.retire = true
  const error = await refused(it.create({ agent: 'broken', name: 'half' }))
  const [info, ...more] = await it.call('session.list')
  expect(more).toEqual([])
  expect(info).toMatchObject({
    name: 'half',
    runtime: { state: 'reconnecting', loss_reason: 'create_compensation_pending' },
  })
  expect(error.code).toBe('spawn_failed')
  expect((await refused(it.call('session.input', { session_id: info.id, text: 'x' }))).code).toBe(
    'session_runtime_reconnecting',
  )
  // It survives a restart as what it is.
  await it.restart()
  expect((await it.call('session.list'))[0].runtime).toMatchObject({ loss_reason: 'create_compensation_pending' })
  const later = await it.events()
  troubles.retire = false
  await later.until('session_removed')
  expect(await it.call('session.list')).toEqual([])
  expect(it.traces()).toEqual([])
  expect(events.of('session_created')).toEqual([])
})

test('an interrupted stop whose worker does not come back to it stays reconnecting, then is lost, never stopped', async () => {
  const troubles: Troubles = { inspected: [] }
  const it = await station({ edges: { supervisor: troubled(troubles) } })
  const session = await it.sh('trap "" HUP TERM; echo ready; while :; do sleep 1; done')
  await session.untilScreen('ready')
  const worker = session.worker()
  const stop = refused(session.stop())
  process.kill(worker.pid, 'SIGSTOP')
  await until('the wish is durable', () => it.log.some(({ fields }) => fields['to'] === 'stopping'))
  troubles.inspect = true
  process.kill(worker.pid, 'SIGKILL')
  expect((await stop).code).toBe('session_runtime_reconnecting')
  expect((await session.info()).state).toBe('running')
  troubles.inspect = false
  await until('it is lost', async () => (await session.info()).runtime.state === 'lost')
  expect((await session.info()).state).toBe('failed')
})

test('a worker that falls silent fails what asks it within a client’s deadline', async () => {
  const it = await station()
  const session = await it.program('/bin/cat', [])
  const worker = session.worker()
  process.kill(worker.pid, 'SIGSTOP')
  try {
    const codes = await Promise.all(
      (
        [
          ['session.resize', { session_id: session.id, cols: 90, rows: 20 }],
          ['session.attach', { session_id: session.id }],
          ['session.screen', { session_id: session.id }],
        ] as const
      ).map(async ([method, params]) => {
        const wire = await it.connect()
        return (await refused(wire.call(method, params))).code
      }),
    )
    expect(codes).toEqual([
      'session_runtime_reconnecting',
      'session_runtime_reconnecting',
      'session_terminal_unavailable',
    ])
  } finally {
    process.kill(worker.pid, 'SIGCONT')
  }
}, 12_000)
