import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { run } from '../harness/cli.ts'
import { bin } from '../harness/roots.ts'
import { endCarrying } from '../harness/processes.ts'
import { until } from '../harness/wait.ts'
import { world } from '../harness/world.ts'

const START = { POHUNEK_NO_START: undefined }

test('the first command starts a daemon and says so once', async () => {
  const it = await world({ daemon: false })
  const first = await it.cli(['session', 'new', '--name', 'a', '--json'], { env: START })
  expect(first.code).toBe(0)
  expect(first.stderr).toBe('starting a local daemon (pohunek daemon stop ends it)\n')
  const second = await it.cli(['session', 'list', '-q'])
  expect(second).toMatchObject({ code: 0, stderr: '' })
  const status = JSON.parse((await it.cli(['daemon', 'status', '--json'])).stdout).ok
  const [daemon] = it.running('daemon')
  expect(status).toEqual({ running: true, pid: daemon?.pid, socket: it.roots.socket })
  expect(await it.cli(['daemon', 'start'])).toMatchObject({
    code: 0,
    stdout: `a daemon is running (pid ${daemon?.pid})\n`,
  })

  // It belongs to nobody's terminal: its own session, the root directory, and it outlived the command.
  expect(daemon?.ppid).not.toBe(process.pid)
  const stat = await run('/bin/sh', ['-c', `ps -o sid= -p ${daemon?.pid}; readlink /proc/${daemon?.pid}/cwd`], {
    cwd: '/',
    env: it.roots.env(),
  })
  expect(stat.stdout.trim().split(/\s+/)).toEqual([String(daemon?.pid), '/'])

  const id = JSON.parse(first.stdout).ok.id as string
  expect((await it.cli(['session', 'rm', id])).code).toBe(0)
  expect((await it.cli(['daemon', 'stop'])).stdout).toBe(`daemon stopped (pid ${daemon?.pid}); sessions keep running\n`)
  await until('nothing runs', () => it.running('daemon').length + it.running('worker').length === 0)
})

test('FC-d87f: many first calls at once all succeed with one daemon', async () => {
  const it = await world({ daemon: false })
  const calls = await Promise.all(
    Array.from({ length: 50 }, () => it.cli(['session', 'list', '-q'], { env: START, deadlineMs: 60_000 })),
  )
  expect(calls.map((call) => call.code)).toEqual(calls.map(() => 0))
  expect(calls.filter((call) => call.stderr.includes('starting a local daemon'))).toHaveLength(1)
  expect(it.running('daemon')).toHaveLength(1)
  expect((await it.cli(['daemon', 'stop'])).code).toBe(0)
  await endCarrying(it.roots.base)
}, 90_000)

test('FC-d87f: a daemon that dies with the connection in its hands does not fail who only looks', async () => {
  const it = await world({ daemon: false })
  mkdirSync(join(it.roots.runtime, 'pohunek'), { mode: 0o700 })
  const dying = createServer((socket) => {
    socket.once('data', () => {
      dying.close()
      socket.destroy()
    })
  }).listen(it.roots.socket)
  await once(dying, 'listening')
  chmodSync(it.roots.socket, 0o600)
  const listed = await it.cli(['session', 'list', '-q'], { env: START })
  expect(listed).toMatchObject({ code: 0, stderr: 'starting a local daemon (pohunek daemon stop ends it)\n' })
  expect((await it.cli(['daemon', 'stop'])).code).toBe(0)
  await endCarrying(it.roots.base)
})

test('a daemon that cannot start is told with its own words, quickly', async () => {
  const it = await world({ daemon: false, end: 'kill' })
  mkdirSync(join(it.roots.config, 'pohunek'), { mode: 0o700 })
  writeFileSync(join(it.roots.config, 'pohunek/config.toml'), 'nonsense = [\n', { mode: 0o600 })
  const failed = await it.cli(['session', 'list', '--json'], { env: START, deadlineMs: 10_000 })
  expect(failed.code).toBe(1)
  const { err } = JSON.parse(failed.stdout)
  expect(err.code).toBe('daemon_spawn_failed')
  expect(err.msg).toContain('config.toml')
  expect(it.running('daemon')).toEqual([])
})

