import { execFileSync } from 'node:child_process'
import { readFileSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { bundle } from '../platform/fixtures/bundle.ts'
import { temporary } from '../platform/fixtures/temporary.ts'
import { fill, smallDisk } from './fixtures/disk.ts'
import { world } from './fixtures/tables.ts'

test('FC-d3bf: a full disk leaves the old state whole, in memory and in the file', async (context) => {
  const directory = smallDisk()
  if (directory === undefined) return context.skip('this user may not mount a small file system')
  const { open, file } = world(directory)
  const { items, store, told } = await open()
  await items.put({ id: 'a', value: 'old' })
  await items.put({ id: 'b', value: 'old' })
  const filler = fill(directory)
  const room = 'x'.repeat(8_192)
  const failing = await Promise.allSettled([
    items.put({ id: 'a', value: room }),
    items.put({ id: 'a', value: 'on top' }),
    items.put({ id: 'new', value: room }),
    items.delete('b'),
  ])
  for (const it of failing)
    expect(it).toMatchObject({ status: 'rejected', reason: { class: 'runtime', code: 'io_error' } })
  expect([...items.values()].sort((x, y) => x.id.localeCompare(y.id))).toEqual([
    { id: 'a', value: 'old' },
    { id: 'b', value: 'old' },
  ])
  expect(readFileSync(file, 'utf8').endsWith('"old"}\n')).toBe(true)
  expect(told.some(({ level }) => level === 'error')).toBe(true)
  unlinkSync(filler)
  await items.put({ id: 'a', value: 'new' })
  await store.close()
  const again = await open()
  expect(again.items.get('a')).toEqual({ id: 'a', value: 'new' })
  expect(again.items.get('b')).toEqual({ id: 'b', value: 'old' })
  expect(again.store.quarantined).toEqual([])
})

test('a compaction that does not fit is given up; changes go on', async (context) => {
  const directory = smallDisk()
  if (directory === undefined) return context.skip('this user may not mount a small file system')
  const { open, file } = world(directory)
  const { items, store, told } = await open()
  // Live records of 600 KiB: beside them there is no room for a copy.
  for (let n = 0; n < 60; n++) await items.put({ id: `big${n}`, value: 'x'.repeat(10_000) })
  for (let n = 0; n < 1_200; n++) await items.put({ id: 'small', value: n })
  await store.close()
  expect(told.some(({ message }) => message.includes('could not be compacted'))).toBe(true)
  const again = await open()
  expect(again.items.get('small')?.value).toBe(1_199)
  expect(again.items.size).toBe(61)
  expect(readFileSync(file, 'utf8').endsWith('\n')).toBe(true)
})

test('a write that the system cuts short is taken back', async () => {
  const directory = temporary()
  const file = join(directory, 'metadata.jsonl')
  const entry = bundle(
    `
    import { systemClock } from './kernel/clock.ts'
    import { openTables } from './kernel/store/record-log.ts'
    const silent = { debug() {}, info() {}, warn() {}, error() {}, child: () => silent }
    const store = openTables({ file: process.argv[2], schema: { current: 9 }, migrations: {}, clock: systemClock, log: silent })
    const items = store.table({ kind: 'item', key: (it) => it.id, decode: (raw) => raw, encode: (it) => it })
    await store.load()
    let failure
    let durable = 0
    while (failure === undefined) {
      await items.put({ id: 'a', value: durable + 1, pad: 'x'.repeat(300) }).then(() => (durable += 1), (it) => (failure = it))
    }
    console.log(JSON.stringify({ durable, code: failure.code, seen: items.get('a').value }))
    await store.close()`,
    join(directory, 'entry.mjs'),
  )
  // A file size limit of some KiB makes the write that crosses it a short one, without a small disk.
  const out = execFileSync('sh', ['-c', `trap '' XFSZ; ulimit -f 8; exec ${process.execPath} ${entry} ${file}`])
  const { durable, code, seen } = JSON.parse(out.toString()) as { durable: number; code: string; seen: number }
  expect(durable).toBeGreaterThan(3)
  expect({ code, seen }).toEqual({ code: 'io_error', seen: durable })
  expect(readFileSync(file, 'utf8').split('\n').slice(0, -1)).toHaveLength(durable)
  expect((await world(directory).open()).items.get('a')?.value).toBe(durable)
})
