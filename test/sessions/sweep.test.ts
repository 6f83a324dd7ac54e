/** What a sweep ends, what it leaves alone, and how long it waits: on real processes. */
import { spawn, type ChildProcess } from 'node:child_process'
import { describe, expect, onTestFinished, test } from 'vitest'
import { manualClock, systemClock } from '../../kernel/index.ts'
import { pinnedProcesses } from '../../platform/index.ts'
import type { ProcessIdentity, Processes } from '../../platform/processes.ts'
import { marksChildren, type WorkerJournal } from '../../plugins/sessions/journal.ts'
import { isClean, nameProcess, Patience, sweep, type SweepRequest } from '../../plugins/sessions/sweep.ts'
import { runs } from '../harness/processes.ts'
import { monotonicMs, until } from '../harness/wait.ts'

const RUNTIME = `r-sweep-${process.pid}`

/** What a test starts is younger than it; what is older and cannot be read is none of its business. */
const since = pinnedProcesses.identify(process.ppid) as ProcessIdentity

function start(env: Record<string, string>, script = 'exec sleep 99'): ChildProcess & { pid: number } {
  const child = spawn('/bin/sh', ['-c', script], { stdio: ['ignore', 'pipe', 'ignore'], env, detached: true })
  onTestFinished(() => void child.kill('SIGKILL'))
  if (child.pid === undefined) throw new Error('not started')
  return child as ChildProcess & { pid: number }
}
const marked = (runtime: string, more: Record<string, string> = {}): Record<string, string> => ({
  PATH: '/usr/bin:/bin',
  POHUNEK_WORKER_INSTANCE_ID: runtime,
  ...more,
})

function request(more: Partial<SweepRequest>): SweepRequest {
  return {
    processes: pinnedProcesses,
    clock: systemClock,
    signal: new AbortController().signal,
    targets: [],
    graceMs: 300,
    patience: new Patience(systemClock, 300),
    ...more,
  }
}

describe('a runtime that a journal proves', () => {
  test('is ended whoever its processes say they belong to, stubborn ones after the grace', async () => {
    const runtimeId = `${RUNTIME}-a`
    const plain = start(marked(runtimeId))
    const other = start(marked(runtimeId, { POHUNEK_SESSION_ID: 's-other' }))
    const stubborn = start(marked(runtimeId), `trap '' TERM; echo ready; while :; do sleep 0.2; done`)
    await until('it ignores TERM', () => stubborn.stdout?.read() !== null)
    const result = await sweep(request({ targets: [{ runtimeId, since }] }))
    expect(isClean(result)).toBe(true)
    expect([plain, other, stubborn].map(({ pid }) => runs(pid))).toEqual([false, false, false])
  })

  test('a process that is older than its worker is not its', async () => {
    const runtimeId = `${RUNTIME}-b`
    const older = start(marked(runtimeId))
    const identity = pinnedProcesses.identify(older.pid) as ProcessIdentity
    const worker = { pid: 1, startIdentity: String(BigInt(identity.startIdentity) + 1n) }
    expect(isClean(await sweep(request({ targets: [{ runtimeId, since: worker }] })))).toBe(true)
    expect(runs(older.pid)).toBe(true)
  })
})

test('a runtime no journal proves is ended only where the session is named too; without a session it is not touched', async () => {
  const runtimeId = `${RUNTIME}-c`
  const mine = start(marked(runtimeId, { POHUNEK_SESSION_ID: 's-mine' }))
  const foreign = start(marked(runtimeId, { POHUNEK_SESSION_ID: 's-other' }))
  const targets = [{ runtimeId, since, onlyOf: 's-mine' }]
  expect(isClean(await sweep(request({ targets })))).toBe(true)
  expect([runs(mine.pid), runs(foreign.pid)]).toEqual([false, true])

  const nobodys = start(marked(runtimeId))
  const result = await sweep(request({ targets }))
  expect(result.unattributed.map(({ pid }) => pid)).toEqual([nobodys.pid])
  expect(isClean(result)).toBe(false)
  expect([runs(nobodys.pid), runs(foreign.pid)]).toEqual([true, true])
})

