/**
 * The user's service manager over D-Bus: calls with a deadline, job results, a connection that is made when needed and
 * again after it was lost. Nothing is shelled out.
 */
import { messageOf } from '../../protocol/fault.ts'
import { setMaxListeners } from 'node:events'
import { createRequire } from 'node:module'
import type * as DBus from 'dbus-next'
import { firstOf } from '../signals.ts'
import { within, type Timing } from '../timing.ts'
import { ManagerSilent, ManagerUnavailable, SYSTEMD, isRefusal, translated } from './systemd-answers.ts'

const NAME = SYSTEMD
const PATH = '/org/freedesktop/systemd1'
const MANAGER = `${NAME}.Manager`
const PROPERTIES = 'org.freedesktop.DBus.Properties'
export const UNIT = `${NAME}.Unit`
export const SERVICE = `${NAME}.Service`

/** A manager that runs answers in milliseconds; this is for a machine that is busy or waking up. */
const CALL_MS = 10_000
/** Newest results kept for callers that do not know the name of their job yet; a burst is far below. */
const MAX_EARLY = 256

export interface ManagerOptions {
  /** See busSocket. */
  readonly socket: string | undefined
  readonly clock: Timing
  readonly callMs?: number
}

interface Link {
  readonly bus: DBus.MessageBus
  /** Aborts with a ManagerUnavailable once the connection is lost. */
  readonly lost: AbortSignal
}

export type JobResult = 'done' | 'canceled' | 'timeout' | 'failed' | 'dependency' | 'skipped' | (string & {})

/**
 * Owned by the supervisor or command that made it. Every call rejects with ManagerUnavailable (nobody answered within
 * callMs; whether it was carried out is unknown) or ManagerRefusal (a typed answer).
 */
export class SystemdManager implements Disposable {
  readonly #options: ManagerOptions
  #link: Promise<Link> | undefined
  #close: (() => void) | undefined
  #closed = false
  /** By the job's path: who asks for what is being done already is given the same job. */
  readonly #waiting = new Map<string, ((result: JobResult) => void)[]>()
  readonly #early = new Map<string, JobResult>()
  /** Jobs whose name is being asked for; only then early results are kept. */
  #asking = 0

  constructor(options: ManagerOptions) {
    this.#options = options
  }

  /**
   * Calls a method of the manager and answers its return values; `sent` runs once the question is on the bus. Throws
   * ManagerUnavailable or ManagerRefusal.
   */
  manager(member: string, signature = '', body: readonly unknown[] = [], sent?: () => void): Promise<unknown[]> {
    return this.#call(PATH, MANAGER, member, signature, body, sent)
  }

  /** One property of an object, unpacked. */
  async property(path: string, iface: string, name: string): Promise<unknown> {
    const [value] = await this.#call(path, PROPERTIES, 'Get', 'ss', [iface, name])
    return (value as DBus.Variant).value
  }

  managerProperty(name: string): Promise<unknown> {
    return this.property(PATH, MANAGER, name)
  }

  /** Object path of a loaded unit; undefined when there is none of this name. */
  async unit(name: string): Promise<string | undefined> {
    try {
      const [path] = await this.manager('GetUnit', 's', [name])
      return path as string
    } catch (failure) {
      if (isRefusal(failure, 'NoSuchUnit')) return undefined
      throw failure
    }
  }

  /** Calls a method that starts a job of the manager; `sent` as for `manager`. */
  async job(member: string, signature: string, body: readonly unknown[], sent?: () => void): Promise<Job> {
    const { lost } = await this.#connected()
    this.#asking++
    try {
      const [path] = (await this.manager(member, signature, body, sent)) as [string]
      // Heard from here on, before anything else is read from the bus: a short job may have ended already.
      const early = this.#early.get(path)
      const result =
        early !== undefined
          ? Promise.resolve(early)
          : new Promise<JobResult>((resolve) => {
              this.#waiting.set(path, [...(this.#waiting.get(path) ?? []), resolve])
            })
      return { ended: (deadlineMs, signal) => this.#ended(result, lost, deadlineMs, signal) }
    } finally {
      if (--this.#asking === 0) this.#early.clear()
    }
  }

  [Symbol.dispose](): void {
    this.#closed = true
    this.#close?.()
  }

  /** A variant for a property. */
  variant(signature: string, value: unknown): DBus.Variant {
    return new (dbus().Variant)(signature, value)
  }

  async #ended(
    result: Promise<JobResult>,
    lost: AbortSignal,
    deadlineMs: number,
    signal?: AbortSignal,
  ): Promise<JobResult | 'late'> {
    using either = firstOf(...(signal === undefined ? [lost] : [signal, lost]))
    return await within<JobResult | 'late'>(this.#options.clock, deadlineMs, result, () => 'late', either.signal)
  }

  async #call(
    path: string,
    iface: string,
    member: string,
    signature: string,
    body: readonly unknown[],
    sent?: () => void,
  ): Promise<unknown[]> {
    const link = await this.#connected()
    return this.#send(
      link,
      new (dbus().Message)({ destination: NAME, path, interface: iface, member, signature, body: [...body] }),
      sent,
    )
  }

