/** Client side of a protocol 3 daemon (contract/protocol.md §9): its answers in the current spelling, ours in its. */
import { clientError } from './errors.ts'

export const V3 = 3
type Json = Record<string, unknown>
const isRecord = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)

/** Methods a v3 daemon does not have; asserted against protocol/window/v3.ts by a test. */
const NEWER = /^(package\.|session\.wait_turn$)/

/** Params for a v3 daemon. Throws daemon_protocol_too_old for what it cannot serve. */
export function paramsForV3(method: string, params: unknown): unknown {
  if (NEWER.test(method)) throw clientError('daemon_protocol_too_old', { what: method, version: V3 })
  if (!isRecord(params)) return params
  if (method === 'session.list' && Array.isArray(params.filters)) {
    if (params.filters.some((it) => isRecord(it) && String(it.key).startsWith('metadata_'))) {
      throw clientError('daemon_protocol_too_old', { what: 'a metadata filter', version: V3 })
    }
  }
  return isRecord(params.runtime)
    ? { ...params, runtime: spell(params.runtime, 'worker_instance_id', 'runtime_id') }
    : params
}

/** True when the shape of the request depends on the version, so the version must be known before it is sent. */
export function dependsOnVersion(method: string, params: unknown): boolean {
  return NEWER.test(method) || (isRecord(params) && ('runtime' in params || 'filters' in params))
}

/** An answer or event payload of a v3 daemon in the current spelling. Metadata is never walked. */
export function fromV3(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(fromV3)
  if (!isRecord(value)) return value
  const out = spell(value, 'runtime_id', 'worker_instance_id')
  for (const key of ['runtime', 'session', 'entry']) if (isRecord(out[key])) out[key] = fromV3(out[key])
  if (Array.isArray(out.entries)) out.entries = out.entries.map(fromV3)
  return out
}

function spell(held: Json, from: string, to: string): Json {
  if (!Object.hasOwn(held, from)) return { ...held }
  const { [from]: id, ...others } = held
  return { ...others, [to]: id }
}
