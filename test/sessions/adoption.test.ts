import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { look, runs } from '../harness/processes.ts'
import { refused } from '../harness/session.ts'
import { monotonicMs, until } from '../harness/wait.ts'
import type { Answer } from '../harness/wire.ts'
import { station, type Station } from './station.ts'

test('a daemon that comes back finds the same program, screen and ids', async () => {
  const it = await station()
  const session = await it.program('/bin/cat', [])
  await session.input('before')
  await session.untilScreen('before')
  const before = await session.info()
  await it.drop()
  expect(runs(session.pid)).toBe(true)
  await it.start()
  const after = await session.info()
  expect(after).toMatchObject({
    id: before.id,
    pid: before.pid,
    state: 'running',
    runtime: {
      state: 'live',
      worker_id: before.runtime.worker_id,
      worker_instance_id: before.runtime.worker_instance_id,
    },
  })
  expect(await session.screen()).toContain('before')
  await session.input('after')
  await session.untilScreen('after')
  const client = await session.attach()
  await client.until('before')
  expect(await it.call('session.runtime_inventory')).toEqual({
    entries: [
      {
        runtime_slot: `${session.id}.1`,
        claimed_session_id: session.id,
        worker_id: before.runtime.worker_id,
        worker_instance_id: before.runtime.worker_instance_id,
        status: 'managed',
      },
    ],
  })
})

test('an end that happened while no daemon ran is imported with its status and last output', async () => {
  const it = await station()
  const session = await it.sh('read go; echo last words; exit 5')
  const client = await session.attach({ direct: true })
  await until('the worker took the client', () => client.bytes > 0)
  await it.drop()
  client.write('\r')
  await until('the program ended', () => !runs(session.pid))
  await it.start()
  expect(await session.ended()).toMatchObject({ state: 'failed', exit_code: 5, runtime: { state: 'terminal' } })
  expect(await session.screen()).toContain('last words')
  await it.restart()
  expect(await session.screen()).toContain('last words')
})

test('an end whose worker is gone too is imported from its journal', async () => {
  const it = await station({ workers: { terminalRetentionMs: 1 } })
  const session = await it.sh('read go; exit 6')
  const client = await session.attach({ direct: true })
  await until('the worker took the client', () => client.bytes > 0)
  const worker = session.worker()
  await it.drop()
  client.write('\r')
  await until('the worker left', () => !runs(worker.pid), { deadlineMs: 15_000 })
  await it.start()
  expect(await session.info()).toMatchObject({ state: 'failed', exit_code: 6, runtime: { state: 'terminal' } })
  expect((await refused(session.screen())).code).toBe('session_terminal_unavailable')
})

test('FC-d538: a killed worker is told as lost within seconds, its helpers are ended, and waiters are released', async () => {
  const it = await station()
  const events = await it.events()
  const session = await it.program('/bin/bash', ['-c', 'setsid sleep 9999 & echo "helper $!"; sleep 9999'])
  const screen = await session.untilScreen(/helper \d+/)
  const helper = Number(/helper (\d+)/.exec(screen)?.[1])
  const runtime = await session.identity()
  const { next } = await session.output()
  const waiting = await it.connect()
  const wait = refused(
    waiting.call('session.output', {
      session_id: session.id,
      runtime,
      after_offset: String(next),
      max_bytes: 10,
      wait_ms: 8_000,
    }),
  )
  await until('the wait is there', () => waiting.socket.bytesWritten > 0)
  const started = monotonicMs()
  process.kill(session.worker().pid, 'SIGKILL')
  const lost = await events.until('session_runtime_lost')
  expect(monotonicMs() - started).toBeLessThan(8_000)
  expect(lost.session).toMatchObject({
    id: session.id,
    state: 'failed',
    runtime: { state: 'lost', loss_reason: 'runtime_lost' },
  })
  expect(lost.session.exit_code).toBeUndefined()
  expect((await wait).code).toBe('session_terminal_unavailable')
  await until('the helper is gone', () => !runs(helper))
  expect((await refused(session.stop())).code).toBe('session_runtime_lost')
  expect((await refused(session.input('x'))).code).toBe('session_runtime_lost')
  expect((await refused(session.call('session.attach'))).code).toBe('session_runtime_lost')
})

