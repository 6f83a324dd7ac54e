import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { pinnedProcesses, processes } from '../../platform/index.ts'
import { allPids, hasEntry, parseStat, readStat } from '../../platform/linux/proc.ts'
import type { ProcessIdentity } from '../../platform/processes.ts'
import { REPOSITORY } from '../harness/roots.ts'
import { until } from '../harness/wait.ts'
import { temporary } from './fixtures/temporary.ts'

function start(command: string, args: string[], options: { env?: NodeJS.ProcessEnv; cwd?: string } = {}): ChildProcess {
  const child = spawn(command, args, { stdio: 'ignore', detached: true, ...options })
  onTestFinished(() => {
    try {
      process.kill(-(child.pid as number), 'SIGKILL')
    } catch {
      // gone already
    }
  })
  return child
}

function identityOf(child: ChildProcess): ProcessIdentity {
  const identity = processes.identify(child.pid as number)
  if (identity === undefined) throw new Error('the child is not in /proc')
  return identity
}

test.each([
  ['12 (sh) S 1 12 12 34816 40 4194304 1 2 3 4 5 6 7 8 20 0 1 0 777 9', 'sh'],
  ['12 (a) b) (R) S 1 12 12 34816 40 4194304 1 2 3 4 5 6 7 8 20 0 1 0 777 9', 'a) b) (R'],
  ['12 (x\n) Z) S 1 12 12 34816 40 4194304 1 2 3 4 5 6 7 8 20 0 1 0 777 9\n', 'x\n) Z'],
])('the fields of stat are counted after the last parenthesis: %j', (text, command) => {
  expect(parseStat(text)).toEqual({
    command,
    state: 'S',
    parent: 1,
    group: 12,
    session: 12,
    foreground: 40,
    startIdentity: '777',
  })
})

test.each(['', '12 sh S 1', '12 (sh) S 1 2 3', ')('])('a text that is no stat is not parsed: %j', (text) => {
  expect(parseStat(text)).toBeUndefined()
})

test.each([
  ['A=1\0B=2\0', 'B=2', true],
  ['A=1\0B=2', 'B=2', true],
  ['B=2\0', 'B=2', true],
  ['A=1\0AB=2\0', 'B=2', false],
  ['B=22\0', 'B=2', false],
  ['X=B=2\0B=22\0B=2\0', 'B=2', true],
  ['', 'B=2', false],
])('%j has the entry %s: %s', (environ, entry, found) => {
  expect(hasEntry(Buffer.from(environ), entry)).toBe(found)
})

describe.each([
  ['checked', processes],
  ['pinned', pinnedProcesses],
])('signals, %s', (_, by) => {
  test('reach exactly the process', async () => {
    const child = start('sleep', ['60'])
    const identity = identityOf(child)
    const exited = once(child, 'exit')
    expect(by.signal(identity, 'SIGTERM')).toBe('sent')
    expect(await exited).toEqual([null, 'SIGTERM'])
    expect(by.isRunning(identity)).toBe(false)
    expect(by.signal(identity, 'SIGTERM')).toBe('gone')
  })

  test('never reach another process that has the pid', () => {
    const child = start('sleep', ['60'])
    const identity = identityOf(child)
    const recycled = { pid: identity.pid, startIdentity: String(BigInt(identity.startIdentity) - 1n) }
    expect(by.signal(recycled, 'SIGKILL')).toBe('gone')
    expect(by.isRunning(recycled)).toBe(false)
    expect(by.isRunning(identity)).toBe(true)
  })

  test.skipIf(process.geteuid?.() === 0)('are denied by the system for a foreign process', () => {
    const init = processes.identify(1)
    if (init !== undefined) expect(by.signal(init, 'SIGTERM')).toBe('denied')
  })
})

test('a zombie has an identity but does not run and is in no group', async () => {
  // sleep replaces the shell and never waits for its child, which stays a zombie.
  const parent = start('sh', ['-c', 'true & exec sleep 60'])
  const children = (): number[] =>
    processes.argv(parent.pid as number)?.[0] === 'sleep' ? zombiesOf(parent.pid as number) : []
  const [zombie] = await until('a zombie', () => (children().length > 0 ? children() : undefined))
  const identity = processes.identify(zombie as number)
  expect(identity).toBeDefined()
  expect(processes.isRunning(identity as ProcessIdentity)).toBe(false)
  expect(processes.membersOf({ group: parent.pid }).map(({ pid }) => pid)).toEqual([parent.pid])
  expect(processes.signal(identity as ProcessIdentity, 'SIGTERM')).toBe('gone')
})

