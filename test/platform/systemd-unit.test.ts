/** The pure part of supervision by systemd: names, definitions, the choice. */
import { describe, expect, test } from 'vitest'
import { mayBeService } from '../../platform/linux/chosen-supervisor.ts'
import { daemonUnitFile, serviceEnvironment } from '../../platform/linux/daemon-unit.ts'
import { busSocket } from '../../platform/linux/systemd-answers.ts'
import {
  canOpenFiles,
  escapeArgument,
  judgeUnit,
  managerVersion,
  namespaceOf,
  parseWorkerUnit,
  startFailure,
  transientUnit,
  workerUnit,
  type UnitFacts,
} from '../../platform/linux/systemd-unit.ts'

const job = { sessionId: 's-01J0000000000000000000000A', generation: 3 }

describe('names', () => {
  test('a unit name leads back to its job, also with dashes and digits in the session id', () => {
    for (const sessionId of [job.sessionId, 'a-1-2', 'x:y.z_1', '7']) {
      const name = workerUnit('abc', { sessionId, generation: 12 })
      expect(name).toBe(`pohunek-abc-worker-${sessionId}-12.service`)
      expect(parseWorkerUnit('abc', name)).toEqual({ sessionId, generation: 12 })
    }
  })
  test('other units are none of ours', () => {
    for (const name of [
      'pohunek-abc-daemon.service',
      'pohunek-abd-worker-s-1-1.service',
      'pohunek-abc-worker-s-0.service',
      'pohunek-abc-worker--1.service',
      'pohunek-abc-worker-s-1.timer',
    ])
      expect(parseWorkerUnit('abc', name)).toBeUndefined()
  })
  test('what cannot be a name is refused', () => {
    for (const bad of [
      { sessionId: '../x', generation: 1 },
      { sessionId: 's', generation: 0 },
      { sessionId: '', generation: 1 },
    ])
      expect(() => workerUnit('abc', bad)).toThrow('no unit name')
  })
  test('the namespace depends on user, state and runtime root, and on nothing else', () => {
    const roots = { uid: 1000, state: '/s', runtime: '/r' }
    expect(namespaceOf(roots)).toMatch(/^[0-9a-f]{16}$/)
    const others = [{ uid: 1 }, { state: '/s2' }, { runtime: '/r2' }, { state: '/s\0', runtime: 'r' }]
    expect(new Set([roots, ...others.map((it) => ({ ...roots, ...it }))].map(namespaceOf)).size).toBe(5)
  })
})

test('the version of a manager', () => {
  expect(['252.39-1~deb12u1', 'v256.7', '257~rc1', '254 (254.26-1)', 'systemd'].map(managerVersion)).toEqual([
    252,
    256,
    257,
    254,
    undefined,
  ])
  expect(['252.38', '253', '260', ''].map(canOpenFiles)).toEqual([false, true, true, false])
})

describe('the definition of a worker', () => {
  const spec = { ...job, executable: '/usr/bin/node', args: ['$x', 'a'], env: { PATH: '/bin', ONE: '1' } }
  const base = {
    managerEnvironment: ['PATH=/usr/bin', 'SECRET=a=b', 'HOME=/root'],
    slice: 'x.slice',
    readyMs: 1500,
    exitMs: 30_000,
  }
  const value = (properties: ReturnType<typeof transientUnit>, name: string): unknown =>
    properties.find((it) => it[0] === name)?.[2]

  test('its environment is its own: what the manager would add is taken away', () => {
    const properties = transientUnit(spec, { ...base, ready: { descriptor: '/run/notify' } })
    expect(value(properties, 'Environment')).toEqual(['PATH=/bin', 'ONE=1'])
    const unset = value(properties, 'UnsetEnvironment') as string[]
    expect(unset).toEqual(
      expect.arrayContaining(['SECRET', 'HOME', 'NOTIFY_SOCKET', 'INVOCATION_ID', 'SYSTEMD_EXEC_PID']),
    )
    expect(unset).not.toContain('PATH')
    expect(value(properties, 'OpenFile')).toEqual([['/run/notify', 'ready', 0n]])
  })
  test('an older manager is told through its own variable', () => {
    const properties = transientUnit(spec, { ...base, ready: 'environment' })
    expect(value(properties, 'UnsetEnvironment')).not.toContain('NOTIFY_SOCKET')
    expect(value(properties, 'OpenFile')).toBeUndefined()
  })
  test('dollars are escaped, times are microseconds', () => {
    const properties = transientUnit(spec, { ...base, ready: 'environment' })
    expect(value(properties, 'ExecStart')).toEqual([['/usr/bin/node', ['/usr/bin/node', '$$x', 'a'], false]])
    expect(value(properties, 'TimeoutStartUSec')).toBe(1_500_000n)
    expect(escapeArgument('$$')).toBe('$$$$')
  })
})

