/**
 * Live output to one connection, written straight from the ring.
 * Invariants
 *  1. At most one write is unfinished; while it is, the ring keeps its bytes (`pinnedFrom`).
 *  2. Memory per client is bounded: what it does not take stays in the ring, and behind `queueBytes` it is lost to it.
 *  3. A client that lost bytes gets, once it reads again, one resync and goes on from there.
 *  4. A client may hold the program back for HOLD_MS at a time, no longer: a reader at over some 10 MB/s loses nothing,
 *     a slower one is resynced.
 */
import type { Socket } from 'node:net'
import type { Clock } from '../kernel/clock.ts'
import type { OutputRing } from './ring.ts'

const WRITE_BYTES = 65_536
/** First chunk at once, further ones coalesced to this size or this age: a screenful costs one wake-up of the client. */
const COALESCE_BYTES = 32_768
const COALESCE_MS = 1
const HOLD_MS = 25
const HOLD_REST_MS = 1_000
/** A client that took nothing for this long while bytes were lost to it is given up. */
const DEAD_MS = 60_000

export interface OutletHost {
  readonly ring: OutputRing
  readonly clock: Clock
  readonly queueBytes: number
  /** Everything in front of `bytes` (a frame head), undefined for a raw connection. */
  head(offset: number, length: number): Uint8Array | undefined
  /** Asks for the program's output to be held back, or lets it go. */
  hold(on: boolean): void
  /** Bytes were lost to this client from `from` on; it is not up to date until `resync` ran. */
  lagged(): void
  /** The connection takes bytes again: bring it up to date; answers the offset to go on from. */
  resync(from: number): Promise<number | undefined>
  /** No byte was taken for DEAD_MS. */
  dead(): void
}

export class Outlet {
  readonly #socket: Socket
  readonly #host: OutletHost
  #sent = 0
  #started = false
  #stopped = false
  /** Offset of the first byte of the unfinished write. */
  #unfinished: number | undefined
  #lagging = false
  #resyncing = false
  #lastWrite = 0
  #timer: Disposable | undefined
  /** Ends the hold this client asked for. */
  #hold: Disposable | undefined
  #holdFrom = 0
  #deadTimer: Disposable | undefined
  #whenSent: { offset: number; run: () => void } | undefined
  readonly #written = (): void => this.#onWritten()

  constructor(socket: Socket, host: OutletHost) {
    this.#socket = socket
    this.#host = host
  }

  get upToDate(): boolean {
    return this.#started && !this.#lagging && !this.#stopped
  }
  /** Lowest ring offset whose bytes must not be overwritten now (1). */
  get pinnedFrom(): number {
    return this.#unfinished ?? Infinity
  }

  /** Writes bytes that are not from the ring: pictures, frames, acknowledgements. */
  write(bytes: Uint8Array): void {
    if (!this.#stopped && this.#socket.writable) this.#socket.write(bytes, this.#written)
  }

  /** Live output goes on from `offset`. */
  start(offset: number): void {
    this.#sent = offset
    this.#started = true
    if (this.#socket.writableLength > 0) this.#block(offset)
    this.pump()
  }

  /** New bytes are in the ring, or the connection takes bytes again. */
  pump(): void {
    if (!this.#started || this.#stopped || this.#resyncing) return
    const pending = this.#host.ring.end - this.#sent
    if (pending === 0) return this.#caughtUp()
    if (this.#unfinished !== undefined) return this.#behind(pending)
    if (this.#sent < this.#host.ring.start) this.#lag()
    if (this.#lagging) return void this.#bringUpToDate()
    const now = this.#host.clock.monotonic()
    if (pending < COALESCE_BYTES && now - this.#lastWrite < COALESCE_MS) {
      this.#timer ??= this.#host.clock.after(COALESCE_MS, () => {
        this.#timer = undefined
        this.#flush()
      })
      return
    }
    this.#flush()
  }

  /** Runs once everything up to `offset` was given to the kernel. */
  afterSent(offset: number, run: () => void): void {
    this.#whenSent = { offset, run }
    this.#flush()
    this.#caughtUp()
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.[Symbol.dispose]()
    this.#deadTimer?.[Symbol.dispose]()
    this.#release()
  }

  #flush(): void {
    const { ring, clock } = this.#host
    if (!this.#started || this.#stopped || this.#resyncing || this.#lagging) return
    this.#lastWrite = clock.monotonic()
    while (this.#sent < ring.end && this.#unfinished === undefined) {
      const bytes = ring.view(this.#sent, WRITE_BYTES)
      if (bytes.length === 0) return this.pump()
      const head = this.#host.head(this.#sent, bytes.length)
      if (head !== undefined) {
        this.#socket.cork()
        this.#socket.write(head)
      }
      this.#socket.write(bytes, this.#written)
      if (head !== undefined) this.#socket.uncork()
      this.#sent += bytes.length
      if (this.#socket.writableLength > 0) this.#block(this.#sent - bytes.length)
    }
    this.#caughtUp()
  }

  #block(from: number): void {
    this.#unfinished = from
    this.#deadTimer?.[Symbol.dispose]()
    this.#deadTimer = this.#host.clock.after(DEAD_MS, () => {
      if (this.#lagging && this.#unfinished !== undefined) this.#host.dead()
    })
  }

  #onWritten(): void {
    if (this.#socket.writableLength > 0 || this.#unfinished === undefined) return
    this.#unfinished = undefined
    this.#deadTimer?.[Symbol.dispose]()
    this.pump()
  }

  #behind(pending: number): void {
    const { clock, queueBytes, ring } = this.#host
    const bound = Math.min(queueBytes, ring.capacity / 2)
    if (pending > bound) return this.#lag()
    if (this.#lagging || pending < bound / 4 || this.#hold !== undefined || clock.monotonic() < this.#holdFrom) return
    this.#host.hold(true) // 4
    this.#hold = clock.after(HOLD_MS, () => {
      this.#holdFrom = clock.monotonic() + HOLD_REST_MS
      this.#release()
    })
  }

  #caughtUp(): void {
    if (this.#host.ring.end !== this.#sent && this.#unfinished !== undefined) return
    if (this.#unfinished === undefined) this.#release()
    const waiting = this.#whenSent
    if (waiting !== undefined && this.#unfinished === undefined && this.#sent >= waiting.offset) {
      this.#whenSent = undefined
      waiting.run()
    }
  }

  #release(): void {
    const hold = this.#hold
    if (hold === undefined) return
    this.#hold = undefined
    hold[Symbol.dispose]()
    this.#host.hold(false)
  }

  #lag(): void {
    if (this.#lagging) return
    this.#lagging = true // 2
    this.#release()
    this.#host.lagged()
  }

  async #bringUpToDate(): Promise<void> {
    this.#resyncing = true
    const from = this.#sent
    const offset = await this.#host.resync(from) // 3
    this.#resyncing = false
    if (offset === undefined || this.#stopped) return
    this.#lagging = false
    this.#sent = offset
    if (this.#socket.writableLength > 0) this.#block(offset)
    this.pump()
    this.#caughtUp()
  }
}
