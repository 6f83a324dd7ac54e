/**
 * Workers as transient units of the user's service manager: siblings of the daemon, each in its own control group, so
 * that nothing that happens to the daemon or its unit reaches them. The manager forgets a unit that ended well, so each
 * has a record of its own beside it.
 * Invariants
 *  1. Only a unit whose definition and main process are proven to be this job's is stopped.
 *  2. A record exists before its unit does, and is removed only when the unit is proven gone.
 *  3. A start that fails leaves neither process nor unit nor record, unless the manager itself is out of reach; then the
 *     next listing finds what is left.
 *  4. No answer of the manager is "nothing is known", never "it is gone".
 */
import { accessSync, constants, existsSync } from 'node:fs'
import { join } from 'node:path'
import { WORKER_CONNECT_MS, WORKER_EXIT_TIMEOUT_MS } from '../../protocol/limits.ts'
import { Fault, messageOf } from '../../protocol/fault.ts'
import { crashPoint } from '../crash-points.ts'
import { platformFaults } from '../faults.ts'
import type { ProcessIdentity, Processes } from '../processes.ts'
import type { JobSpec, JobState, Supervisor, WorkerJob } from '../supervisor.ts'
import { pollUntil, type Timing } from '../timing.ts'
import { JobFiles } from './job-file.ts'
import { Starts } from './starts.ts'
import { ManagerRefusal, ManagerSilent, ManagerUnavailable, isRefusal } from './systemd-answers.ts'
import { SystemdManager, type Job } from './systemd-bus.ts'
import { UnitReader } from './systemd-units.ts'
import {
  canOpenFiles,
  definitionProblem,
  judgeRecord,
  parseWorkerUnit,
  sessionsSlice,
  transientUnit,
  workerPattern,
  workerUnit,
} from './systemd-unit.ts'

/** After SIGKILL a unit is gone at once unless the kernel holds a process in an uninterruptible call. */
const KILL_WAIT_MS = 10_000
/** The manager's own deadline comes after ours: it is for a daemon that died meanwhile. */
const MANAGER_MARGIN_MS = 2_000
/** So long after a question that nobody answered others fail at once, or each of many would wait for its deadline. */
const SILENCE_MS = 2_000
/** Units asked about at a time; the answers are small. */
const CONCURRENCY = 16
const SIGKILL = 9

export interface SystemdOptions {
  /** <state>; records are kept in <state>/units. It exists and is private. */
  state: string
  /** See namespaceOf. */
  namespace: string
  /** See busSocket. */
  bus: string | undefined
  processes: Processes
  clock: Timing
  /** Log file of a session's worker, named in hints. */
  workerLog: (sessionId: string) => string
  /** Time a worker has to become ready; 10 s when left out. */
  readyMs?: number
  /** How workers tell that they are ready; decided by the manager's version when left out. */
  ready?: 'descriptor' | 'environment'
  /** Deadline of one call; for tests. */
  callMs?: number
}

/**
 * Owned by the plugin that starts workers; closing it gives up starts in flight, leaves workers running and ends the
 * connection to the manager. Faults as Supervisor says, and worker_manager_unavailable (start),
 * runtime_supervision_unavailable (everything else), worker_operation_failed, spawn_failed. Times are milliseconds.
 */
export class SystemdSupervisor implements Supervisor {
  readonly kind = 'systemd'
  readonly #options: SystemdOptions
  readonly #systemd: SystemdManager
  readonly #units: UnitReader
  readonly #files: JobFiles
  readonly #starts = new Starts()
  #ready: 'descriptor' | 'environment' | undefined
  #silence: { readonly failure: ManagerSilent; readonly untilMs: number } | undefined

  constructor(options: SystemdOptions) {
    this.#options = options
    this.#files = new JobFiles(options.state, 'units')
    const { bus: socket, clock, callMs } = options
    this.#systemd = new SystemdManager({ socket, clock, ...(callMs === undefined ? {} : { callMs }) })
    this.#units = new UnitReader(this.#systemd, options)
    this.#ready = options.ready
  }

