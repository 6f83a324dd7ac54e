/**
 * After a daemon start, and whenever a worker's connection is lost: each session gets the phase its evidence proves,
 * and what an interrupted transaction still owes is done. Sessions whose runtime cannot be judged are looked at again.
 */
import { Fault } from '../../protocol/fault.ts'
import { examine, sweepSession, type Finding } from './examine.ts'
import { jobOf, type Host } from './host.ts'
import { examineUnrecorded, inventoryOf } from './inventory.ts'
import { isOver } from './machine.ts'
import { message } from './registry.ts'
import { finishRemoval } from './remove.ts'
import { connectSession, importSnapshot, programEnded, retain, retireEnded } from './runtime.ts'
import type { Session } from './session.ts'
import { sendStop } from './stop.ts'

export type Settle = (session: Session, finding: Finding) => Promise<void>

const RECHECK_FIRST_MS = 1_000
const RECHECK_MAX_MS = 60_000
/** Workers asked at the same time during a start. */
const CONCURRENCY = 16

export class Adoption {
  readonly #host: Host
  #starting = false
  #reconnected: Session[] = []

  constructor(host: Host) {
    this.#host = host
  }

  /** Looks now, then again with growing pauses while nothing is proven. */
  readonly examineSoon = (session: Session): void => this.#schedule(session, 0, RECHECK_FIRST_MS)

  /** Before the sockets open: joins records, jobs, sockets and journals. */
  async reconcile(): Promise<void> {
    this.#starting = true
    const { registry, supervisor } = this.#host
    const jobs = await supervisor.list()
    const open = [...registry.sessions()].filter((it) => !isOver(it.phase))
    const kept = jobs.flatMap(({ job }) => {
      const session = registry.find(job.sessionId)
      return session !== undefined && isOver(session.phase) && session.record.worker.generation === job.generation
        ? [session]
        : []
    })
    const unrecorded = jobs.filter(
      ({ job }) => registry.find(job.sessionId)?.record.worker.generation !== job.generation,
    )
    await Promise.all([
      this.#each([...open, ...kept], (session) => this.#look(session)),
      this.#each(unrecorded, ({ job, status }) => examineUnrecorded(this.#host, job, status)),
    ])
    this.#starting = false
    this.#host.inventory.push(...open.filter((it) => !it.removed).map(inventoryOf))
    for (const session of registry.sessions())
      if (!isOver(session.phase) && session.phase !== 'running')
        this.#schedule(session, RECHECK_FIRST_MS, RECHECK_FIRST_MS * 2)
    for (const session of registry.sessions())
      if (session.intent === 'remove' && isOver(session.phase)) this.#payOwed(session)
  }

