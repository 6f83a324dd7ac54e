/** Runtimes that cannot be used: what each state shows, refuses and allows, and how it is left. Evidence in files that contradict each other is in test/sessions/evidence.test.ts. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { hiding, inCrashWorld, unprivileged, type CrashWorld } from '../harness/crash.ts'
import { look, runs } from '../harness/processes.ts'
import { REPOSITORY } from '../harness/roots.ts'
import { refused, type Session } from '../harness/session.ts'
import { stays, until } from '../harness/wait.ts'
import type { Answer } from '../harness/wire.ts'
import { world, type World } from '../harness/world.ts'

const HIDDEN = join(REPOSITORY, 'test/harness/hidden.mjs')

const logLines = (w: World): Answer[] =>
  readFileSync(join(w.roots.state, 'pohunek/logs/pohunekd.jsonl'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line): Answer => JSON.parse(line))

/** The lines that classify a session's runtime, in order. */
const classifications = (w: World, session: Session): string[] =>
  logLines(w)
    .filter((it) => it.session_id === session.id && String(it.msg).startsWith('session runtime is'))
    .map((it) => {
      expect(String(it.level)).toMatch(/warn|40/i)
      return it.msg
    })

const runtimeOf = async (session: Session): Promise<Answer> => (await session.info()).runtime

async function becomes(session: Session, state: string): Promise<Answer> {
  let last: Answer
  return await until(
    `${session.id} is ${state}`,
    async () => {
      last = await session.info()
      return last.runtime.state === state ? last : undefined
    },
    { deadlineMs: 30_000, show: () => last },
  )
}

/** What a session in a degraded state answers. */
async function expectRefusals(w: World, session: Session, code: string): Promise<void> {
  for (const [method, params] of [
    ['session.input', { text: 'x' }],
    ['session.resize', { cols: 90, rows: 20 }],
    ['session.attach', {}],
    ['session.attach', { direct: true }],
  ] as const)
    expect([method, (await refused(session.call(method, params))).code]).toEqual([method, code])
  for (const method of ['session.screen', 'session.read'])
    expect((await refused(session.call(method))).code).toBe('session_terminal_unavailable')
  // The record and the reason stay readable.
  expect((await w.call('session.list')).map((it: Answer) => it.id)).toContain(session.id)
  expect((await runtimeOf(session)).loss_reason).toMatch(/\S/)
}

/** A session whose worker is frozen while no daemon runs, and the daemon that finds it. */
async function frozen(w: World): Promise<{ session: Session; worker: ReturnType<Session['worker']> }> {
  const session = await w.child(['lines_in'])
  await session.untilScreen('ready')
  const worker = session.worker()
  await w.daemon.kill()
  process.kill(worker.pid, 'SIGSTOP')
  await w.start()
  expect(await runtimeOf(session)).toMatchObject({ state: 'conflict', loss_reason: 'runtime_supervision_ambiguous' })
  return { session, worker }
}

