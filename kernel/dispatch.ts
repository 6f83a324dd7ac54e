/** One request from decoded envelope to response line (contract/protocol.md §4). The only place a throw meets the wire. */
import * as v from 'valibot'
import type { AsyncSeriesHook } from 'tapable'
import type { Contract, Method } from '../protocol/contract.ts'
import { encodeErr, encodeOk, type Request } from '../protocol/envelope.ts'
import { coreFaults, Fault } from '../protocol/fault.ts'
import { MIN_PROTOCOL_VERSION } from '../protocol/version.ts'
import { downgradeResult, upgradeParams, V3 } from '../protocol/window/v3.ts'
import type { RequestCall } from './call.ts'
import type { Clock } from './clock.ts'
import { exhaustionIn } from './exhaustion.ts'
import { faultOf } from './hooks.ts'
import { asIncident } from './incident.ts'
import { parseParams, problemIn } from './params.ts'
import type { Log } from './log.ts'
import type { AdmitRequest, ErasedSetup } from './plugin.ts'

interface BoundMethod {
  readonly name: string
  readonly spec: Method
  readonly handler: ErasedSetup['methods'][string]
}

export interface DispatcherOptions {
  readonly clock: Clock
  readonly log: Log
  readonly admit: AsyncSeriesHook<[AdmitRequest]>
  /** Tests and development: results must match the contract, and a method may raise only the faults it lists. */
  readonly checked: boolean
}

/** Holds the methods of all plugins; one per kernel, shared by its connections. It owns nothing that must be released. */
export class Dispatcher {
  readonly #options: DispatcherOptions
  readonly #methods = new Map<string, BoundMethod>()
  #refusing = false

  constructor(options: DispatcherOptions) {
    this.#options = options
  }

  get methodNames(): readonly string[] {
    return [...this.#methods.keys()]
  }

  add(contract: Contract, handlers: ErasedSetup['methods']): void {
    for (const [name, spec] of Object.entries(contract.methods)) {
      const handler = handlers[name]
      if (handler === undefined) throw new Error(`plugin ${contract.name} has no handler for ${name}`)
      this.#methods.set(name, { name, spec, handler })
    }
  }

  /** From now on every new request is answered daemon_shutting_down. */
  refuse(): void {
    this.#refusing = true
  }

  /** The response line of one request; resolves whatever happens inside. */
  async answer(request: Request, call: RequestCall): Promise<string> {
    const { clock, log } = this.#options
    const startedMs = clock.monotonic()
    let code = 'ok'
    let line: string
    try {
      line = encodeOk(call.version, request.id, await this.run(request.method, request.params, call))
    } catch (failure) {
      const fault = this.toFault(failure, request.method, call)
      code = fault.code
      line = encodeErr(call.version, request.id, fault.toBody())
    }
    log.debug(
      { method: request.method, id: request.id, code, ms: Math.round(clock.monotonic() - startedMs) },
      'request',
    )
    return line
  }

  /** Steps 3 to 7 of the dispatch order: the result in the shape of `call.version`, or a throw. */
  async run(method: string, params: unknown, call: RequestCall): Promise<unknown> {
    if (this.#refusing) throw coreFaults.daemon_shutting_down({})
    const bound = this.#methods.get(method)
    if (bound === undefined || !isServed(bound, call.version)) throw coreFaults.method_not_found({ method })
    const { spec, handler } = bound
    if (spec.localOnly === true && !call.local) throw coreFaults.local_only_method({ method })
    const upgraded = call.version === V3 ? upgradeParams(method, params) : params
    const { admit } = this.#options
    // Not `isUsed`: an interceptor counts as use there.
    if (admit.taps.length > 0) {
      await admit.promise({ method, spec, params: upgraded, call })
      if (call.givenUp !== undefined) throw call.givenUp
    }
    const result: unknown = await handler(parseParams(spec.params, upgraded) as never, call)
    if (this.#options.checked) checkResult(bound, result)
    return call.version === V3 ? downgradeResult(method, result) : result
  }

  /** What a client is told about a throw; what is not a Fault is logged with an incident id. */
  toFault(failure: unknown, method: string, call: RequestCall): Fault {
    const { log, checked } = this.#options
    const exhausted = exhaustionIn(failure) // any method may need a descriptor
    if (exhausted !== undefined) return exhausted
    const cause = faultOf(failure)
    if (cause instanceof Fault && !(checked && this.#isUnlisted(cause, method))) return cause
    if (!(cause instanceof Fault) && call.givenUp !== undefined) return call.givenUp
    const unlisted = cause instanceof Fault ? { unlisted: cause.code } : {}
    return asIncident(log, cause, { method, id: call.requestId, ...unlisted })
  }

  #isUnlisted(fault: Fault, method: string): boolean {
    if (Object.hasOwn(coreFaults, fault.code)) return false
    return !(this.#methods.get(method)?.spec.faults ?? []).some((listed) => listed.code === fault.code)
  }
}

const isServed = ({ spec }: BoundMethod, version: number): boolean => version >= (spec.since ?? MIN_PROTOCOL_VERSION)

function checkResult({ name, spec }: BoundMethod, result: unknown): void {
  const parsed = v.safeParse(spec.result, result, { abortEarly: true })
  if (!parsed.success)
    throw new Error(`${name} answered what its contract does not allow: ${problemIn(parsed.issues, 'result')}`)
}