test('a worker that died while no daemon ran is lost, and its helpers are ended', async () => {
  const it = await station()
  const session = await it.program('/bin/bash', ['-c', 'setsid sleep 9999 & echo "helper $!"; sleep 9999'])
  const helper = Number(/helper (\d+)/.exec(await session.untilScreen(/helper \d+/))?.[1])
  const worker = session.worker()
  await it.drop()
  process.kill(worker.pid, 'SIGKILL')
  await until('the worker is gone', () => !runs(worker.pid))
  await it.start()
  const { runtime } = await session.info()
  expect(runtime).toMatchObject({ state: 'lost', loss_reason: 'runtime_lost' })
  expect(runs(helper)).toBe(false)
  await it.restart()
  expect((await session.info()).runtime.state).toBe('lost')
})

test('a worker that is stopped but alive is a conflict that heals by itself; nothing is killed', async () => {
  const it = await station()
  const session = await it.program('/bin/cat', [])
  const worker = session.worker()
  await it.drop()
  process.kill(worker.pid, 'SIGSTOP')
  await it.start()
  try {
    expect((await session.info()).runtime).toMatchObject({
      state: 'conflict',
      loss_reason: 'runtime_supervision_ambiguous',
    })
    expect((await refused(session.input('x'))).code).toBe('session_runtime_conflict')
    expect(look(worker.pid)?.startIdentity).toBe(worker.startIdentity)
  } finally {
    process.kill(worker.pid, 'SIGCONT')
  }
  const events = await it.events()
  await until('it is live again', async () => (await session.info()).runtime.state === 'live', { deadlineMs: 15_000 })
  expect(events.of('session_runtime_lost')).toEqual([])
  await session.input('x')
  await session.untilScreen('x')
})

test('a job whose recorded process is another one is a mismatch, and neither is touched', async () => {
  const it = await station()
  const session = await it.program('/bin/cat', [])
  const worker = session.worker()
  await it.drop()
  const file = await jobFile(it, session.id)
  const honest = readFileSync(file, 'utf8')
  const job = JSON.parse(honest)
  writeFileSync(file, JSON.stringify({ ...job, pid: process.pid, start_identity: look(process.pid)?.startIdentity }), {
    mode: 0o600,
  })
  await it.start()
  expect((await session.info()).runtime).toMatchObject({ state: 'conflict', loss_reason: 'runtime_identity_mismatch' })
  expect((await refused(session.stop())).code).toBe('runtime_identity_mismatch')
  expect((await refused(session.remove())).code).toBe('runtime_identity_mismatch')
  expect(runs(worker.pid)).toBe(true)
  expect((await session.info()).runtime.state).toBe('conflict')
  writeFileSync(file, honest, { mode: 0o600 })
  await until('the true job is adopted', async () => (await session.info()).runtime.state === 'live', {
    deadlineMs: 15_000,
  })
})

test('an interrupted stop is replayed, and an interrupted removal finished', async () => {
  const it = await station()
  const stopping = await it.program('/bin/cat', [])
  const removing = await it.program('/bin/cat', [])
  await it.drop()
  editRecord(it, stopping.id, (record) => ({ ...record, intent: 'stop', transaction: { kind: 'stop', id: 't-1' } }))
  editRecord(it, removing.id, (record) => ({ ...record, intent: 'remove', transaction: { kind: 'remove', id: 't-2' } }))
  await it.start()
  expect(await stopping.ended()).toMatchObject({ state: 'stopped' })
  await until('the removal is finished', async () => (await it.call('session.list')).length === 1)
  await until('nothing of it is left', () => !it.traces().some((trace) => trace.includes(removing.id)))
})

