import type { Socket } from 'node:net'
import {
  decodeRequest,
  encodeErr,
  encodeOk,
  INVALID_REQUEST_ID,
  parseLine,
  preludeOf,
  type Decoded,
  type Request,
} from '../../protocol/envelope.ts'
import { coreFaults, Fault } from '../../protocol/fault.ts'
import { LineSplitter, LineTooLong } from '../../protocol/lines.ts'
import { PROTOCOL_VERSION, selectVersion, SUPPORTED_VERSIONS } from '../../protocol/version.ts'
import { clientGone, RequestCall, shuttingDown, type Caller } from '../call.ts'
import type { Dispatcher } from '../dispatch.ts'
import type { EventBus } from '../events.ts'
import { asIncident } from '../incident.ts'
import type { Log } from '../log.ts'
import type { Peer, StreamHandler } from '../plugin.ts'
import type { Scope } from '../scope.ts'
import type { ServerLimits } from './limits.ts'
import { descriptorOf, isPeerGone } from './peer-link.ts'
import { feed } from './subscription.ts'

export type PeerOf = (socketFd: number) => Peer | undefined

export interface ConnectionOptions {
  readonly socket: Socket
  readonly scope: Scope
  readonly local: boolean
  readonly dispatcher: Dispatcher
  readonly events: EventBus
  readonly streams: ReadonlyMap<string, StreamHandler>
  readonly limits: ServerLimits
  readonly log: Log
  readonly peerOf: PeerOf
  /** Unread bytes went up or down. */
  onPending(bytes: number): void
  /** Set while the client has not taken what it is owed: how many bytes; 0 once it has. */
  onUnsent(connection: Connection, bytes: number): void
  /** Resolves when the daemon does not hold too many unsent answers; undefined when it does not now. */
  room(): Promise<void> | undefined
  /** The connection is closed, or was taken over as a raw stream. */
  onGone(connection: Connection): void
}

/**
 * One client connection: lines in, one response each, in order (contract/protocol.md §5).
 * Invariants
 *  1. One request runs at a time; input behind it waits in the splitter, and beyond maxQueuedBytes in the client.
 *  2. A client that is gone aborts its request, one that only ended its writing still gets every answer it is owed.
 *  3. The next request is not read before the client took the last response.
 *  4. The version of the first negotiated request stamps everything after it.
 *  5. No request starts while clients leave too many answers unread.
 */
export class Connection implements Caller {
  readonly local: boolean
  readonly #options: ConnectionOptions
  readonly #socket: Socket
  readonly #splitter: LineSplitter
  #mode: 'lines' | 'subscribed' | 'raw' | 'closing' | 'closed' = 'lines'
  #version: number | undefined
  #call: RequestCall | undefined
  #isBusy = false
  #isFirstLine = true
  #inputEnded = false
  #pending = 0
  #probe: Disposable | undefined
  #stopping = false
  /** Set while an unfinished line is held; grows with age. */
  unfinishedSinceMs: number | undefined
  readonly #now: () => number

