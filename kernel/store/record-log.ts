/**
 * Keyed tables over one record log: memory is the truth for reads, the log for restarts.
 * Invariants
 *  1. Nothing is written before every line was classified; a refused log is left as it was found.
 *  2. No line is dropped: damaged ones go to `<file>.quarantine`, kinds nobody decodes are carried along.
 *  3. One change costs one line, whatever the number of records. Compaction runs beside, in slices.
 */
import { Fault, coreFaults } from '../../protocol/fault.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import { crashPoint } from '../crash-points.ts'
import { removeFile } from '../secure-files.ts'
import { appendQuarantine, removeUnfinishedBackup, writeBackup } from './aside.ts'
import { classify, type Classified } from './classify.ts'
import { compact, type CompactionRun } from './compaction.ts'
import { GroupCommit } from './group-commit.ts'
import {
  DELETED,
  batchText,
  deletionText,
  recordText,
  takeChange,
  type Migrations,
  type RawRecord,
  type SchemaVersions,
} from './lines.ts'
import { LogFile, replacementPath } from './log-file.ts'
import type { Change, RecordTables, Table, TableSpec } from './tables.ts'

/** Below this many dead lines rewriting a small log costs more than it frees. */
const MIN_DEAD_LINES = 1_000

export interface StoreOptions {
  /** Its directory exists and is private. */
  file: string
  schema: SchemaVersions
  migrations: Migrations
  clock: Clock
  log: Log
  /** Dead lines a log has at least before it is compacted; asked each time. Default: 1000. */
  minDeadLines?: () => number
}

export interface RecordStore extends RecordTables {
  /**
   * Reads the log, migrates and repairs it, and fills the tables. Once, after the tables were declared.
   * Throws Fault store_schema_newer, store_schema_too_old, path_not_private, io_error.
   */
  load(): Promise<void>
  /** Lines in the log that no longer count. */
  readonly deadLines: number
  /** Waits for everything asked for, then closes the file. */
  close(): Promise<void>
}

interface TableState {
  readonly spec: TableSpec<unknown>
  readonly records: Map<string, unknown>
}

/** Prepares a store; `load` opens it. */
export function openTables(options: StoreOptions): RecordStore {
  return new RecordLog(options)
}

class RecordLog implements RecordStore {
  readonly quarantined: { line: number; reason: string }[] = []
  readonly #options: StoreOptions
  readonly #tables = new Map<string, TableState>()
  readonly #states = new WeakMap<object, TableState>()
  /** Texts of records whose kind nobody decodes, by kind and key; without a key, by their place. */
  readonly #foreign = new Map<string, string>()
  #file: LogFile | undefined
  #commit: GroupCommit | undefined
  #phase: 'declaring' | 'loaded' | 'closed' = 'declaring'
  #lines = 0
  /** Set after a compaction that failed. */
  #compactAboveDead = 0
  #compaction: CompactionRun | undefined
  #compacting: Promise<void> | undefined

  constructor(options: StoreOptions) {
    this.#options = options
  }

  table<R>(spec: TableSpec<R>): Table<R> {
    if (this.#phase !== 'declaring') throw new Error(`table ${spec.kind} is declared after the store was loaded`)
    if (this.#tables.has(spec.kind) || spec.kind.includes('$')) throw new Error(`table ${spec.kind} cannot be declared`)
    const records = new Map<string, R>()
    const state = { spec, records } as unknown as TableState
    const table: Table<R> = {
      get size() {
        return records.size
      },
      get: (key) => records.get(key),
      values: () => records.values(),
      put: (record) => this.#add([{ state, key: spec.key(record), record }]),
      delete: (key) => this.#add([{ state, key }]),
    }
    this.#tables.set(spec.kind, state)
    this.#states.set(table, state)
    return table
  }

  async batch(changes: readonly Change[]): Promise<void> {
    await this.#add(
      changes.map((change) => {
        const state = this.#states.get(change.table)
        if (state === undefined) throw new Error('a batch names a table of another store')
        return 'put' in change
          ? { state, key: state.spec.key(change.put), record: change.put }
          : { state, key: change.delete }
      }),
    )
  }

  get deadLines(): number {
    return this.#lines - this.#live()
  }

  get #minDeadLines(): number {
    return this.#options.minDeadLines?.() ?? MIN_DEAD_LINES
  }

