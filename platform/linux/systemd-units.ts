/** Reads worker units from the manager and judges them by their definition and main process. */
import { platformFaults } from '../faults.ts'
import type { Fault } from '../../protocol/fault.ts'
import type { ProcessIdentity, Processes } from '../processes.ts'
import type { JobState, WorkerJob } from '../supervisor.ts'
import { ManagerRefusal, ManagerUnavailable } from './systemd-answers.ts'
import { SERVICE, UNIT, type SystemdManager } from './systemd-bus.ts'
import { pollUntil, type Timing } from '../timing.ts'
import { definitionProblem, judgeUnit, startFailure, workerUnit, type UnitFacts } from './systemd-unit.ts'

const MAIN_PID_READS = 3
/** From the manager's fork to its exec; instants, but for a machine that is busy. */
const EXEC_MS = 5_000

export interface FoundUnit {
  readonly unit: UnitFacts
  readonly status: JobState
}

export interface UnitReaderOptions {
  readonly namespace: string
  readonly processes: Processes
  readonly clock: Timing
}

export class UnitReader {
  readonly #systemd: SystemdManager
  readonly #options: UnitReaderOptions

  constructor(systemd: SystemdManager, options: UnitReaderOptions) {
    this.#systemd = systemd
    this.#options = options
  }

  /** Undefined when the manager has no such unit. Waits while the process of a starting unit is still the manager's own. */
  async read(job: WorkerJob): Promise<FoundUnit | undefined> {
    let found = await this.#look(job)
    if (isBecoming(job, found))
      await pollUntil(this.#options.clock, EXEC_MS, async () => !isBecoming(job, (found = await this.#look(job))))
    return found
  }

  async #look(job: WorkerJob): Promise<FoundUnit | undefined> {
    const systemd = this.#systemd
    const { namespace, processes } = this.#options
    const path = await systemd.unit(workerUnit(namespace, job))
    if (path === undefined) return undefined
    try {
      const [commands, main] = await Promise.all([
        systemd.property(path, SERVICE, 'ExecStart'),
        this.#mainProcess(path),
      ])
      const activeState = await systemd.property(path, UNIT, 'ActiveState')
      const unit: UnitFacts = {
        // Asked last: of a unit that was unloaded between two questions the manager tells an empty, not-found one.
        loadState: (await systemd.property(path, UNIT, 'LoadState')) as string,
        activeState: activeState as string,
        commands: (commands as [string, string[]][]).map(([program, argv]) => ({ path: program, argv })),
      }
      return { unit, status: judgeUnit(job, unit, main, processes) }
    } catch (failure) {
      // It was unloaded between two questions.
      if (
        failure instanceof ManagerRefusal &&
        /UnknownObject|NoSuchUnit|UnknownInterface|UnknownMethod/.test(failure.type)
      )
        return undefined
      throw failure
    }
  }

  /** The main process while the manager names it: a pid that it still names after the look was not given away meanwhile. */
  async #mainProcess(path: string): Promise<ProcessIdentity | undefined> {
    const named = async (): Promise<number> => (await this.#systemd.property(path, SERVICE, 'MainPID')) as number
    let pid = await named()
    for (let read = 0; read < MAIN_PID_READS && pid > 0; read++) {
      const identity = this.#options.processes.identify(pid)
      const before = pid
      pid = await named()
      if (pid === before && identity !== undefined) return identity
    }
    if (pid > 0) throw new ManagerUnavailable(`process ${pid}, which the manager names, cannot be looked at`)
    return undefined
  }

  /** The Fault for a worker that ended before it was ready. */
  async whyNotReady(job: WorkerJob, readyMs: number, log: string): Promise<Fault> {
    const path = await this.#systemd.unit(workerUnit(this.#options.namespace, job))
    if (path === undefined) return platformFaults.worker_exited_before_ready({ how: 'its unit is gone', log })
    const [result, code, status, commands] = await Promise.all(
      ['Result', 'ExecMainCode', 'ExecMainStatus', 'ExecStart'].map((it) => this.#systemd.property(path, SERVICE, it)),
    )
    if ((await this.#systemd.property(path, UNIT, 'LoadState')) === 'not-found')
      return platformFaults.worker_exited_before_ready({ how: 'its unit is gone', log })
    const why = startFailure({ result: result as string, code: code as number, status: status as number })
    if (why === 'timeout') return platformFaults.worker_connect_failed({ waitedMs: readyMs, log })
    if (why !== 'exec') return platformFaults.worker_exited_before_ready({ how: why.how, log })
    const executable = (commands as [string][])[0]?.[0] ?? job.sessionId
    return platformFaults.spawn_failed({ executable, problem: 'the service manager cannot execute it' })
  }
}

/** Our definition, starting, and the process has other arguments: most likely it has not executed the command yet. */
const isBecoming = (job: WorkerJob, found: FoundUnit | undefined): boolean =>
  found?.unit.activeState === 'activating' &&
  found.status.state === 'mismatch' &&
  definitionProblem(job, found.unit) === undefined
