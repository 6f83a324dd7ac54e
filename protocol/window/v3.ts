/**
 * Shape adapter for protocol 3 (contract/protocol.md §9): renames at the typed places, keys and enum values that version
 * lacks; methods and events it lacks are marked `since: 4` in their contracts. Pure; free-form values such as metadata are never walked. Deleted when the window moves on.
 */
import { coreFaults } from '../fault.ts'

export const V3 = 3

const NEW = 'worker_instance_id'
const OLD = 'runtime_id'
type Rename = Readonly<Record<string, string>>
const toOld: Rename = { [NEW]: OLD }
const nativeToOld: Rename = { [NEW]: OLD, previous_worker_instance_id: 'previous_runtime_id' }

/** Where a shape holds renamed keys. `[]` in a path is every element of an array. */
type Place =
  | { readonly at: readonly string[]; readonly rename: Rename }
  | { readonly at: readonly string[]; readonly session: true }
const place = (at: string, rename: Rename = toOld): Place => ({ at: at === '' ? [] : at.split('.'), rename })
const session = (at: string): Place => ({ at: at === '' ? [] : at.split('.'), session: true })

const PARAMS: Readonly<Record<string, readonly Place[]>> = {
  'session.output': [place('runtime')],
  'session.wait': [place('runtime')],
  'session.report_native_id': [place('')],
}

const RESULTS: Readonly<Record<string, readonly Place[]>> = {
  'session.list': [session('[]')],
  'session.inspect': [session('')],
  'session.new': [session('')],
  'session.fork': [session('')],
  'session.resume': [session('session')],
  'session.resize': [session('session')],
  'session.set_metadata': [session('session')],
  'session.rename': [session('session')],
  'session.wait': [session('session')],
  'session.input': [place('runtime')],
  'session.screen': [place('')],
  'session.read': [place('')],
  'session.output': [place('')],
  'session.runtime_inventory': [place('entries.[]')],
}

const EVENTS: Readonly<Record<string, readonly Place[]>> = {
  agent_state: [place('runtime')],
  subagent_state: [place('runtime')],
  session_runtime_discovered: [place('entry')],
  session_created: [session('session')],
  session_updated: [session('session')],
  session_stopped: [session('session')],
  session_removed: [session('session')],
  session_runtime_reconnected: [session('session')],
  session_runtime_lost: [session('session')],
  session_runtime_conflict: [session('session')],
  session_native_recovered: [session('session'), place('', nativeToOld)],
}

const SESSION_DROPPED = ['native_last_activity_at', 'background', 'cwd_missing']
const V3_WARNING_KINDS: ReadonlySet<unknown> = new Set(['fetch', 'base_branch_fallback', 'setup_script', 'hook'])

/** Params of a v3 request in v4 spelling. Throws Fault bad_request when they carry the v4 key. */
export function upgradeParams(method: string, params: unknown): unknown {
  const places = PARAMS[method] ?? []
  return places.reduce((value, { at }) => apply(value, at, (held) => upgradeObject(held)), params)
}

/** A v4 result in v3 shape. Throws Fault version_adapter_failed when an object carries both spellings. */
export function downgradeResult(method: string, result: unknown): unknown {
  return downgrade(RESULTS[method] ?? [], result, method)
}

/** An event payload in v3 shape; the events that version lacks say so in their contract (`since`). Throws as `downgradeResult`. */
export function downgradeEvent(
  event: string,
  payload: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  return downgrade(EVENTS[event] ?? [], payload, event) as Readonly<Record<string, unknown>>
}

function downgrade(places: readonly Place[], value: unknown, method: string): unknown {
  const change = (it: Place) => (held: Json) =>
    'session' in it ? sessionToOld(held, method) : renamed(held, it.rename, method)
  return places.reduce((changed, it) => apply(changed, it.at, change(it)), value)
}

type Json = Readonly<Record<string, unknown>>
const isRecord = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)

/** A copy of `value` with the object at `path` replaced; what is not there is left alone. */
function apply(value: unknown, path: readonly string[], change: (held: Json) => Json): unknown {
  const [step, ...rest] = path
  if (step === undefined) return isRecord(value) ? change(value) : value
  if (step === '[]') return Array.isArray(value) ? value.map((item) => apply(item, rest, change)) : value
  if (!isRecord(value) || value[step] === undefined) return value
  return { ...value, [step]: apply(value[step], rest, change) }
}

function upgradeObject(held: Json): Json {
  if (Object.hasOwn(held, NEW))
    throw coreFaults.bad_request({ problem: `${NEW} is not a key of protocol ${V3}; use ${OLD}` })
  if (!Object.hasOwn(held, OLD)) return held
  const { [OLD]: id, ...others } = held
  return { ...others, [NEW]: id }
}

function renamed(held: Json, rename: Rename, method: string): Json {
  const shape: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(held)) {
    const old = Object.hasOwn(rename, key) ? rename[key] : undefined
    if (old !== undefined && Object.hasOwn(held, old)) throw coreFaults.version_adapter_failed({ method, version: V3 })
    Object.defineProperty(shape, old ?? key, { value, enumerable: true, writable: true, configurable: true })
  }
  return shape
}

function sessionToOld(held: Json, method: string): Json {
  const shape: Record<string, unknown> = { ...held }
  for (const key of SESSION_DROPPED) delete shape[key]
  if (isRecord(shape.runtime)) shape.runtime = renamed(shape.runtime, toOld, method)
  if (Array.isArray(shape.warnings)) {
    shape.warnings = shape.warnings.filter((warning) => isRecord(warning) && V3_WARNING_KINDS.has(warning.kind))
  }
  return shape
}
