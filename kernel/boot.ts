/** Turns a list of plugins into a running kernel. The only file that touches the container: everything else is given what it needs. */
import { asValue, createContainer, type AwilixContainer } from 'awilix'
import { AsyncSeriesHook } from 'tapable'
import * as v from 'valibot'
import { ulid } from 'ulid'
import type { Contract } from '../protocol/contract.ts'
import { Fault, messageOf } from '../protocol/fault.ts'
import { MIN_PROTOCOL_VERSION, PROTOCOL_VERSION } from '../protocol/version.ts'
import { RequestCall, type Caller } from './call.ts'
import { systemClock, type Clock } from './clock.ts'
import type { DaemonConfig } from './config.ts'
import { diagnostics } from './diagnostics.ts'
import { Dispatcher } from './dispatch.ts'
import { eventBus, type EventBus, type WireEvent } from './events.ts'
import { named, TapFailure } from './hooks.ts'
import type { Log } from './log.ts'
import { bootFaults, startOrder, without } from './order.ts'
import { problemIn } from './params.ts'
import type { Paths } from './paths.ts'
import type {
  AdmitRequest,
  Bootable,
  Kernel,
  Lifecycle,
  SetupContext,
  StreamHandler,
  Surface,
  Token,
} from './plugin.ts'
import { Scope } from './scope.ts'
import type { RecordTables } from './store/tables.ts'

/** A service given from outside in place of the plugin that provides its token. */
export interface Fake {
  readonly token: Token<unknown>
  readonly service: unknown
}
/** Stands `service` in for the plugin that provides the token. */
export const fake = <T>(it: Token<T>, service: T): Fake => ({ token: it, service })

export interface BootOptions {
  readonly log: Log
  readonly paths: Paths
  readonly config: DaemonConfig
  readonly tables: RecordTables
  /** Environment the daemon was started with. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** Reads the stores behind `tables`: runs after every setup, before the `load` hook. */
  readonly loadTables?: () => Promise<void>
  /** Hears every event from the first setup on. */
  readonly onEvent?: (event: WireEvent) => void
  readonly daemonVersion: string
  readonly daemonId?: string
  readonly clock?: Clock
  /** Plugins left out of this run, by name. */
  readonly without?: readonly string[]
  readonly fakes?: readonly Fake[]
  /** Tests and development: results, events and faults must match the contracts. */
  readonly checked?: boolean
}

export interface CallOptions extends Partial<Caller> {
  readonly version?: number
  readonly origin?: { readonly sessionId: string; readonly daemonId: string }
  readonly signal?: AbortSignal
}

export interface RunningKernel extends AsyncDisposable {
  /** Everything started here; closing it runs `drain` first. */
  readonly scope: Scope
  readonly kernel: Kernel
  readonly dispatcher: Dispatcher
  readonly streams: ReadonlyMap<string, StreamHandler>
  readonly methodNames: readonly string[]
  /** One request without a socket, in the shape of its version. Rejects with the Fault a client would be sent. */
  readonly call: (method: string, params?: unknown, options?: CallOptions) => Promise<unknown>
}

/**
 * Sorts by needs, sets every plugin up, then runs `load`, `reconcile` and `ready`. Whatever fails, what was started is
 * closed again, newest first. Throws the faults of order.ts; a failing plugin or hook is Fault plugin_failed naming
 * both, unless it threw a Fault of its own.
 */
export async function boot(plugins: readonly Bootable[], options: BootOptions): Promise<RunningKernel> {
  const { fakes = [] } = options
  const order = startOrder(
    without(plugins, options.without ?? []),
    fakes.map((it) => it.token.id),
  )
  const clock = options.clock ?? systemClock
  const scope = new Scope('kernel', clock)
  try {
    return await start(order, fakes, { ...options, clock }, scope)
  } catch (failure) {
    await scope
      .close()
      .catch((closing: unknown) => options.log.error({ err: closing }, 'the failed start could not be undone'))
    throw failure
  }
}