  async load(): Promise<void> {
    const { file: path, schema, migrations, log, clock } = this.#options
    const began = clock.monotonic()
    const { file, bytes } = await LogFile.open(path).catch((failure: unknown) => this.#tell(failure))
    try {
      const found = classify(bytes, { file: path, schema, migrations })
      if (found.refused !== undefined) throw found.refused // 1
      removeFile(replacementPath(path))
      removeUnfinishedBackup(path)
      if (found.oldest !== undefined) {
        crashPoint('migrate.before')
        const backup = writeBackup(path, found.oldest, bytes)
        crashPoint('migrate.backup.after')
        log.info({ file: path, from: found.oldest, to: schema.current, backup }, 'the record log is migrated')
      }
      this.#take(found)
      this.#file = file
      await this.#repair(file, found)
    } catch (failure) {
      await file.close()
      this.#tell(failure)
    }
    this.#commit = new GroupCommit(file, {
      committed: (lines, changes) => this.#committed(lines, changes),
      failed: (failure, changes) => this.#failed(failure, changes),
    })
    this.#phase = 'loaded'
    const ms = Math.round(clock.monotonic() - began)
    log.info(
      { file: path, records: this.#live(), deadLines: this.deadLines, setAside: this.quarantined.length, ms },
      'the record log is loaded',
    )
    this.#compactIfDue()
  }

  async close(): Promise<void> {
    if (this.#phase === 'closed') return
    this.#phase = 'closed'
    this.#compaction?.spoil()
    await this.#compacting
    await this.#commit?.idle()
    await this.#file?.close()
  }

  #tell(failure: unknown): never {
    if (failure instanceof Fault) throw failure
    throw coreFaults.io_error({ what: this.#options.file, problem: (failure as Error).message }, failure)
  }

  /** Applies to memory at once; on disk it is one line. */
  async #add(changes: readonly { state: TableState; key: string; record?: unknown }[]): Promise<void> {
    const commit = this.#commit
    if (this.#phase === 'declaring' || commit === undefined)
      throw new Error('a record is changed before the store was loaded')
    if (this.#phase === 'closed') {
      throw coreFaults.io_error({ what: this.#options.file, problem: 'the store is closed' })
    }
    const { schema } = this.#options
    const [only] = changes
    const isNothing = changes.length === 1 && only?.record === undefined && only?.state.records.has(only.key) === false
    // Even then it waits for what is being written: the deletion before it may not be durable yet.
    const wanted = isNothing ? [] : changes
    const texts = wanted.map(({ state: { spec }, key, record }) =>
      record === undefined
        ? deletionText(schema, spec.kind, key)
        : recordText(schema, spec.kind, key, spec.encode(record)),
    )
    const undo = wanted.map(({ state, key, record }) => apply(state.records, key, record))
    await commit.add(texts.length > 1 ? batchText(schema, texts) : (texts[0] ?? ''), texts.length, () => {
      for (const step of undo.reverse()) step()
    })
  }

  #take(found: Classified): void {
    this.#lines = found.changes.length
    for (const { line, raw } of found.changes) {
      const state = this.#tables.get(raw['kind'] as string)
      if (state === undefined) {
        this.#takeForeign(raw, line)
        continue
      }
      const reason = takeChange(state.records, state.spec, raw)
      if (reason !== undefined) found.damaged.push({ line, reason, bytes: Buffer.from(JSON.stringify(raw)) })
    }
  }

  /** 2. Kept as text: a plugin left out of this run finds its records when it is back. */
  #takeForeign(raw: RawRecord, line: number): void {
    const name = JSON.stringify([raw['kind'], raw['key'] ?? line])
    if (raw[DELETED] === true) this.#foreign.delete(name)
    else this.#foreign.set(name, JSON.stringify(raw))
    const reason = `kind ${JSON.stringify(raw['kind'])} is not decoded by any plugin of this run; kept as it is`
    if (!this.quarantined.some((it) => it.reason === reason)) this.quarantined.push({ line, reason })
  }

  async #repair(file: LogFile, found: Classified): Promise<void> {
    const { file: path, log } = this.#options
    if (found.tornBytes > 0)
      log.warn({ file: path, bytes: found.tornBytes }, 'an unfinished last line of the record log is cut off')
    if (found.damaged.length > 0) {
      appendQuarantine(path, found.damaged)
      for (const { line, reason } of found.damaged) {
        this.quarantined.push({ line, reason })
        log.warn({ file: path, line, reason }, 'a line of the record log is set aside')
      }
      if (found.oldest !== undefined) crashPoint('migrate.quarantined')
    }
    if (found.damaged.length > 0 || found.oldest !== undefined) {
      const replacement = await file.replacement()
      try {
        for (const text of this.#texts()) await replacement.write(text)
        if (found.oldest !== undefined) crashPoint('migrate.rewritten')
        await file.replaceBy(replacement)
        if (found.oldest !== undefined) crashPoint('migrate.after')
      } catch (failure) {
        await replacement.discard().catch(() => undefined) // the first failure is the one to tell
        throw failure
      }
      this.#lines = this.#live()
    } else if (found.tornBytes > 0) await file.truncate(found.goodBytes)
    else if (found.needsNewline) await file.append(Buffer.from('\n'))
  }

  #live(): number {
    let live = this.#foreign.size
    for (const { records } of this.#tables.values()) live += records.size
    return live
  }

  /** The whole log as it would be written now, in slices of some records; each slice reads memory when it is asked for. */
  *#texts(sliceRecords = 64): Generator<string> {
    const { schema } = this.#options
    let slice: string[] = []
    const cut = function* (): Generator<string> {
      if (slice.length > 0) yield `${slice.join('\n')}\n`
      slice = []
    }
    for (const text of this.#foreign.values()) {
      slice.push(text)
      if (slice.length >= sliceRecords) yield* cut()
    }
    for (const { spec, records } of this.#tables.values()) {
      for (const key of [...records.keys()]) {
        const record = records.get(key)
        if (record !== undefined) slice.push(recordText(schema, spec.kind, key, spec.encode(record)))
        if (slice.length >= sliceRecords) yield* cut()
      }
    }
    yield* cut()
  }

  #committed(lines: string, changes: number): void {
    this.#lines += changes
    this.#compaction?.committed(lines, changes)
    this.#compactIfDue()
  }

