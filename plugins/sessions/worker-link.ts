/**
 * The control connection to one worker: negotiated, leased, pipelined by request id.
 * Invariants
 *  1. A request is answered exactly once: by its response, its deadline, or the end of the connection.
 *  2. Losing the connection ends the lease only; it says nothing about the worker.
 *  3. A line over the bound, or one that is no message, ends the connection.
 */
import { randomBytes } from 'node:crypto'
import { createConnection, type Socket } from 'node:net'
import type { Scope } from '../../kernel/scope.ts'
import { LineSplitter, LineTooLong } from '../../protocol/lines.ts'
import {
  CAPABILITIES,
  WORKER_PROTOCOL,
  type RequestOf,
  type ResponseOf,
  type WorkerError,
  type WorkerEvent,
  type WorkerRequest,
  type WorkerResponse,
} from '../../protocol/worker/messages.ts'
import { isWorkerEvent, isWorkerResponse } from './worker-messages.ts'

/** The worker answered with a typed error. */
export class WorkerRefusal extends Error {
  readonly error: WorkerError
  constructor(error: WorkerError) {
    super(error.message)
    this.name = 'WorkerRefusal'
    this.error = error
  }
}
/** No answer: the connection ended or the deadline passed; whether the request was carried out is unknown. */
export class WorkerUnreachable extends Error {
  readonly how: 'closed' | 'deadline'
  constructor(cause: 'closed' | 'deadline', message: string) {
    super(message)
    this.name = 'WorkerUnreachable'
    this.how = cause
  }
}

const answers = {
  negotiate: 'negotiated',
  acquire_controller: 'controller_acquired',
  inspect: 'inspected',
  initialize: 'initialized',
  open_data_stream: 'data_stream_opened',
  close_data_stream: 'data_stream_closed',
  terminal_snapshot: 'terminal_snapshot',
  read_output: 'output_read_opened',
  write_plan: 'write_completed',
  resize: 'resized',
  stop: 'stopped',
  acknowledge_terminal: 'terminal_acknowledged',
  release_controller: 'controller_released',
} as const satisfies Record<WorkerRequest['type'], WorkerResponse['type']>

type Body<T extends WorkerRequest['type']> = Omit<RequestOf<T>, 'type' | 'request_id'>
type Answer<T extends WorkerRequest['type']> = ResponseOf<(typeof answers)[T]>

interface Waiting {
  readonly type: WorkerRequest['type']
  readonly resolve: (response: WorkerResponse) => void
  readonly reject: (failure: Error) => void
  readonly timer: Disposable
}

export interface LinkOptions {
  readonly socketPath: string
  readonly daemonId: string
  /** Owns the connection; closing it closes the connection. */
  readonly scope: Scope
  /** Per request, unless the call says otherwise. */
  readonly requestMs: number
}

/**
 * Owned by the scope it was opened with, which is a spare's or a session's; whoever holds it may close it early. Made by
 * `open`. Requests reject with WorkerRefusal (a typed answer) or WorkerUnreachable (no answer); times are milliseconds.
 */
export class WorkerLink {
  readonly socketPath: string
  readonly #scope: Scope
  readonly #socket: Socket
  readonly #requestMs: number
  readonly #waiting = new Map<string, Waiting>()
  readonly #lines = new LineSplitter()
  #nextId = 0
  #negotiated: ResponseOf<'negotiated'> | undefined
  #lease = ''
  #ended = false
  #backlog: WorkerEvent[] = []
  #onEvent: ((event: WorkerEvent) => void) | undefined
  #onClosed: (() => void) | undefined

  private constructor(socket: Socket, options: LinkOptions) {
    this.#socket = socket
    this.#scope = options.scope
    this.#requestMs = options.requestMs
    this.socketPath = options.socketPath
    socket.on('data', (chunk: Buffer) => this.#take(chunk))
    socket.on('error', () => socket.destroy())
    socket.on('end', () => socket.destroy())
    socket.on('close', () => this.#end())
    this.#scope.defer('worker connection', () => this.close())
  }

  /**
   * One try: connect, negotiate, acquire the lease. Rejects with WorkerUnreachable, WorkerRefusal
   * (worker_protocol_incompatible, controller_busy, …) or the connect error (ENOENT, ECONNREFUSED, EACCES, …).
   */
  static async open(options: LinkOptions): Promise<WorkerLink> {
    const socket = await connect(options.socketPath, options.scope.signal)
    const link = new WorkerLink(socket, options)
    try {
      link.#negotiated = await link.request('negotiate', {
        daemon_instance_id: options.daemonId,
        minimum_version: WORKER_PROTOCOL.minimum,
        maximum_version: WORKER_PROTOCOL.maximum,
      })
      const acquired = await link.request('acquire_controller', {
        daemon_instance_id: options.daemonId,
        challenge: link.#negotiated.challenge,
        requested_capabilities: [...CAPABILITIES],
      })
      link.#lease = acquired.lease_id
      return link
    } catch (failure) {
      link.close()
      throw failure
    }
  }

