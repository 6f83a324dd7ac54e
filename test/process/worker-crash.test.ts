/**
 * The worker is killed at each phase of its life, with a daemon that watches and with one that dies too: what was not
 * observed is never told, and nothing of the program stays.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test, type TestContext } from 'vitest'
import { workerCrashPoints } from '../../platform/crash-points.ts'
import { CrashCases, hiding, inCrashWorld, unprivileged, type CrashWorld } from '../harness/crash.ts'
import { runs } from '../harness/processes.ts'
import { refused, type Session } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import { WireError } from '../harness/wire.ts'

const TIMEOUT = { timeout: 240_000 }

/** Neither the program nor its helper minds a hang-up: what is not ended by the product stays. */
const TOUGH = `trap '' HUP TERM; setsid sleep 9999 & echo "helper:$!"; echo ready; while :; do sleep 1; done`

const points = new CrashCases()

describe.concurrent('while a session is made', () => {
  const STARTS = points.of([
    'worker.journal.before.bootstrap',
    'worker.journal.staged.bootstrap',
    'worker.journal.after.bootstrap',
    'worker.socket.before',
    'worker.socket.after',
    'worker.ready',
    'worker.ready.told',
    'worker.initialize.begun',
    'worker.journal.before.starting',
    'worker.journal.staged.starting',
    'worker.journal.after.starting',
    'worker.initialize.spawned',
    'worker.initialize.executed',
    'worker.journal.before.live',
    'worker.journal.staged.live',
    'worker.journal.after.live',
    'worker.initialize.after',
  ] as const)

  test.for(STARTS)('%s', TIMEOUT, async (at, context: TestContext) => {
    await inCrashWorld(context, async (w) => {
      await w.startDying()
      w.workersDieAt(at)
      const failure = await w.sh(TOUGH).catch((problem: unknown) => problem)
      expect((failure as WireError).code).toMatch(/^worker_(exited_before_ready|operation_failed)$/)
      expect(await w.sessions()).toEqual([])
      await w.nothingStrays()
      w.workersDieAt(undefined)
      await w.sh('exec sleep 99')
    })
  })

  test.for(points.of(['worker.ready', 'worker.initialize.spawned', 'worker.journal.after.live'] as const))(
    '%s, and the daemon before it noticed',
    TIMEOUT,
    async (at, context: TestContext) => {
      await inCrashWorld(context, async (w) => {
        await w.startDying()
        w.workersDieAt(at)
        const creation = w.sh(TOUGH).catch(() => undefined)
        const worker = await until('the worker runs', () => w.running('worker')[0])
        // Frozen at once: whether it sees the worker's end or not, it dies with it.
        await until('the worker died', () => !runs(worker.pid), { pollMs: 1 })
        await w.daemon.kill()
        await creation
        w.workersDieAt(undefined)
        await w.startDying()
        await until('the session is gone', async () => (await w.sessions()).length === 0)
        await w.nothingStrays()
      })
    },
  )

  test.for(['teardown.retired', 'teardown.swept', 'purge.sockets', 'purge.journals', 'remove.forgotten'] as const)(
    'and the daemon while it undoes that: %s',
    TIMEOUT,
    async (daemonAt, context: TestContext) => {
      await inCrashWorld(context, async (w) => {
        await w.startDying(daemonAt)
        w.workersDieAt('worker.initialize.after')
        await expect(w.sh(TOUGH)).rejects.toThrow()
        await w.dies()
        w.workersDieAt(undefined)
        await w.startDying()
        await until('the session is gone', async () => (await w.sessions()).length === 0)
        await w.nothingStrays()
      })
    },
  )

  test.for(
    points.of([
      'worker.leave',
      'worker.journal.before.never_initialized',
      'worker.journal.staged.never_initialized',
      'worker.journal.after.never_initialized',
    ] as const),
  )('of a program that cannot be started: %s', TIMEOUT, async (at, context: TestContext) => {
    await inCrashWorld(context, async (w) => {
      await w.startDying()
      w.workersDieAt(at)
      const program = join(w.roots.work, 'no-program')
      writeFileSync(program, '#!/no/such/interpreter\n', { mode: 0o755 })
      expect((await refused(w.session(program, []))).code).toBe('spawn_failed')
      expect(await w.sessions()).toEqual([])
      await w.nothingStrays()
    })
  })
})

/** Points at which the end is not in the journal yet, and those at which it is. */
const UNTOLD = points.of([
  'worker.end.exited',
  'worker.end.swept',
  'worker.journal.before.terminal',
  'worker.journal.staged.terminal',
] as const)
const TOLD = points.of(['worker.journal.after.terminal', 'worker.end.told'] as const)