async function start(
  order: readonly Bootable[],
  fakes: readonly Fake[],
  options: BootOptions & { clock: Clock },
  scope: Scope,
): Promise<RunningKernel> {
  const { log, clock, checked = false } = options
  const events = eventBus((failure, { event }) => log.error({ event, err: failure }, 'a subscriber failed'))
  if (options.onEvent !== undefined) scope.own('event listener', events.subscribe(options.onEvent))
  const lifecycle: Lifecycle = Object.freeze({
    load: named(new AsyncSeriesHook<[]>([]), 'load'),
    reconcile: named(new AsyncSeriesHook<[]>([]), 'reconcile'),
    ready: named(new AsyncSeriesHook<[]>([]), 'ready'),
    drain: named(new AsyncSeriesHook<[]>([]), 'drain'),
  })
  const admit = named(new AsyncSeriesHook<[AdmitRequest]>(['request']), 'admit')
  const streams = new Map<string, StreamHandler>()
  const surface: Surface = {
    plugins: order.map(({ contract, needs }) => ({
      name: contract.name,
      contract,
      needs: Object.values(needs).map((need) => need.id),
    })),
    get streams() {
      return [...streams.keys()]
    },
  }
  const kernel: Kernel = Object.freeze({
    clock,
    log,
    paths: options.paths,
    config: options.config,
    lifecycle,
    events,
    tables: options.tables,
    env: options.env,
    daemonId: options.daemonId ?? `d-${ulid()}`,
    daemonVersion: options.daemonVersion,
    admit,
    diagnostics: diagnostics(),
    surface: () => surface,
  })
  const dispatcher = new Dispatcher({ clock, log, admit, checked })
  const container = createContainer({ strict: true })
  for (const it of fakes) container.register(it.token.id, asValue(it.service))
  for (const plugin of order) await setUp(plugin, { kernel, scope, container, dispatcher, streams, checked })

  await step('load', 'the record store', async () => await options.loadTables?.())
  await run(lifecycle.load)
  await run(lifecycle.reconcile)
  await run(lifecycle.ready)
  let stopping: Promise<void> | undefined
  const stop = async (): Promise<void> => {
    dispatcher.refuse()
    await lifecycle.drain.promise().catch((failure: unknown) => log.error({ err: failure }, 'draining failed'))
    await scope.close()
  }
  return {
    scope,
    kernel,
    dispatcher,
    streams,
    get methodNames() {
      return dispatcher.methodNames
    },
    call: (method, params = null, call = {}) => callInProcess(dispatcher, method, params, call),
    [Symbol.asyncDispose]: () => (stopping ??= stop()),
  }
}

interface Wiring {
  readonly kernel: Kernel
  readonly scope: Scope
  readonly container: AwilixContainer
  readonly dispatcher: Dispatcher
  readonly streams: Map<string, StreamHandler>
  readonly checked: boolean
}

async function setUp(
  plugin: Bootable,
  { kernel, scope, container, dispatcher, streams, checked }: Wiring,
): Promise<void> {
  const { contract, needs, provides } = plugin
  const given = Object.fromEntries(
    Object.entries(needs).map(([key, need]) => [key, container.resolve<unknown>(need.id)]),
  )
  const context: SetupContext<Contract, never> = {
    needs: given as never,
    scope: scope.child(contract.name),
    kernel,
    log: kernel.log.child({ plugin: contract.name }),
    publish: (event, payload) => publish(kernel.events, contract, event, payload as Record<string, unknown>, checked),
  }
  await step('setup', contract.name, async () => {
    const { service, methods, streams: own = {} } = await plugin.setup(context as never)
    dispatcher.add(contract, methods)
    if (provides !== undefined) container.register(provides.id, asValue(service))
    for (const [key, handler] of Object.entries(own)) {
      if (streams.has(key)) throw new Error(`the stream ${key} is offered twice`)
      streams.set(key, handler)
    }
  })
}

function publish(
  bus: EventBus,
  contract: Contract,
  event: string,
  payload: Record<string, unknown>,
  checked: boolean,
): void {
  const spec = contract.events[event]
  if (spec === undefined) throw new Error(`plugin ${contract.name} has no event ${event}`)
  if (checked) {
    const parsed = v.safeParse(spec.payload, payload, { abortEarly: true })
    if (!parsed.success)
      throw new Error(`event ${event} is not what its contract says: ${problemIn(parsed.issues, 'payload')}`)
  }
  bus.publish({ event, payload, since: spec.since ?? MIN_PROTOCOL_VERSION })
}

/** Runs one step of the start; its failure says which plugin and step. */
async function step(hook: string, plugin: string, take: () => Promise<void>): Promise<void> {
  try {
    await take()
  } catch (failure) {
    throw startFailure(new TapFailure(plugin, hook, failure))
  }
}

async function run(hook: AsyncSeriesHook<[]>): Promise<void> {
  try {
    await hook.promise()
  } catch (failure) {
    throw failure instanceof TapFailure ? startFailure(failure) : failure
  }
}

function startFailure(failure: TapFailure): Fault {
  const { plugin, hook, cause } = failure
  if (cause instanceof Fault) return cause
  const problem = messageOf(cause)
  return bootFaults.plugin_failed({ plugin, hook, problem }, cause)
}

async function callInProcess(
  dispatcher: Dispatcher,
  method: string,
  params: unknown,
  options: CallOptions,
): Promise<unknown> {
  const caller: Caller = { local: options.local ?? true, peer: options.peer ?? (() => undefined) }
  const call = new RequestCall(caller, options.version ?? PROTOCOL_VERSION, 'in-process', options.origin)
  const { signal } = options
  const giveUp = (): void => call.giveUp(signal?.reason as Fault)
  if (signal?.aborted === true) giveUp()
  signal?.addEventListener('abort', giveUp, { once: true })
  try {
    return await dispatcher.run(method, params, call)
  } catch (failure) {
    throw dispatcher.toFault(failure, method, call)
  } finally {
    signal?.removeEventListener('abort', giveUp)
  }
}
