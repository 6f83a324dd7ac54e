/** All sessions of this daemon, by exact id; the one place that stores a change and tells it. */
import { messageOf } from '../../protocol/fault.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Log } from '../../kernel/log.ts'
import type { Scope } from '../../kernel/scope.ts'
import type { Table } from '../../kernel/store/tables.ts'
import type { EventName, EventPayload } from '../../protocol/contract.ts'
import { faults } from './faults.ts'
import type contract from './contract.ts'
import { isDegraded, runtimeStateOf, storedPhase, type Cause, type Phase } from './machine.ts'
import type { SessionRecord } from './record.ts'
import { Session, withRuntimeState } from './session.ts'
import type { SessionInfo } from './types.ts'

export type Publish = <E extends EventName<typeof contract>>(
  event: E,
  payload: EventPayload<typeof contract, E>,
) => void
type SessionEvent = Extract<EventName<typeof contract>, `session_${string}`>
/** Events whose payload is the session itself. */
export type Told = Exclude<SessionEvent, 'session_runtime_discovered'>

/** What comes with a step. */
export interface Move {
  /** runtime.loss_reason from now on; none when left out. */
  readonly reason?: string
  /** For the log only. */
  readonly problem?: string
  readonly event?: Told
  readonly change?: (record: SessionRecord) => SessionRecord
}

export interface RegistryOptions {
  /** A session's fields are others now; not for one outside the list. */
  readonly changed: (now: SessionInfo, before: SessionInfo) => void
  readonly removed: (session: SessionInfo) => void
  readonly table: Table<SessionRecord>
  readonly publish: Publish
  readonly clock: Clock
  readonly log: Log
  readonly scope: Scope
}

/**
 * The sessions of this daemon and the one place that changes their records: memory, store, phase and event together.
 * One per plugin. Sessions it makes are owned by its scope. Throws session_not_found and session_store_failed only.
 */
export class Registry {
  readonly #options: RegistryOptions
  readonly #sessions = new Map<string, Session>()
  #list: readonly SessionInfo[] | undefined
  readonly #behind = new WeakMap<Session, Promise<void>>()

  constructor(options: RegistryOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#sessions.size
  }

  find(id: string): Session | undefined {
    return this.#sessions.get(id)
  }

  /** Throws session_not_found. */
  get(id: string): Session {
    const session = this.#sessions.get(id)
    if (session === undefined) throw faults.session_not_found({ id })
    return session
  }

  sessions(): IterableIterator<Session> {
    return this.#sessions.values()
  }

