/**
 * A contract is the wire surface of one plugin, as data: methods, events, schemas, flags. Dispatch, validation, the
 * typed client, the CLI and docs/protocol.md all read it; nothing keeps a second list.
 */
import type * as v from 'valibot'
import type { ErrorClass } from './fault.ts'

export type Schema = v.GenericSchema

/** `reads` observes, `mutates` changes state, `reports` is a hook's evidence about its own session. */
export type Effect = 'reads' | 'mutates' | 'reports'

export interface Method<P extends Schema = Schema, R extends Schema = Schema> {
  /** One sentence for docs/protocol.md. */
  readonly about: string
  /** Absent params arrive as null. */
  readonly params: P
  readonly result: R
  readonly effect: Effect
  /** Codes this method raises beside the core ones. */
  readonly faults: readonly { readonly code: string; readonly class: ErrorClass }[]
  /** First protocol version that has it; absent on older connections (method_not_found). Default: the oldest served. */
  readonly since?: number
  /** Served on the local socket only. */
  readonly localOnly?: boolean
  /** False for a method that is right for a session whose runtime this daemon does not know. Default: true. */
  readonly needsRuntime?: boolean
  /** Clients call it on a connection of its own when this says so for the params. */
  readonly dedicated?: (params: unknown) => boolean
  /** Refused when the caller's origin markers name `target` as its own session (contract/protocol.md §6). */
  readonly guard?: { readonly origin: true; readonly target: (params: unknown) => string | undefined }
}

export interface EventSpec<P extends Schema = Schema> {
  readonly about: string
  readonly payload: P
  /** First protocol version that has it; withheld from older subscribers. */
  readonly since?: number
}

export interface Contract {
  /** The plugin's name, also its folder. */
  readonly name: string
  /** Keyed by full wire name, e.g. `session.stop`. */
  readonly methods: Readonly<Record<string, Method>>
  readonly events: Readonly<Record<string, EventSpec>>
}

/** Identity with inference: keeps the literal method and event names. */
export function contract<const C extends Contract>(it: C): C {
  return it
}

export type MethodName<C extends Contract> = keyof C['methods'] & string
export type Params<M extends Method> = v.InferOutput<M['params']>
export type ParamsInput<M extends Method> = v.InferInput<M['params']>
export type Result<M extends Method> = v.InferOutput<M['result']>
export type ResultInput<M extends Method> = v.InferInput<M['result']>
export type EventName<C extends Contract> = keyof C['events'] & string
export type EventPayload<C extends Contract, E extends EventName<C>> = v.InferInput<C['events'][E]['payload']>