describe('conflict: a job that is present and silent', () => {
  test('is told, refuses, is looked at again without being touched, and is adopted once it answers', async () => {
    const w = await world()
    const { session, worker } = await frozen(w)
    await expectRefusals(w, session, 'session_runtime_conflict')
    await stays('the worker is not touched, the state holds', 4_000, async () => {
      const seen = look(worker.pid)
      return seen?.state === 'T' && runs(session.pid) && (await runtimeOf(session)).state === 'conflict'
    })
    expect(classifications(w, session)).toEqual(['session runtime is conflict: runtime_supervision_ambiguous'])
    const events = await w.events()
    process.kill(worker.pid, 'SIGCONT')
    await events.until('session_runtime_reconnected', (it) => it.session.id === session.id, 30_000)
    expect(await runtimeOf(session)).toMatchObject({ state: 'live' })
    expect((await runtimeOf(session)).loss_reason).toBeUndefined()
    await session.input('thawed')
    await session.untilScreen('got:thawed')
    expect(classifications(w, session)).toHaveLength(1)
  })

  test('a stop proves it, lets it go on, and tells the end it observed', async () => {
    const w = await world()
    const { session, worker } = await frozen(w)
    expect(await session.stop()).toBe(true)
    expect(await session.info()).toMatchObject({ state: 'stopped', runtime: { state: 'terminal' } })
    expect([runs(worker.pid), runs(session.pid)]).toEqual([false, false])
  })

  test('a removal retires it by its generation', async () => {
    const w = await world()
    const { session, worker } = await frozen(w)
    expect(await session.remove()).toMatchObject({ removed: true, stopped: true })
    expect([runs(worker.pid), runs(session.pid)]).toEqual([false, false])
  })

  test('is lost once its worker is gone', async () => {
    const w = await world()
    const { session, worker } = await frozen(w)
    process.kill(worker.pid, 'SIGKILL')
    const info = await becomes(session, 'lost')
    expect(info).toMatchObject({ state: 'failed', runtime: { loss_reason: 'runtime_lost' } })
    expect(info.exit_code).toBeUndefined()
    expect(classifications(w, session)).toEqual([
      'session runtime is conflict: runtime_supervision_ambiguous',
      'session runtime is lost: runtime_lost',
    ])
    await expectRefusals(w, session, 'session_runtime_lost')
    expect((await refused(session.stop())).code).toBe('session_runtime_lost')
    await w.daemon.stop()
    await w.start()
    // What is known is not found out, nor told, again.
    expect(classifications(w, session)).toHaveLength(2)
  })

  test('a socket that is gone tells nothing about its worker', async () => {
    const w = await world()
    const session = await w.child(['lines_in'])
    await session.untilScreen('ready')
    const worker = session.worker()
    const socket = join(w.roots.runtime, 'pohunek/workers', session.id, 'control.sock')
    await w.daemon.kill()
    renameSync(socket, `${socket}.away`)
    await w.start()
    expect(await runtimeOf(session)).toMatchObject({ state: 'conflict', loss_reason: 'runtime_supervision_ambiguous' })
    expect([runs(worker.pid), runs(session.pid)]).toEqual([true, true])
    renameSync(`${socket}.away`, socket)
    await becomes(session, 'live')
    expect(await session.screen()).toContain('ready')
  })

  test('a stale socket of a worker that is gone: lost, not conflict', async () => {
    const w = await world()
    const session = await w.child(['lines_in'])
    await session.untilScreen('ready')
    const worker = session.worker()
    await w.daemon.kill()
    process.kill(worker.pid, 'SIGKILL')
    await until('the worker is gone', () => !runs(worker.pid))
    expect(w.files('runtime').some((path) => path.endsWith(`${session.id}/control.sock`))).toBe(true)
    await w.start()
    expect(await runtimeOf(session)).toMatchObject({ state: 'lost', loss_reason: 'runtime_lost' })
  })
})

/** Takes the place of a worker's socket and refuses every request as a worker of another time does. */
async function standIn(path: string): Promise<Server> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.on('data', (bytes) => {
      const { request_id } = JSON.parse(bytes.toString()) as { request_id: string }
      const error = { code: 'worker_protocol_incompatible', message: 'this worker speaks 90..=91', retryable: false }
      socket.write(`${JSON.stringify({ type: 'error', request_id, error })}\n`)
    })
  })
  await new Promise<void>((resolve) => server.listen(path, resolve))
  onTestFinished(() => void server.close())
  return server
}

describe('incompatible: a worker without a common protocol', () => {
  async function incompatible(w: World): Promise<{ session: Session; worker: number; restore: () => void }> {
    const session = await w.child(['lines_in'])
    await session.untilScreen('ready')
    const worker = session.worker().pid
    const socket = join(w.roots.runtime, 'pohunek/workers', session.id, 'control.sock')
    await w.daemon.kill()
    renameSync(socket, `${socket}.away`)
    const server = await standIn(socket)
    await w.start()
    expect(await runtimeOf(session)).toMatchObject({
      state: 'incompatible',
      loss_reason: 'worker_protocol_incompatible',
    })
    return {
      session,
      worker,
      restore: () => {
        server.close()
        renameSync(`${socket}.away`, socket)
      },
    }
  }

  test('is left running, refuses, and is taken over by a daemon that understands it', async () => {
    const w = await world()
    const { session, worker, restore } = await incompatible(w)
    await expectRefusals(w, session, 'worker_protocol_incompatible')
    expect((await refused(session.stop())).code).toBe('worker_protocol_incompatible')
    const { entries } = await w.call('session.runtime_inventory')
    expect(entries).toContainEqual(expect.objectContaining({ claimed_session_id: session.id, status: 'incompatible' }))
    expect([runs(worker), runs(session.pid)]).toEqual([true, true])
    await w.daemon.kill()
    restore()
    await w.start()
    expect(await runtimeOf(session)).toMatchObject({ state: 'live' })
    expect(classifications(w, session)).toEqual(['session runtime is incompatible: worker_protocol_incompatible'])
  })

  test('a removal retires it by its generation', async () => {
    const w = await world()
    const { session, worker } = await incompatible(w)
    expect(await session.remove()).toMatchObject({ removed: true, stopped: true })
    expect([runs(worker), runs(session.pid)]).toEqual([false, false])
  })
})

