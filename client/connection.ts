/** One NDJSON connection to a daemon: requests one after the other, lines in order. */
import { connect as dial, type Socket } from 'node:net'
import { LineSplitter } from '../protocol/lines.ts'
import { CLIENT_CONNECT_MS } from '../protocol/limits.ts'
import { SUPPORTED_VERSIONS } from '../protocol/version.ts'
import { after, monotonicMs, pause } from './clock.ts'
import { clientError, errorOf, type ClientError } from './errors.ts'
import type { Origin } from './origin.ts'
import { V3, dependsOnVersion, fromV3, paramsForV3 } from './v3.ts'

// Listen queues are short while a daemon starts; a full one refuses with EAGAIN and is tried again.
const BUSY_RETRY_MS = 10
const READ_BYTES = 65_536

type Line = Record<string, unknown>
interface Waiter {
  resolve(line: Line): void
  reject(failure: unknown): void
}

/**
 * Opens a socket within `timeoutMs`; a unix socket connects or refuses at once, only a full queue is waited for. What
 * arrives goes to `take` and is valid until it returns. Throws daemon_unreachable; the cause carries the system's code.
 */
export async function openSocket(
  path: string,
  timeoutMs: number = CLIENT_CONNECT_MS,
  take?: (bytes: Buffer) => void,
): Promise<Socket> {
  let end: number | undefined
  for (;;) {
    try {
      return await tryOpen(path, take)
    } catch (failure) {
      const code = (failure as NodeJS.ErrnoException).code
      end ??= monotonicMs() + timeoutMs
      if (code === 'EAGAIN' && end - monotonicMs() > BUSY_RETRY_MS) await pause(BUSY_RETRY_MS)
      else throw clientError('daemon_unreachable', { socket: path, problem: connectProblem(code) }, failure)
    }
  }
}

function tryOpen(path: string, take: ((bytes: Buffer) => void) | undefined): Promise<Socket> {
  return new Promise((resolve, reject) => {
    // Read into one buffer: the stream's own way loads and runs much that a short command does not need.
    const buffer = take === undefined ? undefined : Buffer.allocUnsafeSlow(READ_BYTES)
    const onread =
      buffer === undefined
        ? undefined
        : {
            buffer,
            callback: (bytes: number): boolean => {
              take?.(buffer.subarray(0, bytes))
              return true
            },
          }
    const socket = dial(onread === undefined ? { path } : { path, onread })
    socket.on('error', reject)
    socket.on('connect', () => resolve(socket))
  })
}

function connectProblem(code: string | undefined): string {
  if (code === 'ENOENT') return 'there is no socket'
  if (code === 'ECONNREFUSED') return 'nothing listens'
  if (code === 'EACCES' || code === 'EPERM') return 'permission denied'
  return code === 'EAGAIN' ? 'it did not accept in time' : (code ?? 'it cannot be opened')
}

export interface RequestOptions {
  readonly timeoutMs: number
  readonly signal?: AbortSignal | undefined
}

export class Connection {
  readonly #socket: Socket
  readonly #origin: Origin | undefined
  readonly #lines = new LineSplitter()
  readonly #ready: Line[] = []
  readonly #waiting: Waiter[] = []
  #failure: ClientError | undefined
  #queue: Promise<unknown> = Promise.resolve()
  #version: number | undefined
  #sent = 0

