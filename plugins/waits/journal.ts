/**
 * Turn events in the order they were recorded, durable, the newest RETAINED of them.
 * Invariants
 *  1. Numbers grow by one and are never used again, so a cursor means the same after a restart.
 *  2. An event is told once it is durable, or at once where the disk refuses it: it was observed all the same. It is
 *     stored as soon as there is room; a cursor behind it before that means something to this daemon alone.
 *  3. The end of a runtime is recorded once, and so is a report, by its id.
 */
import { randomBytes } from 'node:crypto'
import * as v from 'valibot'
import type { Clock } from '../../kernel/clock.ts'
import type { Log } from '../../kernel/log.ts'
import type { Scope } from '../../kernel/scope.ts'
import { put, remove, type RecordTables, type Table, type TableSpec } from '../../kernel/store/tables.ts'
import { messageOf } from '../../protocol/fault.ts'
import { Int } from '../../protocol/scalars.ts'
import { TurnKind } from './contract.ts'

/** Events a cursor may lie behind; older ones answer cursor_reset. */
export const RETAINED = 10_000
/** Dropped together, so that one event does not cost two lines. */
const DROPPED_AT_ONCE = 500

/** Pause before what the disk refused is tried again. */
const RETRY_MS = 2_000
/** Numbers above it are damage: a cursor holds fifteen digits. */
const MAX_SEQ = 100_000_000_000_000

const TurnEvent = v.object({
  seq: v.pipe(Int, v.minValue(1), v.maxValue(MAX_SEQ)),
  session_id: v.string(),
  event: TurnKind,
  at_ms: Int,
  /** Worker generation, for `exited`. */
  generation: v.optional(v.string()),
  /** Id of the settled report. */
  report: v.optional(v.string()),
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

/** Pure. Equal for events that are the same one (3); a report may be reported again under another kind. */
const identityOf = ({ session_id, generation = '', report }: Omit<TurnEvent, 'seq' | 'at_ms'>): string =>
  report === undefined ? `exited ${session_id} ${generation}` : `report ${report}`

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
  /** `identityOf` the events that are recorded once (3), those on their way included. */
  readonly #once = new Set<string>()
  /** Told and not durable yet, oldest first; at most RETAINED. */
  #refused: TurnEvent[] = []
  #retry: Disposable | undefined
  readonly #scope: Scope
  /** Of this journal in this daemon. */
  readonly #daemon = randomBytes(6).toString('base64url')

  /** Declares its tables; `take` reads them once the store is loaded. */
  constructor(store: RecordTables, clock: Clock, log: Log, scope: Scope) {
    this.#scope = scope
    this.#store = store
    this.#turns = store.table(turns)
    this.#identities = store.table(identities)
    this.#clock = clock
    this.#log = log
  }

  async take(): Promise<void> {
    this.#events = [...this.#turns.values()].sort((a, b) => a.seq - b.seq)
    this.#last = this.#lastTold = this.#events.at(-1)?.seq ?? 0
    for (const it of this.#events) this.#once.add(identityOf(it))
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
  /** The place behind the event `seq`, as a cursor names it (2). */
  place(seq: number): { journal: string; seq: number; daemon?: string } {
    const isDurable = seq < (this.#refused[0]?.seq ?? Infinity)
    return { journal: this.#id, seq, ...(isDurable ? {} : { daemon: this.#daemon }) }
  }
  /** Whether a cursor's place is one here: its journal's, not in the future, and not lost with another daemon. */
  isPlace({ journal, seq, daemon }: { journal: string; seq: number; daemon?: string }): boolean {
    return journal === this.#id && seq <= this.#lastTold && (daemon === undefined || daemon === this.#daemon)
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
    const end = { session_id: sessionId, event: 'exited', generation } as const
    const known = this.#once.has(identityOf(end))
    if (!known) void this.#record(end)
    return !known
  }

  /** A settled report; the same id again is recorded already. Resolves once it is told, durable where the disk takes it. */
  async recordReport(sessionId: string, kind: TurnKind, report: string): Promise<void> {
    const settled = { session_id: sessionId, event: kind, report }
    await (this.#once.has(identityOf(settled)) ? this.#told : this.#record(settled))
  }

  /** Listeners hear of it in the order of the numbers. */
  #record(what: Omit<TurnEvent, 'seq' | 'at_ms'>): Promise<void> {
    const event: TurnEvent = { seq: ++this.#last, at_ms: Math.round(this.#clock.now()), ...what }
    const dropped = this.#events.length >= RETAINED + DROPPED_AT_ONCE ? this.#events.slice(0, DROPPED_AT_ONCE) : []
    this.#once.add(identityOf(event))
    const stored = this.#write([event], dropped)
    this.#told = this.#told.then(async () => {
      await stored // 2
      if (dropped.length > 0) this.#drop(dropped)
      this.#events.push(event)
      this.#lastTold = event.seq
      for (const listener of [...this.#listeners]) listener(event)
    })
    return this.#told
  }

  #drop(dropped: readonly TurnEvent[]): void {
    this.#events = this.#events.slice(dropped.length)
    for (const it of dropped) this.#once.delete(identityOf(it))
  }

  /** Never rejects: what is refused waits for the next try, or the next event. */
  async #write(events: readonly TurnEvent[], dropped: readonly TurnEvent[] = []): Promise<void> {
    const refused = this.#refused
    const changes = [
      ...[...refused, ...events].map((it) => put(this.#turns, it)),
      ...dropped.map((it) => remove(this.#turns, String(it.seq))),
    ]
    try {
      await this.#store.batch(changes)
      const done = new Set(refused)
      this.#refused = this.#refused.filter((it) => !done.has(it))
    } catch (failure) {
      const problem = messageOf(failure)
      for (const { session_id, event: kind } of events)
        this.#log.warn({ session_id, kind, problem }, 'a turn event is not durable; it is tried again')
      this.#refused = [...this.#refused, ...events].sort((a, b) => a.seq - b.seq).slice(-RETAINED)
    }
    this.#arm()
  }

  /** One more try of what the disk refused, before the store is closed. */
  async flush(): Promise<void> {
    await this.#told
    if (this.#refused.length > 0) await this.#write([])
  }

  #arm(): void {
    if (this.#refused.length === 0 || this.#retry !== undefined || this.#scope.closed) return
    this.#retry = this.#scope.after(RETRY_MS, 'refused turns', () => {
      this.#retry = undefined
      void this.#write([])
    })
  }

  listen(listener: (event: TurnEvent) => void): Disposable {
    this.#listeners.add(listener)
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) }
  }
}
