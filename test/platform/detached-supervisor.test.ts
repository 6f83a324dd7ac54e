/** Supervision by detached processes and job files: the shared suite, and what is this form's alone. */
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import net from 'node:net'
import { once } from 'node:events'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../kernel/clock.ts'
import { detachedSupervisor, pinnedProcesses, processes } from '../../platform/index.ts'
import type { ProcessIdentity, Processes } from '../../platform/processes.ts'
import type { JobSpec, Supervisor } from '../../platform/supervisor.ts'
import { bundle } from './fixtures/bundle.ts'
import { temporary } from './fixtures/temporary.ts'
import { workerScript } from './fixtures/worker-script.ts'
import { jobFor, SESSION, supervisorSuite, type SuiteWorld } from './supervisor-suite.ts'

const never = new AbortController().signal

interface World extends SuiteWorld {
  state: string
  supervisor: Supervisor
  open: (options?: { readyMs?: number; processes?: Processes }) => Supervisor
  job: (what: string, generation?: number, env?: Record<string, string>) => JobSpec
  file: (generation?: number) => string
}

function world(): World {
  const directory = temporary()
  const state = join(directory, 'state')
  mkdirSync(state, { mode: 0o700 })
  const jobs = join(state, 'jobs')
  const recorded = (): string[] => (existsSync(jobs) ? readdirSync(jobs) : [])
  onTestFinished(() => {
    for (const name of recorded()) {
      const { pid } = safeJson(join(jobs, name))
      if (pid !== undefined && processes.argv(pid)?.includes(workerScript()) === true) process.kill(pid, 'SIGKILL')
    }
  })
  const open: World['open'] = (more = {}) =>
    detachedSupervisor({
      state,
      processes: pinnedProcesses,
      clock: systemClock,
      workerLog: (id) => `/logs/pohunek-session-${id}.jsonl`,
      ...more,
    })
  return {
    directory,
    recorded,
    state,
    open,
    supervisor: open(),
    file: (generation = 1) => join(jobs, `${SESSION}-${generation}.json`),
    job: (what, generation = 1, env = {}) => jobFor(what, { generation, env }),
  }
}

function safeJson(path: string): { pid?: number } {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as { pid?: number }
  } catch {
    return {}
  }
}

supervisorSuite({ name: 'detached', adds: [], world })

test('a worker is recorded in an owner-private file', async () => {
  const { supervisor, job, file, state } = world()
  const identity = await supervisor.start(job('run'), never)
  expect(JSON.parse(readFileSync(file(), 'utf8'))).toEqual({
    session_id: SESSION,
    generation: 1,
    boot_id: processes.bootId(),
    executable: process.execPath,
    argv: [process.execPath, ...job('run').args],
    ready: true,
    pid: identity.pid,
    start_identity: identity.startIdentity,
  })
  expect(statSync(file()).mode & 0o777).toBe(0o600)
  expect(statSync(join(state, 'jobs')).mode & 0o777).toBe(0o700)
  expect(await supervisor.retire(job('run'), 1_000)).toBe('retired')
})

test('nothing the daemon opened is inherited', async () => {
  const { supervisor, job, state } = world()
  const kept = openSync(join(state, 'kept-open'), 'w')
  const server = net.createServer().listen(join(state, 'sock'))
  await once(server, 'listening')
  const report = join(state, 'report')
  await supervisor.start(job('run', 1, { REPORT: report }), never)
  const { descriptors } = JSON.parse(readFileSync(report, 'utf8')) as { descriptors: Record<string, string> }
  const mine = new Set(
    readdirSync('/proc/self/fd').flatMap((fd) => {
      try {
        // What the test runner itself inherited is for closeInherited, which the daemon's main calls.
        const flags = parseInt(
          /^flags:\s+(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))?.[1] ?? '0',
          8,
        )
        return (flags & 0o2000000) === 0 ? [] : [readlinkSync(`/proc/self/fd/${fd}`)]
      } catch {
        return []
      }
    }),
  )
  expect([descriptors['0'], descriptors['1'], descriptors['2']]).toEqual(['/dev/null', '/dev/null', '/dev/null'])
  const shared = Object.entries(descriptors).filter(
    ([, target]) => mine.has(target) && !/^(\/dev\/|anon_inode:)/.test(target),
  )
  expect(shared).toEqual([])
  closeSync(kept)
  server.close()
  await supervisor.retire(job('run'), 1_000)
})

