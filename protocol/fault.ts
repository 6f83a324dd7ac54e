/**
 * The one error type that may reach a client. Only dispatch turns a throw into a wire error; anything that is not a
 * Fault is our bug and becomes `daemon/internal_error` with an incident id.
 * Wire shape and classes: contract/protocol.md §2 and §8, codes: contract/errors.md.
 */
export type ErrorClass = 'configuration' | 'daemon' | 'transport' | 'runtime' | 'discovery'

export interface ErrorBody {
  class: ErrorClass
  code: string
  msg: string
  recover?: string
}

export class Fault extends Error {
  readonly class: ErrorClass
  readonly code: string
  readonly recover: string | undefined

  constructor(body: ErrorBody, cause?: unknown) {
    super(body.msg, cause === undefined ? undefined : { cause })
    this.name = 'Fault'
    this.class = body.class
    this.code = body.code
    this.recover = body.recover
  }

  toBody(): ErrorBody {
    return {
      class: this.class,
      code: this.code,
      msg: this.message,
      ...(this.recover === undefined ? {} : { recover: this.recover }),
    }
  }
}

/** Pure. What a throw says in words, whatever was thrown. */
export const messageOf = (failure: unknown): string => (failure instanceof Error ? failure.message : String(failure))

/** What a catalogue says about one code. `say` builds the message; messages never carry secrets or terminal bytes. */
export interface FaultSpec<D> {
  readonly class: ErrorClass
  readonly say: (data: D) => string
  readonly recover?: string | ((data: D) => string)
}

export type FaultMaker<D> = ((data: D, cause?: unknown) => Fault) & {
  readonly code: string
  readonly class: ErrorClass
}

/** Builds the error catalogue of one feature: `faults.session_not_found({ id })` is ready to throw. */
export function catalogue<const S extends Record<string, FaultSpec<never>>>(
  specs: S,
): { readonly [C in keyof S]: S[C] extends FaultSpec<infer D> ? FaultMaker<D> : never } {
  const makers: Record<string, unknown> = {}
  for (const [code, spec] of Object.entries(specs) as [string, FaultSpec<unknown>][]) {
    const make = (data: unknown, cause?: unknown): Fault => {
      const recover = typeof spec.recover === 'function' ? spec.recover(data) : spec.recover
      return new Fault(
        { class: spec.class, code, msg: spec.say(data), ...(recover === undefined ? {} : { recover }) },
        cause,
      )
    }
    makers[code] = Object.assign(make, { code, class: spec.class })
  }
  return makers as never
}

/** Codes every method may answer (contract/methods.md, conventions). */
export const coreFaults = /* @__PURE__ */ catalogue({
  bad_request: { class: 'daemon', say: (d: { problem: string }) => d.problem },
  method_not_found: { class: 'daemon', say: (d: { method: string }) => `method not found: ${d.method}` },
  version_mismatch: {
    class: 'daemon',
    say: (d: { asked: { minimum: number; maximum: number }; served: { minimum: number; maximum: number } }) =>
      `no common protocol version: the request speaks ${d.asked.minimum}..=${d.asked.maximum}, this connection ${d.served.minimum}..=${d.served.maximum}`,
    recover: 'upgrade the older side',
  },
  version_adapter_failed: {
    class: 'daemon',
    say: (d: { method: string; version: number }) =>
      `${d.method}: the answer cannot be translated to protocol ${d.version}`,
  },
  daemon_shutting_down: {
    class: 'daemon',
    say: (_: Record<string, never>) => 'the daemon is shutting down',
    recover: 'retry when it is back',
  },
  internal_error: {
    class: 'daemon',
    say: (d: { incident: string }) => `internal error, incident ${d.incident} in the daemon log`,
  },
  plugin_self_target_denied: {
    class: 'runtime',
    say: (d: { method: string; id: string }) =>
      `${d.method} on ${d.id} was refused: the caller runs inside that session`,
  },
  io_error: { class: 'runtime', say: (d: { what: string; problem: string }) => `${d.what}: ${d.problem}` },
  /** An answer that is no JSON or does not fit one line. */
  serialize_failed: { class: 'daemon', say: (d: { problem: string }) => d.problem },
  local_only_method: {
    class: 'daemon',
    say: (d: { method: string }) => `${d.method} is served on the local socket only`,
    recover: 'run it on that host',
  },
  /** Every broken stream of lines. */
  framing: { class: 'transport', say: (d: { problem: string }) => d.problem },
})
