/** The typed client: calls, subscriptions, attach and output of one local daemon. */
import { SUPPORTED_VERSIONS } from '../protocol/version.ts'
import { AttachStream } from './attach-stream.ts'
import { Caller, type ConnectOptions } from './caller.ts'
import { ClientError } from './errors.ts'
import type { Event, MethodParams, MethodResult, SessionOutput } from './methods.ts'
import { watchNotifications, type NotificationEvent } from './notification-watch.ts'
import { openRaw, type RawStream, type RawTaker } from './raw-attach.ts'
import { Lasting, type LastingOptions } from './reconnect.ts'
import { startDaemon } from './start.ts'
import { V3, fromV3 } from './v3.ts'
import { waitFor, type WaitingMethod, type WaitOptions } from './waits.ts'

// session.output waits this long for more before it is asked again.
const FOLLOW_WAIT_MS = 8_000
const FOLLOW_BYTES = 262_144

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

/** A subscription is there: every event from now on will come. */
export interface Begun {
  readonly v: number
  /** Events of it that came and were not handed out yet. */
  readonly held: () => readonly Event[]
}

export class Client extends Caller {
  /**
   * Events from now on, on a connection of its own; it ends when the loop is left. Events are not kept: where the daemon
   * was away, or this program too slow, a `subscription_gap` stands in their place, and what changed is to be looked up.
   */
  async *subscribe(options: LastingOptions = {}): AsyncGenerator<Event, void, void> {
    let first = true
    for await (const it of this.subscription(options)) {
      if (!('held' in it)) yield it
      else if (first) first = false
      else yield { v: it.v, event: 'subscription_gap' }
    }
  }

  /** Events of the inbox from now on. None is lost or told twice, whatever daemons do meanwhile (notification-watch.ts). */
  watchNotifications(options: LastingOptions = {}): AsyncGenerator<NotificationEvent, void, void> {
    return watchNotifications(this, options)
  }

  /** Events, and before them where each subscription begins: the first one and the next after every interruption. */
  async *subscription(options: LastingOptions): AsyncGenerator<Event | Begun, void, void> {
    const lasting = new Lasting(this, options)
    try {
      for (;;) {
        try {
          yield* this.#oneSubscription(options.signal)
        } catch (failure) {
          await lasting.back(failure)
        }
      }
    } catch (failure) {
      if (options.signal?.aborted !== true) throw failure
    }
  }

  /** Ends by throwing. */
  async *#oneSubscription(signal: AbortSignal | undefined): AsyncGenerator<Event | Begun, void, void> {
    const connection = await this.fresh()
    const stop = (): void => connection.close()
    const shape = (line: unknown): Event => (connection.version === V3 ? fromV3(line) : line) as Event
    signal?.addEventListener('abort', stop, { once: true })
    try {
      await connection.request('subscribe', null, { timeoutMs: this.requestMs, signal })
      yield { v: connection.version ?? SUPPORTED_VERSIONS.maximum, held: () => connection.held.map(shape) }
      for (;;) yield shape(await connection.line())
    } finally {
      signal?.removeEventListener('abort', stop)
      connection.close()
    }
  }

  /** Asks a method that waits; a daemon that goes meanwhile is followed by the next one (waits.ts). */
  async waitFor<M extends WaitingMethod>(
    method: M,
    params: MethodParams<M>,
    options: WaitOptions = {},
  ): Promise<MethodResult<M>> {
    return await waitFor(this, method, params, options)
  }

  /** Opens an attach stream and hands its bytes to `taker`. */
  async attachRaw(sessionId: string, options: AttachOptions, taker: RawTaker): Promise<Attachment> {
    const { env } = this
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
   * all was read. Output that is no longer kept is skipped. A daemon that goes meanwhile leaves no gap.
   */
  async *followOutput(
    sessionId: string,
    options: LastingOptions & { afterOffset?: string } = {},
  ): AsyncGenerator<Buffer, void, void> {
    const { signal } = options
    const lasting = new Lasting(this, options)
    const info = await lasting.run(() => this.call('session.inspect', sessionId))
    const { worker_instance_id, runtime_generation } = info.runtime ?? {}
    if (worker_instance_id === undefined || runtime_generation === undefined) return
    const runtime = { worker_instance_id, runtime_generation }
    let after = options.afterOffset ?? '0'
    let wait = false
    let ended = false
    const place = (): string =>
      `pohunek daemon start --detach; pohunek session output ${sessionId} --worker-instance-id ${worker_instance_id} ` +
      `--runtime-generation ${runtime_generation} --after-offset ${after} --follow goes on here`
    const read = (): Promise<SessionOutput> => {
      const request = { session_id: sessionId, runtime, after_offset: after, max_bytes: FOLLOW_BYTES }
      return this.call('session.output', wait ? { ...request, wait_ms: FOLLOW_WAIT_MS } : request, { signal })
    }
    for (;;) {
      let answer: SessionOutput
      try {
        answer = await lasting.run(read, { place })
      } catch (failure) {
        if (signal?.aborted === true) return
        throw failure
      }
      const bytes = Buffer.from(answer.data_base64, 'base64')
      after = answer.next_offset
      if (bytes.length > 0) yield bytes
      else if (ended && !answer.has_more) return
      // What was printed between an empty answer and the end is read once more.
      ended ||= bytes.length === 0 && (await lasting.run(() => this.#ended(sessionId), { place }))
      wait = !answer.has_more && !ended
    }
  }

  async #ended(sessionId: string): Promise<boolean> {
    const { state } = await this.call('session.inspect', sessionId)
    return state === 'stopped' || state === 'done' || state === 'failed'
  }
}

export interface StartOptions extends ConnectOptions {
  /** Start a daemon when none answers, as the command line does; default false. */
  readonly start?: boolean
}

/**
 * Connects to the local daemon. Throws ClientError: daemon_unreachable when none answers (`recover` says what to do),
 * daemon_spawn_failed when one was to be started and did not.
 */
export async function connect({ start = false, ...options }: StartOptions = {}): Promise<Client> {
  const client = new Client(options)
  try {
    await client.connect()
  } catch (failure) {
    if (!(failure instanceof ClientError) || failure.code !== 'daemon_unreachable') throw failure
    if (!start) throw new ClientError({ ...failure.toBody(), recover: RECOVER }, failure.cause)
    await startDaemon(options.env ?? process.env)
    await client.connect()
  }
  return client
}

const RECOVER = 'pohunek daemon start --detach, or connect({ start: true })'
