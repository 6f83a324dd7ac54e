/**
 * The daemon is killed before and after each durable or external step of every operation, alone and together with its
 * workers; the next daemon must bring the told outcome about and leave nothing.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test, type TestContext } from 'vitest'
import { DAEMON_CRASH_POINTS } from '../../platform/crash-points.ts'
import { CrashCases, inCrashWorld, type CrashWorld } from '../harness/crash.ts'
import { runs } from '../harness/processes.ts'
import type { Session } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import type { Answer } from '../harness/wire.ts'

const TIMEOUT = { timeout: 240_000 }

/** Ends on SIGKILL alone, as does its helper outside the terminal: whatever is left alive stays alive. */
const TOUGH = `trap '' HUP TERM; setsid sleep 9999 & echo "helper:$!"; echo ready; while read line; do echo "got:$line"; done; while :; do sleep 1; done`

const points = new CrashCases()

/** A session of the tough program, or undefined when the daemon died before it answered. */
async function create(w: CrashWorld, options: Record<string, unknown> = {}): Promise<Session | undefined> {
  return await w.sh(TOUGH, options).catch(() => undefined)
}

async function created(w: CrashWorld): Promise<Session> {
  const session = await w.sh(TOUGH)
  await session.untilScreen('ready')
  return session
}

async function expectNothing(w: CrashWorld): Promise<void> {
  await until('the session is gone', async () => (await w.sessions()).length === 0, { show: () => w.files('state') })
  await w.nothingStrays()
}

async function expectLive(w: CrashWorld): Promise<Answer> {
  await w.nothingStrays()
  const [info, ...more] = await w.sessions()
  expect(more).toEqual([])
  expect(info).toMatchObject({ state: 'running', runtime: { state: 'live' } })
  expect(runs(info.pid)).toBe(true)
  const { visible_lines } = await w.call('session.screen', { session_id: info.id })
  expect(visible_lines.join('\n')).toMatch(/helper:\d+|^\s*$/)
  return info
}

async function expectLost(w: CrashWorld): Promise<void> {
  await w.nothingStrays()
  const info = await until('it is told as lost', async () => {
    const [it] = await w.sessions()
    return it?.runtime.state === 'lost' ? it : undefined
  })
  expect(info).toMatchObject({ state: 'failed', runtime: { loss_reason: 'runtime_lost' } })
  expect(info.exit_code).toBeUndefined()
  expect(runs(info.pid)).toBe(false)
}

async function expectStopped(w: CrashWorld): Promise<void> {
  const info = await until('it is told as stopped', async () => {
    const [it] = await w.sessions()
    return it?.state === 'stopped' ? it : undefined
  })
  expect(info).toMatchObject({ exit_code: 137, runtime: { state: 'terminal' } })
  expect(info.runtime.loss_reason).toBeUndefined()
  expect(runs(info.pid)).toBe(false)
  await w.nothingStrays()
}

/** Each case with the daemon dead alone and, unless it says that no worker is there, together with its workers. */
const both = <T extends readonly [string, ...unknown[]]>(all: readonly T[]): [string, string, T][] =>
  all.flatMap((it) => [
    [it[0], 'alone', it] as [string, string, T],
    ...(it.at(-1) === 'no worker' ? [] : [[it[0], 'with its workers', it] as [string, string, T]]),
  ])

