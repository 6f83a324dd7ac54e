import { existsSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { describe, expect, test } from 'vitest'
import { classify } from '../../kernel/store/classify.ts'
import { dryRun } from '../../kernel/store/dry-run.ts'
import type { Migrations, RawRecord } from '../../kernel/store/lines.ts'
import { world } from './fixtures/tables.ts'

const item = (id: string, value: unknown, version = 9): string =>
  JSON.stringify({ schema_version: version, kind: 'item', key: id, id, value })

describe('FC-4987: a torn last line never swallows the next record', () => {
  const last = Buffer.from(item('torn', 'a€😀b'))
  test.each(Array.from({ length: last.length - 1 }, (_, index) => index + 1))('cut after %i bytes', async (kept) => {
    const { open, file, lines } = world()
    writeFileSync(file, Buffer.concat([Buffer.from(`${item('a', 1)}\n`), last.subarray(0, kept)]))
    const { items, store, told } = await open()
    expect([...items.values()]).toEqual([{ id: 'a', value: 1 }])
    expect(told).toContainEqual({
      level: 'warn',
      message: expect.stringContaining('cut off') as string,
      data: { file, bytes: kept },
    })
    await items.put({ id: 'b', value: 2 })
    await items.put({ id: 'c', value: 3 })
    await store.close()
    expect(lines().map(({ key }) => key)).toEqual(['a', 'b', 'c'])
    expect(store.quarantined).toEqual([])
  })
})

test('a whole last line without its newline counts, and the next one does not join it', async () => {
  const { open, file, lines } = world()
  writeFileSync(file, `${item('a', 1)}\n${item('b', 2)}`)
  const { items, store } = await open()
  await items.put({ id: 'c', value: 3 })
  await store.close()
  expect(lines().map(({ key }) => key)).toEqual(['a', 'b', 'c'])
})

test('a damaged line in the middle is set aside byte by byte, the others load', async () => {
  const { open, file, lines } = world()
  const damaged = [
    Buffer.from('{"kind":"item","key":"x"'),
    Buffer.from([0x7b, 0x22, 0xe2, 0x82, 0x22, 0x7d]),
    Buffer.alloc(40),
    Buffer.from('[1]'),
    Buffer.from('{"schema_version":"9","kind":"item"}'),
    Buffer.from('{"schema_version":9,"key":"x"}'),
    Buffer.from('{"schema_version":9,"kind":"$batch","changes":[7]}'),
    Buffer.from(`{"schema_version":9,"kind":"item","key":"x","id":"x","value":${'['.repeat(1e5)}${']'.repeat(1e5)}}`),
    Buffer.from(`{"schema_version":9,"kind":"other","key":"x","value":${'{"a":'.repeat(1e5)}1${'}'.repeat(1e5)}}`),
  ]
  const newline = Buffer.from('\n')
  const parts = damaged.flatMap((bytes, index) => [Buffer.from(`${item(`k${index}`, index)}\n`), bytes, newline])
  writeFileSync(file, Buffer.concat([...parts, Buffer.from(`${item('end', 1)}\n\n`)]))
  const { items, store, told } = await open()
  expect(items.size).toBe(damaged.length + 1)
  expect(store.quarantined.map(({ line }) => line)).toEqual(damaged.map((_, index) => index * 2 + 2))
  expect(told.filter(({ level }) => level === 'warn')).toHaveLength(damaged.length)
  expect(readFileSync(`${file}.quarantine`)).toEqual(Buffer.concat(damaged.flatMap((bytes) => [bytes, newline])))
  expect(statSync(`${file}.quarantine`).mode & 0o777).toBe(0o600)
  await store.close()
  expect(lines()).toHaveLength(damaged.length + 1)
  const again = await open()
  expect(again.store.quarantined).toEqual([])
  expect(again.items.size).toBe(damaged.length + 1)
})

test('a line of many brackets that are not nested is a record', async () => {
  const { open, file } = world()
  writeFileSync(
    file,
    `${item(
      'a',
      Array.from({ length: 500 }, () => [{}]),
    )}\n${item('b', '[{'.repeat(500))}\n`,
  )
  const { items, store } = await open()
  expect([items.size, store.quarantined]).toEqual([2, []])
})

test('a record its owner cannot decode is set aside; the version before it stays', async () => {
  const { open, file } = world()
  writeFileSync(file, `${item('a', 1)}\n${JSON.stringify({ schema_version: 9, kind: 'item', key: 'a', id: 'a' })}\n`)
  const { items, store } = await open()
  expect(items.get('a')).toEqual({ id: 'a', value: 1 })
  expect(store.quarantined).toEqual([{ line: 2, reason: 'item "a": not an item' }])
  expect(readFileSync(`${file}.quarantine`, 'utf8')).toContain('"key":"a"')
})

test('a newer schema refuses the start and touches nothing', async () => {
  const { open, file } = world()
  const content = `${item('a', 1)}\nbroken\n${item('b', 2, 10)}\n{"torn`
  writeFileSync(file, content)
  const failure = await open().catch((it: unknown) => it)
  expect(failure).toMatchObject({ class: 'configuration', code: 'store_schema_newer' })
  expect((failure as Error).message).toBe(`${file} line 3 (item) has schema 10, this daemon knows 9`)
  expect(readFileSync(file, 'utf8')).toBe(content)
  expect(readdirSync(dirname(file))).toEqual([basename(file)])
})

test('a kind may have a version of its own', async () => {
  const { open, file, lines } = world()
  writeFileSync(file, `${item('a', 1, 10)}\n{"schema_version":9,"kind":"other","key":"x"}\n`)
  const { items, store } = await open({ schema: { current: 9, kinds: { item: 10 } } })
  await items.put({ id: 'b', value: 2 })
  await store.batch([])
  await store.close()
  expect(lines().map(({ schema_version }) => schema_version)).toEqual([10, 9, 10])
  await expect(open({ schema: { current: 10, kinds: { item: 9 } } })).rejects.toMatchObject({
    code: 'store_schema_newer',
  })
})

const migrations: Migrations = {
  1: (raw: RawRecord) => (raw['kind'] === 'item' ? { ...raw, value: [raw['value']] } : raw),
  2: (raw: RawRecord) => (raw['kind'] === 'item' ? { ...raw, value: { was: raw['value'] } } : raw),
}
const oldStore = [
  '{"kind":"item","key":"a","id":"a","value":1}',
  '{"schema_version":2,"kind":"item","key":"b","id":"b","value":[2]}',
  '{"schema_version":3,"kind":"item","key":"c","id":"c","value":{"was":[3]}}',
  '{"schema_version":1,"kind":"item","key":"d","id":"d","value":4}',
  '{"schema_version":1,"kind":"item","key":"d","$deleted":true}',
  '{"schema_version":1,"kind":"foreign","key":"f","n":5}',
  'damaged',
  '{"schema_version":1,"kind":"torn',
].join('\n')

test('an older store is backed up byte by byte, migrated step by step and rewritten', async () => {
  const { open, file, lines } = world()
  writeFileSync(file, oldStore)
  const { items, store } = await open({ schema: { current: 3 }, migrations })
  expect(Object.fromEntries([...items.values()].map(({ id, value }) => [id, value]))).toEqual({
    a: { was: [1] },
    b: { was: [2] },
    c: { was: [3] },
  })
  expect(readFileSync(`${file}.pre-schema-1`, 'utf8')).toBe(oldStore)
  expect(statSync(`${file}.pre-schema-1`).mode & 0o777).toBe(0o600)
  expect(readFileSync(`${file}.quarantine`, 'utf8')).toBe('damaged\n')
  await store.close()
  expect(lines()).toHaveLength(4)
  expect(lines().every(({ schema_version }) => schema_version === 3)).toBe(true)
  expect(lines()).toContainEqual({ schema_version: 3, kind: 'foreign', key: 'f', n: 5 })
  expect(readdirSync(dirname(file)).sort()).toEqual([
    'metadata.jsonl',
    'metadata.jsonl.pre-schema-1',
    'metadata.jsonl.quarantine',
  ])
})

test('a backup is never overwritten: an interrupted migration keeps it, another store gets another name', async () => {
  const { open, file } = world()
  writeFileSync(`${file}.pre-schema-1`, oldStore, { mode: 0o600 })
  writeFileSync(file, oldStore)
  await (await open({ schema: { current: 3 }, migrations })).store.close()
  expect(existsSync(`${file}.pre-schema-1.2`)).toBe(false)
  writeFileSync(file, `${oldStore}\n`)
  await open({ schema: { current: 3 }, migrations })
  expect(readFileSync(`${file}.pre-schema-1`, 'utf8')).toBe(oldStore)
  expect(readFileSync(`${file}.pre-schema-1.2`, 'utf8')).toBe(`${oldStore}\n`)
})

test('a store older than every kept step is refused untouched', async () => {
  const { open, file } = world()
  writeFileSync(file, oldStore)
  await expect(open({ schema: { current: 3 }, migrations: { 2: (raw) => raw } })).rejects.toMatchObject({
    class: 'configuration',
    code: 'store_schema_too_old',
  })
  expect(readFileSync(file, 'utf8')).toBe(oldStore)
  expect(readdirSync(dirname(file))).toEqual([basename(file)])
})

test('a record a step cannot take is set aside', async () => {
  const { open, file } = world()
  writeFileSync(file, `${item('a', 1, 8)}\n${item('b', 2, 8)}\n`)
  const failing: Migrations = {
    8: (raw) => {
      if (raw['key'] === 'a') throw new Error('no way')
      return raw
    },
  }
  const { items, store } = await open({ migrations: failing })
  expect([...items.values()]).toEqual([{ id: 'b', value: 2 }])
  expect(store.quarantined).toEqual([{ line: 1, reason: 'cannot be migrated: no way' }])
  expect(readFileSync(`${file}.quarantine`, 'utf8')).toBe(`${item('a', 1, 8)}\n`)
})

test('a dry run tells what a start would do', () => {
  const options = { file: 'f', schema: { current: 3 }, migrations }
  expect(dryRun(undefined, options)).toMatchObject({ state: 'missing', records: 0 })
  expect(dryRun(Buffer.from(oldStore), options)).toMatchObject({
    state: 'would_migrate',
    schemaFrom: 1,
    schemaTo: 3,
    records: 7,
  })
  expect(dryRun(Buffer.from(`${item('a', 1, 3)}\n`), options)).toMatchObject({
    state: 'up_to_date',
    schemaFrom: 3,
    records: 1,
  })
  const refused = dryRun(Buffer.from(`${item('a', 1, 4)}\n`), options)
  expect([refused.state, refused.error?.code]).toEqual(['refused', 'store_schema_newer'])
})

test('a batch of a newer frame is refused like a newer record', () => {
  const bytes = Buffer.from('{"schema_version":10,"kind":"$batch","changes":[]}\n')
  expect(classify(bytes, { file: 'f', schema: { current: 9 }, migrations: {} }).refused?.code).toBe(
    'store_schema_newer',
  )
})