describe('lost with a process that cannot be looked into', () => {
  /** The program left a process behind whose environment the kernel withholds; then its worker was killed. */
  async function lostWithHidden(w: CrashWorld): Promise<{ session: Session; hidden: number } | string> {
    const uid = unprivileged(w)
    if (typeof uid === 'string') return uid
    await w.startDying(undefined, { uid })
    const told = join(w.roots.work, 'hidden')
    const session = await w.sh(`${hiding(told)}; echo ready; exec sleep 99`)
    await session.untilScreen('ready')
    process.kill(session.worker().pid, 'SIGKILL')
    const info = await becomes(session, 'lost')
    expect(info.runtime.loss_reason).toBe('runtime_lost_cleanup_unconfirmed')
    return { session, hidden: Number(readFileSync(told, 'utf8')) }
  }

  /** The session's end is told as observed while the hidden process runs, which is ended then. */
  async function notSpoiledBy(session: Session, told: string): Promise<void> {
    await until('it is hidden', () => existsSync(told) && readFileSync(told, 'utf8') !== '')
    const hidden = Number(readFileSync(told, 'utf8'))
    try {
      await session.input('go\n')
      expect(await session.ended()).toMatchObject({ exit_code: 7, runtime: { state: 'terminal' } })
      expect(runs(hidden)).toBe(true)
    } finally {
      process.kill(hidden, 'SIGKILL')
      await until('it is gone', () => !runs(hidden))
    }
  }

  test('is not removed until the process is gone; the refusal names it', { timeout: 60_000 }, async (context) => {
    await inCrashWorld(context, async (w) => {
      const found = await lostWithHidden(w)
      if (typeof found === 'string') return context.skip(found)
      const { session, hidden } = found
      const error = await refused(session.remove())
      expect(error.code).toBe('runtime_supervision_ambiguous')
      expect(error.message).toContain(`pid ${hidden} (start ${look(hidden)?.startIdentity}, node)`)
      expect(error.body.recover).toMatch(/end/)
      expect(look(hidden)?.state).toMatch(/[SR]/)
      // The wish is kept, and not forgotten by a restart; nor is the refusal.
      await w.daemon.kill()
      await w.startDying()
      await until('the refusal is shown', async () => {
        const { state, loss_reason } = await runtimeOf(session)
        return state === 'lost' && loss_reason === 'runtime_supervision_ambiguous'
      })
      expect(runs(hidden)).toBe(true)
      process.kill(hidden, 'SIGKILL')
      await until('the removal is finished', async () => (await w.call('session.list')).length === 0, {
        deadlineMs: 20_000,
      })
    })
  })

  test(
    'is removed when the operator accepts it; the process is told, logged and left',
    { timeout: 60_000 },
    async (context) => {
      await inCrashWorld(context, async (w) => {
        const found = await lostWithHidden(w)
        if (typeof found === 'string') return context.skip(found)
        const { session, hidden } = found
        const start_identity = look(hidden)?.startIdentity
        const result = await w.call('session.remove_accepting_unconfirmed', session.id)
        expect(result).toMatchObject({
          removed: true,
          accepted_unconfirmed_processes: [{ pid: hidden, start_identity, command: 'node' }],
        })
        expect(runs(hidden)).toBe(true)
        const told = logLines(w).filter((it) => it.session_id === session.id && it.pid === hidden)
        expect(told).toHaveLength(1)
        process.kill(hidden, 'SIGKILL')
        await until('it is gone', () => !runs(hidden))
      })
    },
  )

  test('an end keeps the exit code that was observed', { timeout: 60_000 }, async (context) => {
    await inCrashWorld(context, async (w) => {
      const uid = unprivileged(w)
      if (typeof uid === 'string') return context.skip(uid)
      await w.startDying(undefined, { uid })
      const told = join(w.roots.work, 'hidden')
      const session = await w.sh(`${hiding(told)}; exit 7`)
      const info = await becomes(session, 'lost')
      expect(info).toMatchObject({ exit_code: 7, runtime: { loss_reason: 'runtime_lost_cleanup_unconfirmed' } })
      process.kill(Number(readFileSync(told, 'utf8')), 'SIGKILL')
    })
  })

  test('an end is not spoiled by one of another login', { timeout: 60_000 }, async (context) => {
    await inCrashWorld(context, async (w) => {
      const uid = unprivileged(w)
      if (typeof uid === 'string') return context.skip(uid)
      await w.startDying(undefined, { uid })
      const session = await w.sh('read go; exit 7')
      const told = join(w.roots.work, 'hidden')
      const stranger = spawn(process.execPath, [HIDDEN, told], { uid, gid: uid, stdio: 'ignore' })
      onTestFinished(() => void stranger.kill('SIGKILL'))
      await notSpoiledBy(session, told)
    })
  })

  test('nor by an orphan of a login whose first process has ended', { timeout: 60_000 }, async (context) => {
    await inCrashWorld(context, async (w) => {
      const uid = unprivileged(w)
      if (typeof uid === 'string') return context.skip(uid)
      const [go, told] = [join(w.roots.work, 'go'), join(w.roots.work, 'hidden')]
      // What is left of the login: a process older than the worker, and one started after it that init has adopted.
      const waiting = `while ! [ -e '${go}' ]; do sleep 0.05; done; '${process.execPath}' '${HIDDEN}' '${told}' &`
      const login = spawn('/bin/sh', ['-c', `sleep 99 & echo $!; (${waiting}) & exit`], {
        uid,
        gid: uid,
        detached: true,
        stdio: ['ignore', 'pipe', 'ignore'],
      })
      const older = Number(String(((await once(login.stdout, 'data')) as [Buffer])[0]))
      onTestFinished(() => void process.kill(older, 'SIGKILL'))
      await until('the login is over', () => !runs(login.pid ?? 0))
      await w.startDying(undefined, { uid })
      const session = await w.sh('read go; exit 7')
      writeFileSync(go, '')
      await notSpoiledBy(session, told)
    })
  })

  test('a stop that cannot prove the end fails, and the runtime is lost', { timeout: 60_000 }, async (context) => {
    await inCrashWorld(context, async (w) => {
      const uid = unprivileged(w)
      if (typeof uid === 'string') return context.skip(uid)
      await w.startDying(undefined, { uid })
      const told = join(w.roots.work, 'hidden')
      const session = await w.sh(`${hiding(told)}; echo ready; exec sleep 99`)
      await session.untilScreen('ready')
      expect((await refused(session.stop())).code).toBe('worker_operation_failed')
      const info = await becomes(session, 'lost')
      expect(info).toMatchObject({
        state: 'failed',
        runtime: { loss_reason: 'runtime_lost_cleanup_unconfirmed' },
      })
      expect(info.exit_code).toBeUndefined()
      const hidden = Number(readFileSync(told, 'utf8'))
      expect([runs(hidden), runs(session.pid)]).toEqual([true, false])
      process.kill(hidden, 'SIGKILL')
    })
  })

  test('does not keep the cleanup of a younger worker open', { timeout: 90_000 }, async (context) => {
    await inCrashWorld(context, async (w) => {
      const found = await lostWithHidden(w)
      if (typeof found === 'string') return context.skip(found)
      const { hidden } = found
      const second = await w.sh('echo ready; exec sleep 99')
      await second.untilScreen('ready')
      const worker = second.worker().pid
      await w.daemon.kill()
      process.kill(worker, 'SIGKILL')
      await until('the worker is gone', () => !runs(worker))
      await w.startDying()
      // The process is older than this session's worker: it cannot be its, and does not keep its cleanup open.
      expect(await runtimeOf(second)).toMatchObject({ state: 'lost', loss_reason: 'runtime_lost' })
      process.kill(hidden, 'SIGKILL')
    })
  })
})