test('an interrupted creation is compensated', async () => {
  const it = await station()
  const half = await it.program('/bin/cat', [])
  const unsent = await it.program('/bin/cat', [])
  await it.drop()
  editRecord(it, half.id, (record) => ({
    ...record,
    transaction: { kind: 'create', id: 't-1' },
    info: { ...record.info, state: 'starting', runtime: { ...record.info.runtime, state: 'starting' } },
  }))
  editRecord(it, unsent.id, (record) => ({
    ...record,
    transaction: { kind: 'create', id: 't-2', initial_input: true },
  }))
  await it.start()
  await until('both are gone', async () => (await it.call('session.list')).length === 0)
  await until('nothing of them is left', () => it.traces().length === 0, { show: () => it.traces() })
  expect(runs(half.pid)).toBe(false)
})

test('a creation whose commit is a damaged line is kept: its program runs, its session is usable and can be removed', async () => {
  const it = await station()
  const session = await it.program('/bin/cat', [])
  await it.drop()
  const lines = readFileSync(metadata(it), 'utf8').trimEnd().split('\n')
  const [created = '', committed = '', ...more] = lines.filter((line) => line.includes(`"${session.id}"`))
  expect(JSON.parse(created)).toMatchObject({ transaction: { kind: 'create' } })
  writeFileSync(metadata(it), `${[created, `\0${committed.slice(1)}`, ...more].join('\n')}\n`, { mode: 0o600 })
  await it.start()
  expect(await session.info()).toMatchObject({
    state: 'running',
    pid: session.pid,
    runtime: { state: 'live', worker_instance_id: expect.any(String) },
  })
  // The next start finds nothing damaged any more, and knows what this one decided.
  await it.restart()
  expect((await session.info()).runtime.state).toBe('live')
  expect(runs(session.pid)).toBe(true)
})

test('a program that puts a file in the place of the directory above its own hurts no daemon', async () => {
  const it = await station()
  const session = await it.sh('d=$(dirname "$TMPDIR"); rm -rf "$d"; : >"$d"; echo done; exec sleep 99')
  await session.untilScreen('done')
  expect(await session.remove()).toMatchObject({ removed: true })
  await it.restart()
  expect(await it.call('session.list')).toEqual([])
})

test('a worker no record manages is shown and left alone', async () => {
  const it = await station()
  const session = await it.program('/bin/cat', [])
  const worker = session.worker()
  await it.drop()
  const file = metadata(it)
  writeFileSync(
    file,
    readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => !line.includes(session.id))
      .join('\n'),
    { mode: 0o600 },
  )
  await it.start()
  expect(await it.call('session.list')).toEqual([])
  expect((await it.call('session.runtime_inventory')).entries).toEqual([
    {
      runtime_slot: `${session.id}.1`,
      claimed_session_id: session.id,
      status: 'orphaned',
      reason: 'stale_worker_generation',
    },
  ])
  expect(runs(worker.pid)).toBe(true)
  process.kill(worker.pid, 'SIGTERM')
  await until('it is gone', () => !runs(worker.pid))
  await until('its program is gone', () => !runs(session.pid))
  await it.restart()
  expect((await it.call('session.runtime_inventory')).entries).toEqual([])
})

const metadata = (it: Station): string => join(it.roots.data, 'pohunek/metadata.jsonl')

/** Rewrites the newest line of a session, as a daemon that died at that moment would have left it. */
function editRecord(it: Station, id: string, edit: (record: Answer) => Answer): void {
  const lines = readFileSync(metadata(it), 'utf8').trimEnd().split('\n')
  const newest = lines.filter((line) => line.includes(`"${id}"`)).at(-1)
  if (newest === undefined) throw new Error(`no record of ${id}`)
  writeFileSync(metadata(it), `${[...lines, JSON.stringify(edit(JSON.parse(newest)))].join('\n')}\n`, { mode: 0o600 })
}

async function jobFile(it: Station, id: string): Promise<string> {
  const found = it.files('state').find((path) => path.includes('jobs/') && path.includes(id))
  if (found === undefined) throw new Error(`no job of ${id}`)
  return join(it.roots.state, found)
}
