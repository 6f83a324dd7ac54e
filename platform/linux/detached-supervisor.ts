/**
 * Workers as detached processes: each its own session leader, found again by a job file after a daemon restart.
 * Invariants
 *  1. A record exists before its process does, and is removed only when the process is proven gone.
 *  2. Only a process proven to be the recorded one is signalled.
 *  3. A start that fails leaves neither process nor record.
 * A worker must not change its argv (process.title), which is part of the proof.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import type { Readable } from 'node:stream'
import { WORKER_CONNECT_MS } from '../../protocol/limits.ts'
import { READY_STATE } from '../../protocol/worker/files.ts'
import { crashPoint } from '../crash-points.ts'
import { platformFaults } from '../faults.ts'
import type { ProcessIdentity, Processes } from '../processes.ts'
import type { JobSpec, JobState, Supervisor, WorkerJob } from '../supervisor.ts'
import { pollUntil, within, type Timing } from '../timing.ts'
import { JobFiles, type JobRecord } from './job-file.ts'
import { judge } from './job-proof.ts'
import { allPids, readUid } from './proc.ts'
import { Starts } from './starts.ts'

/** After SIGKILL a process is gone at once unless the kernel holds it in an uninterruptible call. */
const KILL_WAIT_MS = 10_000

export interface DetachedOptions {
  /** <state>; job files are kept in <state>/jobs. It exists and is private. */
  state: string
  /** The daemon's pinned ones. */
  processes: Processes
  clock: Timing
  /** Log file of a session's worker, named in hints. */
  workerLog: (sessionId: string) => string
  /** Time a worker has to become ready; 10 s when left out. */
  readyMs?: number
}

/**
 * Owned by the plugin that starts workers; closing it gives up starts in flight and leaves workers running. Faults as
 * Supervisor says, and spawn_failed, worker_operation_failed, io_error. Times are milliseconds.
 */
export class DetachedSupervisor implements Supervisor {
  readonly kind = 'detached'
  readonly #options: DetachedOptions
  readonly #files: JobFiles
  readonly #starts = new Starts()

  constructor(options: DetachedOptions) {
    this.#options = options
    this.#files = new JobFiles(options.state)
  }

  async start(job: JobSpec, signal: AbortSignal): Promise<ProcessIdentity> {
    return await this.#starts.run(signal, (either) => this.#start(job, either))
  }

