/** The typed client: calls, subscriptions, attach and output of one local daemon. */
import { Duplex } from 'node:stream'
import { CLIENT_CONNECT_MS, CLIENT_REQUEST_MS, WAIT_HEADROOM_MS } from '../protocol/limits.ts'
import { resolveRoots } from '../platform/roots.ts'
import { Connection, openSocket } from './connection.ts'
import { clientError, errorOf } from './errors.ts'
import {
  isDedicated,
  waitMs,
  type Event,
  type MethodName,
  type MethodParams,
  type MethodResult,
  type SessionOutput,
} from './methods.ts'
import { originOf, type Origin } from './origin.ts'
import { openRaw, type RawStream, type RawTaker } from './raw-attach.ts'
import { V3, fromV3 } from './v3.ts'

// session.output waits this long for more before it is asked again.
const FOLLOW_WAIT_MS = 8_000
const FOLLOW_BYTES = 262_144

export interface ConnectOptions {
  /** Path of the daemon's socket; default: where this user's daemon listens. */
  readonly socketPath?: string
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly connectTimeoutMs?: number
  /** Default deadline of a request, milliseconds. */
  readonly requestTimeoutMs?: number
}

export interface RequestOptions {
  /** Default: the client's; a call that waits gets its wait and a second on top. */
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
}

export interface AttachOptions {
  /** Size of the terminal that attaches; without one the session keeps its size. */
  readonly cols?: number
  readonly rows?: number
  /** Scrollback rows painted before the screen. */
  readonly historyRows?: number
  /** Go straight to the worker when the daemon offers it; default true. */
  readonly direct?: boolean
}

/** An open attach stream without a Node stream around it. */
export interface Attachment {
  readonly streamId: string
  readonly sessionId: string
  /** The daemon is not in between. */
  readonly direct: boolean
  readonly stream: RawStream
}

/** The socket of the daemon that serves this environment. */
export function localSocket(env: Readonly<Record<string, string | undefined>> = process.env): string {
  const uid = process.geteuid?.() ?? 0
  return resolveRoots(env, { uid, platform: process.platform, tmpdir: '/tmp' }).daemonSocket
}

export class Client {
  readonly socketPath: string
  readonly #env: Readonly<Record<string, string | undefined>>
  readonly #origin: Origin | undefined
  readonly #connectMs: number
  readonly #requestMs: number
  #connection: Promise<Connection> | undefined
  #version: number | undefined

