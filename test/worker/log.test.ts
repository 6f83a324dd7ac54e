/** The log of a session, which the workers of two generations may write at once. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { SESSION_LOG_LIMITS } from '../../protocol/worker/files.ts'
import { bundle } from '../platform/fixtures/bundle.ts'
import { temporary } from '../platform/fixtures/temporary.ts'
import { until } from '../harness/wait.ts'

interface Line {
  generation: string
  n: number
  pad: string
  level: number
}
const PAD = 'x'.repeat(2_000)
const LINES = 1_200

test('several workers write one family: no line is lost or torn, no file over its size, one killed meanwhile', async () => {
  const directory = temporary()
  const logs = join(directory, 'logs')
  const file = join(logs, 'pohunek-session-s-1.jsonl')
  const entry = bundle(
    `
    import { workerLog } from './worker/log.ts'
    import { processes } from './platform/index.ts'
    const [, , file, generation, lines] = process.argv
    const log = workerLog({ file, bindings: { generation }, processes, self: processes.identify(process.pid) })
    for (let n = 0; n < Number(lines); n++) log.warn({ n, pad: '${PAD}' }, 'event')`,
    join(directory, 'entry.mjs'),
  )
  const writer = (generation: string, lines: number): ChildProcess => {
    const child = spawn(process.execPath, [entry, file, generation, String(lines)], { stdio: 'inherit' })
    onTestFinished(() => void child.kill('SIGKILL'))
    return child
  }
  // Three write 8 MB of the 16 the family holds: nothing of theirs may be rotated away.
  const writers = ['1', '2', '3'].map((it) => writer(it, LINES))
  const doomed = writer('4', 1_000_000)
  const ends = writers.map((it) => once(it, 'exit') as Promise<[number | null]>)
  await until('the family is rotated', () => existsSync(`${file}.1`), { deadlineMs: 60_000 })
  doomed.kill('SIGKILL')
  expect((await Promise.all(ends)).map(([code]) => code)).toEqual([0, 0, 0])
  await until('the killed one is gone', () => doomed.signalCode === 'SIGKILL')

  const names = readdirSync(logs).sort()
  expect(names.filter((name) => !/\.lock/.test(name))).toEqual(
    [file, `${file}.1`, `${file}.2`, `${file}.3`]
      .map((it) => it.slice(logs.length + 1))
      .filter((it) => names.includes(it)),
  )
  const lines = names
    .filter((name) => !/\.lock/.test(name))
    .sort((a, b) => b.localeCompare(a)) // .3, .2, .1, then the current one
    .flatMap((name) => {
      expect(statSync(join(logs, name)).size).toBeLessThanOrEqual(SESSION_LOG_LIMITS.maxFileBytes)
      const text = readFileSync(join(logs, name), 'utf8')
      expect(text.endsWith('\n')).toBe(true)
      return text
        .slice(0, -1)
        .split('\n')
        .map((line): Line => JSON.parse(line))
    })
  expect(lines.every((it) => it.pad === PAD && it.level === 40)).toBe(true)
  const of = (generation: string): number[] => lines.filter((it) => it.generation === generation).map(({ n }) => n)
  for (const generation of ['1', '2', '3']) expect(of(generation)).toEqual(Array.from({ length: LINES }, (_, n) => n))
  const killed = of('4')
  expect(killed.length).toBeGreaterThan(0)
  expect(killed).toEqual(killed.map((_, n) => n))
}, 120_000)
