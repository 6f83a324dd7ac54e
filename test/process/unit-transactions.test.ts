/**
 * The same as transactions.test.ts for workers that are units of a real systemd user manager: the daemon is killed
 * around each question to the manager, alone and together with its workers, and the next daemon leaves no unit, no
 * record and no process of what is not there.
 */
import { afterAll, describe, expect, test, type TestContext } from 'vitest'
import { UNIT_CRASH_POINTS } from '../../platform/crash-points.ts'
import { serviceNamespace } from '../../platform/service-namespace.ts'
import { join } from 'node:path'
import { CrashCases, inCrashWorld, type CrashWorld } from '../harness/crash.ts'
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

const points = new CrashCases()
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

  async function created(w: CrashWorld): Promise<Session> {
    const session = await w.sh(TOUGH)
    await session.untilScreen('ready')
    return session
  }

  async function nothingIsLeft(w: CrashWorld): Promise<void> {
    await until('the session is gone', async () => (await w.sessions()).length === 0)
    await w.nothingStrays()
    await until('no unit is left', () => units(w).length === 0, { show: () => units(w).join('\n') })
  }

  async function isLive(w: CrashWorld): Promise<Answer> {
    await w.nothingStrays()
    const [info] = await w.sessions()
    expect(info).toMatchObject({ state: 'running', runtime: { state: 'live' } })
    expect(runs(info.pid)).toBe(true)
    expect(units(w)).toHaveLength(1)
    return info
  }

  async function ended(w: CrashWorld, expected: object): Promise<void> {
    await w.nothingStrays()
    const info = await until('it is told as ended', async () => {
      const [it] = await w.sessions()
      return ['lost', 'terminal'].includes(it?.runtime.state) ? it : undefined
    })
    expect(info).toMatchObject(expected)
    expect(runs(info.pid)).toBe(false)
    await until('its unit is gone', () => units(w).length === 0 || info.runtime.state === 'terminal')
  }
  const LOST = { state: 'failed', runtime: { state: 'lost', loss_reason: 'runtime_lost' } }

  const STARTS = points.of([
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
        await w.restart(workersToo)
        await nothingIsLeft(w)
        // The roots serve on.
        await created(w)
      })
    },
  )

  test.for(points.of(['unit.undo.before', 'unit.undo.ended', 'unit.undo.after'] as const))(
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

  test.for(points.of(['unit.stop.accepted', 'unit.kill.asked', 'unit.kill.answered', 'unit.reset.asked'] as const))(
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

  const REMOVALS = points.of([
    'unit.retire.before',
    'unit.stop.asked',
    'unit.retire.ended',
    'unit.retire.after',
  ] as const)
  test.for(both(REMOVALS))('session.remove: %s, with its workers: %s', TIMEOUT, async ([at, workersToo], context) => {
    await inUnits(context, async (w) => {
      await w.startDying(at)
      const session = await created(w)
      await expect(session.remove()).rejects.toThrow()
      await w.restart(workersToo)
      await nothingIsLeft(w)
    })
  })

  test.for(points.of(['unit.stop.accepted', 'unit.stop.ended', 'unit.reset.asked', 'unit.retire.after'] as const))(
    'session.stop of a worker that does not answer: %s',
    TIMEOUT,
    async (at, context) => {
      await inUnits(context, async (w) => {
        await w.startDying()
        const session = await created(w)
        await w.stopUnanswered(session, at)
        await ended(w, { state: 'stopped' })
      })
    },
  )

  test.for(points.of(['unit.retire.before', 'unit.retire.ended', 'unit.retire.after'] as const))(
    'a lost worker is found: %s',
    TIMEOUT,
    async (at, context) => {
      await inUnits(context, async (w) => {
        await w.startDying()
        await created(w)
        await w.findLost(at)
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
      await w.restart()
      expect(await isLive(w)).toMatchObject({ id: session.id, pid: session.pid })
      expect(units(w)).toEqual(before)
    })
  })

  test('every point is died at', () => {
    expect(points.missing(UNIT_CRASH_POINTS)).toEqual([])
  })
})
