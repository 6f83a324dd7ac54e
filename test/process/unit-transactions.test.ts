/**
 * The same as transactions.test.ts for workers that are units of a real systemd user manager: the daemon is killed
 * around each question to the manager, alone and together with its workers, and the next daemon leaves no unit, no
 * record and no process of what is not there.
 */
import { afterAll, describe, expect, test, type TestContext } from 'vitest'
import { UNIT_CRASH_POINTS } from '../../platform/crash-points.ts'
import { serviceNamespace } from '../../platform/service-namespace.ts'
import { join } from 'node:path'
import { inCrashWorld, type CrashWorld } from '../harness/crash.ts'
import { runs } from '../harness/processes.ts'
import type { Session } from '../harness/session.ts'
import { startUserSystemd } from '../harness/user-systemd.ts'
import { until } from '../harness/wait.ts'
import type { Answer } from '../harness/wire.ts'

const TIMEOUT = { timeout: 240_000 }
const TOUGH = `trap '' HUP TERM; setsid sleep 9999 & echo ready; while :; do sleep 1; done`
const CONFIG = [
  '[supervisor]',
  'kind = "systemd"',
  '[workers]',
  'spares = 0',
  'stop_grace_ms = 100',
  'sweep_grace_ms = 1000',
  '',
].join('\n')

const manager = await startUserSystemd()
afterAll(async () => {
  if (typeof manager !== 'string') await manager[Symbol.asyncDispose]()
})

const tried = new Set<string>()
const cases = <T extends readonly (string | readonly [string, ...unknown[]])[]>(all: T): T => {
  for (const it of all) tried.add((typeof it === 'string' ? it : it[0]).split(':')[0] as string)
  return all
}
const both = <T extends readonly string[]>(all: T): [string, boolean][] =>
  all.flatMap((it) => [[it, false] as [string, boolean], [it, true] as [string, boolean]])

