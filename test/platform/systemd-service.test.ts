/** The daemon as a service and its workers as units, with the real programs under a real systemd user manager. */
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createServer } from 'node:net'
import { createHash } from 'node:crypto'
import { dirname, join } from 'node:path'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { carrying, look, programOf, runs, show } from '../harness/processes.ts'
import type { Session } from '../harness/session.ts'
import { startUserSystemd } from '../harness/user-systemd.ts'
import { until } from '../harness/wait.ts'
import { world, type World } from '../harness/world.ts'

const manager = await startUserSystemd()
afterAll(async () => {
  if (typeof manager !== 'string') await manager[Symbol.asyncDispose]()
})

const parsed = (stdout: string): Record<string, unknown> => (JSON.parse(stdout) as { ok: Record<string, unknown> }).ok

describe.skipIf(typeof manager === 'string')('service', () => {
  if (typeof manager === 'string') return
  const env = { DBUS_SESSION_BUS_ADDRESS: manager.bus }

  /** Private roots whose programs find the manager, and the namespace of their units. */
  async function roots(options: Parameters<typeof world>[0] = {}): Promise<{ w: World; ns: string }> {
    const w = await world({ daemon: false, ...options, env: { ...env, ...options.env } })
    const { state, runtime } = w.roots
    const key = [process.geteuid?.(), join(state, 'pohunek'), join(runtime, 'pohunek')].join('\0')
    return { w, ns: createHash('sha256').update(key).digest('hex').slice(0, 16) }
  }
  const units = (ns: string): string[] => manager.units(`pohunek-${ns}-*.service`)
  const daemonPid = (ns: string): number => Number(manager.show(`pohunek-${ns}-daemon.service`, 'MainPID'))
  /** Program and worker as the kernel names them. */
  const identityOf = (session: Session): unknown => {
    const { pid, startIdentity } = session.worker()
    return { worker: [pid, startIdentity], program: [session.pid, look(session.pid)?.startIdentity] }
  }

  async function serves(w: World): Promise<void> {
    await until('the daemon serves', async () => (await w.call('daemon.health')).status === 'ok')
  }

  test('install, restart, crash, stop, start, uninstall: every session keeps its program, nothing is left', async () => {
    const { w, ns } = await roots()
    const daemon = `pohunek-${ns}-daemon.service`
    const file = join(manager.home, '.config/systemd/user', daemon)
    onTestFinished(() => {
      if (existsSync(file)) manager.systemctl('disable', '--now', daemon)
    })
    expect(parsed((await w.cli(['service', 'status', '--json'], { env })).stdout)).toMatchObject({
      unit: daemon,
      installed: false,
      state: 'inactive',
    })

    // Before there is a service: an embedded daemon, whose sessions the service takes over.
    await w.start()
    const early = await w.child(['lines_in'], { name: 'early' })
    expect((await w.call('daemon.doctor')).report.checks).toContainEqual({
      name: 'supervisor',
      status: 'ok',
      detail: 'detached: workers outlive the daemon',
    })

    const installed = await w.cli(['service', 'install', '--json'], { env, deadlineMs: 40_000 })
    expect(installed.code, installed.stderr).toBe(0)
    expect(parsed(installed.stdout)).toMatchObject({
      unit: daemon,
      path: file,
      enabled: true,
      state: 'active',
      changed: true,
      replaced_pid: w.daemon.pid,
    })
    expect(await w.daemon.ended()).toEqual({ code: 0, signal: null })
    await serves(w)
    expect(manager.show(daemon, 'Type')).toBe('notify')
    expect(manager.show(daemon, 'Restart')).toBe('on-failure')
    const { report } = await w.call('daemon.doctor')
    expect(report.checks.find((it: { name: string }) => it.name === 'supervisor')).toMatchObject({
      status: 'ok',
      detail: expect.stringMatching(/^systemd \d+/) as string,
    })

    const session = await w.child(['lines_in'], { name: 'unit' })
    await session.untilScreen('ready')
    const worker = `pohunek-${ns}-worker-${session.id}-1.service`
    expect(manager.show(worker, 'MainPID')).toBe(String(session.worker().pid))
    expect(manager.show(worker, 'Slice')).toBe(`pohunek-${ns}-sessions.slice`)
    const before = [early, session].map(identityOf)

    const first = daemonPid(ns)
    manager.systemctl('restart', daemon)
    await serves(w)
    expect(daemonPid(ns)).not.toBe(first)
    expect([early, session].map(identityOf)).toEqual(before)

    const second = daemonPid(ns)
    process.kill(second, 'SIGKILL')
    await until('the manager starts another daemon', () => ![0, second].includes(daemonPid(ns)))
    await serves(w)
    await session.input('after the crash')
    await session.untilScreen('got:after the crash')

    manager.systemctl('stop', daemon)
    expect(carrying(w.roots.base).filter((it) => programOf(it) === 'daemon')).toEqual([])
    expect([early, session].map((it) => runs(it.pid))).toEqual([true, true])
    manager.systemctl('start', daemon) // returns once the daemon told that it is ready
    await serves(w)
    expect((await session.info()).runtime.state).toBe('live')
    expect([early, session].map(identityOf)).toEqual(before)

    const again = await w.cli(['service', 'install', '--json'], { env })
    expect(parsed(again.stdout)).toMatchObject({ changed: false, state: 'active', pid: daemonPid(ns) })
    const shown = await w.cli(['service', 'status', '--json'], { env })
    expect([shown.code, parsed(shown.stdout)]).toEqual([
      0,
      { unit: daemon, path: file, installed: true, enabled: true, state: 'active', pid: daemonPid(ns) },
    ])

    const removed = await w.cli(['service', 'uninstall', '--json'], { env })
    expect(parsed(removed.stdout)).toMatchObject({ unit: daemon, removed: true, stopped: true })
    expect(existsSync(file)).toBe(false)
    expect(existsSync(join(dirname(file), 'default.target.wants', daemon))).toBe(false)
    expect(units(ns)).not.toContain(daemon)
    expect([early, session].map((it) => runs(it.pid))).toEqual([true, true])

    // Without the service: the embedded daemon finds both, the one with a job file and the one with a unit.
    await w.start()
    expect([early, session].map(identityOf)).toEqual(before)
    for (const it of [early, session]) expect((await it.info()).runtime.state).toBe('live')
    await early.remove()
    await session.remove()
    expect(units(ns)).toEqual([])
    await w.daemon.stop()
    expect(show(carrying(w.roots.base))).toBe('')
    expect(w.files('state').filter((it) => /^pohunek\/(units|jobs)\/.+/.test(it))).toEqual([])
  }, 120_000)

  test('configured in a plain shell: units that survive a kill, are stopped, and end with their program', async () => {
    const { w, ns } = await roots({ daemon: true, config: '[supervisor]\nkind = "systemd"\n' })
    const session = await w.child(['lines_in'])
    await session.untilScreen('ready')
    const unit = `pohunek-${ns}-worker-${session.id}-1.service`
    expect(manager.show(unit, 'MainPID')).toBe(String(session.worker().pid))
    const before = identityOf(session)
    await w.crash()
    expect(identityOf(session)).toEqual(before)
    expect((await session.info()).runtime.state).toBe('live')

    process.kill(session.worker().pid, 'SIGKILL')
    await until('the loss is told', async () => (await session.info()).runtime.state === 'lost')
    expect(runs(session.pid)).toBe(false)

    const other = await w.child(['lines_in'])
    expect(await other.stop()).toBe(true)
    await other.remove()
    await session.remove()
    await until('only spares are left', () =>
      units(ns).every((it) => it.includes('-worker-') && !it.includes(session.id)),
    )
    await w.daemon.stop()
    await until('no unit is left', () => units(ns).length === 0, { show: () => units(ns) })
  }, 60_000)

  test('a manager that is away: sessions are kept as reconnecting, new ones are refused with the way out', async () => {
    const { w } = await roots({ daemon: true, config: '[supervisor]\nkind = "systemd"\n' })
    const session = await w.child(['lines_in'])
    await w.daemon.kill()
    const away = { DBUS_SESSION_BUS_ADDRESS: `unix:path=${join(w.roots.base, 'no-bus')}` }
    await w.start({ env: away })
    expect((await session.info()).runtime).toMatchObject({
      state: 'reconnecting',
      loss_reason: 'runtime_supervision_unavailable',
    })
    expect(runs(session.pid)).toBe(true)
    await expect(w.child(['lines_in'])).rejects.toMatchObject({
      code: 'worker_manager_unavailable',
    })
    const { report } = await w.call('daemon.doctor')
    expect(report.checks.find((it: { name: string }) => it.name === 'supervisor').status).toBe('fail')
    await w.daemon.stop()
    await w.start()
    expect((await session.info()).runtime.state).toBe('live')
  }, 60_000)

  test('a manager that hangs: the daemon starts within the deadline of one question, and doctor says what is wrong', async () => {
    const { w } = await roots({ daemon: true, config: '[supervisor]\nkind = "systemd"\n' })
    const sessions = await Promise.all(Array.from({ length: 17 }, () => w.child(['lines_in'])))
    await w.daemon.kill()
    const socket = join(w.roots.base, 'silent')
    const server = createServer(() => undefined).listen(socket)
    await once(server, 'listening')
    await w.start({ env: { DBUS_SESSION_BUS_ADDRESS: `unix:path=${socket}` } })
    for (const session of sessions) expect((await session.info()).runtime.state).toBe('reconnecting')
    const { code, stdout } = await w.cli(['doctor'])
    expect(code).toBe(1)
    expect(stdout).toMatch(/^supervisor +fail +systemd: /m)
    await w.daemon.stop()
    server.close()
    await w.start()
    for (const session of sessions) expect((await session.info()).runtime.state).toBe('live')
  }, 90_000)

  test('without a manager the commands say so and change nothing', async () => {
    const { w } = await roots()
    const lost = { DBUS_SESSION_BUS_ADDRESS: `unix:path=${join(w.roots.base, 'no-bus')}` }
    for (const what of ['install', 'status', 'uninstall']) {
      const { code, stdout } = await w.cli(['service', what, '--json'], { env: lost })
      expect([code, (JSON.parse(stdout) as { err: { code: string } }).err.code]).toEqual([
        1,
        'service_manager_environment_unavailable',
      ])
    }
    expect(w.files('state')).toEqual([])
  })

  test('a service that cannot start is taken back', async () => {
    const { w, ns } = await roots({ config: 'no = "such key"\n', end: 'kill' })
    const { code, stdout } = await w.cli(['service', 'install', '--json'], { env, deadlineMs: 40_000 })
    expect([code, (JSON.parse(stdout) as { err: { code: string } }).err.code]).toEqual([1, 'service_failed'])
    expect(existsSync(join(manager.home, `.config/systemd/user/pohunek-${ns}-daemon.service`))).toBe(false)
    expect(units(ns)).toEqual([])
    expect(carrying(w.roots.base)).toEqual([])
  })

  test('a service that is told to keep workers detached warns: they would end with it', async () => {
    const { w, ns } = await roots({ config: '[supervisor]\nkind = "detached"\n' })
    const installed = await w.cli(['service', 'install'], { env, deadlineMs: 40_000 })
    expect(installed.code, installed.stderr).toBe(0)
    await serves(w)
    const { report } = await w.call('daemon.doctor')
    expect(report.checks.find((it: { name: string }) => it.name === 'supervisor')).toMatchObject({
      status: 'warn',
      detail: expect.stringContaining('stopping the service ends every session') as string,
    })
    expect((await w.cli(['service', 'uninstall'], { env })).code).toBe(0)
    expect(units(ns)).toEqual([])
  })
})
