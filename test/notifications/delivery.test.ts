/** The notify command: once per record, bounded, and never in the way of the inbox. */
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { manualClock, systemClock } from '../../kernel/index.ts'
import { processes } from '../../platform/index.ts'
import { commandEnvironment, runCommand } from '../../plugins/notifications/run-command.ts'
import { privateRoot } from '../harness/kernel.ts'
import { runs } from '../harness/processes.ts'
import { until } from '../harness/wait.ts'
import { desk, type Desk } from './desk.ts'

/** A command that appends its standard input to a file; what the file `mode` says goes first. */
function channel(root: string): {
  command: string[]
  told: () => { id: string }[]
  behave: (how: string) => void
  attempts: () => number
} {
  mkdirSync(root, { recursive: true })
  const path = join(root, 'notify.sh')
  const log = join(root, 'told')
  const attempts = join(root, 'attempts')
  const how = join(root, 'how')
  writeFileSync(path, `#!/bin/sh\necho x >> '${attempts}'\n. '${how}'\ncat >> '${log}'\n`)
  chmodSync(path, 0o755)
  writeFileSync(how, ':')
  const lines = (file: string): string[] => (existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [])
  return {
    command: [path],
    told: () => lines(log).map((it) => JSON.parse(it) as { id: string }),
    behave: (text) => writeFileSync(how, text),
    attempts: () => lines(attempts).length,
  }
}

const raise = async (d: Desk, more: Record<string, unknown> = {}): Promise<string> =>
  (await d.hook({ kind: 'error', severity: 'error', dedupe_key: undefined, ...more })).record.id

const health = async (d: Desk) =>
  (await d.kernel.running.kernel.diagnostics.run()).checks.find((it) => it.name === 'notify_command')

test('each committed record of a chosen kind once, as JSON, in order; not what only changed', async () => {
  const root = privateRoot()
  const it = channel(root)
  const d = await desk({ root, notify: { command: it.command, kinds: ['error', 'agent_blocked'] } })
  const first = await raise(d, { body: '$(touch /tmp/never); `x`\n\u001b[2J' })
  await d.hook({ dedupe_key: undefined })
  d.see('blocked')
  await d.pass(5_000)
  await until('both are told', () => it.told().length === 2)
  expect(it.told()[0]).toMatchObject({ id: first, body: '$(touch /tmp/never); `x`' })
  expect(it.told()[1]).toMatchObject({ kind: 'agent_blocked' })
  await d.hook()
  await d.call('update', { id: first, status: 'read' })
  await until('nothing is owed', async () => (await health(d))?.detail.includes('2 delivered, 0 undelivered'))
  await d.stop()
  const again = await desk({ root, notify: { command: it.command } })
  await raise(again, { source_id: 'later' })
  await until('the new one is told', () => it.told().length === 3)
})

test('FC-802c: undelivered items stay so, the channel says so, and are announced once after recovery', async () => {
  const root = privateRoot()
  const it = channel(root)
  it.behave('exit 1')
  const d = await desk({ root, notify: { command: it.command, timeoutMs: 1e9 } })
  const ids = [await raise(d, { source_id: 'a' })]
  d.kernel.clock.advance(1)
  ids.push(await raise(d, { source_id: 'b' }))
  await until('it failed', async () => (await health(d))?.status === 'warn')
  for (let minute = 0; minute < 60; minute++) {
    const before = it.attempts()
    d.kernel.clock.advance(60_000)
    if (minute < 3) await until('it was tried again', () => it.attempts() > before || minute > 0)
  }
  expect(await health(d)).toMatchObject({
    status: 'warn',
    detail: expect.stringMatching(/exited with 1; 2 undelivered/),
  })
  expect(d.kernel.log.filter((entry) => entry.message === 'the notify command fails')).toHaveLength(1)
  expect(d.kernel.log.filter((entry) => entry.level === 'error')).toEqual([])
  // Half way a restart: nothing is forgotten, and what the owner dealt with is not told.
  await d.stop()
  const again = await desk({ root, notify: { command: it.command, timeoutMs: 1e9 } })
  const third = await raise(again, { source_id: 'c' })
  const fourth = await raise(again, { source_id: 'd' })
  await again.call('update', { id: fourth, status: 'acknowledged' })
  await until('it fails again', async () => (await health(again))?.status === 'warn')
  it.behave(':')
  await until('all are told', () => {
    again.kernel.clock.advance(60_000)
    return it.told().length >= 3
  })
  await until('nothing is owed', async () => (await health(again))?.detail.includes(' 0 undelivered'))
  expect(it.told().map((told) => told.id)).toEqual([...ids, third])
  expect(again.kernel.log.filter((entry) => entry.message === 'the notify command works again')).toHaveLength(1)
})

