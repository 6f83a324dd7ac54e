/** Calls to one local daemon: connect, ask, answer. The small part of the client that every command needs. */
import { CLIENT_CONNECT_MS, CLIENT_REQUEST_MS, WAIT_HEADROOM_MS } from '../protocol/limits.ts'
import { resolveRoots } from '../platform/roots.ts'
import { Connection } from './connection.ts'
import { isDedicated, waitMs, type MethodName, type MethodParams, type MethodResult, type Session } from './methods.ts'
import { originOf, type Origin } from './origin.ts'
import { allPages, type SessionFilter } from './pages.ts'
import { checkRuntimeDirectory } from './runtime-directory.ts'

type Environment = Readonly<Record<string, string | undefined>>

export interface ConnectOptions {
  /** Path of the daemon's socket; default: where this user's daemon listens. */
  readonly socketPath?: string
  readonly env?: Environment
  readonly connectTimeoutMs?: number
  /** Default deadline of a request, milliseconds. */
  readonly requestTimeoutMs?: number
}

export interface RequestOptions {
  /** Default: the client's; a call that waits gets its wait and a second on top. */
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
}

/** The socket of the daemon that serves this environment. Throws paths_unavailable, runtime_directory_unsafe. */
export function localSocket(env: Environment = process.env): string {
  const uid = process.geteuid?.() ?? 0
  const roots = resolveRoots(env, { uid, platform: process.platform, tmpdir: '/tmp' })
  checkRuntimeDirectory(roots)
  return roots.daemonSocket
}

export class Caller {
  readonly socketPath: string
  protected readonly env: Environment
  protected readonly requestMs: number
  readonly #origin: Origin | undefined
  readonly #connectMs: number
  #connection: Promise<Connection> | undefined
  #version: number | undefined

  constructor(options: ConnectOptions = {}) {
    this.env = options.env ?? process.env
    this.socketPath = options.socketPath ?? localSocket(this.env)
    this.#origin = originOf(this.env)
    this.#connectMs = options.connectTimeoutMs ?? CLIENT_CONNECT_MS
    this.requestMs = options.requestTimeoutMs ?? CLIENT_REQUEST_MS
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
    const waits = waitMs(params, method)
    const timeoutMs = options.timeoutMs ?? (waits > 0 ? waits + WAIT_HEADROOM_MS : this.requestMs)
    if (!isDedicated(method, params)) {
      const connection = await this.#shared()
      const answer = await connection.request(method, params, { timeoutMs, signal: options.signal })
      this.#version = connection.version
      return answer
    }
    const connection = await this.fresh()
    try {
      return await connection.request(method, params, { timeoutMs, signal: options.signal })
    } finally {
      connection.close()
    }
  }

  /** All sessions that match every filter, however many there are; session.list itself refuses more than fits one line. */
  async listSessions(filters: readonly SessionFilter[] = [], options?: RequestOptions): Promise<readonly Session[]> {
    return await allPages((params) => this.call('session.list', params, options), filters)
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

  /** A connection that only its taker uses. */
  protected async fresh(): Promise<Connection> {
    return await Connection.open(this.socketPath, this.#connectMs, this.#origin, this.#version)
  }

  async #shared(): Promise<Connection> {
    const held = await this.#connection?.catch(() => undefined)
    if (held?.open) return held
    // A daemon that came back may be another release: negotiation starts anew.
    this.#connection = Connection.open(this.socketPath, this.#connectMs, this.#origin)
    return await this.#connection
  }
}
