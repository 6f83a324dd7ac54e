/** Records, jobs, sockets and journals that contradict each other: what is shown, what is refused, what is left alone. */
import { spawn, type ChildProcess } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../kernel/index.ts'
import { Scope } from '../../kernel/scope.ts'
import { pinnedProcesses } from '../../platform/index.ts'
import { WorkerLink } from '../../plugins/sessions/worker-link.ts'
import { look, runs } from '../harness/processes.ts'
import { refused, type Session } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import type { Answer } from '../harness/wire.ts'
import { station, type Station } from './station.ts'

const journalFile = (it: Station, { id }: Session): string => {
  const directory = join(it.roots.state, 'pohunek/workers', id)
  const [name, ...more] = readdirSync(directory).filter((file) => file.endsWith('.json'))
  if (name === undefined || more.length > 0) throw new Error(`not one journal: ${[name, ...more].join(', ')}`)
  return join(directory, name)
}
const jobFile = (it: Station, { id }: Session, generation = 1): string =>
  join(it.roots.state, 'pohunek/jobs', `${id}-${generation}.json`)
const read = (path: string): Answer => JSON.parse(readFileSync(path, 'utf8'))
const write = (path: string, value: unknown): void => writeFileSync(path, JSON.stringify(value), { mode: 0o600 })

/** A process of nobody's session. */
function stranger(env: Record<string, string> = {}): ChildProcess & { pid: number; startIdentity: string } {
  const child = spawn('/bin/sleep', ['99'], { stdio: 'ignore', env: { PATH: '/usr/bin:/bin', ...env } })
  onTestFinished(() => void child.kill('SIGKILL'))
  if (child.pid === undefined) throw new Error('not started')
  return Object.assign(child, { pid: child.pid, startIdentity: look(child.pid)?.startIdentity ?? '' })
}

async function ended(child: ChildProcess & { pid: number }): Promise<void> {
  child.kill('SIGKILL')
  await until('the stranger is gone', () => !runs(child.pid))
}

const runtimeOf = async (session: Session): Promise<Answer> => (await session.info()).runtime

async function becomes(session: Session, state: string, reason?: string): Promise<void> {
  let last: Answer
  await until(
    `${session.id} is ${state}`,
    async () => {
      last = await runtimeOf(session)
      return last.state === state && last.loss_reason === reason
    },
    { deadlineMs: 15_000, show: () => last },
  )
}

/** Lines of the log that classify a session's runtime. */
const classifications = (it: Station): string[] =>
  it.log
    .filter(({ level, message }) => level === 'warn' && message.startsWith('session runtime is'))
    .map(({ message }) => message)

/** Each operation on a session whose runtime cannot be used, and the code it is refused with. */
async function refusals(session: Session): Promise<Record<string, string>> {
  const answers: Record<string, string> = {}
  for (const [method, params] of [
    ['session.input', { text: 'x' }],
    ['session.resize', { cols: 90, rows: 20 }],
    ['session.attach', {}],
  ] as const)
    answers[method] = (await refused(session.call(method, params))).code
  return answers
}
const all = (code: string): Record<string, string> => ({
  'session.input': code,
  'session.resize': code,
  'session.attach': code,
})