describe('the judgement of a unit', () => {
  const argv = ['/bin/w', '--session-id', job.sessionId, '--worker-generation', '3', '$$x']
  const unit: UnitFacts = { loadState: 'loaded', activeState: 'active', commands: [{ path: '/bin/w', argv }] }
  const process = { pid: 7, startIdentity: '42' }
  const shown = ['node', ...argv.slice(0, -1), '$x']
  const facts = (argv: string[] | undefined, isRunning = true) => ({ argv: () => argv, isRunning: () => isRunning })

  test.each<[string, UnitFacts, typeof process | undefined, ReturnType<typeof facts>, string]>([
    ['its process runs the definition', unit, process, facts(shown), 'running'],
    ['a starting one runs too', { ...unit, activeState: 'activating' }, process, facts(shown), 'running'],
    ['no main process', unit, undefined, facts(shown), 'ended'],
    ['failed', { ...unit, activeState: 'failed' }, undefined, facts(undefined), 'ended'],
    ['its process is a zombie', unit, process, facts(undefined, false), 'ended'],
    ['unreadable arguments', unit, process, facts(undefined), 'mismatch'],
    ['other arguments', unit, process, facts(['node', ...argv.slice(0, -1), 'y']), 'mismatch'],
    ['fewer arguments', unit, process, facts(argv.slice(2)), 'mismatch'],
    [
      'a failed unit of somebody else',
      { ...unit, activeState: 'failed', commands: [{ path: '/bin/x', argv: ['x'] }] },
      undefined,
      facts(undefined),
      'mismatch',
    ],
    ['two commands', { ...unit, commands: [...unit.commands, ...unit.commands] }, process, facts(shown), 'mismatch'],
    ['no command', { ...unit, commands: [] }, process, facts(shown), 'mismatch'],
    ['not loaded', { ...unit, loadState: 'not-found', commands: [] }, undefined, facts(undefined), 'absent'],
  ])('%s', (_, given, main, about, state) => {
    expect(judgeUnit(job, given, main, about).state).toBe(state)
  })
  test('another session or generation in the definition is a mismatch', () => {
    for (const other of [
      { ...job, generation: 4 },
      { ...job, sessionId: 's-other' },
    ])
      expect(judgeUnit(other, unit, process, facts(shown)).state).toBe('mismatch')
  })
  test('how a start failed', () => {
    expect(startFailure({ result: 'exit-code', code: 1, status: 7 })).toEqual({ how: 'exit code 7' })
    expect(startFailure({ result: 'signal', code: 2, status: 9 })).toEqual({ how: 'signal SIGKILL' })
    expect(startFailure({ result: 'core-dump', code: 3, status: 11 })).toEqual({ how: 'signal SIGSEGV' })
    expect(startFailure({ result: 'exit-code', code: 1, status: 203 })).toBe('exec')
    expect(startFailure({ result: 'timeout', code: 2, status: 15 })).toBe('timeout')
    expect(startFailure({ result: 'resources', code: 0, status: 0 })).toEqual({
      how: 'the service manager says resources',
    })
  })
})

test('where the bus is', () => {
  expect(busSocket({ XDG_RUNTIME_DIR: '/run/user/5' })).toBe('/run/user/5/bus')
  expect(busSocket({ XDG_RUNTIME_DIR: '/run/user/5', DBUS_SESSION_BUS_ADDRESS: 'unix:path=/tmp/b%20s,guid=12' })).toBe(
    '/tmp/b s',
  )
  expect(busSocket({ DBUS_SESSION_BUS_ADDRESS: 'tcp:host=x;unix:guid=1,abstract=/tmp/a' })).toBe('\0/tmp/a')
  expect(busSocket({ DBUS_SESSION_BUS_ADDRESS: 'unix:path=%zz' })).toBeUndefined()
  expect(busSocket({ DBUS_SESSION_BUS_ADDRESS: '' })).toBeUndefined()
})

test('a daemon started from a shell inside a unit is not that unit', () => {
  expect(mayBeService({}, 7)).toBe(false)
  expect(mayBeService({ INVOCATION_ID: 'x', SYSTEMD_EXEC_PID: '7' }, 7)).toBe(true)
  expect(mayBeService({ INVOCATION_ID: 'x', SYSTEMD_EXEC_PID: '6' }, 7)).toBe(false)
  expect(mayBeService({ INVOCATION_ID: 'x' }, 7)).toBe(true) // before systemd 248 only the manager knows
})

describe('the unit file of the daemon', () => {
  test('paths are quoted and nothing in them is expanded', () => {
    const text = daemonUnitFile({ executable: '/a b/%h/po"hunekd', environment: { HOME: '/h\\x', P: '$Q' } })
    expect(text).toContain('ExecStart="/a b/%%h/po\\"hunekd"\n')
    expect(text).toContain('Environment="HOME=/h\\\\x"\nEnvironment="P=$Q"\n')
    for (const line of ['Type=notify', 'Restart=on-failure', 'KillMode=control-group', 'WantedBy=default.target'])
      expect(text.split('\n')).toContain(line)
  })
  test('a line break cannot smuggle in a setting', () => {
    expect(() => daemonUnitFile({ executable: '/a\nExecStop=/x', environment: {} })).toThrow('control character')
  })
  test('the service has the roots of whoever installs it', () => {
    const roots = {
      runtime: '/r/pohunek',
      runtimeIsFallback: false,
      config: '/c/pohunek',
      data: '/d/pohunek',
      state: '/s/pohunek',
      cache: '/k/pohunek',
      home: '/h',
      daemonSocket: '/r/pohunek/daemon.sock',
    }
    const facts = {
      roots,
      bus: '/r/bus',
      nodeDirectory: '/n/bin',
      findsNode: true,
      managerEnvironment: { PATH: '/usr/bin' },
    }
    expect(serviceEnvironment(facts)).toEqual({
      HOME: '/h',
      XDG_RUNTIME_DIR: '/r',
      XDG_CONFIG_HOME: '/c',
      XDG_DATA_HOME: '/d',
      XDG_STATE_HOME: '/s',
      XDG_CACHE_HOME: '/k',
      DBUS_SESSION_BUS_ADDRESS: 'unix:path=/r/bus',
    })
    const far = {
      ...facts,
      findsNode: false,
      managerEnvironment: { PATH: '/usr/bin', DBUS_SESSION_BUS_ADDRESS: 'unix:path=/b' },
    }
    expect(serviceEnvironment(far)).toMatchObject({ PATH: '/n/bin:/usr/bin' })
    expect(serviceEnvironment(far)).not.toHaveProperty('DBUS_SESSION_BUS_ADDRESS')
  })
})
