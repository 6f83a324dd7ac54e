import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { DAEMON_LOG_LIMITS, openLog, type LogOptions, type OpenLog } from '../../kernel/log.ts'
import { SESSION_LOG_LIMITS } from '../../protocol/worker/files.ts'
import { temporary } from './fixtures/temporary.ts'

function open(file: string, options: Partial<LogOptions> = {}): OpenLog {
  const log = openLog({ file, maxFileBytes: 2_000, maxFiles: 3, level: 'info', name: 'pohunekd', ...options })
  onTestFinished(() => log[Symbol.dispose]())
  return log
}

const events = (file: string): Record<string, unknown>[] =>
  readFileSync(file, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Record<string, unknown>)

test('the contract’s sizes: 256 MiB for the daemon, 16 MiB for a session', () => {
  const total = (it: { maxFileBytes: number; maxFiles: number }): number => (it.maxFileBytes * it.maxFiles) / 1_048_576
  expect([total(DAEMON_LOG_LIMITS), total(SESSION_LOG_LIMITS)]).toEqual([256, 16])
})

test('events are JSON with an ISO time, by level, in a private file', () => {
  const file = join(temporary(), 'l.jsonl')
  const { log } = open(file)
  log.child({ plugin: 'sessions' }).info({ id: 's-1' }, 'started')
  log.debug('not told')
  expect(events(file)).toEqual([
    {
      level: 30,
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/) as string,
      pid: process.pid,
      name: 'pohunekd',
      plugin: 'sessions',
      id: 's-1',
      msg: 'started',
    },
  ])
  expect(statSync(file).mode & 0o777).toBe(0o600)
})

test('a file is rotated before an event would exceed its limit; the oldest goes', () => {
  const directory = temporary()
  const file = join(directory, 'l.jsonl')
  const { log } = open(file)
  for (let n = 0; n < 200; n++) log.info({ n }, 'event')
  expect(readdirSync(directory).sort()).toEqual(['l.jsonl', 'l.jsonl.1', 'l.jsonl.2'])
  for (const name of readdirSync(directory)) expect(statSync(join(directory, name)).size).toBeLessThanOrEqual(2_000)
  const kept = [`${file}.2`, `${file}.1`, file].flatMap((it) => events(it).map(({ n }) => n as number))
  expect(kept.at(-1)).toBe(199)
  expect(kept).toEqual(kept.map((_, index) => (kept[0] as number) + index))
})

test('an event larger than one file is replaced by a small warning, or dropped when even that does not fit', () => {
  const file = join(temporary(), 'l.jsonl')
  const { log } = open(file)
  log.info({ big: 'x'.repeat(5_000) }, 'too much')
  log.info('after')
  const [warning, after] = events(file)
  expect(warning).toMatchObject({ level: 40, msg: 'a log event was too large and is left out' })
  expect(warning?.['bytes']).toBeGreaterThan(5_000)
  expect(after).toMatchObject({ msg: 'after' })
  const tiny = join(temporary(), 'l.jsonl')
  const small = open(tiny, { maxFileBytes: 20 })
  small.log.info('x')
  expect(readFileSync(tiny, 'utf8')).toBe('')
  expect(small.lost).toBeGreaterThan(0)
})

test('a symlink is never followed, nor replaced by a rotation', () => {
  const directory = temporary()
  const file = join(directory, 'l.jsonl')
  const victim = join(directory, 'victim')
  writeFileSync(victim, 'victim')
  symlinkSync(victim, file)
  expect(() => open(file)).toThrow('symbolic link')
  const other = join(directory, 'o.jsonl')
  symlinkSync(victim, `${other}.1`)
  const { log } = open(other)
  for (let n = 0; n < 100; n++) log.info({ n }, 'event')
  expect(readFileSync(victim, 'utf8')).toBe('victim')
  expect(existsSync(`${other}.2`)).toBe(false)
  expect(events(other).at(-1)).toMatchObject({ n: 99 })
  expect(statSync(other).size).toBeLessThanOrEqual(2_000)
})

test('what the limits no longer allow is pruned at the start, nothing else', () => {
  const directory = temporary()
  const file = join(directory, 'l.jsonl')
  const line = `${JSON.stringify({ msg: 'kept' })}\n`
  for (const [name, content] of [
    ['.1', line],
    ['.2', 'x'.repeat(3_000)],
    ['.3', line],
    ['.17', line],
    ['.x', line],
    ['.01', line],
    ['.1.gz', line],
  ])
    writeFileSync(`${file}${name}`, content as string)
  writeFileSync(join(directory, 'other.jsonl.9'), line)
  mkdirSync(`${file}.5`)
  open(file)
  expect(readdirSync(directory).sort()).toEqual([
    'l.jsonl',
    'l.jsonl.01',
    'l.jsonl.1',
    'l.jsonl.1.gz',
    'l.jsonl.5',
    'l.jsonl.x',
    'other.jsonl.9',
  ])
})

test('FC-4987: a fragment at the end is ended before the first event', () => {
  const file = join(temporary(), 'l.jsonl')
  writeFileSync(file, Buffer.concat([Buffer.from('{"msg":"a"}\n{"msg":"'), Buffer.from('€').subarray(0, 2)]), {
    mode: 0o600,
  })
  open(file).log.info('next')
  const lines = readFileSync(file).toString('latin1').split('\n')
  expect(lines).toHaveLength(4)
  expect(JSON.parse(lines[2] as string)).toMatchObject({ msg: 'next' })
})
