import { statSync, symlinkSync, writeFileSync, chmodSync, readFileSync } from 'node:fs'
import { expect, onTestFinished, test, vi } from 'vitest'
import { manualClock } from '../../kernel/clock.ts'
import { LogFile } from '../../kernel/store/log-file.ts'
import { openTables } from '../../kernel/store/record-log.ts'
import { put, remove } from '../../kernel/store/tables.ts'
import { until } from '../harness/wait.ts'
import { decodeItem, memoryLog, world, type Item, type Opened } from './fixtures/tables.ts'

const compacted = (told: Opened['told']): boolean => told.some(({ message }) => message.endsWith('is compacted'))

test('records are there after a restart, the last one of a key and no deleted one', async () => {
  const { open, lines, file } = world()
  const { items, store } = await open()
  await Promise.all([
    items.put({ id: 'a', value: 1 }),
    items.put({ id: 'b', value: 'ž\n"😀' }),
    items.put({ id: 'c', value: 3 }),
  ])
  await items.put({ id: 'a', value: 2 })
  await items.delete('c')
  await store.close()
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(lines()[0]).toEqual({ schema_version: 9, kind: 'item', key: 'a', id: 'a', value: 1 })
  const again = await open()
  expect([...again.items.values()]).toEqual([
    { id: 'a', value: 2 },
    { id: 'b', value: 'ž\n"😀' },
  ])
  expect(again.items.size).toBe(2)
  expect(again.items.get('c')).toBeUndefined()
  expect(again.store.deadLines).toBe(3)
})

test('a change is visible at once and durable when its promise resolves', async () => {
  const { open, lines } = world()
  const { items } = await open()
  const putting = items.put({ id: 'a', value: 1 })
  expect(items.get('a')).toEqual({ id: 'a', value: 1 })
  expect(lines()).toEqual([])
  await putting
  expect(lines()).toHaveLength(1)
  const deleting = items.delete('a')
  expect(items.size).toBe(0)
  await deleting
  expect(lines()).toHaveLength(2)
  await items.delete('a')
  expect(lines()).toHaveLength(2)
})

test('a batch is one line and wholly there or not at all', async () => {
  const { open, lines, file } = world()
  const { items, store } = await open()
  await items.put({ id: 'old', value: 0 })
  await store.batch([put(items, { id: 'a', value: 1 }), put(items, { id: 'b', value: 2 }), remove(items, 'old')])
  expect(lines()).toHaveLength(2)
  await store.close()
  const again = await open()
  expect([...again.items.values()].map(({ id }) => id)).toEqual(['a', 'b'])
  await again.store.close()
  writeFileSync(file, readFileSync(file).subarray(0, -20))
  const torn = await open()
  expect([...torn.items.values()].map(({ id }) => id)).toEqual(['old'])
})

test('a batch may put and delete one key', async () => {
  const { open } = world()
  const { items, store } = await open()
  await store.batch([put(items, { id: 'a', value: 1 }), remove(items, 'a'), put(items, { id: 'b', value: 1 })])
  await store.close()
  expect([...(await open()).items.values()].map(({ id }) => id)).toEqual(['b'])
})

test('changes made while an fsync runs share the next one', async () => {
  const { open, file } = world()
  const { items } = await open()
  const appends = vi.spyOn(LogFile.prototype, 'append')
  onTestFinished(() => appends.mockRestore())
  const order: number[] = []
  const all = Array.from({ length: 2_000 }, (_, value) =>
    items.put({ id: `k${value}`, value }).then(() => order.push(value)),
  )
  await Promise.all(all)
  // The first writes what was there when it started, the second all that came meanwhile.
  expect(appends.mock.calls.length).toBeLessThanOrEqual(2)
  expect(order).toEqual([...order].sort((a, b) => a - b))
  const ids = readFileSync(file, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => (JSON.parse(line) as Item).value)
  expect(ids).toEqual(order)
})

