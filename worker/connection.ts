/**
 * One connection to the worker's socket. Its first byte decides what it is: 0 is a data stream (frames), anything else
 * a line: `{"attach":"<token>"}` turns it raw, a hook report is answered, everything else is the control protocol.
 */
import type { Socket } from 'node:net'
import type { Clock } from '../kernel/clock.ts'
import { FrameDecoder, type Frame } from '../protocol/worker/frames.ts'
import { MAX_LINE_BYTES } from '../protocol/limits.ts'
import { LineSplitter, LineTooLong } from '../protocol/lines.ts'
import type { Admission } from './admission.ts'

/** Requests that carry no payload stay far below this. */
export const SHORT_LINE_BYTES = 65_536
/** Answers and events a peer may leave unread: over it, it is not one that will read them. A snapshot takes up to 1 MiB. */
const MAX_UNREAD_BYTES = 8_388_608
/** Time for the first whole line or frame. */
const OPENING_MS = 10_000
/** Time a refused peer has to read why. */
const FAREWELL_MS = 2_000

export interface ConnectionHost {
  /** A control line, parsed. `bytes`: its length. */
  line(message: Record<string, unknown>, bytes: number): void
  /** Not JSON, no object, or longer than any line may be. */
  badLine(problem: string): void
  /** First line was a raw attach. `rest` came behind it. Answers who takes the bytes, undefined when refused. */
  raw(token: string, rest: Buffer): ((bytes: Buffer) => void) | undefined
  /** A frame of a data stream. */
  frame(frame: Frame): void
  badFrame(): void
  closed(): void
}

export class Connection {
  readonly socket: Socket
  readonly #host: ConnectionHost
  readonly #clock: Clock
  readonly #admission: Admission
  #deadline: Disposable | undefined
  #mode: 'unknown' | 'lines' | 'frames' | 'raw' | 'refused' = 'unknown'
  readonly #splitter = new LineSplitter(MAX_LINE_BYTES)
  /** Unfinished bytes that admission holds for this connection. */
  #held = 0
  #decoder: FrameDecoder | undefined
  #raw: ((bytes: Buffer) => void) | undefined

  /** `admission` was entered for this connection; it leaves by itself. */
  constructor(socket: Socket, host: ConnectionHost, shared: { clock: Clock; admission: Admission }) {
    this.socket = socket
    this.#host = host
    this.#clock = shared.clock
    this.#admission = shared.admission
    this.#deadline = this.#clock.after(OPENING_MS, () => socket.destroy())
    socket.on('data', (bytes: Buffer) => this.#take(bytes))
    socket.on('error', () => {}) // 'close' follows
    socket.on('close', () => {
      this.#deadline?.[Symbol.dispose]()
      this.#dropUnfinished()
      this.#admission.left()
      host.closed()
    })
  }

  send(message: object): void {
    this.sendJson(JSON.stringify(message))
  }

  /** A peer that does not read its answers is not read either, and closed when what it is owed grows all the same. */
  sendJson(json: string): void {
    const { socket } = this
    if (!socket.writable || socket.write(`${json}\n`)) return
    if (socket.writableLength > MAX_UNREAD_BYTES) return void socket.destroy()
    if (socket.isPaused() || this.#mode !== 'lines') return
    socket.pause()
    socket.once('drain', () => socket.resume())
  }

  /** Nothing more is read; what was written still goes out. */
  refuse(): void {
    this.#mode = 'refused'
    this.#dropUnfinished()
    this.socket.end()
    this.socket.resume()
    this.#deadline?.[Symbol.dispose]()
    if (!this.socket.destroyed) this.#deadline = this.#clock.after(FAREWELL_MS, () => this.socket.destroy())
  }

  /** It said what it is. */
  #opened(): void {
    this.#deadline?.[Symbol.dispose]()
    this.#deadline = undefined
  }

  #dropUnfinished(): void {
    this.#splitter.rest()
    this.#admission.release(this.#held)
    this.#held = 0
  }

  #take(bytes: Buffer): void {
    if (this.#mode === 'unknown') this.#mode = bytes[0] === 0 ? 'frames' : 'lines'
    if (this.#mode === 'raw') this.#raw?.(bytes)
    else if (this.#mode === 'frames') this.#frames(bytes)
    else if (this.#mode === 'lines') this.#lines(bytes)
  }

  #frames(bytes: Buffer): void {
    this.#decoder ??= new FrameDecoder()
    let frames: Frame[]
    try {
      frames = this.#decoder.push(bytes)
    } catch {
      this.#host.badFrame()
      return this.refuse()
    }
    if (frames.length > 0) this.#opened()
    for (const frame of frames) if (this.#mode === 'frames') this.#host.frame(frame)
  }

  #lines(bytes: Buffer): void {
    this.#splitter.push(bytes)
    while (this.#mode === 'lines') {
      const line = this.#nextLine()
      if (line === undefined) break
      this.#opened()
      this.#line(line)
    }
    if (this.#mode === 'lines') this.#holdUnfinished()
  }

  /** Undefined when there is no whole line, or none any more. */
  #nextLine(): Uint8Array | undefined {
    try {
      return this.#splitter.next()
    } catch (failure) {
      if (!(failure instanceof LineTooLong)) throw failure
      this.#host.badLine(`a line over ${MAX_LINE_BYTES} bytes`)
      this.refuse()
      return undefined
    }
  }

  #holdUnfinished(): void {
    const pending = this.#splitter.pendingBytes
    this.#admission.release(this.#held)
    this.#held = this.#admission.hold(pending) ? pending : 0
    if (this.#held === pending) return
    this.#host.badLine('too many unfinished lines')
    this.refuse()
  }

  #line(line: Uint8Array): void {
    let message: unknown
    try {
      message = JSON.parse(Buffer.from(line.buffer, line.byteOffset, line.length).toString('utf8'))
    } catch {
      message = undefined
    }
    if (typeof message !== 'object' || message === null || Array.isArray(message)) {
      this.#host.badLine('a line that is no JSON object')
      return this.refuse()
    }
    const keys = Object.keys(message)
    const token = (message as { attach?: unknown }).attach
    if (keys.length === 1 && typeof token === 'string') {
      this.#mode = 'raw'
      this.#raw = this.#host.raw(token, Buffer.from(this.#splitter.rest()))
      if (this.#raw === undefined) this.refuse()
      return
    }
    this.#host.line(message as Record<string, unknown>, line.length)
  }
}
