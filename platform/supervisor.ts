/**
 * Starts, finds and retires worker generations. Two real forms, detached processes and units of the systemd user
 * manager, behind this one interface. Session code never sees units, labels or job files.
 */
import type { ProcessIdentity } from './processes.ts'

export interface WorkerJob {
  sessionId: string
  /** Worker generation, 1 for the first. */
  generation: number
}

export interface JobSpec extends WorkerJob {
  /** Absolute executable and full argv after it. */
  executable: string
  args: readonly string[]
  /** Complete environment of the worker; nothing is inherited. */
  env: Readonly<Record<string, string>>
}

export type JobState =
  /** The recorded process runs and is proven to be it. */
  | { state: 'running'; process: ProcessIdentity }
  /** The recorded process is proven gone: other boot, no such pid, a zombie, or a younger process has its pid now. */
  | { state: 'ended' }
  /**
   * A process has the recorded pid, but an older start identity or other arguments, or they cannot be read; or the
   * record itself is damaged. Nothing is signalled.
   */
  | { state: 'mismatch'; reason: string }
  | { state: 'absent' }

export interface Supervisor extends AsyncDisposable {
  readonly kind: 'detached' | 'systemd'
  /**
   * Starts one worker generation and resolves once it told that its control socket accepts.
   * Throws Fault worker_exited_before_ready, worker_connect_failed, client_/system_file_descriptors_exhausted.
   */
  start(job: JobSpec, signal: AbortSignal): Promise<ProcessIdentity>
  /** All recorded jobs, those of ended workers included. */
  list(): Promise<{ job: WorkerJob; status: JobState }[]>
  inspect(job: WorkerJob): Promise<JobState>
  /**
   * Ends what the job still runs (SIGTERM, grace, SIGKILL; only a process proven to be the recorded one) and forgets
   * the job. A mismatch is refused: nothing is signalled, the record stays.
   */
  retire(job: WorkerJob, graceMs: number): Promise<'retired' | 'absent' | 'mismatch'>
  /** For doctor: whether it can do its work now. Left out by forms that always can. */
  diagnose?(): Promise<{ status: 'ok' | 'warn' | 'fail'; detail: string }>
}
