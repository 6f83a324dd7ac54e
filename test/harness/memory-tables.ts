import type { Change, RecordTables, Table, TableSpec } from '../../kernel/index.ts'

/** Tables without a disk, for tests that are not about storage. */
export function memoryTables(): RecordTables {
  return {
    table<R>(spec: TableSpec<R>): Table<R> {
      const records = new Map<string, R>()
      return {
        get size() {
          return records.size
        },
        get: (key) => records.get(key),
        values: () => records.values(),
        async put(record) {
          records.set(spec.key(record), spec.decode(JSON.parse(JSON.stringify(spec.encode(record)))))
        },
        async delete(key) {
          records.delete(key)
        },
      }
    },
    async batch(changes: readonly Change[]) {
      for (const change of changes) {
        const table = change.table
        if ('put' in change) await table.put(change.put)
        else await table.delete(change.delete)
      }
    },
    quarantined: [],
  }
}
