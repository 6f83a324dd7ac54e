/** What happens to the machine: its clock is set, it sleeps, its memory runs out, one of its processes is slow. */
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { carrying, look, runs } from '../harness/processes.ts'
import { REPOSITORY } from '../harness/roots.ts'
import { refused, type Session } from '../harness/session.ts'
import { monotonicMs, stays, until, within } from '../harness/wait.ts'
import type { Answer } from '../harness/wire.ts'
import { world, type World } from '../harness/world.ts'

const HOUR_MS = 3_600_000
const PAST_DEADLINES_MS = 6_000

/** What must not change while nothing happens to a session. */
async function facts(session: Session): Promise<Answer> {
  const { state, pid, runtime } = await session.info()
  return { state, pid, runtime: runtime.state, worker: session.worker().pid }
}

/** Events that tell of a runtime's end or of doubts about it. */
const BAD_EVENTS = ['session_runtime_lost', 'session_runtime_conflict', 'session_stopped', 'session_removed'] as const

describe('FC-dd53: the wall clock is set', () => {
  /** A world whose daemon and workers have a wall clock that `set` moves, in milliseconds from the true time. */
  async function worldWithClock(): Promise<{ w: World; set: (offsetMs: number) => void; start: () => Promise<void> }> {
    const w = await world({ daemon: false })
    const file = join(w.roots.work, 'clock')
    const set = (offsetMs: number): void => writeFileSync(file, String(offsetMs))
    set(0)
    const program = (name: string): string => {
      const path = join(w.roots.work, `${name}-clock`)
      const preload = join(REPOSITORY, 'test/harness/set-clock.cjs')
      const bundle = join(REPOSITORY, 'dist', `${name}.cjs`)
      writeFileSync(
        path,
        `#!/bin/sh\nexport POHUNEK_TEST_CLOCK='${file}'\nexec node -r '${preload}' '${bundle}' "$@"\n`,
      )
      chmodSync(path, 0o755)
      return path
    }
    const daemon = program('pohunekd')
    const env = { POHUNEK_WORKER_BIN: program('pohunek-sessiond') }
    return { w, set, start: async () => void (await w.start({ program: daemon, env })) }
  }

  test(
    'no state changes, waits last as long as asked, stamps of one session only grow',
    { timeout: 90_000 },
    async () => {
      const { w, set, start } = await worldWithClock()
      await start()
      const session = await w.child(['lines_in'])
      await session.untilScreen('ready')
      const before = await facts(session)
      const events = await w.events()
      const stamps = [(await session.info()).updated_at]
      const ids = [session.id]
      for (const hours of [48, -24, 5, -1_000, 0]) {
        set(hours * HOUR_MS)
        expect(await facts(session)).toEqual(before)
        // A wait ends by its own time, whatever the clock says.
        const from = monotonicMs()
        const { next } = await session.output()
        const runtime = await session.identity()
        await session.call('session.output', { runtime, after_offset: String(next), max_bytes: 10, wait_ms: 400 })
        expect(monotonicMs() - from).toBeGreaterThanOrEqual(390)
        expect(monotonicMs() - from).toBeLessThan(10_000)
        // A grant made at one time is redeemed at another.
        const attached = await session.attach({ direct: hours > 0 })
        await attached.until('ready')
        attached.close()
        await session.input(`at ${hours}`)
        await session.untilScreen(`got:at ${hours}`)
        await session.call('session.rename', { name: `at ${hours}` })
        stamps.push((await session.info()).updated_at)
        const other = await w.child(['lines_in'])
        ids.push(other.id)
        expect(Date.parse((await other.info()).created_at) - Date.now()).toBeGreaterThan((hours - 1) * HOUR_MS)
        expect(Date.parse((await other.info()).created_at) - Date.now()).toBeLessThan((hours + 1) * HOUR_MS)
      }
      expect(stamps).toEqual([...new Set(stamps)].sort())
      for (const event of BAD_EVENTS) expect(events.of(event)).toEqual([])
      // Paging finds every session once, whatever order the clock gave their ids.
      const seen: string[] = []
      for (let after: string | undefined; ;) {
        const page: Answer[] = await w.call('session.list', { limit: 2, ...(after === undefined ? {} : { after }) })
        if (page.length === 0) break
        seen.push(...page.map((it) => it.id as string))
        after = seen.at(-1)
      }
      expect(seen).toEqual([...ids].sort())
      const { stdout } = await w.cli(['session', 'list'])
      expect(stdout).not.toMatch(/(^|\s)-\d+ ?(ms|s|m|h|d)\b/)
    },
  )

  test('between two daemons: sessions are adopted, ends told, ended workers kept for their time', async () => {
    const { w, set, start } = await worldWithClock()
    await start()
    const session = await w.child(['lines_in'])
    await session.untilScreen('ready')
    const before = await facts(session)
    const ended = await w.sh('echo bye; exit 3')
    await ended.ended()
    for (const hours of [-30, 30]) {
      await w.daemon.kill()
      set(hours * HOUR_MS)
      const meanwhile = hours < 0 ? undefined : session
      await start()
      expect(await facts(session)).toEqual(before)
      expect(await ended.info()).toMatchObject({ state: 'failed', exit_code: 3, runtime: { state: 'terminal' } })
      expect(await ended.screen()).toContain('bye')
      await meanwhile?.input(`at ${hours}`)
    }
    // An end that was stamped in the past is taken over as one.
    const worker = session.worker().pid
    await w.daemon.kill()
    set(-50 * HOUR_MS)
    process.kill(session.pid, 'SIGKILL')
    await until('the journal tells the end', () => session.journals().some((it) => it.phase === 'terminal'))
    set(0)
    await start()
    expect(await session.ended()).toMatchObject({ state: 'failed', runtime: { state: 'terminal' } })
    expect(worker).toBe(before.worker)
    expect(await session.remove()).toMatchObject({ removed: true })
  })
})