  /** Tells what was adopted, once somebody can listen. */
  announce(): void {
    for (const session of this.#reconnected.splice(0))
      if (!session.removed) this.#host.registry.tell(session, 'session_runtime_reconnected')
    for (const entry of this.#host.inventory)
      if (entry.status !== 'managed') this.#host.publish('session_runtime_discovered', { entry })
  }

  readonly settle: Settle = async (session, finding) => {
    const host = this.#host
    const { registry } = host
    switch (finding.found) {
      case 'worker':
        return this.#adopt(session, finding)
      case 'journal':
        if (!isOver(session.phase)) programEnded(host, session, finding.journal.exit ?? unknownExit(host))
        return retireEnded(host, session)
      case 'gone':
        return this.#lost(session)
      case 'incompatible':
        return registry.move(
          session,
          'no_common_protocol',
          'worker_protocol_incompatible',
          session.phase === 'incompatible' ? undefined : 'session_updated',
        )
      case 'conflict':
        host.log.warn({ session_id: session.id, problem: finding.problem }, finding.reason)
        return registry.move(
          session,
          'evidence_conflicts',
          finding.reason,
          session.phase === 'conflict' ? undefined : 'session_runtime_conflict',
        )
      case 'unknown':
        host.log.warn({ session_id: session.id, problem: finding.problem }, finding.reason)
        return registry.move(
          session,
          'link_lost',
          finding.reason,
          session.phase === 'unreachable' ? undefined : 'session_updated',
        )
    }
  }

  async #look(session: Session): Promise<void> {
    try {
      const finding = await examine(this.#host, session)
      if (session.removed || this.#host.scope.closed) {
        if (finding.found === 'worker') await finding.scope.close()
        return
      }
      if (isOver(session.phase)) await this.#keepOutput(session, finding)
      else await this.settle(session, finding)
    } catch (failure) {
      if (this.#host.scope.closed) return
      this.#host.log.error({ session_id: session.id, problem: message(failure) }, 'a session could not be reconciled')
    }
    this.#payOwed(session)
  }

  /** The worker of an ended session may still hold its last output. */
  async #keepOutput(session: Session, finding: Finding): Promise<void> {
    if (finding.found !== 'worker')
      return finding.found === 'journal' || finding.found === 'gone' ? retireEnded(this.#host, session) : undefined
    if (session.link !== undefined) return finding.scope.close()
    connectSession(this.#host, session, finding.link, finding.scope, this.examineSoon)
    retain(this.#host, session)
  }

  async #adopt(session: Session, finding: Extract<Finding, { found: 'worker' }>): Promise<void> {
    const host = this.#host
    const { snapshot, link, scope } = finding
    switch (snapshot.phase) {
      case 'uninitialized':
        // Nothing runs: what is left of an interrupted creation. Without one this is not the worker we know.
        await scope.close()
        if (session.record.transaction?.kind !== 'create')
          return this.settle(session, {
            found: 'conflict',
            reason: 'runtime_identity_mismatch',
            problem: 'the recorded worker runs nothing',
          })
        return
      case 'faulted':
        await scope.close()
        await host.supervisor.retire(jobOf(session), host.kernel.config.workers.stopGraceMs)
        return this.#lost(session)
      case 'exited':
      case 'starting':
      case 'running':
      case 'stopping':
        connectSession(host, session, link, scope, this.examineSoon)
        host.registry.move(session, 'adopted', undefined, undefined)
        importSnapshot(host, session, snapshot)
        if (snapshot.exit !== undefined) return programEnded(host, session, snapshot.exit)
        if (this.#starting) this.#reconnected.push(session)
        else host.registry.tell(session, 'session_runtime_reconnected')
    }
  }

  async #lost(session: Session): Promise<void> {
    const host = this.#host
    const swept = await sweepSession(host, session)
    const clean = swept.surviving.length === 0 && swept.unreadable.length === 0
    try {
      const retired = await host.supervisor.retire(jobOf(session), host.kernel.config.workers.stopGraceMs)
      if (retired === 'mismatch')
        return await this.settle(session, {
          found: 'conflict',
          reason: 'runtime_identity_mismatch',
          problem: 'its job is not the recorded worker',
        })
    } catch (failure) {
      return this.settle(session, {
        found: 'unknown',
        reason: 'runtime_supervision_unavailable',
        problem: message(failure),
      })
    }
    if (isOver(session.phase)) return
    host.registry.move(
      session,
      'worker_gone',
      clean ? 'runtime_lost' : 'runtime_lost_cleanup_unconfirmed',
      'session_runtime_lost',
      (it) => {
        const { activity: _over, ...info } = it.info
        // Its end was not observed: there is no exit status to tell.
        return { ...it, info: { ...info, state: 'failed', state_source: 'process' } }
      },
    )
    host.attachments.sessionGone(session)
    for (const watcher of [...session.watchers]) watcher()
    host.hooks.ended.call(session.info)
  }

  #payOwed(session: Session): void {
    const host = this.#host
    if (session.removed || host.scope.closed) return
    const created = session.record.transaction?.kind === 'create'
    if (!created && session.owed === 'nothing') return
    void session
      .enqueue(async () => {
        if (session.removed) return
        if (created || session.owed === 'remove') await finishRemoval(host, session, false)
        else if (session.owed === 'send_stop') await sendStop(host, session)
      })
      .catch((failure: unknown) => {
        if (host.scope.closed) return
        host.log.warn(
          {
            session_id: session.id,
            code: failure instanceof Fault ? failure.code : undefined,
            problem: message(failure),
          },
          'an interrupted operation is not finished yet',
        )
        this.#schedule(session, RECHECK_FIRST_MS, RECHECK_FIRST_MS * 2)
      })
  }

  #schedule(session: Session, afterMs: number, nextMs: number): void {
    const host = this.#host
    if (session.removed || host.scope.closed) return
    session.recheck?.[Symbol.dispose]()
    session.recheck = session.scope.after(afterMs, 'look at the worker', () => {
      session.recheck = undefined
      void session
        .enqueue(() =>
          session.link?.alive === true && session.phase !== 'unreachable' ? Promise.resolve() : this.#look(session),
        )
        .then(() => {
          const settled = isOver(session.phase) || session.phase === 'running' || session.phase === 'stopping'
          if (!settled && session.recheck === undefined)
            this.#schedule(session, nextMs, Math.min(nextMs * 2, RECHECK_MAX_MS))
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

const unknownExit = (host: Host): { stopped_by_user: boolean; exited_at_ms: number; output_force_closed: boolean } => ({
  stopped_by_user: false,
  exited_at_ms: host.kernel.clock.now(),
  output_force_closed: false,
})