  constructor(options: ConnectionOptions, now: () => number) {
    this.#options = options
    this.#now = now
    this.local = options.local
    this.#socket = options.socket
    this.#splitter = new LineSplitter(options.limits.maxLineBytes)
    this.#socket.on('error', ignore) // always followed by 'close'
    this.#socket.once('close', this.#onClose)
    options.scope.defer('socket', () => this.#mode !== 'raw' && this.#socket.destroy())
    this.#listen()
  }

  get hasSpoken(): boolean {
    return !this.#isFirstLine
  }

  peer(): Peer | undefined {
    const fd = descriptorOf(this.#socket)
    return fd === undefined ? undefined : this.#options.peerOf(fd)
  }

  /** Says why and closes; input is discarded for a moment so that the client can read it. */
  fail(fault: Fault): void {
    if (this.#mode === 'closing' || this.#mode === 'closed') return
    this.#socket.write(encodeErr(this.#stamp, INVALID_REQUEST_ID, fault.toBody()))
    this.#hangUp()
  }

  /** The daemon stops: an idle connection is closed, a running request is given up and still answered. */
  stop(): void {
    this.#stopping = true
    if (this.#call !== undefined) this.#call.giveUp(shuttingDown())
    else if (!this.#isBusy || this.#mode === 'subscribed') this.#hangUp()
  }

  /** The grace of `stop` is over: answers in the handler's place and lets go. */
  abandon(): void {
    const call = this.#call
    if (call !== undefined) this.#socket.write(encodeErr(call.version, call.requestId, shuttingDown().toBody()))
    this.#socket.end(() => this.#socket.destroy())
    this.#socket.unref()
  }

  destroy(): void {
    this.#socket.destroy()
  }

  get #stamp(): number {
    return this.#version ?? PROTOCOL_VERSION
  }

  #listen(): void {
    this.#socket.on('data', this.#onData)
    this.#socket.once('end', this.#onEnd)
    this.#socket.resume()
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#mode !== 'lines') return // a subscriber's or a failed client's input is discarded
    this.#splitter.push(chunk)
    if (this.#isBusy) {
      this.#account()
      if (this.#splitter.pendingBytes >= this.#options.limits.maxQueuedBytes) {
        this.#socket.pause() // 1
        this.#watchPeer()
      }
    } else this.#advance()
  }

  readonly #onEnd = (): void => {
    this.#inputEnded = true
    if (this.#mode === 'closing') this.#socket.destroy()
    else if (this.#mode === 'subscribed' || this.#isBusy) this.#checkPeer()
    else this.#advance()
  }

  readonly #onClose = (): void => {
    if (this.#mode === 'raw') return // its taker's
    this.#mode = 'closed'
    this.#call?.giveUp(clientGone()) // 2
    this.#splitter.rest()
    this.#account()
    this.#leave()
  }

  #leave(): void {
    this.#options.onGone(this)
    void this.#options.scope.close().catch((failure: unknown) => {
      this.#options.log.error({ err: failure }, 'a connection could not be released')
    })
  }

  /** Starts the next request when none runs. */
  #advance(): void {
    if (this.#isBusy || this.#mode !== 'lines') return
    let line: Uint8Array | undefined
    try {
      line = this.#splitter.next()
    } catch (failure) {
      if (!(failure instanceof LineTooLong)) throw failure
      this.fail(coreFaults.framing({ problem: `${failure.message}; the connection is closed` }))
      return
    }
    this.#isBusy = line !== undefined
    this.#account()
    if (line !== undefined) void this.#serve(line)
    else if (this.#inputEnded || this.#stopping) this.#hangUp()
  }

  async #serve(line: Uint8Array): Promise<void> {
    try {
      await this.#handle(line)
    } catch (failure) {
      this.#options.log.error({ err: failure }, 'a connection failed')
      this.#socket.destroy()
    }
    this.#isBusy = false
    this.#stopWatching()
    if (this.#mode !== 'lines') return
    if (this.#socket.isPaused()) this.#socket.resume()
    this.#advance()
  }

  async #handle(line: Uint8Array): Promise<void> {
    const isFirst = this.#isFirstLine
    this.#isFirstLine = false
    let decoded: Decoded
    try {
      const value = parseLine(line)
      const prelude = isFirst ? preludeOf(value) : undefined
      const stream = prelude && this.#options.streams.get(prelude.key)
      if (prelude && stream) return await this.#handOver(prelude.key, prelude.value, stream)
      decoded = decodeRequest(value)
    } catch (failure) {
      if (!(failure instanceof Fault)) throw failure
      decoded = { refusal: { id: INVALID_REQUEST_ID, error: failure } }
    }
    if ('refusal' in decoded)
      return await this.#write(encodeErr(this.#stamp, decoded.refusal.id, decoded.refusal.error.toBody()))
    await this.#run(decoded.request)
  }

  async #run(request: Request): Promise<void> {
    const served = this.#version === undefined ? SUPPORTED_VERSIONS : { minimum: this.#version, maximum: this.#version }
    const version = selectVersion(request.v, served)
    if (version === undefined) {
      return await this.#write(
        encodeErr(this.#stamp, request.id, coreFaults.version_mismatch({ asked: request.v, served }).toBody()),
      )
    }
    this.#version = version // 4
    if (request.method === 'subscribe') return await this.#subscribe(request)
    const room = this.#options.room()
    if (room !== undefined) {
      await room // 5
      if (this.#mode !== 'lines') return
    }
    const call = new RequestCall(this, version, request.id, request.origin)
    this.#call = call
    if (this.#stopping) call.giveUp(shuttingDown())
    if (this.#inputEnded) this.#checkPeer()
    const answer = await this.#options.dispatcher.answer(request, call)
    this.#call = undefined
    await this.#write(answer) // 3
  }

  async #subscribe(request: Request): Promise<void> {
    if (request.params !== null) {
      const fault = coreFaults.bad_request({ problem: 'params: subscribe takes none' })
      return await this.#write(encodeErr(this.#stamp, request.id, fault.toBody()))
    }
    if (this.#stopping) return await this.#write(encodeErr(this.#stamp, request.id, shuttingDown().toBody()))
    const { events, log, scope } = this.#options
    this.#mode = 'subscribed'
    this.#splitter.rest()
    this.#account()
    this.#socket.write(encodeOk(this.#stamp, request.id, { subscribed: true }))
    scope.own('subscription', feed({ socket: this.#socket, version: this.#stamp, events, log }))
    if (this.#socket.isPaused()) this.#socket.resume()
    if (this.#inputEnded) this.#watchPeer()
  }

  /** Gives the socket to a plugin's stream; after a Fault it is an ordinary connection again. */
  async #handOver(key: string, value: string, take: StreamHandler): Promise<void> {
    const socket = this.#socket
    socket.pause()
    socket.off('data', this.#onData)
    socket.off('end', this.#onEnd)
    this.#mode = 'raw'
    const head = Buffer.from(this.#splitter.rest())
    this.#account()
    try {
      await take(value, { socket, head, local: this.local, peer: () => this.peer() })
      socket.off('close', this.#onClose)
      this.#leave()
    } catch (failure) {
      if (socket.destroyed) {
        this.#mode = 'lines'
        return this.#onClose()
      }
      const fault = failure instanceof Fault ? failure : asIncident(this.#options.log, failure, { stream: key })
      this.#mode = 'lines'
      this.#splitter.push(head)
      this.#listen()
      await this.#write(encodeErr(this.#stamp, key, fault.toBody()))
    }
  }

  /** Resolves when the client took the line or is gone. */
  async #write(line: string): Promise<void> {
    const socket = this.#socket
    if (socket.destroyed || this.#mode === 'closing' || socket.write(line)) return
    if (this.#options.scope.closed) return
    await new Promise<void>((resolve) => {
      const stall = this.#options.scope.after(this.#options.limits.writeStallMs, 'write stall', () => socket.destroy())
      const done = (): void => {
        stall[Symbol.dispose]()
        this.#options.onUnsent(this, 0)
        socket.off('drain', done).off('close', done)
        resolve()
      }
      socket.on('drain', done).on('close', done)
      this.#options.onUnsent(this, socket.writableLength)
    })
  }

  #hangUp(): void {
    if (this.#mode === 'closing' || this.#mode === 'closed') return
    this.#mode = 'closing'
    this.#splitter.rest()
    this.#account()
    this.#stopWatching()
    this.#socket.resume()
    if (this.#inputEnded) this.#socket.end(() => this.#socket.destroy())
    else {
      this.#socket.end()
      if (!this.#options.scope.closed)
        this.#options.scope.after(this.#options.limits.lingerMs, 'linger', () => this.#socket.destroy())
    }
  }

  #checkPeer(): void {
    if (isPeerGone(this.#socket)) this.#socket.destroy()
    else this.#watchPeer()
  }

  /** While the socket cannot tell by itself: looks whether the client is gone. */
  #watchPeer(): void {
    if (this.#options.scope.closed) return
    this.#probe ??= this.#options.scope.after(this.#options.limits.goneProbeMs, 'gone probe', () => {
      this.#probe = undefined
      this.#checkPeer()
    })
  }

  #stopWatching(): void {
    if (this.#mode === 'subscribed') return
    this.#probe?.[Symbol.dispose]()
    this.#probe = undefined
  }

  #account(): void {
    const pending = this.#splitter.pendingBytes
    if (pending === 0 || this.#isBusy) this.unfinishedSinceMs = undefined
    else this.unfinishedSinceMs ??= this.#now()
    const change = pending - this.#pending
    this.#pending = pending
    if (change !== 0) this.#options.onPending(change)
  }
}

const ignore = (): void => undefined
