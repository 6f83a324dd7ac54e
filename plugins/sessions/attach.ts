/**
 * Attach streams: one-use ids, the raw relay to a worker, and what a stream ended with. The worker's own events tell
 * when a stream opens and closes, so a client that reached the worker directly is seen the same way.
 */
import type { Socket } from 'node:net'
import type { Scope } from '../../kernel/scope.ts'
import type { RawStream } from '../../kernel/server/raw-stream.ts'
import type { ErrorBody } from '../../protocol/fault.ts'
import { ATTACH_TOKEN_TTL_MS, STREAM_RESULT_CAPACITY, STREAM_RESULT_TTL_MS } from '../../protocol/limits.ts'
import type { StreamCloseReason, WorkerError } from '../../protocol/worker/messages.ts'
import { faults } from './faults.ts'
import type { Publish } from './registry.ts'
import type { Session } from './session.ts'
import { connect, secretToken } from './worker-link.ts'

/**
 * waiting: may be redeemed; redeemed: the relay or a direct client took the token; open: the worker said so;
 * over: kept for session.detach and for telling an expired id from an unknown one.
 */
type StreamPhase = 'waiting' | 'redeemed' | 'open' | 'over'

interface Stream {
  readonly id: string
  readonly session: Session
  /** One-use token of the worker's socket. */
  readonly token: string
  readonly socketPath: string
  phase: StreamPhase
  error: ErrorBody | undefined
  timer: Disposable | undefined
  /** Ends the relayed connections. */
  relay: (() => void) | undefined
}

export interface AttachRequest {
  readonly dimensions?: { readonly columns: number; readonly rows: number }
  readonly historyRows?: number
}

/**
 * Owns ids, results and relayed connections; all go with its scope. An id is good for ATTACH_TOKEN_TTL_MS, a result for
 * STREAM_RESULT_TTL_MS. Throws attach_not_found, attach_expired, worker_attach_stream_failed and worker faults.
 */
export class Attachments {
  readonly #scope: Scope
  readonly #publish: Publish
  readonly #streams = new Map<string, Stream>()
  /** Ids of `#streams` that are over, oldest first. */
  readonly #over: string[] = []
  /** Relays outlive the ids they came from. */
  readonly #relays = new Set<() => void>()