  /** In order of creation. The same objects until a session changes: nothing is copied for a reader. */
  list(): readonly SessionInfo[] {
    return (this.#list ??= [...this.#sessions.values()].map((it) => it.info))
  }

  /** Takes what the store holds; nothing was observed yet, so everything that may live has to be found again. */
  load(): void {
    const records = [...this.#options.table.values()].sort((a, b) => (a.info.created_at < b.info.created_at ? -1 : 1))
    for (const record of records) {
      const phase = storedPhase(record.info.state, record.info.runtime?.state)
      const session = new Session(shown(record, phase), phase, this.#scopeOf(record))
      this.#sessions.set(session.id, session)
    }
    this.#list = undefined
  }

  /** A session outside the list until `admit`; its scope is owned here. */
  prepare(record: SessionRecord): Session {
    return new Session(record, 'creating', this.#scopeOf(record))
  }

  admit(session: Session): void {
    this.#sessions.set(session.id, session)
    this.#list = undefined
  }

  /** Takes a session out after its record is gone, and tells it if it was ever listed. */
  async evict(session: Session): Promise<void> {
    session.removed = true
    const listed = this.#sessions.delete(session.id)
    this.#list = undefined
    await session.close()
    if (!listed) return
    this.tell(session, 'session_removed')
    this.#options.removed(session.info)
  }

  tell(session: Session, event: Told): void {
    this.#options.publish(event, { session: session.info })
  }

  /** The next timestamp of a session: now, or a millisecond after its last one. */
  stamp(session: Session): string {
    return new Date(Math.max(this.#options.clock.now(), Date.parse(session.info.updated_at) + 1)).toISOString()
  }

  /**
   * A change its caller relies on: durable first, then visible, then told. Throws session_store_failed and changes
   * nothing. Called from a session's command queue.
   */
  async commit(session: Session, change: (record: SessionRecord) => SessionRecord, event?: Told): Promise<void> {
    const base = session.record
    const next = this.#stamped(session, change(base))
    try {
      await this.#options.table.put(next)
    } catch (failure) {
      throw faults.session_store_failed({ problem: messageOf(failure) }, failure)
    }
    if (session.record === base) this.#replace(session, next)
    else {
      // An observation came in meanwhile and was stored without this change; both belong together.
      this.#replace(session, this.#stamped(session, change(session.record)))
      this.#storeBehind(session)
    }
    if (event !== undefined) this.tell(session, event)
  }

  /** An observation: visible and told at once, stored behind. */
  observe(session: Session, change: (record: SessionRecord) => SessionRecord, event?: Told): void {
    if (session.removed) return
    const next = this.#stamped(session, change(session.record))
    if (next !== session.record) {
      this.#replace(session, next)
      this.#storeBehind(session)
    }
    if (event !== undefined) this.tell(session, event)
  }

  /**
   * Steps the phase and shows it: one line in the log, runtime.state and its reason on the session. A degraded
   * session that is found the same way again is neither logged nor told again.
   */
  move(session: Session, cause: Cause, { reason, problem, event, change = (it) => it }: Move = {}): void {
    const { from, to } = session.step(cause)
    const known = !this.#classify(session, to, reason, { from, cause, problem })
    this.observe(session, (record) => this.#withPhase(change(record), to, reason), known ? undefined : event)
  }

  /** Shows why an operation on a session is not finished, without a step of its phase. */
  explain(session: Session, reason: string, problem: string): void {
    if (!this.#classify(session, session.phase, reason, { problem })) return
    this.observe(session, (record) => this.#withPhase(record, session.phase, reason), 'session_updated')
  }

  /** Logs a classification that is not the last one; false when it is. */
  #classify(session: Session, to: Phase, reason: string | undefined, more: Record<string, unknown>): boolean {
    const state = runtimeStateOf(to)
    const line = { session_id: session.id, to, reason, ...more }
    if (reason === undefined && !isDegraded(to)) {
      session.classified = undefined
      this.#options.log.info(line, 'session phase')
      return true
    }
    const classified = `${state}: ${reason ?? String(more['cause'])}`
    if (session.classified === classified) return false
    session.classified = classified
    this.#options.log.warn(line, `session runtime is ${classified}`)
    return true
  }

  async forget(session: Session): Promise<void> {
    await this.#options.table.delete(session.id)
  }

  async store(record: SessionRecord): Promise<void> {
    try {
      await this.#options.table.put(record)
    } catch (failure) {
      throw faults.session_store_failed({ problem: messageOf(failure) }, failure)
    }
  }

  #withPhase(record: SessionRecord, phase: Session['phase'], reason: string | undefined): SessionRecord {
    const info = withRuntimeState(record.info, phase, reason)
    return info === record.info ? record : { ...record, info }
  }

  #scopeOf(record: SessionRecord): () => Scope {
    return () => this.#options.scope.child(record.info.id)
  }

  #stamped(session: Session, record: SessionRecord): SessionRecord {
    return record.info === session.info
      ? record
      : { ...record, info: { ...record.info, updated_at: this.stamp(session) } }
  }

  #replace(session: Session, record: SessionRecord): void {
    const before = session.info
    session.replace(record)
    this.#list = undefined
    if (record.info !== before && this.#sessions.has(session.id)) this.#options.changed(record.info, before)
  }

  /** Resolves when all that was observed of a session until now is on disk, or is known not to come there. */
  async written(session: Session): Promise<void> {
    await this.#behind.get(session)
  }

  #storeBehind(session: Session): void {
    const stored = this.#options.table.put(session.record).catch((failure: unknown) => {
      if (!session.removed)
        this.#options.log.error(
          { session_id: session.id, problem: messageOf(failure) },
          'a session change is not on disk',
        )
    })
    this.#behind.set(session, stored) // writes keep their order: the last one done, all are
  }
}

/** A stored record as it is shown before anything was observed. */
function shown(record: SessionRecord, phase: Session['phase']): SessionRecord {
  const info = withRuntimeState(record.info, phase, record.info.runtime?.loss_reason)
  return info === record.info ? record : { ...record, info }
}
