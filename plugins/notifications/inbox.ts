/**
 * The records. Every change is durable before it is told.
 * Invariants
 *  1. A session has at most one unread turn record, and none beside an open attention record.
 *  2. Records and their text are bounded (retention.ts): over it the least needed are deleted, never the new one refused.
 *  3. The sets of ids are hints: a failed write takes its record back, so each id is looked up before it counts.
 */
import { crashPoint } from '../../kernel/crash-points.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Log } from '../../kernel/log.ts'
import { put, remove, type Change, type RecordTables, type Table } from '../../kernel/store/tables.ts'
import { messageOf } from '../../protocol/fault.ts'
import { faults } from './faults.ts'
import { inListOrder } from './list.ts'
import { momentKey, type Draft, type MomentKind } from './request.ts'
import { charsOf, forgettable, leastNeeded, MAX_RECORDS, MAX_TEXT_CHARS } from './retention.ts'
import { isOpen, moved } from './status.ts'
import { inboxTable, type Stored } from './stored.ts'
import type { NotificationRecord, NotificationStatus } from './types.ts'
import type { Work } from './work.ts'

export interface InboxTold {
  created(record: NotificationRecord): void
  updated(record: NotificationRecord): void
  deleted(id: string): void
  /** Whether the notify command is to hear of a new record. */
  isAnnounced(record: NotificationRecord): boolean
}

export class Inbox {
  readonly #store: RecordTables
  readonly #table: Table<Stored>
  readonly #clock: Clock
  readonly #log: Log
  readonly #work: Work
  readonly #told: InboxTold
  readonly #bySession = new Map<string, Set<string>>()
  #sorted: string[] | undefined
  /** Of records that are not deleted, about: counted again when the bound seems reached. */
  #count = 0
  #chars = 0
  #bounding: Promise<void> | undefined

  constructor(store: RecordTables, clock: Clock, log: Log, work: Work, told: InboxTold) {
    this.#store = store
    this.#table = store.table(inboxTable)
    this.#clock = clock
    this.#log = log
    this.#work = work
    this.#told = told
  }

