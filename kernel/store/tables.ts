/** Keyed durable records over one record log; a plugin owns one kind and declares its shape. */
export interface TableSpec<R> {
  /** Value of `kind` on each line, e.g. `session`. */
  readonly kind: string
  key(record: R): string
  /** Throws when a stored value is not a record of the current schema: the line is then kept aside and reported. */
  decode(raw: unknown): R
  /** JSON-safe form; the kernel adds kind, key and schema_version. */
  encode(record: R): Record<string, unknown>
}

export interface Table<R> {
  readonly size: number
  get(key: string): R | undefined
  values(): IterableIterator<R>
  /** Visible at once, resolves when durable (group-committed fsync). Rejects with Fault io_error; then nothing changed. */
  put(record: R): Promise<void>
  delete(key: string): Promise<void>
}

/** One change of a batch. */
export type Change =
  | { readonly table: Table<unknown>; readonly put: unknown }
  | { readonly table: Table<unknown>; readonly delete: string }

export interface RecordTables {
  /** Call in setup, before the `load` hook ran. Records are there once it ran. */
  table<R>(spec: TableSpec<R>): Table<R>
  /** All changes in one atomic line: after a crash either all are there or none. */
  batch(changes: readonly Change[]): Promise<void>
  /** Lines set aside at load: damaged or of a kind no plugin decodes; never dropped. */
  readonly quarantined: readonly { readonly line: number; readonly reason: string }[]
}

/** A change for `batch`: the record must be one of that table. */
export const put = <R>(table: Table<R>, record: R): Change => ({ table: table, put: record })
export const remove = <R>(table: Table<R>, key: string): Change => ({ table: table, delete: key })