test('a process whose first thread has ended runs on: it is found, read and signalled', async () => {
  const told = join(temporary(), 'pid')
  const marker = { name: 'POHUNEK_TEST_MARK', value: `h-${process.pid}-${Math.random()}` }
  const child = start(process.execPath, [join(REPOSITORY, 'test/harness/headless.mjs'), told], {
    env: { PATH: process.env['PATH'], [marker.name]: marker.value },
  })
  const identity = identityOf(child)
  await until('its first thread has ended', () => readStat(identity.pid)?.state === 'Z')
  expect(processes.isRunning(identity)).toBe(true)
  expect(processes.findMarked(marker).marked).toEqual([identity])
  expect(processes.variable(identity, marker.name)).toBe(marker.value)
  expect(processes.membersOf({ session: child.pid })).toEqual([identity])
  const exited = once(child, 'exit')
  expect(pinnedProcesses.signal(identity, 'SIGKILL')).toBe('sent')
  await exited
  expect(processes.isRunning(identity)).toBe(false)
  expect(processes.findMarked(marker).marked).toEqual([])
})

function zombiesOf(parent: number): number[] {
  return allPids().filter((pid) => {
    const stat = readStat(pid)
    return stat?.state === 'Z' && stat.parent === parent
  })
}

test('argv, cwd and terminal of a process', async () => {
  const cwd = realpathSync(temporary())
  const child = start('sleep', ['61'], { cwd })
  await until('exec', () => processes.argv(child.pid as number)?.[0] === 'sleep')
  expect(processes.argv(child.pid as number)).toEqual(['sleep', '61'])
  expect(processes.cwd(child.pid as number)).toBe(cwd)
  expect(processes.foregroundGroup(child.pid as number)).toBeUndefined()
})

test('nothing is known about a process that does not exist', () => {
  for (const pid of [0, -1, 1.5, 2 ** 22 + 1]) {
    expect(processes.identify(pid)).toBeUndefined()
    expect(processes.argv(pid)).toBeUndefined()
    expect(processes.cwd(pid)).toBeUndefined()
    expect(processes.foregroundGroup(pid)).toBeUndefined()
  }
  expect(processes.membersOf({})).toEqual([])
})

test('members are found by group and by session', async () => {
  const child = start('sh', ['-c', 'sleep 60 & sleep 60 & wait'])
  const members = await until('three members', () => {
    const found = processes.membersOf({ session: child.pid })
    return found.length === 3 ? found : undefined
  })
  expect(processes.membersOf({ group: child.pid })).toEqual(members)
  expect(members.map(({ pid }) => pid)).toContain(child.pid)
})

test('marked processes are found by the whole entry only', async () => {
  const marker = { name: 'POHUNEK_TEST_MARK', value: `m-${process.pid}-${Math.random()}` }
  const carrier = start('sleep', ['60'], { env: { PATH: process.env['PATH'], [marker.name]: marker.value } })
  const near = start('sleep', ['60'], {
    env: { PATH: process.env['PATH'], [marker.name]: `${marker.value}0`, [`X${marker.name}`]: marker.value },
  })
  const since = identityOf(carrier)
  await until('exec', () => [carrier, near].every((it) => processes.argv(it.pid as number)?.[0] === 'sleep'))
  expect(processes.findMarked(marker).marked).toEqual([identityOf(carrier)])
  expect(processes.findMarked({ ...marker, since }).marked).toEqual([identityOf(carrier)])
  const later = { pid: 1, startIdentity: String(BigInt(identityOf(near).startIdentity) + 1_000_000n) }
  expect(processes.findMarked({ ...marker, since: later })).toEqual({ marked: [], unreadable: [] })
})

test('the boot has an identity', () => {
  expect(processes.bootId()).toMatch(/^[0-9a-f-]{36}$/)
})
