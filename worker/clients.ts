/**
 * Everybody who follows the session's output on a connection of its own: attached clients (raw or framed) and raw
 * followers. Keeps the order of arrival, which decides the size and who answers terminal queries.
 * Invariants
 *  1. The newest attached client with a known size decides it; when it leaves, the next newest one does.
 *  2. One slow client costs the others and the program nothing beyond Outlet's stated hold.
 *  3. `closed` is told exactly once per stream, after its last byte.
 */
import type { Socket } from 'node:net'
import type { Clock } from '../kernel/clock.ts'
import { encodeFrameHead, type FrameHeader } from '../protocol/worker/frames.ts'
import type { ChildExit, StreamCloseReason, WorkerError } from '../protocol/worker/messages.ts'
import { STATE_OSC } from './evidence.ts'
import { Outlet } from './outlet.ts'
import type { InputQueue } from './input.ts'
import type { QueryDesk } from './queries.ts'
import { ReplyFilter } from './replies.ts'
import type { OutputRing } from './ring.ts'
import type { ScreenTerminal } from './terminal.ts'

/** What a follower of an ended session gets to read its last bytes. */
const LAST_BYTES_MS = 5_000
const STATE_REPLY = `osc:${STATE_OSC}`

export interface Size {
  columns: number
  rows: number
}
export interface StreamOptions {
  streamId: string
  kind: 'raw' | 'attach' | 'detector'
  size?: Size
  historyRows: number
  afterOffset: number
  version: number
  runtimeId: string
}
export interface ClientsHost {
  readonly ring: OutputRing
  readonly clock: Clock
  readonly queueBytes: number
  readonly terminal: ScreenTerminal
  readonly input: InputQueue
  readonly desk: QueryDesk
  hold(who: object, on: boolean): void
  /** The size to use changed, if it did. */
  resize(size: Size): void
  exit(): ChildExit | undefined
  opened(streamId: string): void
  closed(streamId: string, reason: StreamCloseReason, error?: WorkerError): void
}

export class Clients {
  readonly #host: ClientsHost
  #all: Client[] = []

  constructor(host: ClientsHost) {
    this.#host = host
  }

  get size(): number {
    return this.#all.length
  }

