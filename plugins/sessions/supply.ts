/**
 * Workers for new sessions. A spare is a started, negotiated, leased, uninitialized worker under a session id minted
 * beforehand, so that creating a session costs one round trip. A spare belongs to nothing durable: it ends by itself
 * when the connection of its controller closes, so a daemon that stops or dies leaks none.
 */
import { messageOf } from '../../protocol/fault.ts'
import { join } from 'node:path'
import { ulid } from 'ulid'
import { delay, type Clock } from '../../kernel/clock.ts'
import type { Log } from '../../kernel/log.ts'
import type { Paths } from '../../kernel/paths.ts'
import type { Scope } from '../../kernel/scope.ts'
import { WORKER_CONNECT_MS, WORKER_CONNECT_RETRY_MS } from '../../protocol/limits.ts'
import { platformFaults } from '../../platform/faults.ts'
import type { ProcessIdentity } from '../../platform/processes.ts'
import type { Supervisor, WorkerJob } from '../../platform/supervisor.ts'
import { workerArguments } from '../../protocol/worker/arguments.ts'
import { sessionLogName } from '../../protocol/worker/files.ts'
import { purgeFiles } from './purge.ts'
import { WorkerLink, WorkerUnreachable } from './worker-link.ts'

/** How a worker process is started. */
export interface WorkerProgram {
  /** Absolute. */
  readonly executable: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/** A worker ready to be initialized. */
export interface Spare {
  readonly sessionId: string
  readonly job: WorkerJob
  readonly process: ProcessIdentity
  readonly link: WorkerLink
  /** Owns the connection; handed over to the session, or closed. */
  readonly scope: Scope
}

export interface SupplyOptions {
  readonly supervisor: Supervisor
  readonly program: WorkerProgram
  readonly paths: Paths
  readonly daemonId: string
  readonly clock: Clock
  readonly log: Log
  readonly scope: Scope
  /** Spares kept ready; 0 turns them off. */
  readonly spares: number
}

/** A refill waits this long after a create, so that the new program's start has the machine for itself. */
const REFILL_AFTER_MS = 50
/** So long after a create found no worker and none coming, twice as many spares are kept: creates come in bursts. */
const BURST_MS = 30_000
/** More spares than this dying within the window stop refilling until the window has passed. */
const BUDGET = { max: 5, withinMs: 60_000 } as const
/** A spare that died is retired at once; nothing in it is worth a grace. */
const RETIRE_GRACE_MS = 200

/** A spare that is being started. */
interface Coming {
  /** A create waits for it; it will not be kept. */
  awaited: boolean
  /** Undefined when it could not be started; never rejects. */
  readonly spare: Promise<Spare | undefined>
}

/**
 * Owns the spares it keeps, and gives them up when its scope closes; a worker that was taken is its taker's. Only `take`
 * and `discard` throw: faults of Supervisor.start, worker_connect_failed, and what a retirement or a deletion refused.
 */
export class Supply {
  readonly #options: SupplyOptions
  readonly #ready: Spare[] = []
  readonly #coming = new Set<Coming>()
  readonly #deaths: number[] = []
  #refill: Disposable | undefined
  /** While creates came faster than spares. */
  #burst: Disposable | undefined
  /** Starts and discards nobody else waits for. */
  readonly #leaving = new Set<Promise<void>>()

  constructor(options: SupplyOptions) {
    this.#options = options
    options.scope.defer('spare workers', () => this.#dismiss())
  }

  /** Spares that could be taken now. */
  get ready(): number {
    return this.#ready.length
  }

  /** A worker for one new session: a spare that is alive, one that is coming, else a fresh one. Faults as Supervisor.start. */
  async take(): Promise<Spare> {
    for (;;) {
      const spare = this.#ready.shift() ?? (await this.#next())
      if (spare === undefined) {
        this.#missed()
        return this.#start()
      }
      if (spare.link.alive) return spare
    }
  }

  /** Asks for spares again; cheap, returns at once. */
  refill(afterMs = REFILL_AFTER_MS): void {
    const { scope } = this.#options
    if (scope.closed || this.#refill !== undefined || this.#ready.length + this.#coming.size >= this.#wanted) return
    this.#refill = scope.after(Math.max(afterMs, this.#pause()), 'refill spares', () => {
      this.#refill = undefined
      this.#fill()
    })
  }

  /** Gives up a worker that was never initialized, or whose initialization failed: ends it and forgets its job. */
  async discard(spare: Spare): Promise<void> {
    spare.link.close()
    await spare.scope.close()
    await this.#options.supervisor.retire(spare.job, RETIRE_GRACE_MS)
    await purgeFiles(this.#options.paths, spare.sessionId)
  }

  get #wanted(): number {
    return this.#options.spares * (this.#burst === undefined ? 1 : 2)
  }

  /** The spare that comes and nobody waits for yet: it is there sooner than one started now. */
  async #next(): Promise<Spare | undefined> {
    for (const coming of this.#coming) {
      if (coming.awaited) continue
      coming.awaited = true
      return await coming.spare
    }
    return undefined
  }