describe('the machine sleeps', () => {
  test('everything stands still for longer than any deadline, and goes on', { timeout: 60_000 }, async () => {
    const w = await world()
    const session = await w.child(['lines_in'])
    await session.untilScreen('ready')
    const events = await w.events()
    const attached = await session.attach()
    await attached.until('ready')
    const direct = await session.attach({ direct: true })
    await direct.until('ready')
    const before = await facts(session)
    const runtime = await session.identity()
    const { next } = await session.output()
    const waiter = await w.connect()
    const waiting = waiter.call('session.output', {
      session_id: session.id,
      runtime,
      after_offset: String(next),
      max_bytes: 100,
      wait_ms: 3_000,
    })
    const all = carrying(w.roots.base).map((it) => it.pid)
    expect(all).toEqual(expect.arrayContaining([w.daemon.pid, before.worker, session.pid]))
    for (const pid of all) process.kill(pid, 'SIGSTOP')
    try {
      await until('all sleep', () => all.every((pid) => look(pid)?.state === 'T'))
      await stays('all sleep', PAST_DEADLINES_MS, () => all.every((pid) => look(pid)?.state === 'T'))
    } finally {
      for (const pid of all) process.kill(pid, 'SIGCONT')
    }
    await within('the wait that was over in its sleep is answered', waiting)
    expect(await facts(session)).toEqual(before)
    await session.input('awake')
    await session.untilScreen('got:awake')
    await attached.until('got:awake')
    await direct.until('got:awake')
    for (const event of BAD_EVENTS) expect(events.of(event)).toEqual([])
    expect(events.of('session_runtime_reconnected')).toEqual([])
  })
})

test('a worker that is stopped is slow, not dead', { timeout: 60_000 }, async () => {
  const w = await world()
  const session = await w.child(['lines_in'])
  await session.untilScreen('ready')
  const other = await w.child(['lines_in'])
  await other.untilScreen('ready')
  const events = await w.events()
  const attached = await session.attach()
  await attached.until('ready')
  const before = await facts(session)
  const worker = session.worker().pid
  let typing: Promise<Answer> | undefined
  process.kill(worker, 'SIGSTOP')
  try {
    // Each question is answered within a client's deadline, and none of the answers tells an end.
    const asked = [
      refused((await w.connect()).call('session.screen', { session_id: session.id })),
      refused((await w.connect()).call('session.resize', { session_id: session.id, cols: 90, rows: 20 })),
    ]
    typing = (await w.connect()).call('session.input', { session_id: session.id, text: 'slow' }, { deadlineMs: 40_000 })
    for (const { code } of await Promise.all(asked))
      expect(code).toMatch(/^session_(runtime_reconnecting|terminal_unavailable)$/)
    await stays('the session is not told as over, nothing is ended', 2_000, async () => {
      const { runtime, state } = await session.info()
      return (
        look(worker)?.state === 'T' &&
        runs(session.pid) &&
        state === 'running' &&
        ['live', 'reconnecting', 'conflict'].includes(runtime.state as string)
      )
    })
    await other.input('fine')
    await other.untilScreen('got:fine')
  } finally {
    process.kill(worker, 'SIGCONT')
  }
  await until('the session is live', async () => (await session.info()).runtime.state === 'live', {
    deadlineMs: 30_000,
    show: () => w.log.join(''),
  })
  expect(await facts(session)).toEqual(before)
  // What was typed meanwhile is there once, or its fate is told as unknown.
  const told = await typing?.catch((problem: unknown) => (problem as { code: string }).code)
  if (typeof told === 'string') expect(told).toBe('worker_write_outcome_unknown')
  await session.input('awake')
  await attached.until('got:awake')
  const typed = (await session.output()).bytes.toString().match(/got:slow/g) ?? []
  expect(typed.length).toBeLessThanOrEqual(1)
  if (typeof told !== 'string') expect(typed).toHaveLength(1)
  for (const event of ['session_runtime_lost', 'session_stopped', 'session_removed'])
    expect(events.of(event)).toEqual([])
})

