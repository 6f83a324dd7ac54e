/** Schemas shared by several contracts (contract/types.md, "Scalars" and enums). */
import * as v from 'valibot'
import { MAX_ID_BYTES } from './limits.ts'
import { CONTROL_CHARACTER } from './words.ts'

export { CONTROL_CHARACTER }

const encoder = new TextEncoder()
/** Bytes of `text` in UTF-8. */
export const utf8Bytes = (text: string): number => encoder.encode(text).length

const U64_MAX = 18_446_744_073_709_551_615n
/** Canonical unsigned decimal u64 as a string. */
export const Dec = v.pipe(
  v.string(),
  v.regex(/^(0|[1-9][0-9]{0,19})$/, 'not a canonical unsigned decimal'),
  v.check((text) => BigInt(text) <= U64_MAX, 'over 2^64-1'),
)
export type Dec = v.InferOutput<typeof Dec>

export const U16 = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(65_535))
export const U32 = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(4_294_967_295))
export const Int = v.pipe(v.number(), v.safeInteger())
// `Date.parse` takes the 31st of every month for one.
const isDay = (text: string): boolean => {
  const [year = 0, month = 0, day = 0] = text.slice(0, 10).split('-').map(Number)
  return new Date(Date.UTC(year, month - 1, day)).getUTCDate() === day
}
/** RFC 3339 with an offset, as `Date.parse` reads it. */
export const Timestamp = v.pipe(
  v.string(),
  v.regex(/^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/, 'not an RFC 3339 time'),
  v.check((text) => !Number.isNaN(Date.parse(text)) && isDay(text), 'not a time'),
)
/** A JSON object with `values` under free keys; `v.record` alone takes an array for one. */
export const recordOf = <V extends v.GenericSchema>(values: V) =>
  v.pipe(
    v.custom<Record<string, v.InferInput<V>>>(
      (it) => typeof it === 'object' && it !== null && !Array.isArray(it),
      'not an object',
    ),
    v.record(v.string(), values),
  )
export const nonEmpty = v.pipe(v.string(), v.minLength(1))

/** Opaque to clients. Daemon-issued ids are `s-<ULID>`; external ones `ext-<pid>`. */
export const SessionId = v.pipe(
  v.string(),
  v.minLength(1),
  v.check((text) => utf8Bytes(text) <= MAX_ID_BYTES && !CONTROL_CHARACTER.test(text), 'not a session id'),
)
export const WorkerInstanceId = v.pipe(
  v.string(),
  v.minLength(1),
  v.check((text) => utf8Bytes(text) <= MAX_ID_BYTES && !CONTROL_CHARACTER.test(text), 'not a worker instance id'),
)
/** `runtime.id` grammar of runtime packages. */
export const RUNTIME_ID = /^(?!.*\.\.)[a-z0-9_][a-z0-9._-]{0,63}$/
/** Names that become file names: profiles, prompts, templates, actions, manifests. */
export const FILE_NAME = /^(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9._-]*$/

export const Dimensions = v.object({
  cols: v.pipe(U16, v.minValue(1, 'must not be zero')),
  rows: v.pipe(U16, v.minValue(1, 'must not be zero')),
})
export type Dimensions = v.InferOutput<typeof Dimensions>
export const NoParams = v.null_()
