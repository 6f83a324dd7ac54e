/** A raw NDJSON client: sends the bytes it is told, hands out lines with a deadline. Knows nothing of envelopes. */
import { setMaxListeners } from 'node:events'
import { connect, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

export type Json = Record<string, unknown>

export class RawClient implements Disposable {
  readonly socket: Socket
  #text = ''
  #lines: string[] = []
  #wake: (() => void)[] = []
  #ended = false
  #closed = false
  readonly decoder = new TextDecoder()

  constructor(socket: Socket) {
    this.socket = socket
    socket.on('data', (chunk: Buffer) => {
      const parts = (this.#text + this.decoder.decode(chunk, { stream: true })).split('\n')
      this.#text = parts.pop() ?? ''
      this.#lines.push(...parts)
      this.#changed()
    })
    socket.on('end', () => ((this.#ended = true), this.#changed()))
    socket.on('close', () => ((this.#ended = this.#closed = true), this.#changed()))
    socket.on('error', () => undefined)
  }

  get ended(): boolean {
    return this.#ended
  }

  /** Lines that arrived and nobody took. */
  get waiting(): readonly string[] {
    return this.#lines
  }

  /** Bytes behind the last complete line. */
  get partial(): string {
    return this.#text
  }

  /** Writes text or bytes as they are; false when the socket is full. */
  send(bytes: string | Uint8Array): boolean {
    return this.socket.write(bytes)
  }

  sendJson(value: unknown): boolean {
    return this.send(`${JSON.stringify(value)}\n`)
  }

  async line(withinMs = 5_000): Promise<string> {
    await this.until(() => this.#lines.length > 0, withinMs, 'a line')
    return this.#lines.shift() as string
  }

  async json(withinMs = 5_000): Promise<Json> {
    return JSON.parse(await this.line(withinMs)) as Json
  }

  /** Sends one request of version 4 (or `extra.v`) and returns the response. */
  async ask(method: string, params?: unknown, extra: Json = {}): Promise<Json> {
    this.sendJson({
      v: { minimum: 3, maximum: 4 },
      id: `t-${method}`,
      method,
      ...(params === undefined ? {} : { params }),
      ...extra,
    })
    return await this.json()
  }

  /** Resolves when the daemon ended the connection. */
  async end(withinMs = 5_000): Promise<void> {
    await this.until(() => this.#ended, withinMs, 'the end of the connection')
  }

  async closed(withinMs = 5_000): Promise<void> {
    await this.until(() => this.#closed, withinMs, 'the close of the connection')
  }

  async until(match: () => boolean, withinMs: number, what: string): Promise<void> {
    const deadline = AbortSignal.timeout(withinMs)
    setMaxListeners(0, deadline)
    while (!match()) {
      if (deadline.aborted || (this.#ended && what === 'a line')) {
        const why = deadline.aborted ? `within ${withinMs} ms` : 'before the connection ended'
        throw new Error(
          `no ${what} ${why}; waiting: ${JSON.stringify(this.#lines)} partial: ${JSON.stringify(this.#text.slice(0, 200))}`,
        )
      }
      await new Promise<void>((resolve) => {
        this.#wake.push(resolve)
        deadline.addEventListener('abort', () => resolve(), { once: true })
      })
    }
  }

  [Symbol.dispose](): void {
    this.socket.destroy()
  }

  #changed(): void {
    for (const wake of this.#wake.splice(0)) wake()
  }
}

/** Connects to a unix socket; the connection is destroyed when the test ends. */
export async function rawClient(path: string): Promise<RawClient> {
  const socket = connect({ path, allowHalfOpen: true })
  const client = new RawClient(socket)
  onTestFinished(() => client[Symbol.dispose]())
  await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  return client
}