  #failed(failure: unknown, changes: number): void {
    this.#compaction?.spoil()
    this.#options.log.error(
      { file: this.#options.file, changes, problem: (failure as Error).message },
      'changes could not be written',
    )
  }

  #compactIfDue(): void {
    const { deadLines } = this
    if (this.#compacting !== undefined || this.#phase === 'closed') return
    if (deadLines <= Math.max(this.#compactAboveDead, this.#minDeadLines, this.#live())) return
    this.#compacting = this.#compact(deadLines).finally(() => (this.#compacting = undefined))
  }

  async #compact(deadLines: number): Promise<void> {
    const { log, file: path, clock } = this.#options
    const began = clock.monotonic()
    try {
      const lines = await compact(
        this.#file as LogFile,
        this.#commit as GroupCommit,
        this.#texts(),
        (run) => (this.#compaction = run),
      )
      if (lines === undefined) return
      this.#lines = lines
      this.#compactAboveDead = 0
      log.info(
        { file: path, lines, removed: deadLines, ms: Math.round(clock.monotonic() - began) },
        'the record log is compacted',
      )
    } catch (failure) {
      // The old log goes on. Tried again when as many dead lines more have come: not on each change of a full disk.
      this.#compactAboveDead = this.deadLines + this.#minDeadLines
      log.warn({ file: path, problem: (failure as Error).message }, 'the record log could not be compacted')
    } finally {
      this.#compaction = undefined
    }
  }
}

/** Sets or deletes one key and answers how to take that back. */
function apply(records: Map<string, unknown>, key: string, record: unknown): () => void {
  const had = records.has(key)
  const before = records.get(key)
  if (record === undefined) records.delete(key)
  else records.set(key, record)
  return () => {
    if (had) records.set(key, before)
    else records.delete(key)
  }
}