  async start(job: JobSpec, signal: AbortSignal): Promise<ProcessIdentity> {
    return await this.#starts.run(signal, async (either) => {
      try {
        return await this.#start(job, either)
      } catch (failure) {
        if (failure instanceof Fault || either.aborted) throw failure
        const problem = messageOf(failure)
        throw platformFaults.worker_manager_unavailable({ problem }, failure)
      }
    })
  }

  async list(): Promise<{ job: WorkerJob; status: JobState }[]> {
    return this.#asking(async () => {
      const { namespace } = this.#options
      const patterns = [workerPattern(namespace)]
      const [units] = (await this.#question(() =>
        this.#systemd.manager('ListUnitsByPatterns', 'asas', [[], patterns]),
      )) as [(readonly string[])[]]
      const names = [
        ...units.map(([name = '']) => name),
        ...this.#files.list().map(({ job }) => workerUnit(namespace, job)),
      ]
      const jobs = [...new Set(names)].flatMap((name) => parseWorkerUnit(namespace, name) ?? [])
      const found: { job: WorkerJob; status: JobState }[] = []
      for (let at = 0; at < jobs.length; at += CONCURRENCY) {
        const some = jobs.slice(at, at + CONCURRENCY)
        const states = await Promise.all(some.map((job) => this.#judge(job)))
        some.forEach((job, index) => found.push({ job, status: states[index] ?? { state: 'absent' } }))
      }
      return found.filter((it) => it.status.state !== 'absent')
    })
  }

  async inspect(job: WorkerJob): Promise<JobState> {
    return this.#asking(() => this.#judge(job))
  }

  async retire(job: WorkerJob, graceMs: number): Promise<'retired' | 'absent' | 'mismatch'> {
    return this.#asking(async () => {
      const status = await this.#judge(job)
      if (status.state === 'absent' || status.state === 'mismatch') return status.state
      crashPoint('unit.retire.before')
      // What ended in another boot has no unit in this one, and there may be no manager to ask.
      if (!this.#isOfEarlierBoot(job)) await this.#end(workerUnit(this.#options.namespace, job), graceMs)
      if (status.state === 'running' && this.#options.processes.isRunning(status.process)) {
        const problem = `worker process ${status.process.pid} does not end on SIGKILL`
        throw platformFaults.worker_operation_failed({ problem })
      }
      crashPoint('unit.retire.ended')
      this.#files.remove(job)
      crashPoint('unit.retire.after')
      return 'retired'
    })
  }

  /** Whether a unit may exist that an earlier daemon of this boot, or of one before, started: then this form is asked. */
  recorded(job?: WorkerJob): boolean {
    return job === undefined ? this.#files.list().length > 0 : this.#files.read(job) !== undefined
  }

  /** Gives up starts in flight. Workers that run are none of its business. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#starts[Symbol.asyncDispose]()
    this.#systemd[Symbol.dispose]()
  }

  async #asking<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return await ask()
    } catch (failure) {
      if (!(failure instanceof ManagerUnavailable || failure instanceof ManagerRefusal)) throw failure
      throw platformFaults.runtime_supervision_unavailable({ problem: failure.message }, failure)
    }
  }

  async #question<T>(ask: () => Promise<T>): Promise<T> {
    const { clock } = this.#options
    if (this.#silence !== undefined && clock.monotonic() < this.#silence.untilMs) throw this.#silence.failure
    try {
      return await ask()
    } catch (failure) {
      if (failure instanceof ManagerSilent) this.#silence = { failure, untilMs: clock.monotonic() + SILENCE_MS }
      throw failure
    }
  }

  async #start(job: JobSpec, signal: AbortSignal): Promise<ProcessIdentity> {
    const { namespace, readyMs = WORKER_CONNECT_MS, workerLog } = this.#options
    const name = workerUnit(namespace, job)
    const log = workerLog(job.sessionId)
    checkExecutable(job.executable)
    const systemd = this.#systemd
    const environment = (await systemd.managerProperty('Environment')) as string[]
    const definition = {
      managerEnvironment: environment,
      slice: sessionsSlice(namespace),
      ready: await this.#readyBy(environment),
      readyMs: readyMs + MANAGER_MARGIN_MS,
      exitMs: WORKER_EXIT_TIMEOUT_MS,
    }
    const properties = transientUnit(job, definition).map(([key, type, value]) => [key, systemd.variant(type, value)])
    signal.throwIfAborted()
    const record = this.#files.begin(job, this.#options.processes.bootId()) // 2
    let started: Job
    try {
      started = await systemd.job('StartTransientUnit', 'ssa(sv)a(sa(sv))', [name, 'fail', properties, []], () =>
        crashPoint('unit.start.asked'),
      )
      crashPoint('unit.start.accepted')
    } catch (failure) {
      // Whether it arrived is not known when nobody answered; a unit that came of it is ours.
      if (failure instanceof ManagerUnavailable) await this.#undo(job, name)
      else this.#files.remove(job)
      if (!isRefusal(failure, 'UnitExists')) throw failure
      const problem = `generation ${job.generation} of session ${job.sessionId} is already a unit (${name})`
      throw platformFaults.worker_operation_failed({ problem }, failure)
    }
    try {
      const result = await started.ended(readyMs, signal)
      if (result === 'late') throw platformFaults.worker_connect_failed({ waitedMs: readyMs, log })
      crashPoint('unit.start.ended')
      if (result !== 'done') throw await this.#units.whyNotReady(job, readyMs, log)
      const found = await this.#units.read(job)
      if (found?.status.state === 'running') {
        const { process } = found.status
        crashPoint('unit.start.identified')
        this.#files.write({ ...record, pid: process.pid, start_identity: process.startIdentity })
        crashPoint('unit.start.after')
        return process
      }
      if (found?.status.state === 'mismatch')
        throw platformFaults.worker_operation_failed({ problem: found.status.reason })
      throw platformFaults.worker_exited_before_ready({ how: 'it ended as soon as it was ready', log })
    } catch (failure) {
      await this.#undo(job, name)
      throw failure
    }
  }

  async #readyBy(managerEnvironment: readonly string[]): Promise<{ descriptor: string } | 'environment'> {
    this.#ready ??= canOpenFiles((await this.#systemd.managerProperty('Version')) as string)
      ? 'descriptor'
      : 'environment'
    const runtime = managerEnvironment.find((it) => it.startsWith('XDG_RUNTIME_DIR='))?.slice('XDG_RUNTIME_DIR='.length)
    const socket = runtime === undefined ? undefined : join(runtime, 'systemd/notify')
    return this.#ready === 'descriptor' && socket !== undefined && existsSync(socket)
      ? { descriptor: socket }
      : 'environment'
  }

  /** Ends what came of a failed start. What cannot be done now, because the manager is away, the next listing finds. */
  async #undo(job: WorkerJob, name: string): Promise<void> {
    try {
      crashPoint('unit.undo.before')
      const found = await this.#units.read(job)
      // The unit is new and ours by its definition; its process may not yet have come as far as its own arguments.
      if (found !== undefined && definitionProblem(job, found.unit) === undefined) await this.#end(name, 0)
      crashPoint('unit.undo.ended')
      this.#files.remove(job) // 3
      crashPoint('unit.undo.after')
    } catch (failure) {
      if (!(failure instanceof ManagerUnavailable || failure instanceof ManagerRefusal)) throw failure
    }
  }

  /** Stops a proven unit: SIGTERM, grace, SIGKILL; and waits until the manager has forgotten it. */
  async #end(name: string, graceMs: number): Promise<void> {
    const systemd = this.#systemd
    try {
      const stopped = await systemd.job('StopUnit', 'ss', [name, 'replace'], () => crashPoint('unit.stop.asked'))
      crashPoint('unit.stop.accepted')
      if (graceMs === 0 || (await stopped.ended(graceMs)) === 'late') {
        const killed = systemd.manager('KillUnit', 'ssi', [name, 'all', SIGKILL], () => crashPoint('unit.kill.asked'))
        await killed.catch(ignoreRefusal)
        crashPoint('unit.kill.answered')
        if ((await stopped.ended(KILL_WAIT_MS)) === 'late')
          throw platformFaults.worker_operation_failed({ problem: `the unit ${name} does not end on SIGKILL` })
      }
      crashPoint('unit.stop.ended')
      await systemd.manager('ResetFailedUnit', 's', [name], () => crashPoint('unit.reset.asked'))
    } catch (failure) {
      ignoreRefusal(failure)
    }
    await this.#forgotten(name)
  }

  /** A unit that ended is unloaded a moment later; until then its name is taken. */
  async #forgotten(name: string): Promise<void> {
    await pollUntil(this.#options.clock, KILL_WAIT_MS, async () => (await this.#systemd.unit(name)) === undefined)
  }

  /** Joins the record with what the manager says. */
  async #judge(job: WorkerJob): Promise<JobState> {
    const stored = this.#files.read(job)
    if (stored !== undefined && 'damaged' in stored) return { state: 'mismatch', reason: stored.damaged }
    if (stored !== undefined && this.#isOfEarlierBoot(job)) return { state: 'ended' }
    const found = await this.#question(() => this.#units.read(job))
    return stored === undefined
      ? (found?.status ?? { state: 'absent' })
      : judgeRecord(stored.record, found, this.#options.processes)
  }

  #isOfEarlierBoot(job: WorkerJob): boolean {
    const stored = this.#files.read(job)
    return stored !== undefined && 'record' in stored && stored.record.boot_id !== this.#options.processes.bootId()
  }
}

function checkExecutable(executable: string): void {
  try {
    accessSync(executable, constants.X_OK)
  } catch (failure) {
    throw platformFaults.spawn_failed({ executable, problem: (failure as Error).message }, failure)
  }
}

function ignoreRefusal(failure: unknown): void {
  // The unit is gone already, or not failed.
  if (!(failure instanceof ManagerRefusal)) throw failure
}
