/** A daemon under another XDG_RUNTIME_DIR, or of another HOME: nobody may be left without knowing where it is. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { runs } from '../harness/processes.ts'
import { makeRoots } from '../harness/roots.ts'
import { until } from '../harness/wait.ts'
import { world, type World } from '../harness/world.ts'

const START = { POHUNEK_NO_START: undefined }

/** Another runtime directory of the same user. */
function otherRuntime(it: World): { XDG_RUNTIME_DIR: string } {
  const path = join(it.roots.base, 'r2')
  mkdirSync(path, { mode: 0o700 })
  return { XDG_RUNTIME_DIR: path }
}

test('commands from another runtime directory name the daemon, its socket and the way out, at once', async () => {
  const it = await world()
  const session = await it.sh('sleep 60', { name: 'mine' })
  const env = otherRuntime(it)
  const way = `export XDG_RUNTIME_DIR=${it.roots.runtime}`
  for (const start of [{}, START]) {
    const refused = await it.cli(['session', 'list'], { env: { ...env, ...start }, deadlineMs: 10_000 })
    expect(refused).toMatchObject({ code: 1, stdout: '' })
    expect(refused.stderr).toContain(`one (pid ${it.daemon.pid}) already serves your sessions on ${it.roots.socket}`)
    expect(refused.stderr).toContain(`hint: ${way}; or end it`)
    expect(refused.stderr).not.toContain('starting a local daemon')
  }
  const { err } = JSON.parse((await it.cli(['health', '--json'], { env })).stdout)
  expect(err).toMatchObject({ class: 'daemon', code: 'daemon_unreachable' })
  expect((await it.cli(['daemon', 'start', '--detach'], { env })).stderr).toContain(way)

  const status = await it.cli(['daemon', 'status'], { env })
  expect(status.code).toBe(1)
  expect(status.stdout).toMatch(
    new RegExp(`elsewhere +pid ${it.daemon.pid} serves your sessions on ${it.roots.socket}`),
  )
  expect(status.stdout).toContain(way)
  expect(JSON.parse((await it.cli(['daemon', 'status', '--json'], { env })).stdout).ok.elsewhere).toEqual({
    pid: it.daemon.pid,
    socket: it.roots.socket,
  })
  const doctor = await it.cli(['doctor'], { env })
  expect(doctor.code).toBe(1)
  expect(doctor.stdout).toContain(way)

  // The way out is one.
  expect((await it.cli(['session', 'list', '-q'], { env: { XDG_RUNTIME_DIR: it.roots.runtime } })).stdout).toBe(
    `${session.id}\n`,
  )
  // And so is the other: stop finds it from here, and the next command starts one here.
  const stopped = await it.cli(['daemon', 'stop'], { env })
  expect(stopped.stdout).toContain(`daemon stopped (pid ${it.daemon.pid})`)
  expect(runs(it.daemon.pid)).toBe(false)
  expect((await it.cli(['daemon', 'status'], { env })).stdout).not.toContain('elsewhere')
  await it.start()
})

test('the daemon itself says where the other one answers', async () => {
  const it = await world()
  const second = await it.cli(['daemon', 'start'], { env: { XDG_RUNTIME_DIR: it.roots.work } })
  expect(second.code).not.toBe(0)
  expect(second.stderr).toContain(it.roots.socket)
})

test('a runtime directory shared by two homes: the other one is told whose daemon answers', async () => {
  const it = await world()
  const other = makeRoots({ base: join(it.roots.base, 'o') })
  const env = { ...other.env({ XDG_RUNTIME_DIR: it.roots.runtime }), POHUNEK_NO_START: '1' }
  const listed = await it.cli(['session', 'list', '-q'], { env })
  expect(listed).toMatchObject({ code: 0, stdout: '' })
  expect(listed.stderr).toMatch(/^note: the daemon on [^\n]*\n$/)
  expect(listed.stderr).toContain(join(it.roots.data, 'pohunek'))
  const doctor = (await it.cli(['doctor'], { env })).stdout
  expect(doctor).toMatch(/^daemon_roots +warn/m)
  expect(doctor.replaceAll(/\s+/g, ' ')).toContain(join(it.roots.state, 'pohunek'))
  expect(await it.cli(['session', 'list', '-q'])).toMatchObject({ code: 0, stderr: '' })
})

test('a lock file whose daemon is gone names nobody, whatever process has its pid', async () => {
  const it = await world({ daemon: false, end: 'kill' })
  for (const root of [it.roots.runtime, it.roots.state]) {
    mkdirSync(join(root, 'pohunek'), { recursive: true, mode: 0o700 })
    writeFileSync(join(root, 'pohunek/daemon.lock'), `${process.pid}\n{"runtime":"/elsewhere"}\n`, { mode: 0o600 })
  }
  expect(await it.cli(['daemon', 'stop'])).toMatchObject({ code: 0, stdout: 'no daemon is running\n' })
  expect((await it.cli(['session', 'list', '-q'], { env: START })).code).toBe(0)
  expect((await it.cli(['daemon', 'stop'])).code).toBe(0)
  await until('it is gone', () => it.running('daemon').length === 0)
})

test('doctor looks at the runtime directory once, its own look and the daemon’s are one row', async () => {
  const it = await world()
  const { stdout } = await it.cli(['doctor'])
  expect(stdout.match(/^runtime_dir\S* /gm)).toHaveLength(1)
  expect(stdout).toMatch(/^socket_dir_writable +ok/m)
})