  async list(): Promise<{ job: WorkerJob; status: JobState }[]> {
    return this.#files.list().map((stored) => ({
      job: stored.job,
      status: 'damaged' in stored ? { state: 'mismatch', reason: stored.damaged } : this.#judge(stored.record),
    }))
  }

  async inspect(job: WorkerJob): Promise<JobState> {
    const stored = this.#files.read(job)
    if (stored === undefined) return { state: 'absent' }
    return 'damaged' in stored ? { state: 'mismatch', reason: stored.damaged } : this.#judge(stored.record)
  }

  async retire(job: WorkerJob, graceMs: number): Promise<'retired' | 'absent' | 'mismatch'> {
    const status = await this.inspect(job)
    if (status.state === 'absent' || status.state === 'mismatch') return status.state
    crashPoint('job.retire.before')
    if (status.state === 'running') await this.#end(status.process, graceMs)
    crashPoint('job.retire.ended')
    this.#files.remove(job)
    crashPoint('job.retire.after')
    return 'retired'
  }

  /** Gives up starts in flight. Workers that run are none of its business. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#starts[Symbol.asyncDispose]()
  }

  #judge(record: JobRecord): JobState {
    const uid = process.geteuid?.()
    return judge(record, { ...this.#options.processes, pids: () => allPids().filter((pid) => readUid(pid) === uid) })
  }

  async #start(job: JobSpec, signal: AbortSignal): Promise<ProcessIdentity> {
    const record = this.#files.begin(job, this.#options.processes.bootId()) // 1
    let child: ChildProcess | undefined
    try {
      child = await spawnWorker(job)
      crashPoint('job.start.spawned')
      // Not reaped before this turn of the event loop ends: the pid is still its own, dead or alive.
      const identity = this.#options.processes.identify(child.pid as number)
      if (identity === undefined)
        throw platformFaults.spawn_failed({ executable: job.executable, problem: 'it is not in /proc' })
      const known = { ...record, pid: identity.pid, start_identity: identity.startIdentity }
      this.#files.write(known)
      crashPoint('job.start.identified')
      await this.#ready(job, child, signal)
      crashPoint('job.start.ready')
      const argv = this.#options.processes.argv(identity.pid) ?? record.argv
      this.#files.write({ ...known, argv, ready: true })
      crashPoint('job.start.after')
      child.unref()
      return identity
    } catch (failure) {
      if (child !== undefined) await endChild(child) // 3
      this.#files.remove(job)
      throw failure
    }
  }

  async #ready(job: JobSpec, child: ChildProcess, signal: AbortSignal): Promise<void> {
    const { clock, readyMs = WORKER_CONNECT_MS, workerLog } = this.#options
    const log = workerLog(job.sessionId)
    const pipe = child.stdio[3] as Readable
    const told = new Promise<void>((resolve, reject) => {
      let text = ''
      pipe.on('data', (bytes: Buffer) => {
        text = (text + bytes.toString('latin1')).slice(0, 64)
        if (text.startsWith(`${READY_STATE}\n`)) resolve()
      })
      pipe.on('error', () => undefined) // its end shows in the worker's exit or in the deadline
      const exited = (code: number | null, killer: string | null): void => {
        const how = killer === null ? `exit code ${code}` : `signal ${killer}`
        // A worker may say READY and end at once: what the pipe still holds counts first.
        setImmediate(() => reject(platformFaults.worker_exited_before_ready({ how, log })))
      }
      if (child.exitCode !== null || child.signalCode !== null) exited(child.exitCode, child.signalCode)
      else child.once('exit', exited)
    })
    const late = (): never => {
      throw platformFaults.worker_connect_failed({ waitedMs: readyMs, log })
    }
    try {
      await within(clock, readyMs, told, late, signal)
    } finally {
      pipe.destroy()
    }
  }

  async #end(target: ProcessIdentity, graceMs: number): Promise<void> {
    const { processes, clock } = this.#options
    for (const [signal, waitMs] of [
      ['SIGTERM', graceMs],
      ['SIGKILL', KILL_WAIT_MS],
    ] as const) {
      const outcome = processes.signal(target, signal) // 2
      if (outcome === 'denied') {
        throw platformFaults.worker_operation_failed({ problem: `worker process ${target.pid} may not be signalled` })
      }
      // A stopped process acts on SIGTERM only once it goes on; systemd does the same.
      if (signal === 'SIGTERM') processes.signal(target, 'SIGCONT')
      if (outcome === 'gone' || (await pollUntil(clock, waitMs, () => !processes.isRunning(target)))) return
    }
    throw platformFaults.worker_operation_failed({ problem: `worker process ${target.pid} does not end on SIGKILL` })
  }
}

/** Resolves with a running child, or throws the typed Fault of what the system refused. */
async function spawnWorker({ executable, args, env }: JobSpec): Promise<ChildProcess> {
  try {
    const child = spawn(executable, [...args], {
      detached: true,
      cwd: '/',
      env: { ...env },
      stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
    })
    if (child.pid !== undefined) {
      child.on('error', () => undefined) // only kill() can still report one, and its answer is looked at
      return child
    }
    const failure = await new Promise<Error>((resolve) => child.once('error', resolve))
    throw failure
  } catch (failure) {
    switch ((failure as NodeJS.ErrnoException).code) {
      case 'EMFILE':
        throw platformFaults.client_file_descriptors_exhausted({}, failure)
      case 'ENFILE':
        throw platformFaults.system_file_descriptors_exhausted({}, failure)
      default:
        throw platformFaults.spawn_failed({ executable, problem: (failure as Error).message }, failure)
    }
  }
}

/** Kills the child and what it started in its process group. Not reaped yet, so its pid names exactly that group. */
async function endChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  try {
    process.kill(-(child.pid as number), 'SIGKILL')
  } catch {
    child.kill('SIGKILL') // between fork and setsid there is no such group yet
  }
  await exited
}