  constructor(scope: Scope, publish: Publish) {
    this.#scope = scope
    this.#publish = publish
    scope.defer('attach relays', () => {
      for (const stop of this.#relays) stop()
    })
  }

  /** Streams that carry bytes now. */
  get open(): number {
    return [...this.#streams.values()].filter((it) => it.phase === 'open' || it.phase === 'redeemed').length
  }

  /** Prepares one stream with the worker. Faults of the worker request pass through. */
  async prepare(session: Session, request: AttachRequest): Promise<{ id: string; token: string; socketPath: string }> {
    const link = session.running()
    const id = `as-${secretToken()}`
    const { dimensions, historyRows } = request
    const attach = {
      ...(dimensions === undefined ? {} : { dimensions }),
      ...(historyRows === undefined ? {} : { history_rows: historyRows }),
    }
    const { token } = await link.request('open_data_stream', {
      scope: session.scopeOf(link),
      stream_id: id,
      mode: 'attach',
      after_offset: 0,
      ...(Object.keys(attach).length === 0 ? {} : { attach }),
    })
    const stream: Stream = {
      id,
      session,
      token,
      socketPath: link.socketPath,
      phase: 'waiting',
      error: undefined,
      timer: undefined,
      relay: undefined,
    }
    this.#streams.set(id, stream)
    stream.timer = this.#scope.after(ATTACH_TOKEN_TTL_MS, 'attach token', () => this.#end(stream, undefined))
    return { id, token, socketPath: link.socketPath }
  }

  /** Redeems a stream id: joins the client with the worker. Faults attach_not_found, attach_expired, worker_attach_stream_failed. */
  async redeem(id: string, client: RawStream): Promise<void> {
    const stream = this.#streams.get(id)
    if (stream === undefined) throw faults.attach_not_found({})
    if (stream.phase !== 'waiting') throw faults.attach_expired({})
    stream.phase = 'redeemed'
    stream.timer?.[Symbol.dispose]()
    let worker: Socket
    try {
      worker = await connect(stream.socketPath, this.#scope.signal)
    } catch (failure) {
      const fault = faults.worker_attach_stream_failed(
        { problem: `the worker of ${stream.session.id} does not accept: ${(failure as Error).message}` },
        failure,
      )
      this.#end(stream, fault.toBody())
      throw fault
    }
    if (client.socket.destroyed) {
      worker.destroy()
      return this.#end(stream, undefined)
    }
    worker.write(`${JSON.stringify({ attach: stream.token })}\n`)
    if (client.head.length > 0) worker.write(client.head)
    this.#relay(stream, client.socket, worker)
  }

  /** The worker took an attach connection. */
  opened(session: Session, id: string): void {
    const stream = this.#streams.get(id)
    if (stream !== undefined) {
      stream.timer?.[Symbol.dispose]()
      stream.timer = undefined
      stream.phase = 'open'
    }
    this.#publish('attach_opened', { session_id: session.id, stream_id: id })
  }

  closed(session: Session, id: string, reason: StreamCloseReason, error: WorkerError | undefined): void {
    const stream = this.#streams.get(id)
    if (stream !== undefined) this.#end(stream, failureOf(reason, error))
    this.#publish('attach_closed', { session_id: session.id, stream_id: id })
  }

  /** Ends a stream. False for an unknown id or one whose result was already taken. */
  async detach(id: string): Promise<{ detached: boolean; error?: ErrorBody }> {
    const stream = this.#streams.get(id)
    if (stream === undefined) return { detached: false }
    if (stream.phase !== 'over') {
      const { session } = stream
      const { link } = session
      if (link?.alive === true && session.record.worker.runtime_id !== undefined) {
        // The worker flushes what the client is owed; a stream that ends by itself meanwhile is as good.
        await link.request('close_data_stream', { scope: session.scopeOf(link), stream_id: id }).catch(() => undefined)
      } else stream.relay?.()
      this.#end(stream, undefined)
    }
    const { error } = stream
    this.#forget(stream)
    return { detached: true, ...(error === undefined ? {} : { error }) }
  }

  /** The lease is gone: the worker forgot the tokens it gave; streams that are open have connections of their own. */
  linkLost(session: Session): void {
    for (const stream of [...this.#streams.values()]) {
      if (stream.session === session && stream.phase === 'waiting') this.#end(stream, undefined)
    }
  }

  /** The worker is gone, and nobody is left who could tell the end of its streams. */
  sessionGone(session: Session): void {
    for (const stream of [...this.#streams.values()]) {
      if (stream.session !== session || stream.phase === 'over') continue
      const wasOpen = stream.phase === 'open'
      stream.relay?.()
      this.#end(stream, undefined)
      if (wasOpen) this.#publish('attach_closed', { session_id: session.id, stream_id: stream.id })
    }
  }

  #relay(stream: Stream, client: Socket, worker: Socket): void {
    const stop = (): void => {
      client.destroy()
      worker.destroy()
    }
    stream.relay = stop
    this.#relays.add(stop)
    client.setNoDelay(true)
    for (const socket of [client, worker]) {
      socket.on('error', stop)
      socket.on('close', () => {
        // One side is gone altogether: what the other was still sent is flushed, then it goes too.
        const other = socket === client ? worker : client
        if (!other.destroyed) other.end(() => other.destroy())
        else this.#relays.delete(stop)
      })
    }
    // pipe() carries backpressure and half-close; nothing is kept beyond the two sockets' own buffers.
    client.pipe(worker)
    worker.pipe(client)
  }

  #end(stream: Stream, error: ErrorBody | undefined): void {
    if (stream.phase === 'over') return
    stream.phase = 'over'
    stream.error = error
    stream.timer?.[Symbol.dispose]()
    this.#over.push(stream.id)
    while (this.#over.length > STREAM_RESULT_CAPACITY) {
      const oldest = this.#streams.get(this.#over[0] ?? '')
      if (oldest === undefined) this.#over.shift()
      else this.#forget(oldest)
    }
    if (this.#scope.closed) return
    stream.timer = this.#scope.after(STREAM_RESULT_TTL_MS, 'attach result', () => this.#forget(stream))
  }

  #forget(stream: Stream): void {
    stream.timer?.[Symbol.dispose]()
    this.#streams.delete(stream.id)
    const at = this.#over.indexOf(stream.id)
    if (at >= 0) this.#over.splice(at, 1)
  }
}

/** Ends that a client has to hear about; the others are ordinary. */
function failureOf(reason: StreamCloseReason, error: WorkerError | undefined): ErrorBody | undefined {
  if (error !== undefined)
    return faults.worker_attach_stream_failed({ problem: `${error.code}: ${error.message}` }).toBody()
  if (reason === 'subscriber_too_slow') {
    return faults.worker_attach_stream_failed({ problem: 'the client did not read its output in time' }).toBody()
  }
  return undefined
}