  private constructor(socket: Socket, origin: Origin | undefined, version: number | undefined) {
    this.#socket = socket
    this.#origin = origin
    this.#version = version
    socket.on('error', (failure) =>
      this.#fail(clientError('framing', { problem: 'the connection to the daemon broke' }, failure)),
    )
    socket.on('close', () => this.#fail(clientError('framing', { problem: 'the daemon closed the connection' })))
  }

  /** `version` pins the requests of a connection that copies another one's selected version. Throws daemon_unreachable. */
  static async open(
    path: string,
    timeoutMs: number,
    origin: Origin | undefined,
    version?: number,
  ): Promise<Connection> {
    // Nothing is read before the next turn of the loop, and by then the connection is there.
    const to: { take: (bytes: Buffer) => void } = { take: () => undefined }
    const socket = await openSocket(path, timeoutMs, (bytes) => to.take(bytes))
    const it = new Connection(socket, origin, version)
    to.take = (bytes) => it.#take(bytes)
    return it
  }

  get version(): number | undefined {
    return this.#version
  }

  get open(): boolean {
    return this.#failure === undefined
  }

  /** Sends one request behind those already waiting and answers its result in the current spelling. */
  request(method: string, params: unknown, options: RequestOptions): Promise<unknown> {
    const run = (): Promise<unknown> => this.#exchange(method, params, options)
    const mine = this.#queue.then(run, run)
    this.#queue = mine.catch(() => undefined)
    return mine
  }

  /** The next line nobody took; for subscriptions. */
  line(): Promise<Line> {
    const held = this.#ready.shift()
    if (held !== undefined) return Promise.resolve(held)
    if (this.#failure !== undefined) return Promise.reject(this.#failure)
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }))
  }

  /** Lines that came and nobody took yet. */
  get held(): readonly Line[] {
    return this.#ready
  }

  close(): void {
    this.#socket.destroy()
  }

  async #exchange(method: string, params: unknown, options: RequestOptions): Promise<unknown> {
    if (this.#version === undefined && dependsOnVersion(method, params))
      await this.#exchange('daemon.health', null, options)
    const id = `sdk-${method}-${++this.#sent}`
    const v = this.#version === undefined ? SUPPORTED_VERSIONS : { minimum: this.#version, maximum: this.#version }
    const shaped = this.#version === V3 ? paramsForV3(method, params) : params
    const request = {
      v: { minimum: v.minimum, maximum: v.maximum },
      id,
      method,
      params: shaped ?? null,
      ...(this.#origin ? { origin_session_id: this.#origin.sessionId, origin_daemon_id: this.#origin.daemonId } : {}),
    }
    if (this.#failure !== undefined) throw this.#failure
    this.#socket.write(`${JSON.stringify(request)}\n`)
    const line = await this.#answer(method, options)
    return this.#result(id, line)
  }

  #result(id: string, line: Line): unknown {
    const { v, ok, err } = line
    if (typeof v !== 'number' || !Number.isInteger(v) || (!('ok' in line) && !('err' in line)))
      throw this.#broken('something that is no response')
    const error = 'err' in line ? errorOf(err) : undefined
    if (line.id !== id && error === undefined) throw this.#broken('another request than the one asked')
    if (error !== undefined) throw error
    if ('err' in line) throw this.#broken('an undecodable error')
    this.#version ??= v
    return this.#version === V3 ? fromV3(ok) : ok
  }

  /** After a deadline or an abort the next answer could be the late one, so the connection ends with the request. */
  #answer(method: string, options: RequestOptions): Promise<Line> {
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        timer[Symbol.dispose]()
        options.signal?.removeEventListener('abort', abort)
      }
      const giveUp = (failure: ClientError): void => {
        settle()
        this.#fail(failure)
        this.close()
        reject(failure)
      }
      const abort = (): void => giveUp(clientError('cancelled', { method }, options.signal?.reason))
      const timer = after(options.timeoutMs, () =>
        giveUp(clientError('request_timeout', { method, ms: options.timeoutMs })),
      )
      if (options.signal?.aborted) return abort()
      options.signal?.addEventListener('abort', abort, { once: true })
      this.line().then(
        (line) => {
          settle()
          resolve(line)
        },
        (failure: unknown) => {
          settle()
          reject(failure)
        },
      )
    })
  }

  #broken(what: string): ClientError {
    const failure = clientError('invalid_protocol_envelope', { problem: what })
    this.#fail(failure)
    this.close()
    return failure
  }

  #take(chunk: Buffer): void {
    try {
      this.#lines.push(Buffer.from(chunk))
      for (let line = this.#lines.next(); line !== undefined; line = this.#lines.next()) {
        const value: unknown = JSON.parse(Buffer.from(line.buffer, line.byteOffset, line.byteLength).toString())
        if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error('not an object')
        const waiter = this.#waiting.shift()
        if (waiter) waiter.resolve(value as Line)
        else this.#ready.push(value as Line)
      }
    } catch {
      this.#broken('a line that is too long or no JSON object')
    }
  }

  #fail(failure: ClientError): void {
    this.#failure ??= failure
    for (const waiter of this.#waiting.splice(0)) waiter.reject(this.#failure)
  }
}
