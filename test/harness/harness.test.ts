/** The harness itself: a leak check that cannot see a leak is worth nothing. */
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { run } from './cli.ts'
import { expectedOutput, expectExact } from './numbers.ts'
import { carrying, endCarrying, look, runs } from './processes.ts'
import { Outer } from './pty.ts'
import { CHILD, makeRoots } from './roots.ts'
import { until } from './wait.ts'
import { World } from './world.ts'

test('a process that carries the roots is seen, named and ended', async () => {
  const roots = makeRoots()
  onTestFinished(() => roots.remove())
  const child = spawn('sleep', ['300'], { env: roots.env(), detached: true, stdio: 'ignore' })
  const pid = child.pid ?? 0
  await until('it runs', () => carrying(roots.base).some((it) => it.pid === pid))
  expect(look(pid)?.argv).toEqual(['sleep', '300'])
  const w = new World(roots, {})
  expect(w.leftovers().join()).toContain(`process ${pid}`)
  expect((await endCarrying(roots.base)).map((it) => it.pid)).toEqual([pid])
  expect(runs(pid)).toBe(false)
})

test('sockets, job files and directories of sessions are leftovers; other files are not', async () => {
  const roots = makeRoots()
  onTestFinished(() => roots.remove())
  const w = new World(roots, {})
  writeFileSync(join(roots.state, 'log'), '')
  expect(w.leftovers()).toEqual([])
  mkdirSync(join(roots.cache, 'session-tmp', `s-${'0'.repeat(26)}`), { recursive: true })
  const server = createServer()
  onTestFinished(() => void server.close())
  await new Promise<void>((resolve) => server.listen(join(roots.runtime, 'x.sock'), resolve))
  expect(w.leftovers().sort()).toEqual([`cache/session-tmp/s-${'0'.repeat(26)}/`, 'runtime/x.sock'])
})

test('the environment of a test holds nothing of the developer', async () => {
  const roots = makeRoots()
  onTestFinished(() => roots.remove())
  const { code, stdout } = await run('env', [], { env: roots.env({ EXTRA: '1', LANG: undefined }), cwd: roots.work })
  expect(code).toBe(0)
  const names = stdout
    .trim()
    .split('\n')
    .map((it) => it.split('=')[0])
  expect(names.sort()).toEqual([
    'EXTRA',
    'HOME',
    'PATH',
    'SHELL',
    'TERM',
    'XDG_CACHE_HOME',
    'XDG_CONFIG_HOME',
    'XDG_DATA_HOME',
    'XDG_RUNTIME_DIR',
    'XDG_STATE_HOME',
  ])
  roots.remove()
  expect(existsSync(roots.base)).toBe(false)
})

test('a program over its deadline is killed and its output told', async () => {
  const roots = makeRoots()
  onTestFinished(() => roots.remove())
  const late = run('sh', ['-c', 'echo said; exec sleep 300'], { env: roots.env(), cwd: roots.work, deadlineMs: 300 })
  await expect(late).rejects.toThrow(/300 ms[^]*said/)
  await until('it is gone', () => carrying(roots.base).length === 0)
})

test('the outer terminal draws, takes keys and sizes, and shows its screen when a wait fails', async () => {
  const roots = makeRoots()
  onTestFinished(() => roots.remove())
  const outer = new Outer(process.execPath, [CHILD, 'lines_in'], { env: roots.env(), cwd: roots.work })
  onTestFinished(() => outer.dispose())
  await outer.until('ready')
  outer.write('hello\r')
  await outer.until('got:hello')
  outer.resize(90, 20)
  await outer.until('winch:90x20')
  await expect(outer.until('never', { deadlineMs: 50 })).rejects.toThrow(/got:hello/)
  outer.write('exit 4\r')
  expect(await outer.ended()).toBe(4)
})

test('the outer terminal answers queries as a terminal does', async () => {
  const roots = makeRoots()
  onTestFinished(() => roots.remove())
  const outer = new Outer(process.execPath, [CHILD, 'ask', Buffer.from('\x1b[c').toString('hex')], {
    env: roots.env(),
    cwd: roots.work,
  })
  onTestFinished(() => outer.dispose())
  await outer.until('asked')
  expect(outer.raw.toString()).toMatch(/answer:1b5b63=1b5b3f/)
})

test('numbered output: the right bytes pass, one wrong byte is found where it is', () => {
  const bytes = expectedOutput(500)
  expect(bytes.subarray(0, 20).toString()).toBe('ready\r\nn000000000\r\nn')
  expectExact(bytes)
  expectExact(bytes.subarray(100), 100)
  const wrong = Buffer.from(bytes)
  wrong[300] = 0x58
  expect(() => expectExact(wrong)).toThrow(/300/)
})
