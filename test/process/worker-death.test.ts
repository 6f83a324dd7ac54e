/** The worker, and with it the terminal, dies. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { look, runs } from '../harness/processes.ts'
import { REPOSITORY } from '../harness/roots.ts'
import { refused, type Session } from '../harness/session.ts'
import { until, within } from '../harness/wait.ts'
import { world, type World } from '../harness/world.ts'

/** A session whose program has a helper in a session of its own; answers the helper's pid too. */
async function withHelper(w: World): Promise<{ session: Session; helper: number }> {
  const session = await w.child(['helper'])
  const screen = await session.untilScreen('ready')
  return { session, helper: Number(/helper:(\d+)/.exec(screen)?.[1]) }
}

describe('FC-d538: a worker killed by the kernel or by hand', () => {
  // The session showed as running for ever while the program lived on as an orphan.
  test('is told as lost within seconds, not as an end; what it left alive is ended or named', async () => {
    const w = await world()
    const { session, helper } = await withHelper(w)
    const events = await w.events()
    process.kill(session.worker().pid, 'SIGKILL')
    const event = await events.until('session_runtime_lost', (it) => it.session.id === session.id, 6_000)
    expect(event.session.runtime.state).toBe('lost')
    const info = await session.info()
    expect(info.runtime.state).toBe('lost')
    expect(info.runtime.loss_reason).toMatch(/\S/)
    expect(info.exit_code).toBeUndefined()
    expect(['done', 'stopped']).not.toContain(info.state)
    if (info.runtime.loss_reason === 'runtime_lost') {
      expect([runs(session.pid), runs(helper)]).toEqual([false, false])
    } else expect(info.runtime.loss_reason).toBe('runtime_lost_cleanup_unconfirmed')

    await w.daemon.stop()
    await w.start()
    expect((await session.info()).runtime.state).toBe('lost')

    expect(await session.remove()).toMatchObject({ removed: true })
    await until('program and helper are gone', () => !runs(session.pid) && !runs(helper))
  })

  test('operations on it say so, at once', async () => {
    const w = await world()
    const session = await w.child(['lines_in'])
    await session.untilScreen('ready')
    const events = await w.events()
    process.kill(session.worker().pid, 'SIGKILL')
    await events.until('session_runtime_lost', (it) => it.session.id === session.id, 6_000)
    const { id } = session
    for (const [method, params] of [
      ['session.input', { text: 'x' }],
      ['session.resize', { cols: 90, rows: 20 }],
      ['session.attach', {}],
      ['session.screen', {}],
    ] as const) {
      const { code } = await refused(session.call(method, params))
      expect([method, code]).toEqual([method, expect.stringMatching(/^session_(runtime_lost|terminal_unavailable)$/)])
    }
    expect((await refused(w.call('session.stop', id))).code).toBe('session_runtime_lost')
  })

  test('waiters and attach streams are released', async () => {
    const w = await world()
    const session = await w.child(['lines_in'])
    await session.untilScreen('ready')
    const attached = await session.attach()
    await attached.until('ready')
    const end = (await session.output()).next
    const waiter = await w.connect()
    const waiting = waiter
      .call('session.output', {
        session_id: session.id,
        runtime: await session.identity(),
        after_offset: String(end),
        max_bytes: 100,
        wait_ms: 8_000,
      })
      .then(
        () => 'answered',
        () => 'refused',
      )
    process.kill(session.worker().pid, 'SIGKILL')
    expect(await within('the waiter is released', waiting, 6_000)).toBe('refused')
    await until('the attach stream ended', () => attached.ended)
    // Its end is asked for once; a second time the stream is unknown.
    await w.call('session.detach', { stream_id: attached.streamId })
    expect(await w.call('session.detach', { stream_id: attached.streamId })).toEqual({ detached: false })
  })

  test('while no daemon runs: lost at the next start, never an exit status nobody saw', async () => {
    const w = await world()
    const session = await w.child(['ignore'])
    await session.untilScreen('ready')
    const worker = session.worker().pid
    await w.daemon.kill()
    process.kill(worker, 'SIGKILL')
    await until('the worker is gone', () => !runs(worker))
    await w.start()
    const info = await until('the loss is told', async () => {
      const it = await session.info()
      return it.runtime.state === 'lost' ? it : undefined
    })
    expect(info.exit_code).toBeUndefined()
    await session.remove()
    await until('the program is gone', () => !runs(session.pid))
  })

  test('another session does not notice', async () => {
    const w = await world()
    const doomed = await w.child(['idle'])
    const other = await w.child(['lines_in'])
    await other.untilScreen('ready')
    process.kill(doomed.worker().pid, 'SIGKILL')
    await other.input('fine')
    await other.untilScreen('got:fine')
    await until('the loss is told', async () => (await doomed.info()).runtime.state === 'lost', { deadlineMs: 6_000 })
    expect((await other.info()).runtime.state).toBe('live')
  })
})

test('killing a session ends helpers that left its process group, or names them (FC-47fa, whole stack)', async () => {
  const w = await world()
  const { session, helper } = await withHelper(w)
  const result = await session.remove()
  expect(result).toMatchObject({ removed: true, stopped: true })
  await until('program and helper are gone', () => !runs(session.pid) && !runs(helper))
})

test('FC-47fa: a helper whose first thread has ended looks like a zombie and is ended like any other', async () => {
  const w = await world()
  const told = join(w.roots.work, 'headless')
  const script = join(REPOSITORY, 'test/harness/headless.mjs')
  const session = await w.sh(
    `setsid '${process.execPath}' '${script}' '${told}' & while ! [ -s '${told}' ]; do sleep 0.05; done; read go; exit 7`,
  )
  const helper = await until('it runs', () => Number(readFileSync(told, 'utf8')) || undefined)
  await until('its first thread has ended', () => look(helper)?.state === 'Z')
  const threads = (): number => (existsSync(`/proc/${helper}/task`) ? readdirSync(`/proc/${helper}/task`).length : 0)
  expect(threads()).toBeGreaterThan(1)
  await session.input('go\n')
  expect(await session.ended()).toMatchObject({ exit_code: 7, runtime: { state: 'terminal' } })
  expect(threads()).toBeLessThanOrEqual(1)
})

test('a program that ignores every polite signal is stopped within the grace and the kill', async () => {
  const w = await world()
  const session = await w.child(['ignore'])
  await session.untilScreen('ready')
  const stops = await Promise.all(
    [w.connect(), w.connect()].map(async (it) => await (await it).call('session.stop', session.id)),
  )
  expect(stops.map((it) => it.stopped)).toContain(true)
  expect((await session.info()).state).toBe('stopped')
  expect(runs(session.pid)).toBe(false)
  expect(await session.stop()).toBe(false)
})
