/**
 * After a daemon start, and whenever a worker's connection is lost: each session gets the phase its evidence proves,
 * and what an interrupted operation still owes is done. Sessions whose runtime cannot be judged are looked at again.
 */
import { messageOf } from '../../protocol/fault.ts'
import { crashPoint } from '../../kernel/crash-points.ts'
import type { JobState, WorkerJob } from '../../platform/supervisor.ts'
import { within } from '../../platform/timing.ts'
import { examine, type Finding } from './examine.ts'
import type { Host } from './host.ts'
import { explainOwed, isHalfCreated, keepDoubtfulCreations, owes, payOwed } from './interrupted.ts'
import { inventoryOf } from './inventory.ts'
import { isOver } from './machine.ts'
import { connectSession, retain, retireEnded } from './runtime.ts'
import type { Session } from './session.ts'
import { settle, type Keeper, type Settle } from './settle.ts'
import { newPatience } from './sweep-session.ts'
import type { Patience } from './sweep.ts'
import { examineUnrecorded, purgeUnrecorded } from './unrecorded.ts'

const RECHECK_FIRST_MS = 1_000
const RECHECK_MAX_MS = 60_000
/** Workers asked at the same time during a start. */
const CONCURRENCY = 16
/** A start waits this long for what interrupted operations owe: most of it is done at once, and nobody sees it half done. */
const OWED_MS = 1_000

type Jobs = readonly { job: WorkerJob; status: JobState }[]

/**
 * Finds out what became of every session that may still live: once before the sockets open, and again whenever a
 * connection is lost, after 1 s to 60 s, until it is proven. One per plugin; its timers belong to the sessions' scopes.
 * It throws nothing: what cannot be proven is shown on the session.
 */
export class Adoption implements Keeper {
  readonly host: Host
  #starting = false
  #reconnected: Session[] = []

  constructor(host: Host) {
    this.host = host
  }

  /** Looks now, then again with growing pauses while nothing is proven. */
  readonly examine = (session: Session): void => this.#schedule(session, 0)

  readonly settle: Settle = (session, finding, patience) => settle(this, session, finding, patience)

  readonly reconnected = (session: Session): void => {
    if (this.#starting) this.#reconnected.push(session)
    else this.host.registry.tell(session, 'session_runtime_reconnected')
  }

  /** Before the sockets open: joins records, jobs, sockets and journals. */
  async reconcile(): Promise<void> {
    this.#starting = true
    const { host } = this
    const jobs = await this.#jobs()
    crashPoint('adopt.listed')
    await keepDoubtfulCreations(host)
    const patience = newPatience(host)
    const open = [...host.registry.sessions()].filter((it) => !isOver(it.phase))
    await Promise.all([
      this.#each([...open, ...this.#ended(jobs ?? [])], (session) => this.#look(session, patience)),
      this.#settleUnrecorded(jobs),
    ])
    await this.#payOwed(patience)
    this.#starting = false
    host.inventory.push(...open.filter((it) => !it.removed && !isOver(it.phase)).map(inventoryOf))
    for (const session of host.registry.sessions()) if (!isSettled(session)) this.#schedule(session)
    crashPoint('adopt.after')
  }

  /** Tells what was adopted, once somebody can listen. */
  announce(): void {
    for (const session of this.#reconnected.splice(0))
      if (!session.removed) this.host.registry.tell(session, 'session_runtime_reconnected')
    for (const entry of this.host.inventory)
      if (entry.status !== 'managed') this.host.publish('session_runtime_discovered', { entry })
  }

  /** Undefined while the service manager cannot be asked. */
  async #jobs(): Promise<Jobs | undefined> {
    try {
      return await this.host.supervisor.list()
    } catch (failure) {
      if (!this.host.scope.closed)
        this.host.log.warn({ problem: messageOf(failure) }, 'the jobs of workers cannot be listed')
      return undefined
    }
  }

  /** Sessions that are over while their worker may still hold their last output. */
  #ended(jobs: Jobs): Session[] {
    return jobs.flatMap(({ job }) => {
      const session = this.host.registry.find(job.sessionId)
      return session !== undefined && isOver(session.phase) && session.record.worker.generation === job.generation
        ? [session]
        : []
    })
  }

