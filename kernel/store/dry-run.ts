/** What a start would make of a record log, without a lock, a backup or a write. */
import type { Fault } from '../../protocol/fault.ts'
import { classify, type Classified } from './classify.ts'
import { takeChange, type Migrations, type RawRecord, type SchemaVersions } from './lines.ts'
import type { TableSpec } from './tables.ts'

export interface DryRun {
  readonly state: 'missing' | 'up_to_date' | 'would_migrate' | 'refused'
  /** Oldest schema found, the refused one of a refused log; undefined without a file. */
  readonly schemaFrom: number | undefined
  readonly schemaTo: number
  /** Lines of the file, up to the one that refused it. */
  readonly records: number
  /** Damaged lines a start would set aside, numbered from 1; those its owner cannot decode come with `tableOf`. */
  readonly damaged: readonly { readonly line: number; readonly reason: string }[]
  readonly error: Fault | undefined
  /** Changes in order, in the current schema. */
  readonly changes: Classified['changes']
}

/** Pure. `undefined` bytes: there is no file. A torn last line, as a daemon that is writing leaves it, is no damage. */
export function dryRun(
  bytes: Buffer | undefined,
  options: { file: string; schema: SchemaVersions; migrations: Migrations },
): DryRun {
  const schemaTo = options.schema.current
  const found = classify(bytes ?? Buffer.alloc(0), options)
  const { refused, refusedVersion, oldest, lines: records, damaged, changes } = found
  const told = { schemaTo, records, damaged, changes, error: refused }
  if (bytes === undefined) return { ...told, state: 'missing', schemaFrom: undefined }
  if (refused !== undefined) return { ...told, state: 'refused', schemaFrom: refusedVersion }
  return { ...told, state: oldest === undefined ? 'up_to_date' : 'would_migrate', schemaFrom: oldest ?? schemaTo }
}

/** Pure. Records of one kind as a start would load them, and the lines of that kind it would set aside. */
export function tableOf<R>(
  changes: readonly { readonly line: number; readonly raw: RawRecord }[],
  spec: TableSpec<R>,
): { records: ReadonlyMap<string, R>; damaged: readonly { line: number; reason: string }[] } {
  const records = new Map<string, R>()
  const damaged: { line: number; reason: string }[] = []
  for (const { line, raw } of changes) {
    if (raw['kind'] !== spec.kind) continue
    const reason = takeChange(records, spec, raw)
    if (reason !== undefined) damaged.push({ line, reason })
  }
  return { records, damaged }
}
