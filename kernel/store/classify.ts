/** Reads a whole record log and says what each line is, without changing anything. */
import type { Fault } from '../../protocol/fault.ts'
import { storeFaults } from './faults.ts'
import {
  BATCH,
  currentOf,
  migrate,
  parseLine,
  versionOf,
  type Migrations,
  type RawRecord,
  type SchemaVersions,
} from './lines.ts'

const NEWLINE = 10

export interface Classified {
  /** Good changes in order, at their current version. `line` counts from 1. */
  changes: { line: number; raw: RawRecord }[]
  /** Undecodable lines before the end. */
  damaged: { line: number; reason: string; bytes: Buffer }[]
  /** Length of the file up to its last complete line. */
  goodBytes: number
  /** Fragment after it, which a crash left; 0 without one. */
  tornBytes: number
  /** The last line is whole but lacks its newline. */
  needsNewline: boolean
  lines: number
  /** Oldest version found below the current one of its kind. */
  oldest: number | undefined
  /** Why the file must not be used at all; then `changes` ends before that line. */
  refused: Fault | undefined
  /** Version that refused it. */
  refusedVersion: number | undefined
}

/** Pure. `file` is only named in faults. */
export function classify(
  bytes: Buffer,
  options: { file: string; schema: SchemaVersions; migrations: Migrations },
): Classified {
  const found: Classified = {
    changes: [],
    damaged: [],
    goodBytes: 0,
    tornBytes: 0,
    needsNewline: false,
    lines: 0,
    oldest: undefined,
    refused: undefined,
    refusedVersion: undefined,
  }
  for (let start = 0; start < bytes.length;) {
    const newline = bytes.indexOf(NEWLINE, start)
    const end = newline < 0 ? bytes.length : newline
    const text = bytes.subarray(start, end)
    start = end + 1
    const parsed = parseLine(text)
    if (newline < 0 && typeof parsed === 'string') {
      found.tornBytes = text.length
      break
    }
    found.lines += 1
    found.goodBytes = end + (newline < 0 ? 0 : 1)
    found.needsNewline = newline < 0
    if (typeof parsed === 'string') {
      if (text.length > 0) found.damaged.push({ line: found.lines, reason: parsed, bytes: text })
      continue
    }
    take(found, parsed, text, options)
    if (found.refused !== undefined) break
  }
  return found
}

function take(
  found: Classified,
  parsed: RawRecord[],
  text: Buffer,
  { file, schema, migrations }: { file: string; schema: SchemaVersions; migrations: Migrations },
): void {
  const line = found.lines
  const changes: { line: number; raw: RawRecord }[] = []
  for (const raw of parsed) {
    const version = versionOf(raw) as number
    const kind = raw['kind'] as string
    const known = currentOf(schema, kind)
    if (version > known) {
      found.refused = storeFaults.store_schema_newer({ file, line, found: version, known, kind })
      found.refusedVersion = version
      return
    }
    if (version < known) found.oldest = Math.min(found.oldest ?? version, version)
    try {
      const current = version === known ? raw : migrate(raw, schema, migrations)
      if (current === undefined) {
        found.refused = storeFaults.store_schema_too_old({ file, line, found: version, kind })
        found.refusedVersion = version
        return
      }
      if (kind !== BATCH) changes.push({ line, raw: current })
    } catch (failure) {
      found.damaged.push({ line, reason: `cannot be migrated: ${(failure as Error).message}`, bytes: text })
      return // a batch is taken whole or not at all
    }
  }
  found.changes.push(...changes)
}