describe.skipIf(typeof manager === 'string')('units', { concurrent: true }, () => {
  if (typeof manager === 'string') return
  const { bus } = manager

  const units = (w: CrashWorld): string[] => {
    const { state, runtime } = w.roots
    const namespace = serviceNamespace({ state: join(state, 'pohunek'), runtime: join(runtime, 'pohunek') })
    return manager.units(`pohunek-${namespace}-worker-*`)
  }

  async function inUnits(context: TestContext, body: (w: CrashWorld) => Promise<void>): Promise<void> {
    const env = { DBUS_SESSION_BUS_ADDRESS: bus }
    await inCrashWorld(context, body, { config: CONFIG, env })
  }

  const list = async (w: CrashWorld): Promise<Answer[]> => (await w.call('session.list')) as Answer[]

  async function created(w: CrashWorld): Promise<Session> {
    const session = await w.sh(TOUGH)
    await session.untilScreen('ready')
    return session
  }

  async function afterCrash(w: CrashWorld, workersToo: boolean): Promise<void> {
    await w.dies()
    if (workersToo) await w.killWorkers()
    await w.startDying()
  }

  async function nothingIsLeft(w: CrashWorld): Promise<void> {
    await until('the session is gone', async () => (await list(w)).length === 0)
    await w.nothingStrays()
    await until('no unit is left', () => units(w).length === 0, { show: () => units(w).join('\n') })
  }

  async function isLive(w: CrashWorld): Promise<Answer> {
    await w.nothingStrays()
    const [info] = await list(w)
    expect(info).toMatchObject({ state: 'running', runtime: { state: 'live' } })
    expect(runs(info.pid)).toBe(true)
    expect(units(w)).toHaveLength(1)
    return info
  }

  async function ended(w: CrashWorld, expected: object): Promise<void> {
    await w.nothingStrays()
    const info = await until('it is told as ended', async () => {
      const [it] = await list(w)
      return ['lost', 'terminal'].includes(it?.runtime.state) ? it : undefined
    })
    expect(info).toMatchObject(expected)
    expect(runs(info.pid)).toBe(false)
    await until('its unit is gone', () => units(w).length === 0 || info.runtime.state === 'terminal')
  }
  const LOST = { state: 'failed', runtime: { state: 'lost', loss_reason: 'runtime_lost' } }

  const STARTS = cases([
    'unit.start.asked',
    'unit.start.accepted',
    'unit.start.ended',
    'unit.start.identified',
    'unit.start.after',
  ] as const)
  test.for([['job.start.before', false], ['job.start.recorded', false], ...both(STARTS)] as [string, boolean][])(
    'session.new: %s, with its workers: %s',
    TIMEOUT,
    async ([at, workersToo], context) => {
      await inUnits(context, async (w) => {
        await w.startDying(at)
        await expect(w.sh(TOUGH)).rejects.toThrow()
        await afterCrash(w, workersToo)
        await nothingIsLeft(w)
        // The roots serve on.
        await created(w)
      })
    },
  )

  test.for(cases(['unit.undo.before', 'unit.undo.ended', 'unit.undo.after'] as const))(
    'a worker that ends before it is ready is undone: %s',
    TIMEOUT,
    async (at, context) => {
      await inUnits(context, async (w) => {
        await w.startDying(at)
        w.workersDieAt('worker.socket.before')
        await expect(w.sh(TOUGH)).rejects.toThrow()
        await w.dies()
        w.workersDieAt(undefined)
        await w.startDying()
        await nothingIsLeft(w)
        await created(w)
      })
    },
  )

  test.for(cases(['unit.stop.accepted', 'unit.kill.asked', 'unit.kill.answered', 'unit.reset.asked'] as const))(
    'a worker that never becomes ready is undone: %s',
    TIMEOUT,
    async (at, context) => {
      await inUnits(context, async (w) => {
        await w.startDying(at)
        const release = w.workersHang()
        await expect(w.sh(TOUGH)).rejects.toThrow()
        await w.dies()
        release()
        await w.startDying()
        await nothingIsLeft(w)
        await created(w)
      })
    },
  )

  const REMOVALS = cases(['unit.retire.before', 'unit.stop.asked', 'unit.retire.ended', 'unit.retire.after'] as const)
  test.for(both(REMOVALS))('session.remove: %s, with its workers: %s', TIMEOUT, async ([at, workersToo], context) => {
    await inUnits(context, async (w) => {
      await w.startDying(at)
      const session = await created(w)
      await expect(session.remove()).rejects.toThrow()
      await afterCrash(w, workersToo)
      await nothingIsLeft(w)
    })
  })

  test.for(cases(['unit.stop.accepted', 'unit.stop.ended', 'unit.reset.asked', 'unit.retire.after'] as const))(
    'session.stop of a worker that does not answer: %s',
    TIMEOUT,
    async (at, context) => {
      await inUnits(context, async (w) => {
        await w.startDying()
        const session = await created(w)
        const worker = session.worker()
        await w.daemon.kill()
        process.kill(worker.pid, 'SIGSTOP')
        await w.startDying(at)
        expect((await session.info()).runtime.state).toBe('conflict')
        await expect(session.stop()).rejects.toThrow()
        if (runs(worker.pid)) process.kill(worker.pid, 'SIGCONT')
        await afterCrash(w, false)
        await ended(w, { state: 'stopped' })
      })
    },
  )

  test.for(cases(['unit.retire.before', 'unit.retire.ended', 'unit.retire.after'] as const))(
    'a lost worker is found: %s',
    TIMEOUT,
    async (at, context) => {
      await inUnits(context, async (w) => {
        await w.startDying()
        await created(w)
        await w.daemon.kill()
        await w.killWorkers()
        await w.startDying(at, { unready: true })
        await afterCrash(w, false)
        await ended(w, LOST)
      })
    },
  )

  test('the daemon dies and comes back: the same unit, the same program', TIMEOUT, async (context) => {
    await inUnits(context, async (w) => {
      await w.startDying()
      const session = await created(w)
      const before = units(w)
      await w.daemon.kill()
      await w.startDying('adopt.taken', { unready: true })
      await afterCrash(w, false)
      expect(await isLive(w)).toMatchObject({ id: session.id, pid: session.pid })
      expect(units(w)).toEqual(before)
    })
  })

  test('every point is died at', () => {
    expect(UNIT_CRASH_POINTS.filter((it) => !tried.has(it))).toEqual([])
  })
})