describe.concurrent('session.new', () => {
  const CASES = points.of([
    ['store.append.before', 'nothing'],
    ['store.append.unsynced', 'nothing'],
    ['store.append.after', 'nothing'],
    ['job.start.before', 'nothing', 'no worker'],
    ['job.start.recorded', 'nothing', 'no worker'],
    ['job.start.spawned', 'nothing'],
    ['job.start.identified', 'nothing'],
    ['job.start.ready', 'nothing'],
    ['job.start.after', 'nothing'],
    ['worker.leased', 'nothing'],
    ['create.recorded', 'nothing'],
    ['create.directory', 'nothing'],
    ['create.prepared', 'nothing'],
    ['create.initialized', 'nothing'],
    ['store.append.before:2', 'nothing'],
    ['store.append.unsynced:2', 'complete'],
    ['store.append.after:2', 'complete'],
    ['create.committed', 'complete'],
  ] as const)

  test.for(both(CASES))('%s, %s', TIMEOUT, async ([at, who, [, outcome]], context: TestContext) => {
    await inCrashWorld(context, async (w) => {
      await w.startDying(at)
      expect(await create(w)).toBeUndefined()
      await w.restart(who !== 'alone')
      if (outcome === 'nothing') await expectNothing(w)
      else if (who === 'alone') await expectLive(w)
      else await expectLost(w)
      // The roots serve on.
      await w.sh('exec sleep 99')
    })
  })

  // The prompt lived in the daemon that died: a session without it is not what was asked for.
  const WITH_INPUT = points.of([
    ['create.committed', 'nothing'],
    ['create.input.written', 'nothing'],
    ['store.append.before:3', 'nothing'],
    ['store.append.after:3', 'complete'],
    ['create.input.committed', 'complete'],
  ] as const)

  test.for(both(WITH_INPUT))('with a prompt: %s, %s', TIMEOUT, async ([at, who, [, outcome]], context: TestContext) => {
    await inCrashWorld(context, async (w) => {
      await w.startDying(at)
      expect(await create(w, { input: 'hello' })).toBeUndefined()
      await w.restart(who !== 'alone')
      if (outcome === 'nothing') await expectNothing(w)
      else if (who !== 'alone') await expectLost(w)
      else {
        const { id } = await expectLive(w)
        await until('the prompt arrived', async () => {
          const { visible_lines } = await w.call('session.screen', { session_id: id })
          return visible_lines.join('\n').includes('got:hello')
        })
      }
    })
  })

  const UNDONE = points.of([
    'job.retire.before',
    'job.retire.ended',
    'job.retire.after',
    'teardown.stopped',
    'teardown.retired',
    'teardown.swept',
    'teardown.left',
    'purge.sockets',
    'purge.journals',
    'purge.after',
    'remove.forgotten',
  ] as const)
  test.for(UNDONE)('a failed one is undone: %s', TIMEOUT, async (at, context: TestContext) => {
    await inCrashWorld(context, async (w) => {
      await w.startDying(at)
      const program = join(w.roots.work, 'no-program')
      writeFileSync(program, '#!/no/such/interpreter\n', { mode: 0o755 })
      await expect(w.session(program, [])).rejects.toThrow()
      await w.restart()
      await expectNothing(w)
    })
  })

  // Whoever undoes it may die as well.
  test.for(points.of(['teardown.retired', 'teardown.swept', 'purge.journals', 'remove.forgotten'] as const))(
    'the daemon that undoes it dies too: %s',
    TIMEOUT,
    async (at, context: TestContext) => {
      await inCrashWorld(context, async (w) => {
        await w.startDying('create.initialized')
        await create(w)
        await w.dies()
        await w.startDying(at, { unready: true })
        await w.restart()
        await expectNothing(w)
      })
    },
  )

  test.for(points.of(['job.retire.ended', 'unrecorded.retired', 'purge.sockets', 'purge.journals'] as const))(
    'a worker no record names: %s',
    TIMEOUT,
    async (at, context: TestContext) => {
      await inCrashWorld(context, async (w) => {
        await w.startDying('worker.leased')
        await create(w)
        await w.dies()
        await w.startDying(at, { unready: true })
        await w.restart()
        await expectNothing(w)
      })
    },
  )
})

describe.concurrent('session.stop', () => {
  const CASES = points.of([
    ['stop.before', 'live', 'lost'],
    ['store.append.before:3', 'live', 'lost'],
    ['store.append.unsynced:3', 'stopped', 'lost'],
    ['store.append.after:3', 'stopped', 'lost'],
    ['stop.recorded', 'stopped', 'lost'],
    ['stop.answered', 'stopped', 'stopped'],
    ['stop.after', 'stopped', 'stopped'],
  ] as const)

  test.for(both(CASES))('%s, %s', TIMEOUT, async ([at, who, [, alone, together]], context: TestContext) => {
    await inCrashWorld(context, async (w) => {
      await w.startDying(at)
      const session = await created(w)
      await expect(session.stop()).rejects.toThrow()
      await w.restart(who !== 'alone')
      const outcome = who === 'alone' ? alone : together
      if (outcome === 'live') await expectLive(w)
      else if (outcome === 'lost') await expectLost(w)
      else await expectStopped(w)
    })
  })

  test.for(points.of(['adopt.asked', 'adopt.taken', 'stop.answered'] as const))(
    'the daemon that replays it dies too: %s',
    TIMEOUT,
    async (at, context: TestContext) => {
      await inCrashWorld(context, async (w) => {
        await w.startDying('stop.recorded')
        await (await created(w)).stop().catch(() => undefined)
        await w.dies()
        await w.startDying(at, { unready: true })
        await w.restart()
        await expectStopped(w)
      })
    },
  )

  test.for(points.of(['stop.recorded', 'job.retire.ended', 'stop.after'] as const))(
    'of a worker that does not answer: %s',
    TIMEOUT,
    async (at, context: TestContext) => {
      await inCrashWorld(context, async (w) => {
        await w.startDying()
        const session = await created(w)
        await w.stopUnanswered(session, at)
        await expectStopped(w)
      })
    },
  )
})