  /** Jobs and files no record names; the jobs are asked for again while they cannot be listed. */
  async #settleUnrecorded(jobs: Jobs | undefined, pauseMs = RECHECK_FIRST_MS): Promise<void> {
    const { host } = this
    if (jobs === undefined) {
      host.scope.after(pauseMs, 'list the jobs again', () => {
        void this.#jobs().then((again) => this.#settleUnrecorded(again, Math.min(pauseMs * 2, RECHECK_MAX_MS)))
      })
      return
    }
    const unrecorded = jobs.filter(
      ({ job }) => host.registry.find(job.sessionId)?.record.worker.generation !== job.generation,
    )
    await this.#each(unrecorded, ({ job, status }) => examineUnrecorded(host, job, status))
    await purgeUnrecorded(host, new Set(jobs.map(({ job }) => job.sessionId)))
  }

  async #look(session: Session, patience: Patience): Promise<void> {
    const { host } = this
    // A creation nobody was told of is undone, not adopted.
    if (session.removed || session.link?.alive === true || isHalfCreated(session)) return
    try {
      const finding = await examine(host, session)
      if (session.removed || host.scope.closed) {
        if (finding.found === 'worker') await finding.scope.close()
      } else if (isOver(session.phase)) await this.#keepOutput(session, finding)
      else await this.settle(session, finding, patience)
    } catch (failure) {
      if (host.scope.closed) return
      host.log.error({ session_id: session.id, problem: messageOf(failure) }, 'a session could not be reconciled')
    }
  }

  /** The worker of an ended session may still hold its last output. */
  async #keepOutput(session: Session, finding: Finding): Promise<void> {
    if (finding.found !== 'worker')
      return finding.found === 'journal' || finding.found === 'gone' ? retireEnded(this.host, session) : undefined
    if (session.phase === 'lost') return finding.scope.close()
    connectSession(this.host, session, finding.link, finding.scope, this.examine)
    retain(this.host, session)
  }

  /** What interrupted operations of the daemon before this one left to do. */
  async #payOwed(patience: Patience): Promise<void> {
    const owing = [...this.host.registry.sessions()].filter(owes)
    if (owing.length === 0) return
    const paid = Promise.all(owing.map((session) => session.enqueue(() => this.#pay(session, patience))))
    await within<unknown>(this.host.kernel.clock, OWED_MS, paid, () => undefined)
  }

  async #pay(session: Session, patience: Patience): Promise<void> {
    const { host } = this
    if (!owes(session) || host.scope.closed) return
    try {
      await payOwed(host, session, patience)
    } catch (failure) {
      if (!host.scope.closed && !session.removed) explainOwed(host, session, failure)
    }
  }

  #schedule(session: Session, afterMs = session.nextPauseMs ?? RECHECK_FIRST_MS): void {
    const { host } = this
    if (session.removed || host.scope.closed) return
    session.nextPauseMs = Math.min(Math.max(afterMs * 2, RECHECK_FIRST_MS), RECHECK_MAX_MS)
    session.recheck?.[Symbol.dispose]()
    session.recheck = session.scope.after(afterMs, 'look at the worker', () => {
      session.recheck = undefined
      const patience = newPatience(host)
      const pass = async (): Promise<void> => {
        if (!isOver(session.phase)) await this.#look(session, patience)
        await this.#pay(session, patience)
      }
      void session.enqueue(pass).then(() => {
        if (isSettled(session)) session.nextPauseMs = undefined
        else if (session.recheck === undefined) this.#schedule(session)
      })
    })
  }

  async #each<T>(items: readonly T[], run: (item: T) => Promise<void>): Promise<void> {
    const queue = [...items]
    const lane = async (): Promise<void> => {
      for (let item = queue.shift(); item !== undefined; item = queue.shift()) await run(item)
    }
    await Promise.all(Array.from({ length: Math.min(CONCURRENCY, queue.length) }, lane))
  }
}

/** Nothing about the session has to be found out or done any more. */
const isSettled = (session: Session): boolean =>
  session.removed ||
  ((isOver(session.phase) || session.phase === 'running' || session.phase === 'stopping') && !owes(session))
