/**
 * One connection to the worker's socket. Its first byte decides what it is: 0 is a data stream (frames), anything else
 * a line: `{"attach":"<token>"}` turns it raw, a hook report is answered, everything else is the control protocol.
 */
import type { Socket } from 'node:net'
import type { Clock } from '../kernel/clock.ts'
import { FrameDecoder, type Frame } from '../protocol/worker/frames.ts'
import { MAX_LINE_BYTES } from '../protocol/limits.ts'
import type { Admission } from './admission.ts'

/** Requests that carry no payload stay far below this. */
export const SHORT_LINE_BYTES = 65_536
const LF = 0x0a
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
  #chunks: Buffer[] = []
  #pending = 0
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

  sendJson(json: string): void {
    if (this.socket.writable) this.socket.write(`${json}\n`)
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
    this.#admission.release(this.#pending)
    this.#chunks = []
    this.#pending = 0
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
    let rest = bytes
    while (this.#mode === 'lines') {
      const end = rest.indexOf(LF)
      if (this.#pending + (end === -1 ? rest.length : end) > MAX_LINE_BYTES) {
        this.#host.badLine(`a line over ${MAX_LINE_BYTES} bytes`)
        return this.refuse()
      }
      if (end === -1) {
        if (rest.length === 0) return
        if (!this.#admission.hold(rest.length)) {
          this.#host.badLine('too many unfinished lines')
          return this.refuse()
        }
        this.#chunks.push(rest)
        this.#pending += rest.length
        return
      }
      const line =
        this.#chunks.length === 0 ? rest.subarray(0, end) : Buffer.concat([...this.#chunks, rest.subarray(0, end)])
      this.#dropUnfinished()
      this.#opened()
      rest = rest.subarray(end + 1)
      this.#line(line, rest)
    }
  }

  #line(line: Buffer, rest: Buffer): void {
    let message: unknown
    try {
      message = JSON.parse(line.toString('utf8'))
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
      this.#raw = this.#host.raw(token, rest)
      if (this.#raw === undefined) this.refuse()
      return
    }
    this.#host.line(message as Record<string, unknown>, line.length)
  }
}