  async #send({ bus, lost }: Link, message: DBus.Message, sent?: () => void): Promise<unknown[]> {
    const { clock, callMs = CALL_MS } = this.#options
    lost.throwIfAborted()
    const answered = bus.call(message).then(
      (reply) => (reply?.body ?? []) as unknown[],
      (failure: unknown) => {
        throw translated(failure)
      },
    )
    const late = (): never => {
      throw new ManagerSilent(`${message.member} was not answered within ${callMs} ms`)
    }
    const answer = within(clock, callMs, answered, late, lost)
    sent?.()
    return await answer
  }

  /** The connection there is, or a new one; one attempt at a time. */
  async #connected(): Promise<Link> {
    if (this.#closed) throw new ManagerUnavailable('the connection was closed')
    const link = (this.#link ??= this.#connect())
    try {
      return await link
    } catch (failure) {
      if (this.#link === link) this.#link = undefined
      throw failure
    }
  }

  async #connect(): Promise<Link> {
    const { socket, clock, callMs = CALL_MS } = this.#options
    if (socket === undefined) throw new ManagerUnavailable('there is no session bus (XDG_RUNTIME_DIR is not set)')
    // dbus-next takes addresses apart without unescaping them, and for `path=` it tries native code first.
    if (/[,;:=]/.test(socket)) throw new ManagerUnavailable(`the path of the session bus cannot be used: ${socket}`)
    const { sessionBus, Message } = dbus()
    const bus = sessionBus({ busAddress: `unix:socket=${socket}` })
    const controller = new AbortController()
    setMaxListeners(0, controller.signal) // every call in flight listens
    const lose = (why: string): void => {
      if (controller.signal.aborted) return
      this.#link = undefined
      this.#waiting.clear() // their callers hear it from `lost`
      controller.abort(new ManagerUnavailable(why))
      destroy(bus)
    }
    const link: Link = { bus, lost: controller.signal }
    this.#close = () => lose('the connection was closed')
    bus.on('error', (failure: unknown) => lose(messageOf(failure)))
    connectionOf(bus).once('end', () => lose('the bus closed the connection'))
    bus.on('message', (it) => this.#heard(it))
    guard(bus, (failure) => lose(messageOf(failure)))
    try {
      const connected = new Promise<void>((resolve) => bus.on('connect', resolve))
      const late = (): never => {
        throw new ManagerSilent(`the bus did not answer within ${callMs} ms`)
      }
      await within(clock, callMs, connected, late, link.lost)
      const rule = `type='signal',sender='${NAME}',interface='${MANAGER}',member='JobRemoved',path='${PATH}'`
      const daemon = {
        destination: 'org.freedesktop.DBus',
        path: '/org/freedesktop/DBus',
        interface: 'org.freedesktop.DBus',
      }
      await Promise.all([
        this.#send(link, new Message({ ...daemon, member: 'AddMatch', signature: 's', body: [rule] })),
        // Without it the manager tells no signals to anybody.
        this.#send(link, new Message({ destination: NAME, path: PATH, interface: MANAGER, member: 'Subscribe' })),
      ])
      return link
    } catch (failure) {
      lose(messageOf(failure))
      throw failure
    }
  }

  #heard({ interface: iface, member, body }: DBus.Message): void {
    if (iface !== MANAGER || member !== 'JobRemoved') return
    const [, path, , result] = body as [number, string, string, JobResult]
    const waiting = this.#waiting.get(path)
    this.#waiting.delete(path)
    for (const tell of waiting ?? []) tell(result)
    if (this.#asking === 0) return
    this.#early.set(path, result)
    for (const oldest of this.#early.keys()) {
      if (this.#early.size <= MAX_EARLY) break
      this.#early.delete(oldest)
    }
  }
}

export interface Job {
  /** The job's result, or 'late' when it has none after `deadlineMs`. Rejects with the signal's reason, or when the bus is lost. */
  ended(deadlineMs: number, signal?: AbortSignal): Promise<JobResult | 'late'>
}

/** dbus-next does not tell that its connection ended; its own event emitter does. */
interface Connection {
  once(event: 'end', run: () => void): void
  readonly stream: { destroy(): void; emit: (...event: unknown[]) => boolean }
}
const connectionOf = (bus: DBus.MessageBus): Connection => (bus as unknown as { _connection: Connection })._connection
const destroy = (bus: DBus.MessageBus): void => connectionOf(bus).stream.destroy()

/** dbus-next throws what it cannot read out of the stream's events, where nobody but the process would take it. */
function guard(bus: DBus.MessageBus, take: (failure: unknown) => void): void {
  const { stream } = connectionOf(bus)
  const emit = stream.emit.bind(stream)
  stream.emit = (...event) => {
    try {
      return emit(...event)
    } catch (failure) {
      take(failure)
      return true
    }
  }
}

let loaded: typeof DBus | undefined
/** Loaded at the first use: most daemons and commands never ask a service manager. */
function dbus(): typeof DBus {
  // A CommonJS bundle has no import.meta.url, an ES module no __filename.
  return (loaded ??= createRequire(typeof __filename === 'string' ? __filename : import.meta.url)(
    'dbus-next',
  ) as typeof DBus)
}
