/** The mutex of a log family: who waits, who goes on without, and whose file is taken away. */
import { existsSync, readFileSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { processes } from '../../platform/index.ts'
import { fileMutex } from '../../platform/file-mutex.ts'
import type { ProcessIdentity } from '../../platform/processes.ts'
import { temporary } from './fixtures/temporary.ts'

const self = processes.identify(process.pid) as ProcessIdentity
const living = `${self.pid} ${self.startIdentity} ${processes.bootId()}`
const dead = `999999 5 ${processes.bootId()}`

const lockPath = (): string => join(temporary(), 'l.jsonl.lock')
/** Everything beside the lock's path. */
const around = (path: string): string[] => readdirSync(dirname(path)).filter((it) => it !== basename(path))

type Facts = Pick<typeof processes, 'isRunning' | 'bootId'>

/** Facts that count how often a holder was looked at: one that is waited for is looked at again and again. */
function counting(isRunning: Facts['isRunning'] = (it) => processes.isRunning(it)): Facts & { looks: number } {
  const facts = {
    looks: 0,
    bootId: () => processes.bootId(),
    isRunning(it: ProcessIdentity): boolean {
      facts.looks += 1
      return isRunning(it)
    },
  }
  return facts
}
const WAITED = 150

/** Runs one section; answers how often the holder was looked at, and who held the lock meanwhile. */
function enter(path: string, facts = counting()): [number, string] {
  let seen: string | undefined
  fileMutex(path, { processes: facts, self })(() => {
    seen = existsSync(path) ? readFileSync(path, 'utf8') : 'nobody'
  })
  if (seen === undefined) throw new Error('the section did not run')
  return [facts.looks, seen]
}

test('the holder is named while the section runs, and nothing is left of it', () => {
  const path = lockPath()
  expect(enter(path)[1]).toBe(`${living} 1`)
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
    const [looks, held] = enter(path)
    expect(held).toBe(`${living} 1`)
    expect(looks).toBeLessThanOrEqual(1)
    expect(around(path)).toEqual([])
  }
})

test('a holder that is stopped keeps its file; the section runs without after a bounded wait', () => {
  const path = lockPath()
  writeFileSync(path, `${living} 7`)
  const [looks, held] = enter(path)
  expect(held).toBe(`${living} 7`)
  expect(looks).toBeGreaterThanOrEqual(WAITED)
  expect(readFileSync(path, 'utf8')).toBe(`${living} 7`)
  expect(around(path)).toEqual([])
})

test('a holder that is stopped is waited for once in one hold, and again in another', () => {
  const path = lockPath()
  const facts = counting()
  const exclusive = fileMutex(path, { processes: facts, self })
  const looks = (): number => {
    facts.looks = 0
    exclusive(() => undefined)
    return facts.looks
  }
  writeFileSync(path, `${living} 7`)
  expect(looks()).toBeGreaterThanOrEqual(WAITED)
  expect(looks()).toBeLessThanOrEqual(1)
  writeFileSync(path, `${living} 8`)
  expect(looks()).toBeGreaterThanOrEqual(WAITED)
  rmSync(path)
  expect(looks()).toBe(0)
})

test('a lock that changes hands all the time is waited for longer, and bounded', () => {
  const path = lockPath()
  let hold = 0
  writeFileSync(path, `${living} ${hold}`)
  const facts = counting((it) => {
    writeFileSync(path, `${living} ${++hold}`)
    return processes.isRunning(it)
  })
  const [looks, held] = enter(path, facts)
  expect(held).toBe(`${living} ${hold}`)
  expect(looks).toBeGreaterThan(3 * WAITED)
})

test('where no file can be made the section does not wait', () => {
  const path = join(temporary(), 'gone', 'l.lock')
  const [looks, held] = enter(path)
  expect(held).toBe('nobody')
  expect(looks).toBeLessThanOrEqual(1)
})

test('of two that found it abandoned the slower one leaves the lock of the faster one', () => {
  const path = lockPath()
  writeFileSync(path, dead)
  const faster = `1 ${processes.identify(1)?.startIdentity} ${processes.bootId()}`
  const facts = counting((it) => {
    if (it.pid !== 999_999) return processes.isRunning(it)
    writeFileSync(path, faster) // between the look and the taking away
    return false
  })
  const [looks, held] = enter(path, facts)
  expect(held).toBe(faster)
  expect(looks).toBeGreaterThanOrEqual(WAITED)
  expect(readFileSync(path, 'utf8')).toBe(faster)
  expect(around(path)).toEqual([])
})