test('where the home directory cannot be written the reason is told, at once', async () => {
  // Below /proc Node's recursive mkdir never returned, and the command ran for ever.
  const it = await world({ daemon: false, end: 'kill' })
  const nowhere = {
    XDG_CONFIG_HOME: undefined,
    XDG_DATA_HOME: undefined,
    XDG_STATE_HOME: undefined,
    XDG_CACHE_HOME: undefined,
  }
  for (const home of ['/proc/nohome', '/dev/null']) {
    const env = { ...START, ...nowhere, HOME: home }
    const failed = await it.cli(['session', 'list', '--json'], { env, deadlineMs: 10_000 })
    expect(failed.code).toBe(1)
    const { err } = JSON.parse(failed.stdout)
    expect(err).toMatchObject({ code: 'daemon_spawn_failed', msg: expect.stringContaining(home) })
  }
  expect(it.running('daemon')).toEqual([])
})

test('a daemon started from inside a session is not part of it: it outlives the session and its temporary directory', async () => {
  const it = await world({ daemon: false })
  const inside = {
    POHUNEK_SESSION_ID: 's-01ARZ3NDEKTSV4RRFFQ69G5FAV',
    POHUNEK_DAEMON_ID: 'd-1',
    POHUNEK_WORKER_INSTANCE_ID: 'r-1',
    POHUNEK_PASS_NODE_OPTIONS: '--no-warnings',
    TMPDIR: it.roots.base,
  }
  expect((await it.cli(['session', 'list', '-q'], { env: { ...START, ...inside } })).code).toBe(0)
  const environ = readFileSync(`/proc/${it.running('daemon')[0]?.pid}/environ`, 'utf8').split('\0')
  expect(environ.filter((entry) => entry.startsWith('POHUNEK_') || entry.startsWith('TMPDIR='))).toEqual([
    'POHUNEK_PASS_NODE_OPTIONS=--no-warnings',
  ])
  expect((await it.cli(['daemon', 'stop'])).code).toBe(0)
})

test('a claim left by a killed starter does not keep others from starting', async () => {
  const it = await world({ daemon: false })
  mkdirSync(join(it.roots.runtime, 'pohunek'), { mode: 0o700 })
  writeFileSync(join(it.roots.runtime, 'pohunek/daemon.starting'), '4194303\n', { mode: 0o600 })
  expect((await it.cli(['session', 'list', '-q'], { env: START })).code).toBe(0)
  expect((await it.cli(['daemon', 'stop'])).code).toBe(0)
})

test('daemon start runs in the foreground and ends with SIGTERM', async () => {
  const it = await world({ daemon: false })
  const running = it.cli(['daemon', 'start'], { env: START })
  await until('it serves', async () => (await it.cli(['daemon', 'status'])).code === 0)
  const [daemon] = it.running('daemon')
  expect((await it.cli(['daemon', 'stop'])).code).toBe(0)
  expect(await running).toMatchObject({
    code: 0,
    stdout: `the daemon serves on ${it.roots.socket} (pid ${daemon?.pid}); Ctrl-C ends it, sessions run on\n`,
  })
})

test('the programs run from any directory, through links, and name what is missing', async () => {
  const it = await world({ daemon: false })
  mkdirSync(join(it.roots.work, 'deep/er'), { recursive: true })
  symlinkSync(bin('pohunek'), join(it.roots.work, 'deep/one'))
  symlinkSync('../one', join(it.roots.work, 'deep/er/two'))
  const options = { cwd: join(it.roots.work, 'deep'), env: it.roots.env() }
  for (const path of ['./one', 'er/two', join(it.roots.work, 'deep/er/two')]) {
    expect((await run(path, ['--version'], options)).stdout).toMatch(/^pohunek /)
  }
  const elsewhere = join(it.roots.work, 'copy/bin')
  mkdirSync(elsewhere, { recursive: true })
  const { readFileSync } = await import('node:fs')
  for (const name of ['pohunek', 'pohunekd', 'pohunek-sessiond'] as const) {
    writeFileSync(join(elsewhere, name), readFileSync(bin(name)))
    chmodSync(join(elsewhere, name), 0o755)
    const missing = await run(join(elsewhere, name), [], options)
    expect(missing.code).toBe(1)
    expect(missing.stderr).toContain(`${name}: `)
    expect(missing.stderr).toContain('npm run build')
  }
})