  /** Once, after the store was loaded. */
  load(): void {
    for (const { record } of this.#table.values()) this.#index(record)
    this.#recount()
  }

  get(id: string): NotificationRecord | undefined {
    return this.#table.get(id)?.record
  }

  *values(): Generator<NotificationRecord> {
    for (const { record } of this.#table.values()) yield record
  }

  /** In the order of notification.list, deleted ones included. */
  sorted(): NotificationRecord[] {
    this.#sorted ??= [...this.#table.values()].map(({ record }) => record.id).sort(inListOrder)
    return this.#sorted.flatMap((id) => this.get(id) ?? [])
  }

  /** Records of a session that are not deleted. */
  ofSession(sessionId: string): NotificationRecord[] {
    return [...(this.#bySession.get(sessionId) ?? [])].flatMap((id) => {
      const record = this.get(id)
      return record === undefined || record.status === 'deleted' ? [] : [record]
    })
  }

  /** Records of one moment of a session that are not dealt with. */
  openOf(moment: MomentKind, sessionId: string): NotificationRecord[] {
    const key = momentKey(moment, sessionId)
    return this.ofSession(sessionId).filter((it) => it.dedupe_key === key && isOpen(it))
  }

  /** Newest record of a moment's key that is not deleted. */
  newestOf(moment: MomentKind, sessionId: string): NotificationRecord | undefined {
    const key = momentKey(moment, sessionId)
    return this.ofSession(sessionId)
      .filter((it) => it.dedupe_key === key)
      .sort((a, b) => inListOrder(a.id, b.id))[0]
  }

  /** Adds a record and supersedes what it makes superfluous. Throws notification_store_error; then nothing changed. */
  async add(record: NotificationRecord): Promise<NotificationRecord> {
    const { session_id: sessionId, dedupe_key: key } = record
    // One that is dealt with already, as after a full disk, changes no other.
    const isNew = sessionId !== undefined && record.status === 'unread'
    const isTurn = isNew && key === momentKey('turn', sessionId)
    const isAttention = isNew && key === momentKey('attention', sessionId)
    const attention = isTurn ? this.openOf('attention', sessionId)[0] : undefined
    const added =
      attention === undefined ? record : { ...moved(record, 'acknowledged', this.now()), superseded_by: attention.id }
    const superseded = (isTurn || isAttention ? this.openOf('turn', sessionId) : [])
      .filter((it) => it.status === 'unread')
      .map((it) => ({ ...moved(it, 'acknowledged', this.now()), superseded_by: attention?.id ?? record.id }))
    const owed = added.status === 'unread' && this.#told.isAnnounced(added)
    await this.#write([
      put(this.#table, { record: added, ...(owed ? { announce: 'owed' as const } : {}) }),
      ...superseded.map((it) => this.#changed(it)),
    ])
    crashPoint('notify.committed')
    this.#told.created(added)
    for (const it of superseded) this.#told.updated(it)
    this.#bound()
    return added
  }

  /** Puts a better report in place of a record's content; what the owner did with it stays. */
  async upgrade(record: NotificationRecord, draft: Draft): Promise<NotificationRecord> {
    const upgraded = upgradedBy(record, draft)
    await this.#write([this.#changed(upgraded)])
    this.#told.updated(upgraded)
    return upgraded
  }

  /** Acknowledges records whose moment is over. */
  async resolve(records: readonly NotificationRecord[]): Promise<void> {
    if (records.length === 0) return
    const at = this.now()
    const resolved = records.map((it) => moved(it, 'acknowledged', at))
    await this.#write(resolved.map((it) => this.#changed(it)))
    for (const it of resolved) this.#told.updated(it)
  }

  /** Throws invalid_notification_transition, notification_store_error. */
  async move(record: NotificationRecord, to: NotificationStatus): Promise<NotificationRecord> {
    const next = moved(record, to, this.now())
    await this.#write([this.#changed(next)])
    if (to === 'deleted') this.#gone([next])
    else this.#told.updated(next)
    return next
  }

  /** Deletes records; they stay listable as deleted for a while. */
  async delete(records: readonly NotificationRecord[]): Promise<void> {
    if (records.length === 0) return
    const at = this.now()
    const deleted = records.map((it) => moved(it, 'deleted', at))
    await this.#write(deleted.map((it) => this.#changed(it)))
    this.#gone(deleted)
  }

  /** Takes deleted records out of the log. */
  async forget(records: readonly NotificationRecord[]): Promise<void> {
    if (records.length === 0) return
    await this.#write(records.map((it) => remove(this.#table, it.id)))
    for (const it of records) if (it.session_id !== undefined) this.#unindex(it.session_id, it.id)
    this.#sorted = undefined
  }

  async forgetOld(): Promise<void> {
    const deleted = [...this.values()].filter((it) => it.status === 'deleted')
    await this.forget(forgettable(deleted, this.#clock.now()))
  }

  /** Ids the notify command has not been told of, oldest first. */
  owed(): string[] {
    return [...this.#table.values()].flatMap((it) => (it.announce === 'owed' ? [it.record.id] : [])).sort()
  }

  /**
   * The notify command is about to hear of it: durable, so that a daemon that dies over it leaves that. Answers which
   * attempt it is, from 1. Throws notification_store_error.
   */
  async attempt(record: NotificationRecord): Promise<number> {
    const attempts = (this.#table.get(record.id)?.attempts ?? 0) + 1
    await this.#write([put(this.#table, { record, announce: 'owed', attempts })])
    return attempts
  }

  /** The notify command was told, or it is not worth telling any more. */
  async announced(ids: readonly string[]): Promise<void> {
    const records = ids.flatMap((id) => this.get(id) ?? [])
    if (records.length > 0) await this.#write(records.map((record) => put(this.#table, { record })))
  }

  now(): string {
    return new Date(this.#clock.now()).toISOString()
  }

  #changed(record: NotificationRecord): Change {
    const { announce, attempts } = this.#table.get(record.id) ?? {}
    // What is dealt with needs no announcement any more.
    const isOwed = announce !== undefined && record.status === 'unread'
    const owed = isOwed ? { announce, ...(attempts === undefined ? {} : { attempts }) } : {}
    return put(this.#table, { record, ...owed })
  }

  async #write(changes: readonly Change[]): Promise<void> {
    try {
      const done = this.#store.batch(changes)
      for (const change of changes) if ('put' in change) this.#index((change.put as Stored).record)
      await done
    } catch (failure) {
      this.#sorted = undefined
      throw faults.notification_store_error({ problem: messageOf(failure) }, failure)
    }
  }

  #index({ id, session_id, ...record }: NotificationRecord): void {
    if (session_id !== undefined) {
      const ids = this.#bySession.get(session_id)
      if (ids === undefined) this.#bySession.set(session_id, new Set([id]))
      else ids.add(id)
    }
    if (this.#sorted?.includes(id) === false) this.#sorted = undefined
    if (record.status === 'unread') {
      this.#count += 1
      this.#chars += record.title.length + record.body.length
    }
  }

  #unindex(sessionId: string, id: string): void {
    const ids = this.#bySession.get(sessionId)
    ids?.delete(id)
    if (ids?.size === 0) this.#bySession.delete(sessionId)
  }

  #gone(deleted: readonly NotificationRecord[]): void {
    for (const it of deleted) this.#told.deleted(it.id)
  }

  #recount(): void {
    const live = [...this.values()].filter((it) => it.status !== 'deleted')
    this.#count = live.length
    this.#chars = live.reduce((sum, it) => sum + charsOf(it), 0)
  }

  get #isOver(): boolean {
    return this.#count > MAX_RECORDS || this.#chars > MAX_TEXT_CHARS
  }

  /** 2. Beside the creation that went over: its answer does not wait. */
  #bound(): void {
    if (this.#bounding !== undefined || !this.#isOver) return
    this.#recount()
    if (!this.#isOver) return
    this.#bounding = this.#drop().finally(() => (this.#bounding = undefined))
    this.#work.run('the full inbox could not be shortened', this.#bounding)
  }

  async #drop(): Promise<void> {
    for (; this.#isOver; this.#recount()) {
      const dropped = leastNeeded(this.values())
      this.#log.warn({ records: dropped.length }, 'the inbox is full; the least needed records are deleted')
      await this.delete(dropped)
      await this.forgetOld()
    }
  }
}

/** Pure. The record with the content of a better report; its id, key, status and times stay. */
export function upgradedBy(record: NotificationRecord, draft: Draft): NotificationRecord {
  const { source, kind, severity, title, body, metadata, source_id, agent_kind, project_id } = draft
  const { metadata: _old, source_id: _id, ...rest } = record
  return {
    ...rest,
    source,
    kind,
    severity,
    title,
    body,
    ...(metadata === undefined ? {} : { metadata }),
    ...(source_id === undefined ? {} : { source_id }),
    ...(agent_kind === undefined ? {} : { agent_kind }),
    ...(project_id === undefined ? {} : { project_id }),
  }
}
