/** What a plugin is: a contract, declared needs, and one setup that wires them. Plugins are wired here and decide elsewhere. */
import type { AsyncSeriesHook } from 'tapable'
import type { Peer } from '../platform/peers.ts'
import type { Contract, EventName, EventPayload, Method, Params, ResultInput } from '../protocol/contract.ts'
import type { Clock } from './clock.ts'
import type { EventBus } from './events.ts'
import type { Log } from './log.ts'
import type { Paths } from './paths.ts'
import type { Migrations, SchemaVersions } from './store/lines.ts'
import type { RecordTables } from './store/tables.ts'
import type { Scope } from './scope.ts'
import type { RawStream } from './server/raw-stream.ts'
import type { DaemonConfig } from './config.ts'

declare const carries: unique symbol
/** Names a service and carries its type; the declared needs are the type of what setup receives. */
export interface Token<out T> {
  readonly id: string
  readonly [carries]?: T
}
/** A token for a service of type T; `id` is unique in a build. */
export const token = <T>(id: string): Token<T> => ({ id })

export type Needs = Readonly<Record<string, Token<unknown>>>
export type Given<N extends Needs> = { readonly [K in keyof N]: N[K] extends Token<infer T> ? T : never }

export type { Peer }

/** What a handler knows about its caller. */
export interface Call {
  /** Aborts when the client disconnects or the daemon stops; every method that can wait honours it. */
  readonly signal: AbortSignal
  readonly version: number
  readonly local: boolean
  /** Re-read from the kernel at the time of asking, undefined where the kernel cannot attest one. */
  peer(): Peer | undefined
  readonly origin: { readonly sessionId: string; readonly daemonId: string } | undefined
  readonly requestId: string
}

export type Handler<M extends Method> = (params: Params<M>, call: Call) => Promise<ResultInput<M>> | ResultInput<M>
export type Handlers<C extends Contract> = { [K in keyof C['methods']]: Handler<C['methods'][K]> }

/**
 * Takes over a connection whose first line was `{"<key>":"<value>"}`. The stream is paused until it is used. A Fault
 * thrown here is answered as an error line and the connection stays an ordinary one.
 */
export type StreamHandler = (value: string, stream: RawStream) => Promise<void>

/** Kernel lifecycle, in this order. A rejecting tap fails the start; `drain` runs before scopes close. */
export interface Lifecycle {
  /** Stores are read; tap to take what is in them. */
  readonly load: AsyncSeriesHook<[]>
  /** Join what is on disk with what is alive. No socket is open yet. */
  readonly reconcile: AsyncSeriesHook<[]>
  /** Sockets accept after this. */
  readonly ready: AsyncSeriesHook<[]>
  /** The daemon stops: finish or abandon what is in flight. New requests are already refused. */
  readonly drain: AsyncSeriesHook<[]>
}

export interface AdmitRequest {
  readonly method: string
  readonly spec: Method
  readonly params: unknown
  readonly call: Call
}

/** One line of daemon.doctor. */
export interface Finding {
  readonly status: 'ok' | 'warn' | 'fail'
  /** What was found and, unless it is ok, what to do about it. */
  readonly detail: string
}

/** Checks that daemon.doctor runs; a plugin adds its own in setup. */
export interface Diagnostics {
  /**
   * `name` as `DoctorCheck.name`. Only a failing required check makes the whole report fail. A check that throws is a
   * failing one. Disposing takes the check away.
   */
  add(check: { readonly name: string; readonly required: boolean; run(): Promise<Finding> | Finding }): Disposable
  run(): Promise<{
    readonly checks: readonly ({ readonly name: string } & Finding)[]
    readonly overall: Finding['status']
  }>
}

export interface Kernel {
  readonly clock: Clock
  readonly log: Log
  readonly paths: Paths
  readonly config: DaemonConfig
  readonly lifecycle: Lifecycle
  readonly events: EventBus
  readonly tables: RecordTables
  /** Environment the daemon was started with. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** Fresh for every daemon process, `d-<ULID>`. */
  readonly daemonId: string
  readonly daemonVersion: string
  /** Before a handler runs, after version handling: a tap refuses by throwing a Fault (origin guard and the like). */
  readonly admit: AsyncSeriesHook<[AdmitRequest]>
  readonly diagnostics: Diagnostics
  /** What this daemon serves, for daemon.capabilities; complete once `load` runs. */
  surface(): Surface
}

export interface Surface {
  readonly plugins: readonly { readonly name: string; readonly contract: Contract; readonly needs: readonly string[] }[]
  readonly streams: readonly string[]
}

export interface SetupContext<C extends Contract, N extends Needs> {
  readonly needs: Given<N>
  /** This plugin's own life; closed in reverse start order. */
  readonly scope: Scope
  readonly kernel: Kernel
  readonly log: Log
  /** Publishes one event of this plugin's contract. */
  publish<E extends EventName<C>>(event: E, payload: EventPayload<C, E>): void
}

export interface SetupResult<C extends Contract, S> {
  readonly service?: S
  readonly methods: Handlers<C>
  readonly streams?: Readonly<Record<string, StreamHandler>>
}

/** A record log and what a build can read of it. */
export interface StoreFile {
  readonly file: string
  readonly schema: SchemaVersions
  readonly migrations: Migrations
}

export interface Plugin<C extends Contract = Contract, N extends Needs = Needs, S = unknown> {
  readonly contract: C
  readonly needs: N
  readonly provides?: Token<S>
  /** Record logs it opens by itself, so that an upgrade can be judged without a start. Pure. */
  readonly stores?: (paths: Paths) => readonly StoreFile[]
  setup(context: SetupContext<C, N>): Promise<SetupResult<C, S>> | SetupResult<C, S>
}

/** Identity with inference: an undeclared need or a missing handler does not compile. */
export function definePlugin<const C extends Contract, const N extends Needs, S = never>(
  plugin: Plugin<C, N, S>,
): Plugin<C, N, S> {
  return plugin
}

/** A plugin whose types are erased for lists; every Plugin is one. Dispatch validates what it hands to the handlers. */
export interface Bootable {
  readonly contract: Contract
  readonly needs: Needs
  readonly provides?: Token<unknown>
  readonly stores?: (paths: Paths) => readonly StoreFile[]
  setup(context: never): Promise<ErasedSetup> | ErasedSetup
}
export interface ErasedSetup {
  readonly service?: unknown
  readonly methods: Readonly<Record<string, (params: never, call: Call) => unknown>>
  readonly streams?: Readonly<Record<string, StreamHandler>>
}