describe('a job record', () => {
  test('that is damaged keeps its session in conflict, with the file in the log; another session does not suffer', async () => {
    const it = await station()
    const session = await it.program('/bin/cat', [])
    const other = await it.program('/bin/cat', [])
    const worker = session.worker()
    const path = jobFile(it, session)
    const honest = readFileSync(path, 'utf8')
    await it.drop()
    writeFileSync(path, honest.slice(0, 40), { mode: 0o600 })
    await it.start()
    expect(await runtimeOf(session)).toMatchObject({ state: 'conflict', loss_reason: 'runtime_identity_mismatch' })
    expect(JSON.stringify(it.log.filter((line) => line.level === 'warn'))).toContain(path)
    expect(await refusals(session)).toEqual(all('session_runtime_conflict'))
    expect((await refused(session.stop())).code).toBe('runtime_identity_mismatch')
    expect((await refused(session.remove())).code).toBe('runtime_identity_mismatch')
    expect((await session.info()).state).toBe('running')
    expect(await runtimeOf(other)).toMatchObject({ state: 'live' })
    expect(runs(worker.pid)).toBe(true)
    // A refusal leaves the record as it was: nothing is owed after a restart.
    writeFileSync(path, honest, { mode: 0o600 })
    await it.restart()
    expect(await runtimeOf(session)).toMatchObject({ state: 'live' })
  })

  test('that is gone: the worker that answers is adopted, and can be removed', async () => {
    const it = await station()
    const session = await it.program('/bin/cat', [])
    const worker = session.worker()
    await it.drop()
    rmSync(jobFile(it, session))
    await it.start()
    expect(await runtimeOf(session)).toMatchObject({ state: 'live' })
    await session.input('x')
    await session.untilScreen('x')
    expect(await session.remove()).toMatchObject({ removed: true, stopped: true })
    expect(runs(worker.pid)).toBe(false)
  })

  test('that is gone while the worker is silent: neither stop nor removal touches it', async () => {
    const it = await station()
    const session = await it.program('/bin/cat', [])
    const worker = session.worker()
    await it.drop()
    rmSync(jobFile(it, session))
    process.kill(worker.pid, 'SIGSTOP')
    await it.start()
    expect(await runtimeOf(session)).toMatchObject({ state: 'conflict', loss_reason: 'runtime_supervision_ambiguous' })
    expect((await refused(session.stop())).code).toBe('runtime_supervision_ambiguous')
    expect((await refused(session.remove())).code).toBe('runtime_supervision_ambiguous')
    expect(look(worker.pid)?.startIdentity).toBe(worker.startIdentity)
    process.kill(worker.pid, 'SIGCONT')
    // The removal was wished for: the worker is asked to go as soon as it answers.
    await until('the removal is finished', async () => (await it.call('session.list')).length === 0, {
      deadlineMs: 15_000,
    })
  })

  test.each([
    ['process', { pid: 4_194_000 }],
    ['boot', { boot_id: 'x' }],
  ])('of another %s than the recorded worker, which runs, is a conflict; nothing is ended', async (_, wrong) => {
    const it = await station()
    const session = await it.program('/bin/cat', [])
    const worker = session.worker()
    await it.drop()
    const job = read(jobFile(it, session))
    write(jobFile(it, session), { ...job, ...wrong })
    await it.start()
    expect(await runtimeOf(session)).toMatchObject({ state: 'conflict', loss_reason: 'runtime_identity_mismatch' })
    expect([runs(worker.pid), runs(session.pid)]).toEqual([true, true])
    write(jobFile(it, session), job)
    await becomes(session, 'live')
  })

  test.each(['running', 'ended'] as const)(
    'of a generation nobody records (%s) stays in the inventory while its journaled worker runs',
    async (state) => {
      const it = await station()
      const session = await it.program('/bin/cat', [])
      await it.drop()
      const other = stranger()
      const gone = stranger()
      await ended(gone)
      const job = read(jobFile(it, session))
      const of = state === 'running' ? other : gone
      write(jobFile(it, session, 2), {
        ...job,
        generation: 2,
        pid: of.pid,
        start_identity: of.startIdentity,
        argv: ['/bin/sleep', '99'],
      })
      const journal = { ...read(journalFile(it, session)), worker_id: 'w-2', generation: '2', runtime_id: 'r-2' }
      const path = join(it.roots.state, 'pohunek/workers', session.id, 'w-2.json')
      write(path, { ...journal, worker_pid: other.pid, worker_start_identity: other.startIdentity })
      await it.start()
      expect(await runtimeOf(session)).toMatchObject({ state: 'live' })
      expect((await it.call('session.runtime_inventory')).entries).toContainEqual({
        runtime_slot: `${session.id}.2`,
        claimed_session_id: session.id,
        status: 'orphaned',
        reason: 'stale_worker_generation',
      })
      expect((await refused(session.remove())).code).toBe('runtime_identity_mismatch')
      expect(runs(other.pid)).toBe(true)
      await ended(other)
      await it.restart()
      await until('the removal is finished', async () => (await it.call('session.list')).length === 0)
      expect((await it.call('session.runtime_inventory')).entries).toEqual([])
      expect(it.files('state').filter((file) => file.includes('jobs/'))).toEqual(['pohunek/jobs/'])
    },
  )
})

