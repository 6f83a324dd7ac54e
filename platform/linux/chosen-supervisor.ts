/**
 * The form of supervision this daemon starts workers with, and all forms it finds them in: a user who changes the form,
 * by configuration or by installing the service, keeps every session (docs/decisions/2026-11-30-supervisor-choice.md).
 */
import type { ProcessIdentity } from '../processes.ts'
import type { JobSpec, JobState, Supervisor, WorkerJob } from '../supervisor.ts'
import { DetachedSupervisor, type DetachedOptions } from './detached-supervisor.ts'
import { SERVICE, SystemdManager } from './systemd-bus.ts'
import { SystemdSupervisor, type SystemdOptions } from './systemd-supervisor.ts'

type Environment = Readonly<Record<string, string | undefined>>

export interface ChoiceOptions extends DetachedOptions, Pick<SystemdOptions, 'namespace' | 'bus'> {
  /** `[supervisor] kind` of the configuration. */
  wanted: 'auto' | 'systemd' | 'detached'
  /** The daemon's own, which says whether a service manager started it. */
  env: Environment
  /** Hears what an operator should know. */
  warn: (problem: string) => void
}

/** A manager that answers does so at once; one that hangs must not hold up the start of a daemon, or who asks how it is. */
const ASK_MS = 3_000

/**
 * True when this process may be the main process of a unit: systemd tells its pid to what it starts (since version 248),
 * and an invocation id to every unit. A shell in a unit hands both on, with another pid. Pure.
 */
export function mayBeService(env: Environment, pid: number): boolean {
  const { INVOCATION_ID: invocation, SYSTEMD_EXEC_PID: told } = env
  return told === undefined ? invocation !== undefined && invocation !== '' : told === String(pid)
}

/** Chooses by configuration, else by how this daemon was started. */
export async function chooseSupervisor(options: ChoiceOptions): Promise<ChosenSupervisor> {
  const service = mayBeService(options.env, process.pid) && (await isMainProcess(options))
  if (options.wanted === 'auto') return new ChosenSupervisor(service ? 'systemd' : 'detached', options, false)
  return new ChosenSupervisor(options.wanted, options, service && options.wanted === 'detached')
}

/** Whether the user's manager has this process as the main process of a service. */
async function isMainProcess({ bus: socket, clock }: ChoiceOptions): Promise<boolean> {
  using systemd = new SystemdManager({ socket, clock, callMs: ASK_MS })
  try {
    const [path] = (await systemd.manager('GetUnitByPID', 'u', [process.pid])) as [string]
    return (await systemd.property(path, SERVICE, 'MainPID')) === process.pid
  } catch {
    return false // no manager of this user, not in a unit of it, or in a scope, which has no main process
  }
}

export class ChosenSupervisor implements Supervisor {
  readonly kind: 'detached' | 'systemd'
  readonly #options: ChoiceOptions
  readonly #detached: DetachedSupervisor
  readonly #systemd: SystemdSupervisor
  /** Detached workers of a daemon that is a unit itself share its control group. */
  readonly #exposed: boolean

  constructor(kind: 'detached' | 'systemd', options: ChoiceOptions, exposed: boolean) {
    this.kind = kind
    this.#options = options
    this.#exposed = exposed
    this.#detached = new DetachedSupervisor(options)
    this.#systemd = new SystemdSupervisor(options)
    if (exposed) options.warn(EXPOSED)
  }

  start(job: JobSpec, signal: AbortSignal): Promise<ProcessIdentity> {
    return this.kind === 'systemd' ? this.#systemd.start(job, signal) : this.#detached.start(job, signal)
  }

  /** Both forms. While the manager is away only detached workers are listed; `inspect` then says that it is away. */
  async list(): Promise<{ job: WorkerJob; status: JobState }[]> {
    const detached = await this.#detached.list()
    if (!this.#asksManager()) return detached
    try {
      return [...detached, ...(await this.#systemd.list())]
    } catch (failure) {
      this.#options.warn((failure as Error).message)
      return detached
    }
  }

  async inspect(job: WorkerJob): Promise<JobState> {
    const status = await this.#detached.inspect(job)
    return status.state === 'absent' && this.#asksManager(job) ? this.#systemd.inspect(job) : status
  }

  async retire(job: WorkerJob, graceMs: number): Promise<'retired' | 'absent' | 'mismatch'> {
    const outcome = await this.#detached.retire(job, graceMs)
    return outcome === 'absent' && this.#asksManager(job) ? this.#systemd.retire(job, graceMs) : outcome
  }

  async diagnose(): Promise<{ status: 'ok' | 'warn' | 'fail'; detail: string }> {
    if (this.#exposed) return { status: 'warn', detail: `detached: ${EXPOSED}` }
    if (this.kind === 'detached') return { status: 'ok', detail: 'detached: workers outlive the daemon' }
    const { bus: socket, clock } = this.#options
    using systemd = new SystemdManager({ socket, clock, callMs: ASK_MS })
    try {
      const version = (await systemd.managerProperty('Version')) as string
      return { status: 'ok', detail: `systemd ${version}: workers are units of their own and outlive the daemon` }
    } catch (failure) {
      return { status: 'fail', detail: `systemd: ${(failure as Error).message}; systemctl --user status tells more` }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#detached[Symbol.asyncDispose](), this.#systemd[Symbol.asyncDispose]()])
  }

  /** A daemon that starts no units has a bus connection only when there is something to ask about. */
  #asksManager(job?: WorkerJob): boolean {
    return this.kind === 'systemd' || this.#systemd.recorded(job)
  }
}

const EXPOSED =
  'this daemon is a service and its workers are not units of their own: stopping the service ends every session; set [supervisor] kind = "auto" in config.toml'
