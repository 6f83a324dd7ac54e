/** The daemon is killed, stopped or replaced; no session notices. */
import { closeSync, openSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { expectExact } from '../harness/numbers.ts'
import { descriptors, look, runs } from '../harness/processes.ts'
import type { Session } from '../harness/session.ts'
import { stays, until } from '../harness/wait.ts'
import { world, type World } from '../harness/world.ts'

/** Warm workers a daemon may hold beside those of sessions. */
const SPARES = 3

/** What must not change about a session when the daemon does. */
async function constant(session: Session): Promise<unknown> {
  const { id, name, agent, pid, cols, rows, state, cwd, created_at, runtime } = await session.info()
  const { state: runtimeState, runtime_generation, worker_id, worker_instance_id, started_at } = runtime
  const worker = session.worker()
  return {
    ...{ id, name, agent, pid, cols, rows, state, cwd, created_at },
    ...{ runtimeState, runtime_generation, worker_id, worker_instance_id, started_at },
    worker: worker.pid,
    workerStart: worker.startIdentity,
    childStart: look(pid)?.startIdentity,
  }
}

describe('a daemon killed with SIGKILL', () => {
  test('comes back to the same worker, program, screen and size', async () => {
    const w = await world()
    const session = await w.child(['lines_in'], { name: 'kept', cols: 100, rows: 30 })
    await session.untilScreen('ready')
    await session.input('before')
    await session.untilScreen('got:before')
    const before = await constant(session)
    const screen = await session.screen()

    await w.daemon.kill()
    expect(runs(session.pid)).toBe(true)
    await w.start()

    expect(await constant(session)).toEqual(before)
    expect(await session.screen()).toBe(screen)
  })

  test('a flood goes on through the kill: every byte once, offsets continue', async () => {
    const w = await world()
    const session = await w.child(['flood', '500000'])
    await until('the flood runs', async () => (await session.output()).next > 200_000n)
    const seen = await session.output()
    await w.daemon.kill()
    await w.start()
    const rest = await session.output(seen.next)
    expect(rest.next).toBeGreaterThanOrEqual(seen.next)
    await session.untilScreen('END', 25_000)
    const { bytes } = await session.output()
    const end = bytes.indexOf('END')
    expect(end).toBe(7 + 12 * 500_000)
    expectExact(bytes.subarray(0, end))
    expectExact(rest.bytes.subarray(0, Math.max(0, end - Number(seen.next))), Number(seen.next))
  })

  test('slow output written while no daemon runs is all there', async () => {
    const w = await world()
    const session = await w.child(['lines', '2'])
    await session.untilOutput('n000000010')
    await w.daemon.kill()
    const worker = Number(session.journals()[0]?.worker_pid)
    await stays('worker and program go on', 300, () => runs(worker) && runs(session.pid))
    await w.start()
    const at = (await session.output()).next
    await until('output goes on', async () => (await session.output()).next > at + 200n)
    expectExact((await session.output()).bytes)
  })

  test('attach through the daemon: the stream ends with it, the next one shows the same screen and goes on', async () => {
    const w = await world()
    const session = await w.child(['lines_in'])
    const first = await session.attach()
    await first.until('ready')
    first.write('one\n')
    await first.until('got:one')
    await w.daemon.kill()
    await until('the old stream ended', () => first.ended)

    await w.start()
    const second = await session.attach()
    await second.until('got:one')
    second.write('two\n')
    await second.until('got:two')
    await session.untilScreen('got:two')
  })

  test('a direct attach does not notice', async () => {
    const w = await world()
    const session = await w.child(['lines_in'])
    const attached = await session.attach({ direct: true })
    await attached.until('ready')
    await w.daemon.kill()
    attached.write('alone\n')
    await attached.until('got:alone')
    await w.start()
    attached.write('again\n')
    await attached.until('got:again')
    expect(attached.ended).toBe(false)
    await session.untilScreen('got:again')
  })

  test('input, resize, rename and metadata work on the adopted session', async () => {
    const w = await world()
    const session = await w.child(['lines_in'])
    await session.untilScreen('ready')
    await session.call('session.set_metadata', { metadata: { a: '1' } })
    await w.crash()
    const { session: resized } = await session.call('session.resize', { cols: 91, rows: 31 })
    expect([resized.cols, resized.rows]).toEqual([91, 31])
    await session.untilScreen('winch:91x31')
    await session.input('size')
    await session.untilScreen('size:91x31')
    await session.call('session.rename', { name: 'later' })
    await w.crash()
    expect(await session.info()).toMatchObject({ name: 'later', metadata: { a: '1' }, cols: 91, rows: 31 })
  })

  test('five times in a row: same worker and program, no descriptor left over, no more workers than before', async () => {
    const w = await world()
    const session = await w.child(['lines_in'])
    await session.untilScreen('ready')
    const before = await constant(session)
    const worker = session.worker().pid
    await w.crash()
    await session.screen()
    const open = descriptors(worker).length
    const workers = w.running('worker').length + SPARES
    for (let round = 0; round < 5; round++) {
      await w.crash()
      expect(await session.screen()).toContain('ready')
    }
    expect(await constant(session)).toEqual(before)
    expect(descriptors(worker).length).toBeLessThanOrEqual(open)
    await until('no worker of an earlier daemon is left', () => w.running('worker').length <= workers)
  })

  test('every session comes back, ended ones keep their end', async () => {
    const w = await world()
    const live = await Promise.all(Array.from({ length: 4 }, (_, n) => w.child(['lines_in'], { name: `live-${n}` })))
    const done = await w.sh('exit 0')
    const failed = await w.sh('exit 5')
    await Promise.all([done.ended(), failed.ended()])
    for (const it of live) await it.untilScreen('ready')
    const before = (await w.call('session.list')) as { id: string; state: string; exit_code?: number }[]
    await w.crash()
    const after = (await w.call('session.list')) as typeof before
    const facts = (all: typeof before): unknown =>
      all.map(({ id, state, exit_code }) => ({ id, state, exit_code })).sort((a, b) => (a.id < b.id ? -1 : 1))
    expect(facts(after)).toEqual(facts(before))
    for (const it of live) expect((await it.info()).runtime.state).toBe('live')
  })
})

describe('a daemon stopped or replaced', () => {
  test('SIGTERM ends it with 0 within seconds, closes its socket file and leaves the sessions', async () => {
    const w = await world()
    const session = await w.child(['lines_in'])
    await session.untilScreen('ready')
    const before = await constant(session)
    await w.daemon.stop()
    expect(w.files('runtime')).not.toContain('pohunek/daemon.sock')
    expect(runs(session.pid)).toBe(true)
    await w.start()
    expect(await constant(session)).toEqual(before)
    await session.input('still here')
    await session.untilScreen('got:still here')
  })

  test('SIGINT stops it as SIGTERM does', async () => {
    const w = await world()
    w.daemon.signal('SIGINT')
    expect(await w.daemon.ended()).toEqual({ code: 0, signal: null })
    await w.start()
  })

  test('it stops while clients flood it, wait on it and follow it', async () => {
    const w = await world()
    const session = await w.child(['flood'])
    const attached = await session.attach()
    const runtime = await session.identity()
    const waiter = await w.connect()
    const quiet = await w.child(['idle'])
    await quiet.untilScreen('ready')
    const events = await w.events()
    const waiting = waiter
      .call('session.output', {
        session_id: quiet.id,
        runtime: await quiet.identity(),
        after_offset: '7',
        max_bytes: 10,
        wait_ms: 8_000,
      })
      .then(
        () => 'answered',
        () => 'ended',
      )
    expect(runtime.runtime_generation).toBe('1')
    await attached.until('n0000')
    await w.daemon.stop()
    expect(['answered', 'ended']).toContain(await waiting)
    await until('streams ended', () => attached.ended && events.wire.ended)
    await w.start()
    expect((await session.info()).runtime.state).toBe('live')
    await session.stop()
  })

  test('worker and program hold nothing of the daemon and of whoever started it', async () => {
    const w = await world({ daemon: false })
    const lock = join(w.roots.work, 'lock-of-a-script')
    const extra = openSync(lock, 'w')
    try {
      await w.start({ extra: [extra, extra] })
    } finally {
      closeSync(extra)
    }
    const session = await w.child(['idle'])
    const worker = session.worker()
    for (const pid of [w.daemon.pid, worker.pid, session.pid]) expect(descriptors(pid)).not.toContain(lock)
    const shared = (it: string): boolean => it.startsWith('socket:') || it.startsWith('pipe:')
    const ofDaemon = new Set(descriptors(w.daemon.pid).filter(shared))
    const ofWorker = new Set(descriptors(worker.pid).filter(shared))
    expect([...ofWorker].filter((it) => ofDaemon.has(it))).toEqual([])
    expect(descriptors(session.pid).filter((it) => ofDaemon.has(it) || ofWorker.has(it))).toEqual([])
    const sid = (pid: number): string => readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[3] ?? ''
    expect(sid(worker.pid)).not.toBe(sid(w.daemon.pid))
    expect(sid(session.pid)).toBe(String(session.pid))
  })
})

describe('what happened while no daemon ran', () => {
  async function endsAlone(w: World, code: string): Promise<Session> {
    const gate = join(w.roots.work, `gate-${code}`)
    const session = await w.child(['gate', gate, code])
    await session.untilScreen('ready')
    await w.daemon.kill()
    writeFileSync(gate, '')
    await until('the program ended', () => !runs(session.pid))
    await w.start()
    return session
  }

  test('the exit status is taken over as it was', async () => {
    const w = await world()
    const failed = await endsAlone(w, '7')
    expect(await failed.ended()).toMatchObject({ state: 'failed', exit_code: 7, runtime: { state: 'terminal' } })
    const done = await endsAlone(w, '0')
    expect(await done.ended()).toMatchObject({ state: 'done', exit_code: 0 })
  })

  test('a program killed by a signal is not told as a success', async () => {
    const w = await world()
    const session = await w.child(['idle'])
    await session.untilScreen('ready')
    await w.daemon.kill()
    process.kill(session.pid, 'SIGKILL')
    await until('the program ended', () => !runs(session.pid))
    await w.start()
    const info = await session.ended()
    expect(info.state).toBe('failed')
    expect(info.exit_code).not.toBe(0)
  })

  test('the last output of an ended program is readable, and its worker goes with the session', async () => {
    const w = await world()
    const session = await endsAlone(w, '3')
    await session.ended()
    expect(await session.screen()).toContain('bye')
    expect((await session.output()).bytes.toString()).toBe('ready\r\nbye\r\n')
    await session.remove()
    await until('its worker is gone', () => session.workers().length === 0)
  })
})

test('a worker that does not answer does not hold up the start, and is adopted when it does', async () => {
  const w = await world()
  const frozen = await w.child(['lines_in'])
  const other = await w.child(['lines_in'])
  await frozen.untilScreen('ready')
  await other.untilScreen('ready')
  const worker = frozen.worker().pid
  await w.daemon.kill()
  process.kill(worker, 'SIGSTOP')
  try {
    await w.start()
    expect((await other.info()).runtime.state).toBe('live')
    const info = await frozen.info()
    // Present but silent: it may still own a live terminal, so it is neither lost nor usable.
    expect(['reconnecting', 'conflict']).toContain(info.runtime.state)
    expect(info.state).toBe('running')
    expect(info.exit_code).toBeUndefined()
    const events = await w.events()
    process.kill(worker, 'SIGCONT')
    await events.until('session_runtime_reconnected', (it) => it.session.id === frozen.id, 15_000)
    expect((await frozen.info()).runtime.state).toBe('live')
    await frozen.input('thawed')
    await frozen.untilScreen('got:thawed')
  } finally {
    if (runs(worker)) process.kill(worker, 'SIGCONT')
  }
})

test('FC-dd53: a daemon that slept comes back to unchanged sessions', async () => {
  const w = await world()
  const session = await w.child(['lines', '10'])
  const idle = await w.child(['lines_in'])
  await idle.untilScreen('ready')
  await session.untilOutput('n000000005')
  const events = await w.events()
  const before = await constant(session)
  w.daemon.signal('SIGSTOP')
  await stays('the sessions run on', 3_000, () => runs(session.pid) && runs(idle.pid))
  w.daemon.signal('SIGCONT')
  expect(await constant(session)).toEqual(before)
  await idle.input('awake')
  await idle.untilScreen('got:awake')
  expectExact((await session.output()).bytes)
  for (const event of ['session_runtime_lost', 'session_runtime_conflict', 'session_stopped', 'session_removed']) {
    expect(events.of(event)).toEqual([])
  }
})

test('the state a crash leaves is private to its owner', async () => {
  const w = await world()
  const session = await w.child(['idle'])
  await w.daemon.kill()
  const journals = join(w.roots.state, 'pohunek/workers', session.id)
  expect(statSync(journals).mode & 0o777).toBe(0o700)
  expect(readdirSync(journals).length).toBeGreaterThan(0)
  for (const name of readdirSync(journals)) expect(statSync(join(journals, name)).mode & 0o777).toBe(0o600)
  expect(statSync(join(w.roots.data, 'pohunek/metadata.jsonl')).mode & 0o777).toBe(0o600)
  await w.start()
})