test('the environment of exactly one process is read', () => {
  const child = start(marked('x', { EMPTY: '', OTHER: 'a=b' }))
  const identity = pinnedProcesses.identify(child.pid) as ProcessIdentity
  expect(pinnedProcesses.variable(identity, 'OTHER')).toBe('a=b')
  expect(pinnedProcesses.variable(identity, 'EMPTY')).toBe('')
  expect(pinnedProcesses.variable(identity, 'EMPT')).toBeUndefined()
  expect(pinnedProcesses.variable({ ...identity, startIdentity: '1' }, 'OTHER')).toBeUndefined()
})

test('one operation waits once for what cannot be read, however many runtimes it blocks', async () => {
  const hidden = { pid: 7, startIdentity: '9', command: 'secret' }
  const processes: Processes = { ...pinnedProcesses, findMarked: () => ({ marked: [], unreadable: [hidden] }) }
  const patience = new Patience(systemClock, 400)
  const started = monotonicMs()
  const targets = [{ runtimeId: 'x', since }]
  const first = await sweep(request({ processes, targets, patience }))
  expect(first.unreadable).toEqual([hidden])
  expect(monotonicMs() - started).toBeGreaterThanOrEqual(400)
  const again = monotonicMs()
  for (let n = 0; n < 20; n++)
    expect((await sweep(request({ processes, targets, patience }))).unreadable).toEqual([hidden])
  expect(monotonicMs() - again).toBeLessThan(400)
})

test('what only one look saw keeps nothing open: a process may be between two images', async () => {
  let looks = 0
  const passing = (): { pid: number; startIdentity: string; command: string } => ({
    pid: 7,
    startIdentity: String(looks),
    command: 'su',
  })
  // Another process at each of the first looks, as of a program that starts others all the time; then none.
  const processes: Processes = {
    ...pinnedProcesses,
    findMarked: () => ({ marked: [], unreadable: ++looks <= 6 ? [passing()] : [] }),
  }
  const patience = new Patience(systemClock, 0)
  expect(isClean(await sweep(request({ processes, targets: [{ runtimeId: 'x', since }], patience })))).toBe(true)
  expect(looks).toBe(7)
})

test('processes that are new at every look do not keep an operation for ever', async () => {
  let looks = 0
  const processes: Processes = {
    ...pinnedProcesses,
    findMarked: () => ({ marked: [], unreadable: [{ pid: 7, startIdentity: String(++looks), command: 'su' }] }),
  }
  const started = monotonicMs()
  const targets = [{ runtimeId: 'x', since }]
  const result = await sweep(request({ processes, targets, graceMs: 100, patience: new Patience(systemClock, 100) }))
  expect(isClean(result)).toBe(false)
  expect(monotonicMs() - started).toBeGreaterThanOrEqual(2_000)
})

test('patience starts with the first that needs it', () => {
  const clock = manualClock()
  const patience = new Patience(clock, 1_000)
  clock.advance(5_000)
  expect(patience.isOver).toBe(false)
  clock.advance(999)
  expect(patience.isOver).toBe(false)
  clock.advance(1)
  expect(patience.isOver).toBe(true)
})

test('a name for a person holds no control character', () => {
  expect(nameProcess({ pid: 7, startIdentity: '42', command: 'a\u001b[2Jb' })).toBe('pid 7 (start 42, a?[2Jb)')
  expect(nameProcess({ pid: 7, startIdentity: '42' })).toBe('pid 7 (start 42)')
})

test.each([
  [{ bootId: 'b' }, true],
  [{ version: '0.33.1' }, true],
  [{ version: '0.33.0' }, false],
  [{ version: '0.9.7' }, false],
  [{ version: '0.34.0-rc.1' }, true],
  [{ version: '1.0.0' }, true],
  [{ version: 'nightly' }, false],
  [{}, false],
])('a worker whose journal says %j marks what it starts: %s', (it, marks) => {
  const journal = { bootId: undefined, version: undefined, ...it } as WorkerJournal
  expect(marksChildren(journal)).toBe(marks)
})