describe('a journal', () => {
  test.each([
    ['generation', { generation: '2' }],
    ['process', { worker_pid: 1 }],
    ['runtime', { runtime_id: 'r-other' }],
  ])('of the recorded worker that names another %s is a conflict which nothing is stopped on', async (_, change) => {
    const it = await station()
    const session = await it.program('/bin/cat', [])
    const worker = session.worker()
    const path = journalFile(it, session)
    const honest = read(path)
    await it.drop()
    write(path, { ...honest, ...change })
    await it.start()
    expect(await runtimeOf(session)).toMatchObject({
      state: 'conflict',
      loss_reason: 'worker_journal_identity_mismatch',
    })
    expect((await refused(session.stop())).code).toBe('runtime_identity_mismatch')
    expect((await refused(session.remove())).code).toBe('runtime_identity_mismatch')
    expect(runs(worker.pid)).toBe(true)
    write(path, honest)
    await becomes(session, 'live')
    expect(classifications(it)).toEqual(['session runtime is conflict: worker_journal_identity_mismatch'])
  })

  test('of a second worker of the same generation that runs makes two candidates', async () => {
    const it = await station()
    const session = await it.program('/bin/cat', [])
    const rival = stranger()
    const path = join(it.roots.state, 'pohunek/workers', session.id, 'w-rival.json')
    const journal = { ...read(journalFile(it, session)), worker_id: 'w-rival' }
    await it.drop()
    write(path, { ...journal, worker_pid: rival.pid, worker_start_identity: rival.startIdentity })
    await it.start()
    expect(await runtimeOf(session)).toMatchObject({ state: 'conflict', loss_reason: 'multiple_worker_candidates' })
    expect(await refusals(session)).toEqual(all('session_runtime_conflict'))
    await ended(rival)
    await becomes(session, 'live')
  })

  test('that cannot be read: a living worker is adopted; of a dead one nothing is deleted until it is moved away', async () => {
    const it = await station()
    const session = await it.program('/bin/cat', [])
    const path = journalFile(it, session)
    const worker = session.worker()
    await it.drop()
    writeFileSync(path, '{"schema_version": 4, "session', { mode: 0o600 })
    await it.start()
    expect(await runtimeOf(session)).toMatchObject({ state: 'live' })
    process.kill(worker.pid, 'SIGKILL')
    await becomes(session, 'lost', 'runtime_lost')
    expect(runs(session.pid)).toBe(false)
    const error = await refused(session.remove())
    expect(error.code).toBe('runtime_supervision_ambiguous')
    expect(error.message).toContain(path)
    expect(await it.call('session.list')).toHaveLength(1)
    renameSync(path, join(it.roots.work, 'damaged.json'))
    expect(await session.remove()).toMatchObject({ removed: true })
  })

  test('of a release that marks nothing it starts leaves its worker alone', async () => {
    const it = await station()
    const session = await it.program('/bin/cat', [])
    const worker = session.worker()
    const path = journalFile(it, session)
    const honest = read(path)
    const { boot_id: _, ...older } = honest
    await it.drop()
    write(path, { ...older, worker_version: '0.33.0' })
    await it.start()
    expect(await runtimeOf(session)).toMatchObject({ state: 'incompatible', loss_reason: 'worker_marker_legacy' })
    expect(await refusals(session)).toEqual(all('worker_protocol_incompatible'))
    expect((await refused(session.stop())).code).toBe('worker_protocol_incompatible')
    expect(runs(worker.pid)).toBe(true)
    write(path, { ...older, worker_version: '0.33.1' })
    await becomes(session, 'live')
  })
})

describe('a runtime its journal does not name', () => {
  async function lostWithoutJournal(
    env: (runtime: string, session: Session) => Record<string, string>,
  ): Promise<{ it: Station; session: Session; other: ReturnType<typeof stranger> }> {
    const it = await station({ workers: { sweepGraceMs: 300 } })
    const session = await it.program('/bin/cat', [])
    const { worker_instance_id } = await runtimeOf(session)
    const worker = session.worker()
    const path = journalFile(it, session)
    await it.drop()
    process.kill(worker.pid, 'SIGKILL')
    await until('the worker is gone', () => !runs(worker.pid))
    rmSync(path)
    const other = stranger(env(worker_instance_id, session))
    await it.start()
    return { it, session, other }
  }

  test('is swept where the session is named as well', async () => {
    const { session, other } = await lostWithoutJournal((runtime, { id }) => ({
      POHUNEK_WORKER_INSTANCE_ID: runtime,
      POHUNEK_SESSION_ID: id,
    }))
    expect(await runtimeOf(session)).toMatchObject({ state: 'lost', loss_reason: 'runtime_lost' })
    await until('it was ended', () => !runs(other.pid))
    expect(runs(session.pid)).toBe(false)
  })

  test('a process of another session is left alone', async () => {
    const { session, other } = await lostWithoutJournal((runtime) => ({
      POHUNEK_WORKER_INSTANCE_ID: runtime,
      POHUNEK_SESSION_ID: 's-another',
    }))
    expect(await runtimeOf(session)).toMatchObject({ state: 'lost', loss_reason: 'runtime_lost' })
    expect(await session.remove()).toMatchObject({ removed: true })
    expect(runs(other.pid)).toBe(true)
  })

  test('a process without a session is not signalled and keeps the cleanup unconfirmed, accepted or not', async () => {
    const { it, session, other } = await lostWithoutJournal((runtime) => ({ POHUNEK_WORKER_INSTANCE_ID: runtime }))
    expect(await runtimeOf(session)).toMatchObject({ state: 'lost', loss_reason: 'runtime_lost_cleanup_unconfirmed' })
    for (const method of ['session.remove', 'session.remove_accepting_unconfirmed']) {
      const error = await refused(it.call(method, session.id))
      expect(error.code).toBe('runtime_supervision_ambiguous')
      expect(error.message).not.toMatch(/pid \d+/)
    }
    expect(runs(other.pid)).toBe(true)
    await ended(other)
    expect(await session.remove()).toMatchObject({ removed: true })
  })
})