  constructor(options: ConnectOptions = {}) {
    this.#env = options.env ?? process.env
    this.socketPath = options.socketPath ?? localSocket(this.#env)
    this.#origin = originOf(this.#env)
    this.#connectMs = options.connectTimeoutMs ?? CLIENT_CONNECT_MS
    this.#requestMs = options.requestTimeoutMs ?? CLIENT_REQUEST_MS
  }

  /** Opens the shared connection now. Throws daemon_unreachable. */
  async connect(): Promise<void> {
    await this.#shared()
  }

  /** Version selected on the last answer, undefined before the first one. */
  get version(): number | undefined {
    return this.#version
  }

  /** Calls a method of the contracts. Throws ClientError. */
  call<M extends MethodName>(method: M, params: MethodParams<M>, options?: RequestOptions): Promise<MethodResult<M>> {
    return this.callAny(method, params, options) as Promise<MethodResult<M>>
  }

  /** Calls any method by name; for methods this build has no contract of. */
  async callAny(method: string, params: unknown, options: RequestOptions = {}): Promise<unknown> {
    const waits = waitMs(params)
    const timeoutMs = options.timeoutMs ?? (waits > 0 ? waits + WAIT_HEADROOM_MS : this.#requestMs)
    if (!isDedicated(method, params)) {
      const connection = await this.#shared()
      const answer = await connection.request(method, params, { timeoutMs, signal: options.signal })
      this.#version = connection.version
      return answer
    }
    const connection = await this.#fresh()
    try {
      return await connection.request(method, params, { timeoutMs, signal: options.signal })
    } finally {
      connection.close()
    }
  }

  /** Events from now on, on a connection of its own; it ends when the loop is left, throws when the daemon goes. */
  async *subscribe(options: { signal?: AbortSignal } = {}): AsyncGenerator<Event, void, void> {
    const connection = await this.#fresh()
    const stop = (): void => connection.close()
    options.signal?.addEventListener('abort', stop, { once: true })
    try {
      await connection.request('subscribe', null, { timeoutMs: this.#requestMs, signal: options.signal })
      for (;;) {
        const line = await connection.line()
        yield (connection.version === V3 ? fromV3(line) : line) as Event
      }
    } catch (failure) {
      if (!options.signal?.aborted) throw failure
    } finally {
      options.signal?.removeEventListener('abort', stop)
      connection.close()
    }
  }

  /** Opens an attach stream and hands its bytes to `taker`. */
  async attachRaw(sessionId: string, options: AttachOptions, taker: RawTaker): Promise<Attachment> {
    const env = this.#env
    const { cols, rows, historyRows, direct = true } = options
    const params = {
      session_id: sessionId,
      ...(cols !== undefined && rows !== undefined ? { initial_dimensions: { cols, rows } } : {}),
      ...(historyRows !== undefined ? { history_rows: historyRows } : {}),
      ...(env.POHUNEK_SESSION_ID !== undefined ? { origin_session_id: env.POHUNEK_SESSION_ID } : {}),
      ...(env.POHUNEK_WORKER_ID !== undefined ? { origin_worker_id: env.POHUNEK_WORKER_ID } : {}),
      ...(env.POHUNEK_DAEMON_ID !== undefined ? { origin_daemon_id: env.POHUNEK_DAEMON_ID } : {}),
    }
    const open = await this.call('session.attach', direct ? { ...params, direct } : params)
    const streamId = open.stream_id
    if (open.direct !== undefined) {
      try {
        const stream = await openRaw(open.direct.socket_path, open.direct.token, taker)
        return { streamId, sessionId, direct: true, stream }
      } catch {
        // The way through the daemon works wherever this one does not.
        return await this.attachRaw(sessionId, { ...options, direct: false }, taker)
      }
    }
    return { streamId, sessionId, direct: false, stream: await openRaw(this.socketPath, streamId, taker) }
  }

  /** Attaches as a Node stream: read terminal output, write input. */
  async attach(sessionId: string, options: AttachOptions = {}): Promise<AttachStream> {
    return await AttachStream.open(this, sessionId, options)
  }

  /**
   * Bytes of a session's output from its oldest kept one (or `afterOffset`) as they come, until its program ended and
   * all was read. Output that is no longer kept is skipped.
   */
  async *followOutput(
    sessionId: string,
    options: { afterOffset?: string; signal?: AbortSignal } = {},
  ): AsyncGenerator<Buffer, void, void> {
    const info = await this.call('session.inspect', sessionId)
    const { worker_instance_id, runtime_generation } = info.runtime ?? {}
    if (worker_instance_id === undefined || runtime_generation === undefined) return
    const runtime = { worker_instance_id, runtime_generation }
    let after = options.afterOffset ?? '0'
    let wait = false
    while (!options.signal?.aborted) {
      let answer: SessionOutput
      try {
        const request = { session_id: sessionId, runtime, after_offset: after, max_bytes: FOLLOW_BYTES }
        answer = await this.call('session.output', wait ? { ...request, wait_ms: FOLLOW_WAIT_MS } : request, options)
      } catch (failure) {
        if (options.signal?.aborted) return
        throw failure
      }
      const bytes = Buffer.from(answer.data_base64, 'base64')
      after = answer.next_offset
      if (bytes.length > 0) yield bytes
      wait = !answer.has_more
      if (bytes.length === 0 && wait && (await this.#ended(sessionId))) return
    }
  }

  close(): void {
    const connection = this.#connection
    this.#connection = undefined
    connection?.then(
      (it) => it.close(),
      () => undefined, // never opened: nothing to close
    )
  }

  [Symbol.dispose](): void {
    this.close()
  }

  async #ended(sessionId: string): Promise<boolean> {
    const { state } = await this.call('session.inspect', sessionId)
    return state === 'stopped' || state === 'done' || state === 'failed'
  }

  async #shared(): Promise<Connection> {
    const held = await this.#connection?.catch(() => undefined)
    if (held?.open) return held
    // A daemon that came back may be another release: negotiation starts anew.
    const opened = openSocket(this.socketPath, this.#connectMs).then((socket) => new Connection(socket, this.#origin))
    this.#connection = opened
    return await opened
  }

  async #fresh(): Promise<Connection> {
    return new Connection(await openSocket(this.socketPath, this.#connectMs), this.#origin, this.#version)
  }
}

export class AttachStream extends Duplex {
  readonly #client: Client
  #attachment: Attachment | undefined

  constructor(client: Client) {
    super({ allowHalfOpen: false })
    this.#client = client
  }

  static async open(client: Client, sessionId: string, options: AttachOptions): Promise<AttachStream> {
    const it = new AttachStream(client)
    it.#attachment = await client.attachRaw(sessionId, options, {
      data: (chunk) => it.push(Buffer.from(chunk)),
      end: () => void it.push(null),
    })
    return it
  }

  get streamId(): string {
    return this.#open.streamId
  }

  /** Tells the session that this client's terminal changed. */
  async resize(cols: number, rows: number): Promise<void> {
    const { sessionId, streamId } = this.#open
    await this.#client.call('session.resize', { session_id: sessionId, cols, rows, stream_id: streamId })
  }

  /** Leaves. Throws the typed failure of the stream when there was one. */
  async detach(): Promise<void> {
    const { error } = await this.#client.call('session.detach', { stream_id: this.#open.streamId })
    this.destroy()
    const failure = errorOf(error)
    if (failure !== undefined) throw failure
  }

  get #open(): Attachment {
    if (this.#attachment === undefined) throw clientError('framing', { problem: 'the stream is not open yet' })
    return this.#attachment
  }

  override _read(): void {
    this.#attachment?.stream.resume()
  }

  override _write(chunk: Uint8Array, _encoding: BufferEncoding, done: (failure?: Error) => void): void {
    if (this.#open.stream.write(chunk)) done()
    else this.#open.stream.onDrain(done)
  }

  override _destroy(failure: Error | null, done: (failure: Error | null) => void): void {
    this.#attachment?.stream.close()
    done(failure)
  }
}

/** Connects to the local daemon. Throws ClientError daemon_unreachable when none answers; it never starts one. */
export async function connect(options: ConnectOptions = {}): Promise<Client> {
  const client = new Client(options)
  await client.connect()
  return client
}