describe.concurrent('session.remove', () => {
  const CASES = points.of([
    ['remove.before', 'live'],
    ['store.append.before:3', 'live'],
    ['store.append.after:3', 'gone'],
    ['remove.recorded', 'gone'],
    ['stop.answered', 'gone'],
    ['teardown.stopped', 'gone'],
    ['job.retire.before', 'gone'],
    ['job.retire.ended', 'gone', 'no worker'],
    ['job.retire.after', 'gone', 'no worker'],
    ['teardown.retired', 'gone', 'no worker'],
    ['teardown.swept', 'gone', 'no worker'],
    ['teardown.left', 'gone', 'no worker'],
    ['purge.sockets', 'gone', 'no worker'],
    ['purge.journals', 'gone', 'no worker'],
    ['purge.after', 'gone', 'no worker'],
    ['store.append.before:5', 'gone', 'no worker'],
    ['store.append.unsynced:5', 'gone', 'no worker'],
    ['remove.forgotten', 'gone', 'no worker'],
  ] as const)

  test.for(both(CASES))('%s, %s', TIMEOUT, async ([at, who, [, outcome]], context: TestContext) => {
    await inCrashWorld(context, async (w) => {
      await w.startDying(at)
      const session = await created(w)
      await expect(session.remove()).rejects.toThrow()
      await w.restart(who !== 'alone')
      if (outcome === 'gone') await expectNothing(w)
      else if (who === 'alone') await expectLive(w)
      else await expectLost(w)
    })
  })

  test.for(
    points.of(['adopt.asked', 'teardown.retired', 'teardown.swept', 'purge.sockets', 'remove.forgotten'] as const),
  )('the daemon that finishes it dies too: %s', TIMEOUT, async (at, context: TestContext) => {
    await inCrashWorld(context, async (w) => {
      await w.startDying('remove.recorded')
      await (await created(w)).remove().catch(() => undefined)
      await w.dies()
      await w.startDying(at, { unready: true })
      await w.restart()
      await expectNothing(w)
    })
  })
})

describe.concurrent('rename and metadata', () => {
  const CASES = points.of([
    ['change.before', 'old'],
    ['store.append.before:3', 'old'],
    ['store.append.unsynced:3', 'new'],
    ['store.append.after:3', 'new'],
    ['change.after', 'new'],
  ] as const)

  test.for(CASES)('rename: %s', TIMEOUT, async ([at, outcome], context: TestContext) => {
    await inCrashWorld(context, async (w) => {
      await w.startDying(at)
      const session = await w.sh(TOUGH, { name: 'old' })
      await session.untilScreen('ready')
      await expect(session.call('session.rename', { name: 'new' })).rejects.toThrow()
      await w.restart()
      expect(await expectLive(w)).toMatchObject({ id: session.id, name: outcome })
    })
  })

  test.for(CASES)('metadata: %s', TIMEOUT, async ([at, outcome], context: TestContext) => {
    await inCrashWorld(context, async (w) => {
      await w.startDying(at)
      const session = await w.sh(TOUGH, { metadata: { a: 'old', b: 'old' } })
      await session.untilScreen('ready')
      await expect(session.call('session.set_metadata', { metadata: { a: 'new', b: 'new' } })).rejects.toThrow()
      await w.restart()
      expect((await expectLive(w)).metadata).toEqual({ a: outcome, b: outcome })
    })
  })
})

describe.concurrent('a start of the daemon', () => {
  const ADOPTION = points.of([['adopt.listed'], ['adopt.asked'], ['adopt.taken'], ['adopt.after']] as const)
  test.for(both(ADOPTION))('adopts: %s, %s', TIMEOUT, async ([at, who], context: TestContext) => {
    await inCrashWorld(context, async (w) => {
      await w.startDying()
      const session = await created(w)
      await w.daemon.kill()
      await w.startDying(at, { unready: true })
      await w.restart(who !== 'alone')
      if (who === 'alone') expect(await expectLive(w)).toMatchObject({ id: session.id, pid: session.pid })
      else await expectLost(w)
    })
  })

  test.for(
    points.of([
      'lost.swept',
      'job.retire.before',
      'job.retire.ended',
      'job.retire.after',
      'lost.retired',
      'lost.recorded',
    ] as const),
  )('finds a lost worker: %s', TIMEOUT, async (at, context: TestContext) => {
    await inCrashWorld(context, async (w) => {
      await w.startDying()
      await created(w)
      await w.findLost(at)
      await expectLost(w)
    })
  })

  test.for(points.of(['adopt.listed', 'job.retire.before', 'job.retire.after'] as const))(
    'imports an end from a journal: %s',
    TIMEOUT,
    async (at, context: TestContext) => {
      await inCrashWorld(
        context,
        async (w) => {
          await w.startDying()
          const gate = join(w.roots.work, 'gate')
          const session = await w.child(['gate', gate, '7'])
          await session.untilScreen('ready')
          const worker = session.worker()
          await w.daemon.kill()
          writeFileSync(gate, '')
          await until('the worker left', () => !runs(worker.pid))
          await w.startDying(at, { unready: true })
          await w.restart()
          await w.nothingStrays()
          expect(await session.info()).toMatchObject({ state: 'failed', exit_code: 7, runtime: { state: 'terminal' } })
        },
        { config: '[workers]\nspares = 0\nterminal_retention_ms = 1\n' },
      )
    },
  )
})

test('every point of the daemon is died at', () => {
  expect(points.missing(DAEMON_CRASH_POINTS)).toEqual([])
})

test('the shipped programs hold no crash point', () => {
  for (const name of ['pohunekd', 'pohunek-sessiond']) {
    const bundle = readFileSync(new URL(`../../dist/${name}.bundle.cjs`, import.meta.url), 'latin1')
    expect(bundle).not.toMatch(/POHUNEK_CRASH_AT|teardown\.swept|worker\.stop\.asked/)
  }
})
