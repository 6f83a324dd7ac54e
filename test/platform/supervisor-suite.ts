/** What every form of supervision promises, run against each of them with real processes. */
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { processes } from '../../platform/index.ts'
import type { Processes } from '../../platform/processes.ts'
import type { JobSpec, Supervisor } from '../../platform/supervisor.ts'
import { until } from '../harness/wait.ts'
import { workerScript } from './fixtures/worker-script.ts'

export const SESSION = 's-01J0000000000000000000000A'
const OTHER_SESSION = 's-01J0000000000000000000000B'
const never = new AbortController().signal

export interface Report {
  env: Record<string, string>
  cwd: string
  descriptors: Record<string, string>
  pid: number
  argv: string[]
}
export const readReport = (path: string): Report => JSON.parse(readFileSync(path, 'utf8')) as Report

export interface SuiteWorld {
  /** Private directory of the test. */
  readonly directory: string
  /** A supervisor on the test's jobs, as each start of a daemon makes one. */
  readonly open: (options?: { readyMs?: number; processes?: Processes }) => Supervisor
  /** What is recorded of jobs, outside of the supervisor: files or units. */
  readonly recorded: () => string[]
}

export interface Form {
  readonly name: string
  /** Variables a worker has beside those it was given. */
  readonly adds: readonly string[]
  /** Registers its own clean-up. */
  readonly world: () => SuiteWorld
}

export function jobFor(
  what: string,
  { generation = 1, env = {}, session = SESSION, more = [] }: JobOptions = {},
): JobSpec {
  const script = workerScript()
  const flags = { 'session-id': session, 'worker-generation': String(generation), 'ready-fd': '3', do: what }
  return {
    sessionId: session,
    generation,
    executable: process.execPath,
    args: [script, ...Object.entries(flags).flatMap(([flag, value]) => [`--${flag}`, value]), ...more],
    env,
  }
}
interface JobOptions {
  generation?: number
  env?: Record<string, string>
  session?: string
  more?: string[]
}

/** Workers of these tests that run. */
export const workersOf = (): number[] =>
  readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && processes.argv(pid)?.includes(workerScript()) === true)

