import { buildSync } from 'esbuild'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { delay, systemClock } from '../../kernel/clock.ts'
import { until } from '../harness/wait.ts'
import { temporary } from '../platform/fixtures/temporary.ts'
import { world, type World } from './fixtures/tables.ts'

function writerScript(): string {
  const outfile = join(temporary(), 'writer.mjs')
  const entry = fileURLToPath(new URL('fixtures/writer.ts', import.meta.url))
  buildSync({ entryPoints: [entry], bundle: true, platform: 'node', format: 'esm', outfile, logLevel: 'error' })
  return outfile
}

/** Lets a writer work until `moment`, kills it with SIGKILL and answers what it was told to be durable. */
async function killedAt(
  script: string,
  file: string,
  mode: string,
  moment: (told: () => string) => Promise<unknown>,
): Promise<Map<string, number>> {
  const child = spawn(process.execPath, [script, file, mode], { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  let told = ''
  child.stdout.on('data', (bytes: Buffer) => (told += bytes.toString('latin1')))
  await until('the writer to start', () => told.startsWith('ready\n'))
  await moment(() => told)
  child.kill('SIGKILL')
  await once(child, 'close')
  const durable = new Map<string, number>()
  for (const line of told.slice(0, told.lastIndexOf('\n')).split('\n').slice(1)) {
    const [id, value] = line.split(' ')
    durable.set(id as string, Number(value))
  }
  return durable
}

/** Everything told to be durable is there, in that version or a later one, and nothing is damaged. */
async function expectWhole({ open, file }: World, durable: Map<string, number>): Promise<void> {
  const { items, store } = await open()
  for (const [id, value] of durable) expect(Number(items.get(id)?.value)).toBeGreaterThanOrEqual(value)
  expect(store.quarantined).toEqual([])
  await items.put({ id: 'after', value: 0 })
  await store.close()
  const again = await open()
  expect(again.items.get('after')).toBeDefined()
  expect(again.items.size).toBeGreaterThanOrEqual(durable.size)
  await again.items.delete('after')
  await again.store.close()
  expect(existsSync(`${file}.compacting`)).toBe(false)
}

test('SIGKILL in the middle of changes loses nothing that was told to be durable', async () => {
  const script = writerScript()
  const store = world()
  for (let round = 0; round < 8; round++) {
    const mode = round % 2 === 0 ? 'single' : 'flood'
    // The moment only varies where the kill falls: the test is right at any.
    const durable = await killedAt(script, store.file, mode, (told) =>
      until('some changes', () => told().length > 2_000).then(() => delay(systemClock, round * 7)),
    )
    expect(durable.size).toBeGreaterThan(5)
    await expectWhole(store, durable)
  }
})

test('SIGKILL in the middle of compactions loses nothing and leaves no leftover', async () => {
  const script = writerScript()
  const store = world()
  let interrupted = 0
  for (let round = 0; round < 10; round++) {
    const durable = await killedAt(script, store.file, 'flood', () =>
      until('a compaction', () => existsSync(`${store.file}.compacting`), { pollMs: 1 }),
    )
    if (existsSync(`${store.file}.compacting`)) interrupted += 1
    await expectWhole(store, durable)
  }
  expect(interrupted).toBeGreaterThan(0)
  expect(readFileSync(store.file, 'utf8').endsWith('\n')).toBe(true)
})
