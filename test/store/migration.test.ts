/** Migrations through the public open path: what they do to every form of a line, and on a disk that fills up. */
import { copyFileSync, readFileSync, readdirSync, unlinkSync, writeFileSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { expect, test } from 'vitest'
import { dryRun, tableOf } from '../../kernel/store/dry-run.ts'
import { migrate, type Migrations } from '../../kernel/store/lines.ts'
import { fill, smallDisk } from './fixtures/disk.ts'
import { decodeItem, world } from './fixtures/tables.ts'

/** Schema 7 kept the value as `text`, schema 8 as `content.text`. */
const chain: Migrations = {
  7: ({ text, ...others }) => ({ ...others, content: { text } }),
  8: ({ content, ...others }) => {
    if (content === undefined) throw new Error('no content')
    return { ...others, value: (content as { text: unknown }).text }
  },
}
const schema = { current: 9 }
const seven = (id: string, text: unknown): string =>
  JSON.stringify({ schema_version: 7, kind: 'item', key: id, id, text })
const eight = (id: string, text: unknown): string =>
  JSON.stringify({ schema_version: 8, kind: 'item', key: id, id, content: { text } })
const nine = (id: string, value: unknown): string =>
  JSON.stringify({ schema_version: 9, kind: 'item', key: id, id, value })

test('batches, deletions and lines of every schema of the chain meet in one order', async () => {
  const { open, file, lines } = world()
  const batch = `{"schema_version":7,"kind":"$batch","changes":[${seven('b', 2)},{"schema_version":7,"kind":"item","key":"a","$deleted":true}]}`
  writeFileSync(
    file,
    `${[seven('a', 1), batch, eight('c', 3), seven('b', 4), nine('d', 5), seven('c', 6)].join('\n')}\n`,
  )
  const { items, store } = await open({ schema, migrations: chain })
  expect([...items.values()].sort((x, y) => x.id.localeCompare(y.id))).toEqual([
    { id: 'b', value: 4 },
    { id: 'c', value: 6 },
    { id: 'd', value: 5 },
  ])
  await store.close()
  expect(lines().map((it) => [it['key'], it['schema_version'], it['text'], it['content']])).toEqual(
    ['b', 'c', 'd'].map((key) => [key, 9, undefined, undefined]),
  )
})

test('a batch of which one record cannot be migrated is set aside whole, as it was written', async () => {
  const { open, file } = world()
  const bad = JSON.stringify({ schema_version: 8, kind: 'item', key: 'x', id: 'x' })
  const batch = `{"schema_version":8,"kind":"$batch","changes":[${eight('b', 2)},${bad}]}`
  writeFileSync(file, `${seven('a', 1)}\n${batch}\n`)
  const { items, store } = await open({ schema, migrations: chain })
  expect([...items.values()]).toEqual([{ id: 'a', value: 1 }])
  expect(store.quarantined).toEqual([{ line: 2, reason: 'cannot be migrated: no content' }])
  expect(readFileSync(`${file}.quarantine`, 'utf8')).toBe(`${batch}\n`)
})

test('what an older quarantine holds stays before what is set aside now, also behind a fragment', async () => {
  const { open, file } = world()
  writeFileSync(`${file}.quarantine`, 'first\nfragm', { mode: 0o600 })
  writeFileSync(file, `${seven('a', 1)}\ndamaged\n`)
  const { store } = await open({ schema, migrations: chain })
  await store.close()
  expect(readFileSync(`${file}.quarantine`, 'utf8')).toBe('first\nfragm\ndamaged\n')
})

test('the backup restores exactly the old store: migrating it again gives the same', async () => {
  const { open, file } = world()
  const old = `${seven('a', 1)}\n${eight('b', 'ž😀')}\n{"torn`
  writeFileSync(file, old)
  const first = await open({ schema, migrations: chain })
  const records = [...first.items.values()]
  await first.items.put({ id: 'later', value: 1 })
  await first.store.close()
  expect(readFileSync(`${file}.pre-schema-7`, 'utf8')).toBe(old)
  copyFileSync(`${file}.pre-schema-7`, file)
  const again = await open({ schema, migrations: chain })
  expect([...again.items.values()]).toEqual(records)
  expect(readdirSync(dirname(file)).sort()).toEqual([basename(file), `${basename(file)}.pre-schema-7`])
})

test('every step is asked once for each record, in order, and never for a deletion', () => {
  const asked: number[] = []
  const counting: Migrations = {
    7: (raw) => (asked.push(7), raw),
    8: (raw) => (asked.push(8), raw),
  }
  migrate({ schema_version: 7, kind: 'item', key: 'a' }, schema, counting)
  migrate({ schema_version: 8, kind: 'item', key: 'a' }, schema, counting)
  migrate({ schema_version: 7, kind: 'item', key: 'a', $deleted: true }, schema, counting)
  expect(asked).toEqual([7, 8, 8])
})

test('a dry run has the records a start would have, and says the same of the lines it would set aside', async () => {
  const { open, file } = world()
  const undecodable = JSON.stringify({ schema_version: 9, kind: 'item', key: 'y', id: 'y' })
  const content = `${seven('a', 1)}\ndamaged\n${undecodable}\n${seven('b', 2)}\n${eight('a', 3)}\n{"torn`
  writeFileSync(file, content)
  const spec = { kind: 'item', key: (it: { id: string }) => it.id, decode: decodeItem, encode: () => ({}) }
  const dry = dryRun(readFileSync(file), { file, schema, migrations: chain })
  const table = tableOf(dry.changes, spec)
  expect([readFileSync(file, 'utf8'), readdirSync(dirname(file))]).toEqual([content, [basename(file)]])
  const { items, store } = await open({ schema, migrations: chain })
  expect([...table.records.values()]).toEqual([...items.values()])
  expect([...dry.damaged, ...table.damaged].map(({ line, reason }) => ({ line, reason }))).toEqual(store.quarantined)
  expect(dry).toMatchObject({ state: 'would_migrate', schemaFrom: 7, schemaTo: 9, records: 5 })
})

test.each([
  ['newer', nine('a', 1).replace(':9,', ':12,'), 12, 'store_schema_newer'],
  ['too old', nine('a', 1).replace(':9,', ':3,'), 3, 'store_schema_too_old'],
])('a dry run of a store that is %s names its schema', (_, line, found, code) => {
  const dry = dryRun(Buffer.from(`${seven('b', 1)}\n${line}\n`), { file: 'f', schema, migrations: chain })
  expect(dry).toMatchObject({ state: 'refused', schemaFrom: found, error: { code } })
})

/** 300 KiB of schema 7. */
const big = Array.from({ length: 60 }, (_, n) => `${seven(`k${n}`, 'x'.repeat(5_000))}\n`).join('')

test.for<[string, number, string[]]>([
  ['for the backup', 100_000, []],
  ['for the new log behind the backup', 400_000, ['metadata.jsonl.pre-schema-7']],
])(
  'without room %s the start is refused, the old store stays, and with room it is migrated',
  async ([_, room, kept], context) => {
    const directory = smallDisk()
    if (directory === undefined) return context.skip('this user may not mount a small file system')
    const { open, file } = world(directory)
    writeFileSync(file, big)
    const filler = fill(directory, room)
    await expect(open({ schema, migrations: chain })).rejects.toMatchObject({ class: 'runtime', code: 'io_error' })
    expect(readFileSync(file, 'utf8')).toBe(big)
    expect(readdirSync(directory).sort()).toEqual(['filler', 'metadata.jsonl', ...kept])
    unlinkSync(filler)
    const { items, store } = await open({ schema, migrations: chain })
    expect(items.size).toBe(60)
    expect(readFileSync(`${file}.pre-schema-7`, 'utf8')).toBe(big)
    await store.close()
    expect(readdirSync(directory).sort()).toEqual(['metadata.jsonl', 'metadata.jsonl.pre-schema-7'])
  },
)