  /** Takes the connection over and starts its stream; it is the newest from now on. */
  add(socket: Socket, options: StreamOptions): Client {
    const client = new Client(socket, options, this.#host, (reason, error) => this.#left(client, reason, error))
    this.#all.push(client)
    this.#host.opened(options.streamId)
    if (options.size !== undefined && client.attached) this.#host.resize(options.size)
    void client.begin()
    return client
  }

  /** Newest attached client that has everything written so far. */
  newest(): Client | undefined {
    return this.#all.findLast((it) => it.attached && it.upToDate)
  }

  outputArrived(): void {
    for (const client of this.#all) client.pump()
  }

  /** Lowest offset some connection still needs in place. */
  get pinnedFrom(): number {
    let lowest = Infinity
    for (const client of this.#all) lowest = Math.min(lowest, client.pinnedFrom)
    return lowest
  }

  /** A terminal changed its size. True when that size counts now. */
  resized(streamId: string, size: Size): boolean {
    const client = this.#all.find((it) => it.streamId === streamId)
    if (client === undefined) return false
    client.size = size
    return this.#sizing() === client
  }

  close(streamId: string, reason: StreamCloseReason): boolean {
    const client = this.#all.find((it) => it.streamId === streamId)
    client?.close(reason)
    return client !== undefined
  }

  /** The session ended: everybody gets the rest and is closed. */
  ended(): void {
    for (const client of [...this.#all]) client.finish()
  }

  #sizing(): Client | undefined {
    return this.#all.findLast((it) => it.attached && it.size !== undefined) // 1
  }

  #left(client: Client, reason: StreamCloseReason, error?: WorkerError): void {
    const sized = this.#sizing() === client
    this.#all = this.#all.filter((it) => it !== client)
    this.#host.desk.clientLost(client)
    this.#host.hold(client, false)
    const next = this.#sizing()?.size
    if (sized && next !== undefined && reason !== 'runtime_exited') this.#host.resize(next)
    this.#host.closed(client.streamId, reason, error) // 3
  }
}

export class Client {
  readonly streamId: string
  readonly attached: boolean
  size: Size | undefined
  readonly #socket: Socket
  readonly #options: StreamOptions
  readonly #host: ClientsHost
  readonly #outlet: Outlet
  readonly #filter: ReplyFilter
  readonly #onClosed: (reason: StreamCloseReason, error?: WorkerError) => void
  #closed = false
  #begun = false

  constructor(
    socket: Socket,
    options: StreamOptions,
    host: ClientsHost,
    onClosed: (reason: StreamCloseReason, error?: WorkerError) => void,
  ) {
    this.#socket = socket
    this.#options = options
    this.#host = host
    this.#onClosed = onClosed
    this.streamId = options.streamId
    this.attached = options.kind !== 'detector'
    this.size = options.size
    this.#outlet = new Outlet(socket, {
      ring: host.ring,
      clock: host.clock,
      queueBytes: host.queueBytes,
      head: (offset, length) => (options.kind === 'raw' ? undefined : this.#head({ kind: 'output', offset }, length)),
      hold: (on) => host.hold(this, on),
      lagged: () => host.desk.clientLost(this),
      resync: (from) => this.#resync(from),
      dead: () => this.close('subscriber_too_slow'),
    })
    this.#filter = new ReplyFilter(
      {
        expects: () => host.desk.expects(this),
        admit: (kind, reply, mayBeKey) => this.#admit(kind, reply, mayBeKey),
        typed: (bytes) => this.#typed(bytes),
      },
      host.clock,
    )
    socket.on('close', () => this.#gone())
    socket.on('error', () => this.#gone())
    socket.on('end', () => this.#gone())
  }

  get upToDate(): boolean {
    return this.#begun && this.#outlet.upToDate
  }
  get pinnedFrom(): number {
    return this.#outlet.pinnedFrom
  }

  pump(): void {
    this.#outlet.pump()
  }

  /** First picture, then live bytes from the exact offset it is true for. */
  async begin(): Promise<void> {
    if (this.attached) {
      if (this.#options.kind === 'attach') this.#frame({ kind: 'attach_ready', dimensions: this.#dimensions() })
      await this.#host.terminal.settled()
      if (this.#closed) return
      this.#begun = true
      this.#outlet.start(this.#paint(this.#options.historyRows))
    } else {
      this.#begun = true
      const from = Math.min(this.#options.afterOffset, this.#host.ring.end)
      const start = Math.max(from, this.#host.ring.start)
      if (start > from)
        this.#frame({ kind: 'gap', missing_start: from, missing_end: start, watermark: this.#host.ring.end })
      this.#outlet.start(start)
    }
    if (this.#host.exit() !== undefined) this.finish()
  }

  /** Bytes of a raw client. */
  rawInput(bytes: Buffer): void {
    this.#filter.push(bytes)
  }

  /** Bytes of a framed client, acknowledged once they are queued in order. */
  framedInput(writeId: string, bytes: Buffer): void {
    if (this.attached && bytes.length > 0) this.#filter.push(bytes)
    this.#frame({ kind: 'input_ack', write_id: writeId, bytes_written: this.attached ? bytes.length : 0 })
  }

  close(reason: StreamCloseReason, error?: WorkerError): void {
    if (this.#closed) return
    if (this.#options.kind !== 'raw') {
      if (error !== undefined) this.#frame({ kind: 'error', error })
      this.#frame({ kind: 'close', reason })
    }
    this.#end(reason, error)
    if (reason === 'subscriber_too_slow') this.#socket.destroy()
    else {
      this.#socket.end()
      this.#host.clock.after(LAST_BYTES_MS, () => this.#socket.destroy())
    }
  }

  /** The session is over: the rest of the output, its exit, the end. */
  finish(): void {
    if (this.#closed || !this.#begun) return
    const late = this.#host.clock.after(LAST_BYTES_MS, () => this.close('runtime_exited'))
    this.#outlet.afterSent(this.#host.ring.end, () => {
      late[Symbol.dispose]()
      const exit = this.#host.exit()
      if (exit !== undefined && this.#options.kind !== 'raw') this.#frame({ kind: 'exit', exit })
      this.close('runtime_exited')
    })
  }

  #gone(): void {
    if (this.#closed) return
    this.#end('client_closed')
    this.#socket.destroy()
  }

  #end(reason: StreamCloseReason, error?: WorkerError): void {
    this.#closed = true
    this.#filter.end()
    this.#outlet.stop()
    this.#onClosed(reason, error)
  }

  #typed(bytes: Buffer): void {
    if (this.#host.input.typed(bytes)) return
    this.#socket.pause()
    this.#host.input.whenRoom(() => this.#socket.resume())
  }

  #admit(kind: string, reply: string, mayBeKey: boolean): boolean {
    if (kind === STATE_REPLY) return false // the worker has answered that question itself
    // The terminal may not have seen the query yet that this answers.
    this.#host.terminal.settleNow()
    const admitted = this.#host.desk.admit(this, kind, mayBeKey)
    if (admitted && kind.startsWith('osc:')) this.#host.terminal.learn(kind, reply)
    return admitted
  }

  async #resync(from: number): Promise<number | undefined> {
    await this.#host.terminal.settled()
    if (this.#closed) return undefined
    const { ring } = this.#host
    if (!this.attached) {
      this.#frame({ kind: 'gap', missing_start: from, missing_end: ring.end, watermark: ring.end })
      return ring.end
    }
    if (this.#options.kind === 'attach') {
      this.#frame({
        kind: 'gap',
        missing_start: from,
        missing_end: this.#host.terminal.parsed,
        watermark: this.#host.terminal.parsed,
      })
    }
    return this.#paint(0)
  }

  #paint(historyRows: number): number {
    const { bytes, offset } = this.#host.terminal.picture(historyRows)
    if (this.#options.kind === 'raw') this.#outlet.write(bytes)
    else this.#frame({ kind: 'terminal_snapshot', snapshot: this.#host.terminal.snapshot() }, bytes)
    return offset
  }

  #dimensions(): Size {
    return { columns: this.#host.terminal.columns, rows: this.#host.terminal.rows }
  }

  #head(header: HeaderBody, payloadBytes: number): Uint8Array {
    const { version, streamId, runtimeId } = this.#options
    return encodeFrameHead({ version, stream_id: streamId, runtime_id: runtimeId, ...header }, payloadBytes)
  }

  #frame(header: HeaderBody, payload: Uint8Array = new Uint8Array(0)): void {
    if (this.#options.kind === 'raw') return
    this.#outlet.write(this.#head(header, payload.length))
    if (payload.length > 0) this.#outlet.write(payload)
  }
}

type WithoutCommon<T> = T extends unknown ? Omit<T, 'version' | 'stream_id' | 'runtime_id'> : never
type HeaderBody = WithoutCommon<FrameHeader>