test('kinds that no plugin of this run decodes survive a restart and a compaction', async () => {
  const { open, file, lines } = world()
  const foreign = [
    '{"schema_version":9,"kind":"later","key":"x","deep":{"n":[1,2]}}',
    '{"schema_version":9,"kind":"later","key":"gone"}',
    '{"schema_version":9,"kind":"later","key":"gone","$deleted":true}',
    '{"schema_version":9,"kind":"keyless","n":1}',
    '{"schema_version":9,"kind":"keyless","n":2}',
  ]
  writeFileSync(file, `${foreign.join('\n')}\n`)
  const { items, store, told } = await open()
  expect(store.quarantined.map(({ line }) => line)).toEqual([1, 4])
  for (let round = 0; round < 4; round++) {
    await Promise.all(Array.from({ length: 400 }, (_, value) => items.put({ id: 'one', value })))
  }
  await until('a compaction', () => compacted(told))
  await store.close()
  const kept = lines().filter(({ kind }) => kind !== 'item')
  expect(kept).toEqual([foreign[0], foreign[3], foreign[4]].map((line) => JSON.parse(line as string) as unknown))
})

test('compaction drops dead lines, loses nothing and lets changes go on', async () => {
  const { open, lines } = world()
  const { items, store, told } = await open()
  const expected = new Map<string, unknown>()
  const pending: Promise<void>[] = []
  for (let value = 0; value < 6_000; value++) {
    const id = `k${value % 500}`
    if (value % 7 === 0) {
      expected.delete(id)
      pending.push(items.delete(id))
    } else {
      expected.set(id, value)
      pending.push(items.put({ id, value }))
    }
    if (value % 50 === 0) await pending.at(-1)
  }
  await Promise.all(pending)
  await until('a compaction', () => compacted(told))
  await until('few dead lines', () => store.deadLines <= 1_000)
  await store.close()
  expect(lines().length).toBeLessThan(1_500)
  const again = await open()
  expect(new Map([...again.items.values()].map(({ id, value }) => [id, value]))).toEqual(expected)
})

test('the file belongs to this user alone: no symlink, nothing others may write', async () => {
  const linked = world()
  writeFileSync(`${linked.file}.victim`, '')
  symlinkSync(`${linked.file}.victim`, linked.file)
  await expect(linked.open()).rejects.toMatchObject({ class: 'configuration', code: 'path_not_private' })
  const loose = world()
  writeFileSync(loose.file, '')
  chmodSync(loose.file, 0o620)
  await expect(loose.open()).rejects.toMatchObject({ code: 'path_not_private' })
  chmodSync(loose.file, 0o644)
  await loose.open()
  expect(statSync(loose.file).mode & 0o777).toBe(0o600)
})

test('mistakes of a caller are errors, not records', async () => {
  const { open, lines } = world()
  const { items, store } = await open()
  const other = await world().open()
  await expect(store.batch([put(other.items, { id: 'a', value: 1 })])).rejects.toThrow('another store')
  expect(() => store.table({ kind: 'late', key: String, decode: decodeItem, encode: () => ({}) })).toThrow(
    'after the store was loaded',
  )
  const { log } = memoryLog()
  const bad = openTables({ file: `${world().file}`, schema: { current: 9 }, migrations: {}, clock: manualClock(), log })
  const table = bad.table<Item>({ kind: 'bad', key: (it) => it.id, decode: decodeItem, encode: () => ({ kind: 'x' }) })
  await expect(table.put({ id: 'a', value: 1 })).rejects.toThrow('before the store was loaded')
  await bad.load()
  await expect(table.put({ id: 'a', value: 1 })).rejects.toThrow('has a field kind')
  expect(table.size).toBe(0)
  await bad.close()
  await store.close()
  await expect(items.put({ id: 'a', value: 1 })).rejects.toMatchObject({ code: 'io_error' })
  expect(lines()).toEqual([])
})

test('with 10,000 records one update still costs one line', async () => {
  const { open, file } = world()
  const payload = { text: 'x'.repeat(800), list: Array.from({ length: 20 }, (_, n) => ({ n, name: `entry ${n}` })) }
  const line = (n: number): string =>
    JSON.stringify({ schema_version: 9, kind: 'item', key: `k${n}`, id: `k${n}`, value: payload })
  writeFileSync(file, Array.from({ length: 10_000 }, (_, n) => `${line(n)}\n`).join(''))
  const { items } = await open()
  expect(items.size).toBe(10_000)
  const before = statSync(file).size
  await items.put({ id: 'k5', value: payload })
  expect(statSync(file).size - before).toBe(Buffer.byteLength(line(5)) + 1)
})