test('FC-f68e: a command that hangs is ended with all it started; a hundred items wait behind it', async () => {
  const root = privateRoot()
  const it = channel(root)
  const pids = join(root, 'pids')
  it.behave(`sleep 1000 & echo $! >> '${pids}'; echo $$ >> '${pids}'; wait`)
  const d = await desk({ root, notify: { command: it.command, timeoutMs: 5_000 } })
  for (let at = 0; at < 100; at++) await raise(d, { source_id: `s${at}` })
  await until('it runs', () => existsSync(pids) && readFileSync(pids, 'utf8').trim().split('\n').length === 2)
  expect(it.attempts()).toBe(1)
  expect(await d.list({ status: 'unread' })).toHaveLength(100)
  d.kernel.clock.advance(5_000)
  await until('both are gone', () =>
    readFileSync(pids, 'utf8')
      .trim()
      .split('\n')
      .every((pid) => !runs(Number(pid))),
  )
  await until('it says so', async () => (await health(d))?.detail.includes('did not end within 5000 ms'))
  expect(it.attempts()).toBe(1)
})

test('a program that does not exist is told in doctor and once in the log', async () => {
  const d = await desk({ notify: { command: ['/nonexistent/notify'] } })
  await raise(d)
  await until('it says so', async () => (await health(d))?.detail.includes('ENOENT'))
  expect(await d.list()).toHaveLength(1)
  expect(d.kernel.log.filter((it) => it.level === 'warn')).toHaveLength(1)
})

test('a daemon that stops ends the command and leaves its item undelivered', async () => {
  const root = privateRoot()
  const it = channel(root)
  const pids = join(root, 'pids')
  it.behave(`echo $$ >> '${pids}'; sleep 1000`)
  const d = await desk({ root, notify: { command: it.command } })
  const id = await raise(d)
  await until('it runs', () => existsSync(pids))
  await d.stop()
  await until('it is gone', () => !runs(Number(readFileSync(pids, 'utf8'))))
  it.behave(':')
  await desk({ root, notify: { command: it.command } })
  await until('it is told', () =>
    it
      .told()
      .map((told) => told.id)
      .includes(id),
  )
})

test('the environment of the command is the listed few', async () => {
  expect(commandEnvironment({ PATH: '/bin', HOME: '/h', DISPLAY: ':0', SECRET: 'x', POHUNEK_TEST: '1' })).toEqual({
    PATH: '/bin',
    HOME: '/h',
    DISPLAY: ':0',
  })
  const out = join(privateRoot(), 'env')
  const problem = await runCommand({
    command: ['/bin/sh', '-c', 'env > "$0"; pwd >> "$0"; exit 3', out],
    env: { PATH: '/usr/bin:/bin', SECRET: 'x' },
    input: 'x'.repeat(1_000_000),
    timeoutMs: 10_000,
    clock: systemClock,
    processes,
    signal: new AbortController().signal,
  })
  expect(problem).toBe('exited with 3')
  const text = readFileSync(out, 'utf8')
  expect(text).not.toContain('SECRET')
  expect(text.trim().split('\n').at(-1)).toBe('/')
})

test('a run that is not to begin does not', async () => {
  const signal = AbortSignal.abort()
  const run = runCommand({
    command: ['/bin/true'],
    env: {},
    input: '',
    timeoutMs: 1,
    clock: manualClock(),
    processes,
    signal,
  })
  expect(await run).toBe('the daemon stops')
})

test('what a command leaves in its session is ended after a normal exit too', async () => {
  const pids = join(privateRoot(), 'pids')
  const problem = await runCommand({
    command: ['/bin/sh', '-c', 'sleep 1000 </dev/null >/dev/null 2>&1 & echo $! > "$0"; exit 0', pids],
    env: { PATH: '/usr/bin:/bin' },
    input: '',
    timeoutMs: 10_000,
    clock: systemClock,
    processes,
    signal: new AbortController().signal,
  })
  expect(problem).toBeUndefined()
  await until('it is gone', () => !runs(Number(readFileSync(pids, 'utf8'))))
})

test('an attempt after one that failed, or that a daemon died over, says which it is', async () => {
  const root = privateRoot()
  const it = channel(root)
  it.behave('cat >> "$0.first"; exec sleep 1000')
  const d = await desk({ root, notify: { command: it.command } })
  const id = await raise(d)
  const first = join(root, 'notify.sh.first')
  await until('it was begun', () => existsSync(first) && readFileSync(first, 'utf8').endsWith('\n'))
  expect(JSON.parse(readFileSync(first, 'utf8'))).not.toHaveProperty('attempt')
  // As a daemon that dies now leaves it: the mark is there before the command runs.
  expect(d.file('notifications.jsonl')).toContain('"attempts":1')
  await d.stop()
  it.behave(':')
  await desk({ root, notify: { command: it.command } })
  await until('it is told', () => it.told().length === 1)
  expect(it.told()[0]).toMatchObject({ id, attempt: 2 })
})