test('a daemon that died between the spawn and its record finds the worker by its arguments', async () => {
  const { supervisor, open, job, file } = world()
  const identity = await supervisor.start(job('run'), never)
  const {
    pid: _pid,
    start_identity: _start,
    ...early
  } = JSON.parse(readFileSync(file(), 'utf8')) as Record<string, unknown>
  writeFileSync(file(), JSON.stringify({ ...early, ready: false }))
  expect(await open().inspect(job('run'))).toEqual({ state: 'running', process: identity })
  expect(await open().retire(job('run'), 1_000)).toBe('retired')
  expect(processes.isRunning(identity)).toBe(false)
})

test('an exhausted descriptor limit is told as that', async () => {
  const { state, job } = world()
  const jobs = JSON.stringify(job('run'))
  const entry = join(state, 'exhaust.mjs')
  bundle(
    `
        import { openSync } from 'node:fs'
        import { systemClock } from './kernel/clock.ts'
        import { detachedSupervisor, processes } from './platform/index.ts'
        const supervisor = detachedSupervisor({ state: ${JSON.stringify(state)}, processes, clock: systemClock, workerLog: () => 'log' })
        processes.bootId()
        const held = []
        // Enough for the job file, too few for the pipe of a child.
        try { for (;;) held.push(openSync('/dev/null')) } catch {}
        const { closeSync } = await import('node:fs')
        closeSync(held.pop())
        const failure = await supervisor.start(${jobs}, new AbortController().signal).catch((it) => it)
        for (const fd of held) closeSync(fd)
        console.log(JSON.stringify([failure.code, await supervisor.list()]))`,
    entry,
  )
  const child = spawn('sh', ['-c', `ulimit -n 64; exec ${process.execPath} ${entry}`], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let out = ''
  child.stdout.on('data', (bytes: Buffer) => (out += bytes.toString()))
  await once(child, 'close')
  expect(JSON.parse(out)).toEqual(['client_file_descriptors_exhausted', []])
})

/** Rewrites one field of the record and expects a mismatch that nobody is signalled for. */
async function expectMismatch(change: (record: Record<string, unknown>) => unknown, reason: RegExp): Promise<void> {
  const { supervisor, open, job, file } = world()
  const identity: ProcessIdentity = await supervisor.start(job('run'), never)
  const original = readFileSync(file(), 'utf8')
  const changed = change(JSON.parse(original) as Record<string, unknown>)
  writeFileSync(file(), typeof changed === 'string' ? changed : JSON.stringify(changed))
  const deaf: Processes = { ...processes, signal: () => expect.fail('a signal was sent') }
  const later = open({ processes: deaf })
  const [entry] = await later.list()
  expect(entry?.job).toEqual({ sessionId: SESSION, generation: 1 })
  expect(entry?.status).toMatchObject({ state: 'mismatch', reason: expect.stringMatching(reason) as string })
  expect(await later.retire(job('run'), 10)).toBe('mismatch')
  expect(existsSync(file())).toBe(true)
  expect(processes.isRunning(identity)).toBe(true)
  writeFileSync(file(), original)
  await supervisor.retire(job('run'), 1_000)
}

test('other arguments are a mismatch', () =>
  expectMismatch((it) => ({ ...it, argv: ['node', 'x'] }), /recorded arguments/))
test('an older process on the pid is a mismatch', () =>
  expectMismatch(
    (it) => ({ ...it, start_identity: String(BigInt(it['start_identity'] as string) + 5n) }),
    /older than/,
  ))
test('a damaged job file is a mismatch that names it', () =>
  expectMismatch(() => '{"session_id":', /jobs\/s-.*damaged/))
test('an empty job file is a mismatch', () => expectMismatch(() => ' ', /damaged/))
test('a job file of another session is a mismatch', () =>
  expectMismatch((it) => ({ ...it, session_id: 's-other' }), /damaged/))

test('a record of another boot, or of a pid that was given away, has ended', async () => {
  const { supervisor, job, file } = world()
  const identity = await supervisor.start(job('run'), never)
  const record = JSON.parse(readFileSync(file(), 'utf8')) as Record<string, unknown>
  for (const change of [{ boot_id: 'another' }, { start_identity: String(BigInt(identity.startIdentity) - 5n) }]) {
    writeFileSync(file(), JSON.stringify({ ...record, ...change }))
    expect(await supervisor.inspect(job('run'))).toEqual({ state: 'ended' })
  }
  writeFileSync(file(), JSON.stringify(record))
  await supervisor.retire(job('run'), 1_000)
})