  get negotiated(): ResponseOf<'negotiated'> {
    if (this.#negotiated === undefined) throw new Error('the worker connection is not negotiated')
    return this.#negotiated
  }
  get version(): number {
    return this.negotiated.selected_version
  }
  get leaseId(): string {
    return this.#lease
  }
  get alive(): boolean {
    return !this.#ended
  }

  /** Takes over events (those that arrived before are told first) and the end of the connection. */
  attend(onEvent: (event: WorkerEvent) => void, onClosed: () => void): void {
    this.#onEvent = onEvent
    this.#onClosed = onClosed
    for (const event of this.#backlog.splice(0)) onEvent(event)
    if (this.#ended) onClosed()
  }

  /** Sends one request. Rejects with WorkerRefusal or WorkerUnreachable. */
  request<T extends WorkerRequest['type']>(type: T, body: Body<T>, deadlineMs = this.#requestMs): Promise<Answer<T>> {
    if (this.#ended) return Promise.reject(new WorkerUnreachable('closed', 'the worker connection is closed'))
    const id = `r${this.#nextId++}`
    return new Promise<WorkerResponse>((resolve, reject) => {
      const timer = this.#scope.after(deadlineMs, `worker ${type}`, () => {
        this.#waiting.delete(id)
        reject(new WorkerUnreachable('deadline', `the worker did not answer ${type} within ${deadlineMs} ms`))
      })
      this.#waiting.set(id, { type, resolve, reject, timer })
      this.#socket.write(`${JSON.stringify({ type, request_id: id, ...body })}\n`)
    }) as Promise<Answer<T>>
  }

  close(): void {
    this.#socket.destroy()
    this.#end()
  }

  #take(chunk: Buffer): void {
    this.#lines.push(chunk)
    try {
      for (let line = this.#lines.next(); line !== undefined; line = this.#lines.next()) this.#line(line)
    } catch (failure) {
      if (!(failure instanceof LineTooLong)) throw failure
      this.#socket.destroy() // 3
    }
  }

  #line(line: Uint8Array): void {
    let message: unknown
    try {
      message = JSON.parse(Buffer.from(line.buffer, line.byteOffset, line.length).toString('utf8'))
    } catch {
      this.#socket.destroy() // 3
      return
    }
    if (typeof message !== 'object' || message === null || !('type' in message)) {
      this.#socket.destroy() // 3
      return
    }
    if ('event_sequence' in message) {
      if (!isWorkerEvent(message))
        this.#socket.destroy() // 3
      else if (this.#onEvent) this.#onEvent(message)
      else this.#backlog.push(message)
      return
    }
    if (!isWorkerResponse(message)) {
      this.#socket.destroy() // 3
      return
    }
    const response = message
    const waiting = this.#waiting.get(response.request_id)
    if (waiting === undefined) return // its deadline passed
    this.#waiting.delete(response.request_id)
    waiting.timer[Symbol.dispose]()
    if (response.type === 'error') waiting.reject(new WorkerRefusal(response.error))
    else if (response.type === answers[waiting.type]) waiting.resolve(response)
    else {
      waiting.reject(new WorkerUnreachable('closed', `the worker answered ${waiting.type} with ${response.type}`))
      this.#socket.destroy()
    }
  }

  #end(): void {
    if (this.#ended) return
    this.#ended = true
    for (const waiting of [...this.#waiting.values()]) {
      waiting.timer[Symbol.dispose]()
      waiting.reject(new WorkerUnreachable('closed', 'the worker connection ended')) // 1
    }
    this.#waiting.clear()
    this.#onClosed?.()
  }
}

/** Connects to a unix socket. Rejects with the system error, or the signal's reason. */
export function connect(path: string, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason as Error)
    const socket = createConnection({ path, allowHalfOpen: true })
    const abort = (): void => {
      socket.destroy()
      reject(signal.reason as Error)
    }
    const failed = (failure: Error): void => {
      signal.removeEventListener('abort', abort)
      reject(failure)
    }
    signal.addEventListener('abort', abort, { once: true })
    socket.once('error', failed)
    socket.once('connect', () => {
      signal.removeEventListener('abort', abort)
      socket.off('error', failed)
      resolve(socket)
    })
  })
}

/** An unguessable one-use name. */
export const secretToken = (): string => randomBytes(24).toString('base64url')
