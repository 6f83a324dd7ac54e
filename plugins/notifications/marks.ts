/**
 * What was told and still stands, durable: the record in the inbox does not say it, since the policy may keep none and
 * its owner may have dealt with it. Cleared when the session works or is over.
 */
import type { Table } from '../../kernel/store/tables.ts'
import type { Moment } from './moment.ts'
import type { MomentKind } from './request.ts'
import type { Retries } from './retries.ts'
import { markKey, type Mark } from './stored.ts'

export class Marks {
  readonly #table: Table<Mark>
  readonly #retries: Retries
  readonly #isKnown: (sessionId: string) => boolean

  constructor(table: Table<Mark>, retries: Retries, isKnown: (sessionId: string) => boolean) {
    this.#table = table
    this.#retries = retries
    this.#isKnown = isKnown
  }

  values(): Mark[] {
    return [...this.#table.values()]
  }

  /** Durable, or kept until it is. Nothing for a session the daemon does not hold, or a moment that was not told. */
  async keep(sessionId: string, kind: MomentKind, moment: Moment): Promise<void> {
    if (!moment.told || !this.#isKnown(sessionId)) return
    const { id, heard, recordId, askedAt, source } = moment
    const mark: Mark = {
      session_id: sessionId,
      moment: kind,
      heard,
      ...(id === undefined ? {} : { id }),
      ...(recordId === undefined ? {} : { record_id: recordId }),
      ...(askedAt === undefined ? {} : { asked_at: askedAt }),
      ...(source === undefined ? {} : { source }),
    }
    const key = markKey(mark)
    if (isSame(this.#table.get(key), mark)) return
    await this.#retries.write(`told ${key}`, () => this.#table.put(mark))
  }

  async clear(sessionId: string, kind: MomentKind): Promise<void> {
    const key = markKey({ session_id: sessionId, moment: kind })
    await this.#retries.write(`told ${key}`, () => this.#table.delete(key))
  }
}

const isSame = (a: Mark | undefined, b: Mark): boolean =>
  a !== undefined &&
  a.id === b.id &&
  a.heard === b.heard &&
  a.record_id === b.record_id &&
  a.asked_at === b.asked_at &&
  a.source === b.source
