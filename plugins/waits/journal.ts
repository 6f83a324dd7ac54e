/**
 * Turn events in the order they were recorded, durable, the newest RETAINED of them.
 * Invariants
 *  1. Numbers grow by one and are never used again, so a cursor means the same after a restart.
 *  2. An event is told once it is durable, or at once where the disk refuses it: it was observed all the same.
 *  3. The end of a runtime is recorded once.
 */
import { randomBytes } from 'node:crypto'
import * as v from 'valibot'
import type { Clock } from '../../kernel/clock.ts'
import type { Log } from '../../kernel/log.ts'
import { put, remove, type RecordTables, type Table, type TableSpec } from '../../kernel/store/tables.ts'
import { messageOf } from '../../protocol/fault.ts'
import { Int } from '../../protocol/scalars.ts'
import { TurnKind } from './contract.ts'

/** Events a cursor may lie behind; older ones answer cursor_reset. */
export const RETAINED = 10_000
/** Dropped together, so that one event does not cost two lines. */
const DROPPED_AT_ONCE = 500

const TurnEvent = v.object({
  seq: Int,
  session_id: v.string(),
  event: TurnKind,
  at_ms: Int,
  /** Worker generation, for `exited`. */
  generation: v.optional(v.string()),
})
export type TurnEvent = v.InferOutput<typeof TurnEvent>
const Identity = v.object({ id: v.string(), created_ms: Int })

const turns: TableSpec<TurnEvent> = {
  kind: 'turn',
  key: (it) => String(it.seq),
  decode: (raw) => v.parse(TurnEvent, raw),
  encode: (it) => it,
}
const identities: TableSpec<v.InferOutput<typeof Identity>> = {
  kind: 'journal',
  key: () => 'journal',
  decode: (raw) => v.parse(Identity, raw),
  encode: (it) => it,
}

export class TurnJournal {
  readonly #store: RecordTables
  readonly #turns: Table<TurnEvent>
  readonly #identities: Table<v.InferOutput<typeof Identity>>
  readonly #clock: Clock
  readonly #log: Log
  readonly #listeners = new Set<(event: TurnEvent) => void>()
  /** Oldest first. */
  #events: TurnEvent[] = []
  #id = ''
  #createdMs = 0
  #last = 0
  #lastTold = 0
  #told: Promise<void> = Promise.resolve()

  /** Declares its tables; `take` reads them once the store is loaded. */
  constructor(store: RecordTables, clock: Clock, log: Log) {
    this.#store = store
    this.#turns = store.table(turns)
    this.#identities = store.table(identities)
    this.#clock = clock
    this.#log = log
  }

  async take(): Promise<void> {
    this.#events = [...this.#turns.values()].sort((a, b) => a.seq - b.seq)
    this.#last = this.#lastTold = this.#events.at(-1)?.seq ?? 0
    let identity = this.#identities.get('journal')
    if (identity === undefined) {
      identity = { id: randomBytes(6).toString('base64url'), created_ms: this.#clock.now() }
      await this.#identities.put(identity)
    }
    this.#id = identity.id
    this.#createdMs = identity.created_ms
  }

  /** Differs for journals that have nothing in common. */
  get id(): string {
    return this.#id
  }
  /** Number of the last event that was told: one that is still being stored is behind a cursor made now. */
  get last(): number {
    return this.#lastTold
  }
  /** Number of the oldest event that is kept; one past `last` while none is. */
  get first(): number {
    return this.#events[0]?.seq ?? this.#lastTold + 1
  }
  /** From this time on every event is kept, milliseconds since the epoch. */
  get completeSinceMs(): number {
    return this.first <= 1 ? this.#createdMs : (this.#events[0]?.at_ms ?? this.#clock.now())
  }

  /** Everything recorded was told. */
  get isQuiet(): boolean {
    return this.#last === this.#lastTold
  }

  /** First event behind `seq` that `wanted` takes. */
  find(seq: number, wanted: (event: TurnEvent) => boolean): TurnEvent | undefined {
    for (let at = Math.max(0, seq - this.first + 1); at < this.#events.length; at++) {
      const event = this.#events[at]
      if (event !== undefined && event.seq > seq && wanted(event)) return event
    }
    return undefined
  }

  /** False when that end is recorded already (3). */
  recordExit(sessionId: string, generation: string): boolean {
    const known = this.#events.some(
      (it) => it.event === 'exited' && it.session_id === sessionId && it.generation === generation,
    )
    if (!known) this.record(sessionId, 'exited', generation)
    return !known
  }

  /** Listeners hear of it in the order of the numbers. */
  record(sessionId: string, kind: TurnKind, generation?: string): void {
    const event: TurnEvent = {
      seq: ++this.#last,
      session_id: sessionId,
      event: kind,
      at_ms: this.#clock.now(),
      ...(generation === undefined ? {} : { generation }),
    }
    const dropped = this.#events.length >= RETAINED + DROPPED_AT_ONCE ? this.#events.slice(0, DROPPED_AT_ONCE) : []
    const stored = this.#store
      .batch([put(this.#turns, event), ...dropped.map((it) => remove(this.#turns, String(it.seq)))])
      .catch((failure: unknown) => {
        this.#log.warn({ session_id: sessionId, kind, problem: messageOf(failure) }, 'a turn event is not durable')
      })
    this.#told = this.#told.then(async () => {
      await stored // 2
      if (dropped.length > 0) this.#events = this.#events.slice(dropped.length)
      this.#events.push(event)
      this.#lastTold = event.seq
      for (const listener of [...this.#listeners]) listener(event)
    })
  }

  listen(listener: (event: TurnEvent) => void): Disposable {
    this.#listeners.add(listener)
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) }
  }
}
