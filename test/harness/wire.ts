/** A plain client of the public socket, independent of the product's: what is sent and received is what a test says. */
import { connect, type Socket } from 'node:net'
import { DEADLINE_MS, until, within } from './wait.ts'

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
// Wire answers are looked into freely by tests; the product's schemas are checked by suites of their own.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Answer = any

export class WireError extends Error {
  readonly body: { class: string; code: string; msg: string; recover?: string }
  constructor(body: { class: string; code: string; msg: string; recover?: string }) {
    super(`${body.class}/${body.code}: ${body.msg}`)
    this.body = body
  }
  get code(): string {
    return this.body.code
  }
}

export interface CallOptions {
  readonly deadlineMs?: number
  readonly origin?: { session: string; daemon: string }
  readonly v?: unknown
}

export async function dial(path: string): Promise<Socket> {
  const socket = connect(path)
  socket.on('error', () => undefined) // a reset shows as the end of the connection
  await within(
    `connect to ${path}`,
    new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve)
      socket.once('error', reject)
    }),
  ).catch((problem: unknown) => {
    socket.destroy()
    throw problem
  })
  return socket
}

export class Wire {
  readonly socket: Socket
  readonly lines: Answer[] = []
  /** Bytes behind the last complete line. */
  #rest: Buffer = Buffer.alloc(0)
  #taken = 0
  #next = 0
  #queue: Promise<unknown> = Promise.resolve()
  ended = false

  constructor(socket: Socket) {
    this.socket = socket
    socket.on('data', (chunk: Buffer) => {
      this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
      for (let at = this.#rest.indexOf(10); at >= 0; at = this.#rest.indexOf(10)) {
        this.lines.push(JSON.parse(this.#rest.subarray(0, at).toString()))
        this.#rest = this.#rest.subarray(at + 1)
      }
    })
    socket.on('close', () => (this.ended = true))
  }

  static async open(path: string): Promise<Wire> {
    return new Wire(await dial(path))
  }

  /** Sends bytes as they are. */
  send(raw: string | Buffer): void {
    this.socket.write(raw)
  }

  /** The next line nobody took yet. */
  async line(deadlineMs = DEADLINE_MS): Promise<Answer> {
    await until('a line from the daemon', () => this.lines.length > this.#taken || this.ended, {
      deadlineMs,
      pollMs: 1,
    })
    if (this.lines.length <= this.#taken) throw new Error('the daemon closed the connection')
    return this.lines[this.#taken++]
  }

  /** Sends one raw line and answers the one that comes back. */
  async ask(raw: string | Buffer, deadlineMs = DEADLINE_MS): Promise<Answer> {
    this.send(Buffer.concat([Buffer.from(raw), Buffer.from('\n')]))
    return await this.line(deadlineMs)
  }

  /** One request; throws WireError with the typed error. Requests of one connection queue behind each other. */
  call(method: string, params: unknown = null, options: CallOptions = {}): Promise<Answer> {
    const run = async (): Promise<Answer> => {
      const id = `t-${++this.#next}`
      const request = {
        v: options.v ?? { minimum: 3, maximum: 4 },
        id,
        method,
        params,
        ...(options.origin
          ? { origin_session_id: options.origin.session, origin_daemon_id: options.origin.daemon }
          : {}),
      }
      const answer = await this.ask(JSON.stringify(request), options.deadlineMs ?? 20_000)
      if (answer.id !== id) throw new Error(`answer to ${String(answer.id)}, not ${id}`)
      if (answer.err !== undefined) throw new WireError(answer.err)
      return answer.ok
    }
    const mine = this.#queue.then(run, run)
    this.#queue = mine.catch(() => undefined)
    return mine
  }

  close(): void {
    this.socket.destroy()
  }
}

/** A subscription: events in order, as they came. */
export class Events {
  readonly wire: Wire
  constructor(wire: Wire) {
    this.wire = wire
  }

  static async open(path: string, v?: unknown): Promise<Events> {
    const wire = await Wire.open(path)
    await wire.call('subscribe', null, { v })
    return new Events(wire)
  }

  get all(): Answer[] {
    return this.wire.lines.slice(1)
  }

  of(event: string, session?: string): Answer[] {
    return this.all.filter(
      (it) => it.event === event && (session === undefined || it.session?.id === session || it.session_id === session),
    )
  }

  async until(event: string, match: (it: Answer) => boolean = () => true, deadlineMs = DEADLINE_MS): Promise<Answer> {
    return await until<Answer>(`event ${event}`, () => this.of(event).find(match), {
      deadlineMs,
      show: () => this.all.map((it) => JSON.stringify(it).slice(0, 300)).join('\n'),
    })
  }

  close(): void {
    this.wire.close()
  }
}

/** One raw attach connection. */
export class Attached {
  readonly socket: Socket
  readonly streamId: string
  #chunks: Buffer[] = []
  bytes = 0
  ended = false

  constructor(socket: Socket, streamId: string) {
    this.socket = socket
    this.streamId = streamId
    socket.on('data', (chunk: Buffer) => {
      this.bytes += chunk.length
      this.#chunks.push(chunk)
    })
    socket.on('close', () => (this.ended = true))
  }

  /** Redeems a stream id (or a direct token) on `path`. */
  static async open(path: string, streamId: string): Promise<Attached> {
    const socket = await dial(path)
    const attached = new Attached(socket, streamId)
    socket.write(`${JSON.stringify({ attach: streamId })}\n`)
    return attached
  }

  get received(): Buffer {
    if (this.#chunks.length > 1) this.#chunks = [Buffer.concat(this.#chunks)]
    return this.#chunks[0] ?? Buffer.alloc(0)
  }

  get text(): string {
    return this.received.toString('utf8')
  }

  forget(): void {
    this.#chunks = []
  }

  write(data: string | Buffer): void {
    this.socket.write(data)
  }

  async until(text: string, deadlineMs = DEADLINE_MS): Promise<void> {
    await until(`${JSON.stringify(text)} on the attach stream`, () => this.received.includes(text), {
      deadlineMs,
      show: () => JSON.stringify(this.text.slice(-2000)),
    })
  }

  close(): void {
    this.socket.destroy()
  }
}
