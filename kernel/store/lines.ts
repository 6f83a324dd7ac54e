/**
 * Lines of a record log, pure.
 *   record    {"schema_version":9,"kind":"session","key":"s-1", …fields}
 *   deletion  {"schema_version":9,"kind":"session","key":"s-1","$deleted":true}
 *   batch     {"schema_version":9,"kind":"$batch","changes":[record or deletion, …]}
 * A line without schema_version is schema 1. Names with `$` are ours; no kind and no field has one.
 */
import { isUtf8 } from 'node:buffer'
import type { TableSpec } from './tables.ts'

export interface SchemaVersions {
  /** Version of kinds not listed in `kinds`. */
  readonly current: number
  readonly kinds?: Readonly<Record<string, number>>
}

export type RawRecord = Readonly<Record<string, unknown>>

/** One step: a raw record of version N, kind and key included, in the form of version N + 1. */
export type Migrations = Readonly<Record<number, (raw: RawRecord) => RawRecord>>

export const BATCH = '$batch'
export const DELETED = '$deleted'

/** Version of a line as it was written; it may be no number. */
export const versionOf = (raw: RawRecord): unknown => raw['schema_version'] ?? 1
export const currentOf = (schema: SchemaVersions, kind: unknown): number =>
  (typeof kind === 'string' && schema.kinds !== undefined && Object.hasOwn(schema.kinds, kind)
    ? schema.kinds[kind]
    : undefined) ?? schema.current

/** Text of one change, newline excluded. Throws when a record has a field of ours: a bug of its owner. */
export function recordText(schema: SchemaVersions, kind: string, key: string, fields: RawRecord): string {
  for (const name of ['schema_version', 'kind', 'key', DELETED]) {
    if (Object.hasOwn(fields, name)) throw new Error(`a ${kind} record has a field ${name}, which the store sets`)
  }
  return JSON.stringify({ schema_version: currentOf(schema, kind), kind, key, ...fields })
}

/** Text of the deletion of one key. */
export function deletionText(schema: SchemaVersions, kind: string, key: string): string {
  return JSON.stringify({ schema_version: currentOf(schema, kind), kind, key, [DELETED]: true })
}

/** Text of several changes as one line, which is there whole or not at all. */
export function batchText(schema: SchemaVersions, changes: readonly string[]): string {
  return `{"schema_version":${schema.current},"kind":"${BATCH}","changes":[${changes.join(',')}]}`
}

/** The changes of a line, batches opened; a string says why it is not one. */
export function parseLine(bytes: Buffer): RawRecord[] | string {
  if (!isUtf8(bytes)) return 'not UTF-8'
  let raw: unknown
  try {
    raw = JSON.parse(bytes.toString('utf8'))
  } catch {
    return 'not JSON'
  }
  if (!isRecord(raw)) return 'not an object'
  if (openings(bytes) > MAX_NESTING && isDeeper(raw, MAX_NESTING)) return 'nested too deep'
  if (raw['kind'] !== BATCH) return checked([raw])
  const changes = raw['changes']
  if (!Array.isArray(changes) || !changes.every(isRecord)) return 'a batch without changes'
  // The frame of a batch has a version of its own: one of a newer daemon may mean something else.
  return checked([...changes, { schema_version: versionOf(raw), kind: BATCH, changes: [] }])
}

/** No record of ours comes near it; what is parsed without end overflows the stack where it is written again. */
const MAX_NESTING = 128
const OPENERS = ['{', '[']

/** At least the nesting of a line, and cheap. */
function openings(bytes: Buffer): number {
  let count = 0
  for (const it of OPENERS)
    for (let at = bytes.indexOf(it); at >= 0 && count <= MAX_NESTING; at = bytes.indexOf(it, at + 1)) count++
  return count
}

function isDeeper(root: object, limit: number): boolean {
  const pending: [object, number][] = [[root, 1]]
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const [value, depth] = next
    if (depth > limit) return true
    for (const it of Object.values(value) as unknown[])
      if (typeof it === 'object' && it !== null) pending.push([it, depth + 1])
  }
  return false
}

function checked(records: RawRecord[]): RawRecord[] | string {
  for (const raw of records) {
    const version = versionOf(raw)
    if (!Number.isSafeInteger(version) || (version as number) < 1) return 'schema_version is not a positive integer'
    if (typeof raw['kind'] !== 'string') return 'no kind'
  }
  return records
}

/** Fields of a record without what the store adds. */
function fieldsOf(raw: RawRecord): RawRecord {
  const { schema_version: _version, kind: _kind, key: _key, ...fields } = raw
  return fields
}

/** Applies one stored change to the records of its kind; a string says why its owner cannot decode it. */
export function takeChange<R>(records: Map<string, R>, spec: TableSpec<R>, raw: RawRecord): string | undefined {
  if (raw[DELETED] === true) {
    records.delete(String(raw['key']))
    return undefined
  }
  try {
    const record = spec.decode(fieldsOf(raw))
    records.set(spec.key(record), record)
    return undefined
  } catch (failure) {
    return `${spec.kind} ${JSON.stringify(raw['key'])}: ${(failure as Error).message}`
  }
}

/** Brings one change to its current version. Throws what a step throws. `undefined`: a step is missing. */
export function migrate(raw: RawRecord, schema: SchemaVersions, migrations: Migrations): RawRecord | undefined {
  const target = currentOf(schema, raw['kind'])
  let version = versionOf(raw) as number
  if (raw['kind'] === BATCH) return { ...raw, schema_version: target }
  let record = raw
  for (; version < target; version++) {
    const step = migrations[version]
    if (step === undefined) return undefined
    if (record[DELETED] !== true) record = step(record)
  }
  return { ...record, schema_version: target }
}

function isRecord(value: unknown): value is RawRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