/** A memory group without a limit yet; undefined where this user or this kernel makes none. */
function memoryGroup():
  { join: (pid: number) => void; limit: (bytes: number) => void; kills: () => number } | undefined {
  const v1 = existsSync('/sys/fs/cgroup/memory/memory.limit_in_bytes')
  const root = v1 ? '/sys/fs/cgroup/memory' : '/sys/fs/cgroup'
  const path = join(root, `phk-${process.pid}`)
  try {
    if (!v1 && !readFileSync(join(root, 'cgroup.subtree_control'), 'utf8').includes('memory')) return undefined
    mkdirSync(path)
  } catch {
    return undefined
  }
  onTestFinished(async () => {
    await until('the group is empty', () => readFileSync(join(path, 'cgroup.procs'), 'utf8') === '')
    rmdirSync(path)
  })
  // Memory that goes to a swap device instead would end nobody.
  if (v1) writeFileSync(join(path, 'memory.swappiness'), '0')
  else if (existsSync(join(path, 'memory.swap.max'))) writeFileSync(join(path, 'memory.swap.max'), '0')
  const count = v1 ? 'memory.oom_control' : 'memory.events'
  return {
    join: (pid) => writeFileSync(join(path, 'cgroup.procs'), String(pid)),
    limit: (bytes) => writeFileSync(join(path, v1 ? 'memory.limit_in_bytes' : 'memory.max'), String(bytes)),
    kills: () => Number(/oom_kill (\d+)/.exec(readFileSync(join(path, count), 'utf8'))?.[1]),
  }
}

test('a worker killed by the kernel for want of memory: lost, its program ended, its files gone with it', async (context) => {
  const group = memoryGroup()
  if (group === undefined) return context.skip('no memory group can be made here')
  const w = await world()
  const go = join(w.roots.work, 'go')
  const session = await w.sh(`echo ready; while ! [ -e '${go}' ]; do sleep 0.05; done; exec yes 0123456789`)
  await session.untilScreen('ready')
  const other = await w.child(['lines_in'])
  await other.untilScreen('ready')
  const worker = session.worker().pid
  const events = await w.events()
  // What it has is charged elsewhere; its history of 10 MB does not fit.
  group.join(worker)
  group.limit(4 * 1_048_576)
  writeFileSync(go, '')
  const event = await events.until('session_runtime_lost', (it) => it.session.id === session.id, 20_000)
  expect(group.kills()).toBe(1)
  expect(event.session).toMatchObject({ state: 'failed', runtime: { state: 'lost', loss_reason: 'runtime_lost' } })
  expect((await session.info()).exit_code).toBeUndefined()
  expect([runs(worker), runs(session.pid)]).toEqual([false, false])
  expect((await refused(session.stop())).code).toBe('session_runtime_lost')
  expect(await facts(other)).toMatchObject({ state: 'running', runtime: 'live' })
  const later = await w.child(['lines_in'])
  await later.untilScreen('ready')
  expect(await session.remove()).toMatchObject({ removed: true })
  for (const root of ['runtime', 'state', 'cache'] as const)
    expect(w.files(root).filter((path) => path.includes(session.id))).toEqual([])
})

test('FC-257a: XDG_RUNTIME_DIR is gone and comes back while a client follows', { timeout: 60_000 }, async () => {
  const w = await world()
  const session = await w.child(['lines_in'])
  await session.untilScreen('ready')
  const before = await facts(session)
  const attached = await session.attach({ direct: true })
  await attached.until('ready')
  execFileSync('rm', ['-rf', w.roots.runtime])
  // What is open stays open.
  attached.write('without\n')
  await attached.until('got:without')
  await stays('the runtime directory is not made by a guess', 1_000, () => !existsSync(w.roots.runtime))
  mkdirSync(w.roots.runtime, { mode: 0o700 })
  await until('the daemon serves again', async () => (await w.connect(), true), { deadlineMs: 20_000 })
  expect(await facts(session)).toEqual(before)
  const again = await session.attach({ direct: true })
  await again.until('got:without')
  const later = await w.child(['lines_in'])
  await later.untilScreen('ready')
  await w.daemon.kill()
  await w.start()
  expect(await facts(session)).toEqual(before)
})