test('at most 64 processes that cannot be read are accepted, eight are named; a refusal deletes nothing', async () => {
  let count = 0
  const hidden = (): { pid: number; startIdentity: string; command: string }[] =>
    Array.from({ length: count }, (_, n) => ({ pid: 5_000_000 + n, startIdentity: String(n), command: 'a\u001bb' }))
  const processes = { ...pinnedProcesses, findMarked: () => ({ marked: [], unreadable: hidden() }) }
  const it = await station({ edges: { processes }, workers: { sweepGraceMs: 50 } })
  const session = await it.sh('exit 0')
  await session.ended()
  const before = it.files('state').filter((path) => path.includes(session.id) && !path.includes('jobs/'))
  count = 65
  for (const method of ['session.remove', 'session.remove_accepting_unconfirmed']) {
    const error = await refused(it.call(method, session.id))
    expect(error.code).toBe('runtime_supervision_ambiguous')
    expect(error.message.match(/pid \d+ \(start \d+, a\?b\)/g)).toHaveLength(8)
    expect(error.message).toContain('and 57 more')
  }
  expect(it.files('state').filter((path) => path.includes(session.id) && !path.includes('jobs/'))).toEqual(before)
  count = 64
  expect((await refused(it.call('session.remove', session.id))).code).toBe('runtime_supervision_ambiguous')
  const { accepted_unconfirmed_processes: accepted } = await it.call('session.remove_accepting_unconfirmed', session.id)
  expect(accepted).toHaveLength(64)
  expect(accepted[0]).toEqual({ pid: 5_000_000, start_identity: '0', command: 'a\\u001bb' })
  expect(it.log.filter(({ level, fields }) => level === 'warn' && Number(fields['pid']) >= 5_000_000)).toHaveLength(64)
})

test('a worker whose lease somebody else holds is reconnecting until it is free', async () => {
  const it = await station()
  const session = await it.program('/bin/cat', [])
  await it.drop()
  const scope = new Scope('another daemon', systemClock)
  onTestFinished(() => scope.close())
  const socketPath = join(it.roots.runtime, 'pohunek/workers', session.id, 'control.sock')
  await until('the worker is free', async () => {
    await WorkerLink.open({ socketPath, daemonId: 'd-other', scope, requestMs: 2_000 })
    return true
  })
  await it.start()
  expect(await runtimeOf(session)).toMatchObject({ state: 'reconnecting', loss_reason: 'worker_unavailable' })
  expect(await refusals(session)).toEqual(all('session_runtime_reconnecting'))
  expect((await refused(session.stop())).code).toBe('session_runtime_reconnecting')
  await scope.close()
  await becomes(session, 'live')
  expect(classifications(it)).toEqual(['session runtime is reconnecting: worker_unavailable'])
})

test('a removal of a reconnecting session retires its worker by its generation', async () => {
  const it = await station()
  const session = await it.program('/bin/cat', [])
  const worker = session.worker()
  await it.drop()
  const scope = new Scope('another daemon', systemClock)
  onTestFinished(() => scope.close())
  const socketPath = join(it.roots.runtime, 'pohunek/workers', session.id, 'control.sock')
  await until('the worker is free', async () => {
    await WorkerLink.open({ socketPath, daemonId: 'd-other', scope, requestMs: 2_000 })
    return true
  })
  await it.start()
  expect(await runtimeOf(session)).toMatchObject({ state: 'reconnecting' })
  expect(await session.remove()).toMatchObject({ removed: true, stopped: true })
  expect([runs(worker.pid), runs(session.pid)]).toEqual([false, false])
})

test('files of a worker that ran nothing are cleaned up; those of one that did are not', async () => {
  const it = await station()
  await it.drop()
  const never = `s-${'1'.repeat(26)}`
  const lost = `s-${'2'.repeat(26)}`
  const journal = (id: string, phase: string): void => {
    const directory = join(it.roots.state, 'pohunek/workers', id)
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    write(join(directory, 'w-1.json'), {
      schema_version: 4,
      session_id: id,
      worker_id: 'w-1',
      generation: '1',
      worker_pid: 4_000_000,
      worker_start_identity: '1',
      phase,
      ...(phase === 'live' ? { runtime_id: 'r-1' } : {}),
    })
  }
  journal(never, 'bootstrap')
  journal(lost, 'live')
  mkdirSync(join(it.roots.runtime, 'pohunek/workers', never), { recursive: true, mode: 0o700 })
  await it.start()
  expect(it.traces().filter((path) => path.includes(never))).toEqual([])
  const kept = join(it.roots.state, 'pohunek/workers', lost)
  expect(readdirSync(kept)).toEqual(['w-1.json'])
  rmSync(kept, { recursive: true })
})