  #missed(): void {
    const { scope, spares } = this.#options
    if (spares === 0 || scope.closed) return
    this.#burst?.[Symbol.dispose]()
    this.#burst = scope.after(BURST_MS, 'burst over', () => {
      this.#burst = undefined
      for (const spare of this.#ready.splice(spares)) this.#discardBehind(spare)
    })
  }

  #fill(): void {
    const coming: Coming = { awaited: false, spare: this.#startSpare() }
    this.#coming.add(coming)
    this.#finishBeforeClose(
      coming.spare.then(async (spare) => {
        this.#coming.delete(coming)
        if (spare !== undefined && !coming.awaited) {
          if (this.#options.scope.closed) return await this.discard(spare).catch(() => undefined)
          this.#keep(spare)
        }
        this.refill()
      }),
    )
  }

  #keep(spare: Spare): void {
    this.#ready.push(spare)
    spare.link.attend(
      () => undefined,
      () => this.#died(spare),
    )
  }

  async #startSpare(): Promise<Spare | undefined> {
    try {
      return await this.#start()
    } catch (failure) {
      if (this.#options.scope.closed) return undefined
      this.#deaths.push(this.#options.clock.monotonic())
      this.#options.log.warn({ problem: messageOf(failure) }, 'no spare worker')
      return undefined
    }
  }

  #died(spare: Spare): void {
    const at = this.#ready.indexOf(spare)
    if (at < 0 || this.#options.scope.closed) return // it was taken, or the daemon stops
    this.#ready.splice(at, 1)
    this.#deaths.push(this.#options.clock.monotonic())
    this.#options.log.warn({ session_id: spare.sessionId }, 'a spare worker ended')
    this.#discardBehind(spare)
    this.refill()
  }

  #discardBehind(spare: Spare): void {
    // What fails here is found as an ended job at the next start.
    this.#finishBeforeClose(this.discard(spare).catch(() => undefined))
  }

  #finishBeforeClose(work: Promise<void>): void {
    const leaving = work.finally(() => this.#leaving.delete(leaving))
    this.#leaving.add(leaving)
  }

  /** How long to wait so that no more than the budget die within its window. */
  #pause(): number {
    const now = this.#options.clock.monotonic()
    while (this.#deaths[0] !== undefined && this.#deaths[0] <= now - BUDGET.withinMs) this.#deaths.shift()
    return this.#deaths.length >= BUDGET.max ? (this.#deaths[0] ?? now) + BUDGET.withinMs - now : 0
  }

  async #start(): Promise<Spare> {
    const { supervisor, program, paths, daemonId, scope } = this.#options
    const sessionId = `s-${ulid()}`
    const job: WorkerJob = { sessionId, generation: 1 }
    const spec = {
      ...job,
      executable: program.executable,
      args: [...program.args, ...commandLine(paths, job)],
      env: program.env,
    }
    const process = await supervisor.start(spec, scope.signal).catch(async (failure: unknown) => {
      await purgeFiles(paths, sessionId) // it may have come as far as its journal
      throw failure
    })
    const mine = scope.child(`worker ${sessionId}`)
    try {
      const link = await openLink({
        socketPath: paths.workerSocket(sessionId),
        daemonId,
        scope: mine,
        clock: this.#options.clock,
        ended: async () => (await supervisor.inspect(job)).state === 'ended',
        log: join(paths.logs, sessionLogName(sessionId)),
      })
      return { sessionId, job, process, link, scope: mine }
    } catch (failure) {
      await mine.close()
      await supervisor.retire(job, RETIRE_GRACE_MS)
      await purgeFiles(paths, sessionId)
      throw failure
    }
  }

  async #dismiss(): Promise<void> {
    const spares = this.#ready.splice(0)
    await Promise.all([...spares.map((spare) => this.discard(spare)), ...this.#leaving])
  }
}

/** Supervisors give a worker the descriptor it says READY on. */
const commandLine = (paths: Paths, job: WorkerJob): string[] =>
  workerArguments({
    'session-id': job.sessionId,
    'worker-generation': String(job.generation),
    'daemon-socket-path': paths.daemonSocket,
    'control-socket-path': paths.workerSocket(job.sessionId),
    'state-root': paths.state,
    'ready-fd': '3',
  })

/**
 * A worker that runs answers at once; more is for a machine under load, and less than a client waits for its answer.
 * What may take longer says so.
 */
const WORKER_REQUEST_MS = 4_000

/**
 * Connects to a worker that was just started, with retries. Throws Fault worker_exited_before_ready once it is gone, or
 * worker_connect_failed after WORKER_CONNECT_MS. Refusals are not retried.
 */
async function openLink(options: {
  socketPath: string
  daemonId: string
  scope: Scope
  clock: Clock
  ended: () => Promise<boolean>
  log: string
}): Promise<WorkerLink> {
  const { clock, scope, ended, log } = options
  const until = clock.monotonic() + WORKER_CONNECT_MS
  for (;;) {
    try {
      return await WorkerLink.open({ ...options, requestMs: WORKER_REQUEST_MS })
    } catch (failure) {
      if (!isConnectFailure(failure) && !(failure instanceof WorkerUnreachable)) throw failure
      if (await ended()) throw platformFaults.worker_exited_before_ready({ how: 'its process is gone', log }, failure)
      if (clock.monotonic() + WORKER_CONNECT_RETRY_MS > until)
        throw platformFaults.worker_connect_failed({ waitedMs: WORKER_CONNECT_MS, log }, failure)
    }
    await delay(clock, WORKER_CONNECT_RETRY_MS, scope.signal)
  }
}

/** ECONNRESET: it ended between the connect and its accept. */
const NOBODY_THERE = ['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'EAGAIN']

/** The socket is not there or nobody accepts on it. */
export const isConnectFailure = (failure: unknown): boolean =>
  failure instanceof Error && 'code' in failure && NOBODY_THERE.includes(String(failure.code))
