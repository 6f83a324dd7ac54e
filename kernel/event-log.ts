/**
 * Local log of lifecycle events, <data>/events/events.jsonl: for people and audits, never read back by the daemon.
 * Invariants
 *  1. `append` never waits and never throws; beyond the bound events are dropped and counted, and the count is told in
 *     the log itself before the next event.
 *  2. A fragment a crash left behind never joins the next event.
 */
import { dirname } from 'node:path'
import { RotatingFile } from '../platform/rotating-file.ts'
import type { Clock } from './clock.ts'
import type { Log } from './log.ts'
import { privateDir } from './secure-files.ts'

/** <data>/events/events.jsonl[.1-.3]. */
const EVENT_LOG_LIMITS = { maxFileBytes: 16 * 1_048_576, maxFiles: 4 } as const
/** About a second of the heaviest event traffic; more waiting than that means the disk does not answer. */
const MAX_QUEUED_BYTES = 4 * 1_048_576
/** Written in one go: a slice that keeps the event loop for a millisecond at most. */
const SLICE_BYTES = 262_144

export interface EventLogOptions {
  /** Its directory is made 0700 when missing. */
  file: string
  clock: Clock
  log: Log
  maxFileBytes?: number
  maxFiles?: number
  maxQueuedBytes?: number
}

export interface EventLog extends AsyncDisposable {
  /** Payloads carry no secret, prompt or terminal byte: they are what subscribers see. */
  append(event: string, payload: Readonly<Record<string, unknown>>): void
  /** Events dropped since the start. */
  readonly dropped: number
  /** Resolves when all appended events are written or dropped. */
  flush(): Promise<void>
}

/** Throws Fault path_not_private when the directory or the file is not this user's alone. */
export function openEventLog(options: EventLogOptions): EventLog {
  privateDir(dirname(options.file))
  return new QueuedEventLog(options)
}

class QueuedEventLog implements EventLog {
  readonly #clock: Clock
  readonly #log: Log
  readonly #file: RotatingFile
  readonly #maxQueuedBytes: number
  #queue: string[] = []
  #queuedBytes = 0
  #dropped = 0
  #untold = 0
  #running: Promise<void> | undefined
  #closed = false

  constructor({ file, clock, log, maxQueuedBytes = MAX_QUEUED_BYTES, ...limits }: EventLogOptions) {
    this.#clock = clock
    this.#log = log
    this.#maxQueuedBytes = maxQueuedBytes
    this.#file = new RotatingFile({ ...EVENT_LOG_LIMITS, ...limits, file })
  }

  get dropped(): number {
    return this.#dropped
  }

  append(event: string, payload: Readonly<Record<string, unknown>>): void {
    if (this.#closed) return this.#drop()
    let line: string
    try {
      line = `${JSON.stringify({ ts: new Date(this.#clock.now()).toISOString(), event, ...payload })}\n`
    } catch {
      return this.#drop() // a payload that is no JSON never reached a subscriber either
    }
    if (this.#queuedBytes + line.length > this.#maxQueuedBytes) return this.#drop()
    this.#queue.push(line)
    this.#queuedBytes += line.length
    this.#running ??= this.#drain()
  }

  async flush(): Promise<void> {
    while (this.#running !== undefined) await this.#running
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await this.flush()
    this.#file[Symbol.dispose]()
  }

  async #drain(): Promise<void> {
    while (this.#queue.length > 0) {
      await new Promise<void>((resolve) => setImmediate(resolve)) // requests come first
      this.#tellDropped()
      let bytes = 0
      let taken = 0
      while (taken < this.#queue.length && bytes < SLICE_BYTES) bytes += (this.#queue[taken++] as string).length
      for (const line of this.#queue.splice(0, taken)) if (!this.#file.write(line)) this.#drop()
      this.#queuedBytes -= bytes
    }
    this.#tellDropped()
    this.#running = undefined // in the same step as the last look at the queue
  }

  #drop(): void {
    this.#dropped += 1
    this.#untold += 1
  }

  #tellDropped(): void {
    if (this.#untold === 0) return
    const dropped = this.#untold
    const line = `${JSON.stringify({ ts: new Date(this.#clock.now()).toISOString(), event: 'events_dropped', dropped })}\n`
    if (!this.#file.write(line)) return // still full: told later
    this.#untold = 0
    this.#log.warn({ dropped }, 'events were dropped from the event log')
  }
}