describe('a stop whose output cannot drain', () => {
  test('ends with the observed exit and says that the output was closed', async () => {
    const w = await world()
    const pidFile = join(w.roots.work, 'holder')
    // The helper scrubs its environment: it carries no marker and keeps the terminal open.
    const session = await w.sh(
      `env -i /usr/bin/setsid /bin/sh -c 'trap "" HUP TERM; echo $$ > ${pidFile}; exec /bin/sleep 60' & while ! [ -s ${pidFile} ]; do sleep 0.05; done; echo ready; exec sleep 99`,
    )
    await session.untilScreen('ready')
    const holder = Number(readFileSync(pidFile, 'utf8'))
    onTestFinished(() => {
      if (runs(holder)) process.kill(holder, 'SIGKILL')
    })
    expect(await session.stop()).toBe(true)
    const info = await session.info()
    expect(info).toMatchObject({ state: 'stopped', output_force_closed: true, runtime: { state: 'terminal' } })
    expect(info.exit_code).toBeGreaterThan(0)
    expect(runs(session.pid)).toBe(false)
    expect(await session.screen()).toContain('ready')
    process.kill(holder, 'SIGKILL')
    await until('the holder is gone', () => !runs(holder))
  })

  test('FC-823d: the end of the program itself is told the same way', async () => {
    const w = await world()
    const pidFile = join(w.roots.work, 'holder')
    const session = await w.sh(
      `env -i /usr/bin/setsid /bin/sh -c 'trap "" HUP; echo $$ > ${pidFile}; exec /bin/sleep 60' & while ! [ -s ${pidFile} ]; do sleep 0.05; done; exit 7`,
    )
    expect(await session.ended()).toMatchObject({ state: 'failed', exit_code: 7, output_force_closed: true })
    const holder = Number(readFileSync(pidFile, 'utf8'))
    process.kill(holder, 'SIGKILL')
    await until('the holder is gone', () => !runs(holder))
  })
})