describe.concurrent('while a program ends', () => {
  async function gated(w: CrashWorld, at: string): Promise<{ session: Session; open: () => void; worker: number }> {
    w.workersDieAt(at)
    const gate = join(w.roots.work, 'gate')
    const session = await w.sh(
      `setsid sleep 9999 & echo ready; while ! [ -e '${gate}' ]; do sleep 0.05; done; echo bye; exit 7`,
    )
    await session.untilScreen('ready')
    return { session, worker: session.worker().pid, open: () => writeFileSync(gate, '') }
  }

  async function expectEnd(w: CrashWorld, session: Session, told: boolean): Promise<void> {
    const info = await session.ended()
    if (told) expect(info).toMatchObject({ state: 'failed', exit_code: 7, runtime: { state: 'terminal' } })
    else {
      expect(info).toMatchObject({ state: 'failed', runtime: { state: 'lost', loss_reason: 'runtime_lost' } })
      expect(info.exit_code).toBeUndefined()
    }
    await w.nothingStrays()
    await until('nothing of it runs', () => w.running('worker').length + w.running('other').length === 0)
  }

  test.for([...UNTOLD, ...TOLD])('%s', TIMEOUT, async (at, context: TestContext) => {
    await inCrashWorld(context, async (w) => {
      await w.startDying()
      const { session, open } = await gated(w, at)
      open()
      await expectEnd(w, session, TOLD.includes(at as never))
    })
  })

  test.for([...UNTOLD, ...TOLD])('%s, without a daemon', TIMEOUT, async (at, context: TestContext) => {
    await inCrashWorld(context, async (w) => {
      await w.startDying()
      const { session, open, worker } = await gated(w, at)
      await w.daemon.kill()
      open()
      await until('the worker died', () => !runs(worker))
      await w.startDying()
      await expectEnd(w, session, TOLD.includes(at as never))
    })
  })
})

describe.concurrent('while a session is stopped', () => {
  const STOPS = [...points.of(['worker.stop.asked'] as const), ...UNTOLD, ...TOLD] as const

  async function expectStopped(w: CrashWorld, session: Session, told: boolean): Promise<void> {
    const info = await session.ended()
    if (told) expect(info).toMatchObject({ state: 'stopped', exit_code: 137, runtime: { state: 'terminal' } })
    else {
      expect(info).toMatchObject({ state: 'failed', runtime: { state: 'lost', loss_reason: 'runtime_lost' } })
      expect(info.exit_code).toBeUndefined()
    }
    expect(runs(session.pid)).toBe(false)
    await w.nothingStrays()
  }

  test.for(STOPS)('%s', TIMEOUT, async (at, context: TestContext) => {
    await inCrashWorld(context, async (w) => {
      await w.startDying()
      w.workersDieAt(at)
      const session = await w.sh(TOUGH)
      await session.untilScreen('ready')
      const told = TOLD.includes(at as never)
      // The answer is the truth about the end, not about the connection.
      if (told) expect(await session.stop()).toBe(true)
      else expect((await refused(session.stop())).code).toBe('session_runtime_lost')
      await expectStopped(w, session, told)
    })
  })

  test.for(STOPS)('%s, and the daemon dies too', TIMEOUT, async (at, context: TestContext) => {
    await inCrashWorld(context, async (w) => {
      await w.startDying()
      w.workersDieAt(at)
      const session = await w.sh(TOUGH)
      await session.untilScreen('ready')
      const worker = session.worker()
      const stop = session.stop().catch(() => undefined)
      await until('the worker died', () => !runs(worker.pid), { pollMs: 1 })
      await w.daemon.kill()
      await stop
      await w.startDying()
      await expectStopped(w, session, TOLD.includes(at as never))
    })
  })
})

describe.concurrent('while the end cannot be proven', () => {
  test.for(
    points.of([
      'worker.journal.before.faulted',
      'worker.journal.staged.faulted',
      'worker.journal.after.faulted',
    ] as const),
  )('%s', TIMEOUT, async (at, context: TestContext) => {
    await inCrashWorld(context, async (w) => {
      const uid = unprivileged(w)
      if (typeof uid === 'string') return context.skip(uid)
      await w.startDying(undefined, { uid })
      w.workersDieAt(at)
      const told = join(w.roots.work, 'hidden')
      const session = await w.sh(`${hiding(told)}; exit 7`)
      const info = await session.ended()
      expect(info).toMatchObject({
        state: 'failed',
        runtime: { state: 'lost', loss_reason: 'runtime_lost_cleanup_unconfirmed' },
      })
      // What waitpid said of the root process is kept once it was journaled.
      expect(info.exit_code).toBe(at === 'worker.journal.after.faulted' ? 7 : undefined)
      const hidden = Number(readFileSync(told, 'utf8'))
      expect((await refused(session.remove())).code).toBe('runtime_supervision_ambiguous')
      expect(runs(hidden)).toBe(true)
      process.kill(hidden, 'SIGKILL')
      expect(await session.remove()).toMatchObject({ removed: true })
    })
  })
})

test('every point of the worker is died at', () => {
  expect(points.missing(workerCrashPoints())).toEqual([])
})
