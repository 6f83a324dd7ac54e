/** The mutex of a log family: who waits, who goes on without, and whose file is taken away. */
import { existsSync, readFileSync, readdirSync, utimesSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { processes } from '../../platform/index.ts'
import { fileMutex } from '../../platform/file-mutex.ts'
import type { ProcessIdentity } from '../../platform/processes.ts'
import { monotonicMs } from '../harness/wait.ts'
import { temporary } from './fixtures/temporary.ts'

const self = processes.identify(process.pid) as ProcessIdentity
const living = `${self.pid} ${self.startIdentity} ${processes.bootId()}`
const dead = `999999 5 ${processes.bootId()}`

const lockPath = (): string => join(temporary(), 'l.jsonl.lock')
/** Everything beside the lock's path. */
const around = (path: string): string[] => readdirSync(dirname(path)).filter((it) => it !== basename(path))

/** Runs one section; answers how long it waited, and who held the lock meanwhile. */
function enter(path: string, facts: Pick<typeof processes, 'isRunning' | 'bootId'> = processes): [number, string] {
  const started = monotonicMs()
  let seen: [number, string] | undefined
  fileMutex(path, { processes: facts, self })(() => {
    seen = [monotonicMs() - started, existsSync(path) ? readFileSync(path, 'utf8') : 'nobody']
  })
  if (seen === undefined) throw new Error('the section did not run')
  return seen
}

test('the holder is named while the section runs, and nothing is left of it', () => {
  const path = lockPath()
  expect(enter(path)[1]).toBe(living)
  expect(readdirSync(dirname(path))).toEqual([])
})

test('a section that throws gives the lock back', () => {
  const path = lockPath()
  const exclusive = fileMutex(path, { processes, self })
  expect(() =>
    exclusive(() => {
      throw new Error('no')
    }),
  ).toThrow('no')
  expect(readdirSync(dirname(path))).toEqual([])
})

test.each([
  ['a process that is gone', dead],
  ['a process of another boot', `${self.pid} ${self.startIdentity} another-boot`],
  ['a process that has the pid since', `${self.pid} 5 ${processes.bootId()}`],
  ['nobody, as after a crash of the machine', ''],
  ['an unreadable somebody', 'x'],
])('the file of %s is taken away at once, whatever the clock says of its age', (_, holder) => {
  for (const seconds of [0, Date.now() / 1_000 + 86_400]) {
    const path = lockPath()
    writeFileSync(path, holder)
    utimesSync(path, seconds, seconds)
    const [waitedMs, held] = enter(path)
    expect(held).toBe(living)
    expect(waitedMs).toBeLessThan(150)
    expect(around(path)).toEqual([])
  }
})

test('a holder that is stopped keeps its file; the section runs without after a bounded wait', () => {
  const path = lockPath()
  writeFileSync(path, living)
  const [waitedMs, held] = enter(path)
  expect(held).toBe(living)
  expect(waitedMs).toBeGreaterThanOrEqual(150)
  expect(readFileSync(path, 'utf8')).toBe(living)
  expect(around(path)).toEqual([])
})

test('where no file can be made the section does not wait', () => {
  const path = join(temporary(), 'gone', 'l.lock')
  const [waitedMs, held] = enter(path)
  expect(held).toBe('nobody')
  expect(waitedMs).toBeLessThan(150)
})

test('of two that found it abandoned the slower one leaves the lock of the faster one', () => {
  const path = lockPath()
  writeFileSync(path, dead)
  const faster = `1 ${processes.identify(1)?.startIdentity} ${processes.bootId()}`
  const [waitedMs, held] = enter(path, {
    bootId: () => processes.bootId(),
    isRunning: (it) => {
      if (it.pid !== 999_999) return processes.isRunning(it)
      writeFileSync(path, faster) // between the look and the taking away
      return false
    },
  })
  expect(held).toBe(faster)
  expect(waitedMs).toBeGreaterThanOrEqual(150)
  expect(readFileSync(path, 'utf8')).toBe(faster)
  expect(around(path)).toEqual([])
})