export function supervisorSuite(form: Form): void {
  const named = (what: string): string => `${form.name}: ${what}`

  test(
    named('a worker has exactly its environment, runs in / as its own session leader without terminal or output'),
    async () => {
      const { open, directory, recorded } = form.world()
      await using supervisor = open()
      const report = join(directory, 'report')
      const identity = await supervisor.start(jobFor('run', { env: { REPORT: report, ONLY: 'this one' } }), never)
      const { env, cwd, pid, descriptors } = readReport(report)
      expect(Object.keys(env).sort()).toEqual(['ONLY', 'REPORT', ...form.adds].sort())
      expect(env).toMatchObject({ REPORT: report, ONLY: 'this one' })
      expect({ cwd, pid }).toEqual({ cwd: '/', pid: identity.pid })
      expect([descriptors['0'], descriptors['1'], descriptors['2']]).toEqual(['/dev/null', '/dev/null', '/dev/null'])
      expect(processes.membersOf({ session: identity.pid })).toEqual([identity])
      expect(recorded()).toHaveLength(1)
      expect(await supervisor.retire(jobFor('run'), 1_000)).toBe('retired')
      expect(processes.isRunning(identity)).toBe(false)
      expect(recorded()).toEqual([])
    },
  )

  test(named('arguments and values arrive as they were given'), async () => {
    const { open, directory } = form.world()
    await using supervisor = open()
    const report = join(directory, 'report')
    const odd = [
      '$HOME',
      '$$',
      '${PATH}',
      'a$b$',
      '%n %%',
      'two words',
      '',
      '"quoted" \'so\'',
      'back\\slash \\x41',
      'žluť',
      '-',
    ]
    const job = jobFor('run', { env: { REPORT: report, ODD: odd.join('\n') }, more: odd })
    const process = await supervisor.start(job, never)
    const { argv, env } = readReport(report)
    expect(argv.slice(-odd.length)).toEqual(odd)
    expect(env['ODD']).toBe(odd.join('\n'))
    expect(await supervisor.inspect(job)).toEqual({ state: 'running', process })
    await supervisor.retire(job, 1_000)
  })

  test(named('a later daemon finds the worker, proves it and retires it'), async () => {
    const { open, recorded } = form.world()
    const first = open()
    const identity = await first.start(jobFor('run'), never)
    await first[Symbol.asyncDispose]()
    expect(processes.isRunning(identity)).toBe(true)
    await using later = open()
    expect(await later.list()).toEqual([
      { job: { sessionId: SESSION, generation: 1 }, status: { state: 'running', process: identity } },
    ])
    expect(await later.inspect({ sessionId: SESSION, generation: 2 })).toEqual({ state: 'absent' })
    expect(await later.retire({ sessionId: SESSION, generation: 2 }, 1_000)).toBe('absent')
    expect(await later.retire(jobFor('run'), 1_000)).toBe('retired')
    expect(processes.isRunning(identity)).toBe(false)
    expect(recorded()).toEqual([])
    expect(await later.retire(jobFor('run'), 1_000)).toBe('absent')
    expect(await later.list()).toEqual([])
  })

  test(named('generations and sessions are kept apart'), async () => {
    const { open } = form.world()
    await using supervisor = open()
    const jobs = [jobFor('run'), jobFor('run', { generation: 12 }), jobFor('run', { session: OTHER_SESSION })]
    const identities = await Promise.all(jobs.map((job) => supervisor.start(job, never)))
    const listed = await supervisor.list()
    expect(listed).toHaveLength(3)
    for (const [index, { sessionId, generation }] of jobs.entries()) {
      expect(listed).toContainEqual({
        job: { sessionId, generation },
        status: { state: 'running', process: identities[index] },
      })
    }
    expect(await supervisor.retire({ sessionId: SESSION, generation: 12 }, 1_000)).toBe('retired')
    expect(identities.map((it) => processes.isRunning(it))).toEqual([true, false, true])
    for (const job of jobs) await supervisor.retire(job, 1_000)
  })

  test(named('a worker behind a script is proven by its arguments'), async () => {
    const { open, directory } = form.world()
    await using supervisor = open()
    const wrapper = join(directory, 'sessiond')
    writeFileSync(wrapper, `#!/bin/sh\nexec ${process.execPath} ${workerScript()} "$@"\n`, { mode: 0o755 })
    const spec = { ...jobFor('run'), executable: wrapper, args: jobFor('run').args.slice(1) }
    const identity = await supervisor.start(spec, never)
    await using later = open()
    expect(await later.inspect(spec)).toEqual({ state: 'running', process: identity })
    expect(await later.retire(spec, 1_000)).toBe('retired')
  })

  test(named('a worker that ignores SIGTERM is killed after the grace'), async () => {
    const { open } = form.world()
    await using supervisor = open()
    const identity = await supervisor.start(jobFor('stubborn'), never)
    const began = performance.now()
    expect(await supervisor.retire(jobFor('stubborn'), 150)).toBe('retired')
    expect(performance.now() - began).toBeGreaterThanOrEqual(149)
    expect(processes.isRunning(identity)).toBe(false)
  })

  test(named('a worker that was killed is told as ended and forgotten without a signal'), async () => {
    const { open, recorded } = form.world()
    await using supervisor = open()
    const identity = await supervisor.start(jobFor('run'), never)
    process.kill(identity.pid, 'SIGKILL')
    await until('its end is known', async () => (await supervisor.inspect(jobFor('run'))).state === 'ended')
    await using deaf = open({ processes: { ...processes, signal: () => expect.fail('a signal was sent') } })
    expect(await deaf.list()).toEqual([{ job: { sessionId: SESSION, generation: 1 }, status: { state: 'ended' } }])
    expect(await deaf.retire(jobFor('run'), 1_000)).toBe('retired')
    expect(recorded()).toEqual([])
    const again = await supervisor.start(jobFor('run'), never)
    expect(again).not.toEqual(identity)
    await supervisor.retire(jobFor('run'), 1_000)
  })

  test(named('a starting worker that ends says how: exit code, signal'), async () => {
    const { open, recorded } = form.world()
    await using supervisor = open()
    for (const [what, how] of [
      ['exit', 'exit code 7'],
      ['crash', 'signal SIGKILL'],
    ] as const) {
      await expect(supervisor.start(jobFor(what), never)).rejects.toMatchObject({
        class: 'runtime',
        code: 'worker_exited_before_ready',
        message: expect.stringContaining(how) as string,
        recover: expect.stringContaining(`pohunek-session-${SESSION}.jsonl`) as string,
      })
      expect(recorded()).toEqual([])
    }
    expect(await supervisor.list()).toEqual([])
  })

  test(named('a worker that never becomes ready is ended at the deadline'), async () => {
    const { open, directory, recorded } = form.world()
    await using supervisor = open({ readyMs: 400 })
    const report = join(directory, 'report')
    await expect(supervisor.start(jobFor('hang', { env: { REPORT: report } }), never)).rejects.toMatchObject({
      code: 'worker_connect_failed',
      message: expect.stringContaining('400 ms') as string,
    })
    expect(recorded()).toEqual([])
    expect(workersOf()).toEqual([])
  })

  test(named('an aborted start and a closed supervisor leave nothing'), async () => {
    const { open, directory, recorded } = form.world()
    for (const way of ['abort', 'close']) {
      const supervisor = open()
      const report = join(directory, `report-${way}`)
      const controller = new AbortController()
      const starting = supervisor.start(jobFor('hang', { env: { REPORT: report } }), controller.signal)
      const ended = expect(starting).rejects.toThrow(way === 'abort' ? 'enough' : 'closed')
      const { pid } = await until('the report', () => readReport(report))
      if (way === 'abort') controller.abort(new Error('enough'))
      else await supervisor[Symbol.asyncDispose]()
      await ended
      expect(processes.identify(pid)).toBeUndefined()
      expect(recorded()).toEqual([])
      await supervisor[Symbol.asyncDispose]()
    }
  })

  test(named('a start aborted before the worker runs leaves nothing'), async () => {
    const { open, recorded } = form.world()
    await using supervisor = open()
    const controller = new AbortController()
    const starting = supervisor.start(jobFor('hang'), controller.signal)
    controller.abort(new Error('at once'))
    await expect(starting).rejects.toThrow('at once')
    await until('nothing runs', () => workersOf().length === 0)
    expect(recorded()).toEqual([])
  })

  test(named('an executable that is missing or cannot be run is a typed error and leaves nothing'), async () => {
    const { open, directory, recorded } = form.world()
    await using supervisor = open()
    const broken = join(directory, 'broken')
    writeFileSync(broken, '#!/no/such/interpreter\n', { mode: 0o755 })
    for (const executable of ['/no/such/node', broken]) {
      await expect(supervisor.start({ ...jobFor('run'), executable }, never)).rejects.toMatchObject({
        class: 'runtime',
        code: 'spawn_failed',
        message: expect.stringContaining(executable) as string,
      })
      expect(recorded()).toEqual([])
    }
  })

  test(named('a generation that is recorded is not started again'), async () => {
    const { open } = form.world()
    await using supervisor = open()
    const identity = await supervisor.start(jobFor('run'), never)
    await expect(supervisor.start(jobFor('run'), never)).rejects.toMatchObject({ code: 'worker_operation_failed' })
    expect(await supervisor.inspect(jobFor('run'))).toEqual({ state: 'running', process: identity })
    await supervisor.retire(jobFor('run'), 1_000)
  })

  test(named('a process that shows other arguments than recorded is a mismatch: nothing is signalled'), async () => {
    const { open, recorded } = form.world()
    await using supervisor = open()
    const identity = await supervisor.start(jobFor('retitle'), never)
    const job = jobFor('retitle')
    expect(await supervisor.inspect(job)).toEqual({ state: 'running', process: identity })
    process.kill(identity.pid, 'SIGUSR2')
    const status = await until('the mismatch', async () => {
      const found = await supervisor.inspect(job)
      return found.state === 'mismatch' ? found : undefined
    })
    expect(status.reason).toContain(`process ${identity.pid}`)
    await using deaf = open({ processes: { ...processes, signal: () => expect.fail('a signal was sent') } })
    expect(await deaf.retire(job, 10)).toBe('mismatch')
    expect(processes.isRunning(identity)).toBe(true)
    expect(recorded()).toHaveLength(1)
    process.kill(identity.pid, 'SIGKILL')
    await until('its end', async () => (await supervisor.inspect(job)).state === 'ended')
    expect(await supervisor.retire(job, 1_000)).toBe('retired')
  })

  test(named('starts and ends, failed ones too, leave no descriptor and no process'), async () => {
    const { open, recorded } = form.world()
    await using supervisor = open()
    const count = (): number => readdirSync('/proc/self/fd').length
    await supervisor.start(jobFor('run'), never)
    await supervisor.retire(jobFor('run'), 1_000)
    const before = count()
    for (let index = 0; index < 5; index++) {
      await supervisor.start(jobFor('run'), never)
      await supervisor.retire(jobFor('run'), 1_000)
      await supervisor.start(jobFor('exit'), never).catch(() => undefined)
      await supervisor.start({ ...jobFor('run'), executable: '/no/such' }, never).catch(() => undefined)
    }
    await until('the descriptors back', () => count() <= before)
    expect(workersOf()).toEqual([])
    expect(recorded()).toEqual([])
  })
}
