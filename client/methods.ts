/** Wire methods by name with their types, inferred from the contracts. Types only: no schema is loaded by a client. */
import type { Method, ParamsInput, Result } from '../protocol/contract.ts'
import type detection from '../plugins/detection/contract.ts'
import type notifications from '../plugins/notifications/contract.ts'
import type packages from '../plugins/packages/contract.ts'
import type retention from '../plugins/retention/contract.ts'
import type sessions from '../plugins/sessions/contract.ts'
import type system from '../plugins/system/contract.ts'
import type waits from '../plugins/waits/contract.ts'
import type worktrees from '../plugins/worktrees/contract.ts'
import { TURN_WAIT_CEILING_MS } from '../protocol/limits.ts'

type Served = typeof sessions.methods &
  typeof waits.methods &
  typeof worktrees.methods &
  typeof retention.methods &
  typeof notifications.methods &
  typeof detection.methods &
  typeof system.methods &
  typeof packages.methods
export type MethodName = keyof Served
export type MethodParams<M extends MethodName> = ParamsInput<Extract<Served[M], Method>>
export type MethodResult<M extends MethodName> = Result<Extract<Served[M], Method>>
export type Session = MethodResult<'session.inspect'>
export type SessionOutput = MethodResult<'session.output'>

type ServedEvents = typeof sessions.events & typeof notifications.events & typeof detection.events
/** One event as it arrives: its name beside its payload. */
export type Event =
  | {
      [E in keyof ServedEvents]: { readonly event: E; readonly v: number } & EventPayloadOf<ServedEvents[E]>
    }[keyof ServedEvents]
  | Gap
/** Events are missing here: `dropped` of them, or all while no daemon was there. */
interface Gap {
  readonly event: 'subscription_gap'
  readonly v: number
  readonly dropped?: number
}
type EventPayloadOf<S> = S extends { readonly payload: infer P }
  ? P extends import('valibot').GenericSchema
    ? import('valibot').InferOutput<P>
    : never
  : never

/**
 * Calls that may wait get a connection of their own (contract/protocol.md §5). The contracts carry the same rule as
 * `dedicated`; a test holds the two together, since loading a contract loads its schemas.
 */
export function isDedicated(method: string, params: unknown): boolean {
  if (method === 'session.wait' || method === 'session.wait_turn') return true
  const key = method === 'session.output' ? 'wait_ms' : method === 'session.input' ? 'wait' : undefined
  return (
    key !== undefined &&
    typeof params === 'object' &&
    params !== null &&
    (params as Record<string, unknown>)[key] !== undefined
  )
}

/** How long the call itself may wait, milliseconds. A turn wait without a bound has the daemon's, whose ceiling is known. */
export function waitMs(params: unknown, method = ''): number {
  const { wait_ms, timeout_ms, wait } = (params ?? {}) as {
    wait_ms?: unknown
    timeout_ms?: unknown
    wait?: { timeout_ms?: unknown }
  }
  const found = [wait_ms, timeout_ms, wait?.timeout_ms].find((it) => typeof it === 'number')
  if (typeof found === 'number') return found
  return method === 'session.wait_turn' ? TURN_WAIT_CEILING_MS : 0
}