test('starting: a session that is being made is not listed before it is told', async () => {
  const w = await world()
  const events = await w.events()
  const creating = w.child(['idle'])
  const listed = (await (await w.connect()).call('session.list')) as Answer[]
  for (const it of listed) expect(it.runtime.state).toBe('live')
  const session = await creating
  await events.until('session_created', (it) => it.session.id === session.id)
  expect(events.all.find((it) => it.session?.id === session.id)?.event).toBe('session_created')
})

test('terminal: everything that needs a program is refused, what it showed stays', async () => {
  const w = await world()
  const session = await w.sh('echo bye; exit 3')
  await session.ended()
  for (const [method, params] of [
    ['session.input', { text: 'x' }],
    ['session.resize', { cols: 90, rows: 20 }],
  ] as const)
    expect([method, (await refused(session.call(method, params))).code]).toEqual([method, 'session_not_running'])
  expect(await session.stop()).toBe(false)
  expect(await session.screen()).toContain('bye')
  expect(classifications(w, session)).toEqual([])
  expect(await session.remove()).toMatchObject({ removed: true, stopped: false })
})

test('a worker that is told to end from outside tells its end; the record of another boot is lost, its pids are not looked for', async () => {
  const w = await world()
  const session = await w.child(['idle'])
  await session.untilScreen('ready')
  process.kill(session.worker().pid, 'SIGTERM')
  expect(await session.ended()).toMatchObject({ runtime: { state: 'terminal' } })

  const other = await w.child(['lines_in'])
  await other.untilScreen('ready')
  const worker = other.worker().pid
  await w.daemon.kill()
  process.kill(worker, 'SIGKILL')
  await until('the worker is gone', () => !runs(worker))
  const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  const innocent = await until('the program ended with its terminal', () => !runs(other.pid) && process.pid)
  // All of it as a machine that was switched off left it, with the pid given to somebody else.
  for (const path of [
    join(w.roots.data, 'pohunek/metadata.jsonl'),
    join(w.roots.state, 'pohunek/jobs', `${other.id}-1.json`),
  ])
    writeFileSync(
      path,
      readFileSync(path, 'utf8').replaceAll(boot, 'another-boot').replaceAll(`"pid":${worker}`, `"pid":${innocent}`),
    )
  await w.start()
  expect(await runtimeOf(other)).toMatchObject({ state: 'lost', loss_reason: 'runtime_lost' })
  expect(await other.remove()).toMatchObject({ removed: true })
})
