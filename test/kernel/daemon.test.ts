/** The daemon as a function, on real roots: locks, order of start and stop, what a second one is told. */
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync, chmodSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { serve } from '../../main/daemon.ts'
import { readArguments } from '../../main/arguments.ts'
import type { Bootable } from '../../kernel/index.ts'
import system from '../../plugins/system/plugin.ts'
import { envBelow, privateRoot } from '../harness/kernel.ts'
import { rawClient } from '../harness/ndjson.ts'
import { until } from '../harness/wait.ts'
import { demo, part } from './fixtures.ts'

interface Served {
  readonly socket: string
  readonly ended: Promise<unknown>
  readonly stop: () => Promise<unknown>
}

/** Resolves when it serves; rejects with what kept it from starting. */
async function daemon(root: string, plugins: readonly Bootable[] = [system], env = envBelow(root)): Promise<Served> {
  for (const path of Object.values(env)) if (path.startsWith(root)) mkdirSync(path, { recursive: true, mode: 0o700 })
  const stop = new AbortController()
  onTestFinished(() => stop.abort())
  return await new Promise((resolve, reject) => {
    const ended: Promise<unknown> = serve({
      env,
      plugins,
      version: '0.0.0-test',
      stop: stop.signal,
      ready: ({ paths }) =>
        resolve({
          socket: paths.daemonSocket,
          ended,
          stop() {
            stop.abort()
            return ended
          },
        }),
    })
    ended.catch(reject)
  })
}
const refusal = async (work: Promise<unknown>): Promise<unknown> =>
  await work.then(
    () => 'no refusal',
    (failure: unknown) => failure,
  )

test('serves health, keeps its directories private, and stops without a trace of the socket', async () => {
  const root = privateRoot()
  const { socket, stop } = await daemon(root)
  expect(socket).toBe(join(root, 'run/pohunek/daemon.sock'))
  const raw = await rawClient(socket)
  expect(await raw.ask('daemon.health')).toEqual({
    v: 4,
    id: 't-daemon.health',
    ok: { status: 'ok', daemon_version: '0.0.0-test', protocol_version: 4 },
  })
  for (const path of ['run/pohunek', 'data/pohunek', 'state/pohunek', 'state/pohunek/logs']) {
    expect([path, statSync(join(root, path)).mode & 0o777]).toEqual([path, 0o700])
  }
  await stop()
  expect(existsSync(socket)).toBe(false)
  await raw.end()
  await (await daemon(root)).stop() // the locks are free again
})

test('health answers the version of its connection', async () => {
  const { socket } = await daemon(privateRoot())
  const raw = await rawClient(socket)
  expect(await raw.ask('daemon.health', null, { v: { minimum: 3, maximum: 3 } })).toMatchObject({
    v: 3,
    ok: { protocol_version: 3 },
  })
})

test.each([
  ['run', { XDG_RUNTIME_DIR: 'run' }],
  ['state', { XDG_STATE_HOME: 'state' }],
  ['data', { XDG_DATA_HOME: 'data' }],
])('FC-d87f: a second daemon that shares only the %s root is refused and names who holds it', async (name, shared) => {
  const root = privateRoot()
  await daemon(root)
  const other = privateRoot()
  const env = {
    ...envBelow(other),
    ...Object.fromEntries(Object.entries(shared).map(([key, at]) => [key, join(root, at)])),
  }
  const failure = (await refusal(daemon(other, [system], env))) as Error
  expect(failure).toMatchObject({ class: 'daemon', code: 'daemon_already_running' })
  expect(failure.message).toContain(`pid ${process.pid}`)
  expect(failure.message).toContain(join(root, name))
})

test('FC-d87f: of ten started at once over a stale socket exactly one serves, and it is reachable', async () => {
  const root = privateRoot()
  const first = await daemon(root)
  await first.stop()
  writeFileSync(join(root, 'run/pohunek/daemon.lock'), 'garbage')
  const outcomes = await Promise.allSettled(Array.from({ length: 10 }, () => daemon(root)))
  expect(outcomes.filter((it) => it.status === 'fulfilled')).toHaveLength(1)
  for (const it of outcomes)
    if (it.status === 'rejected') expect(it.reason).toMatchObject({ code: 'daemon_already_running' })
  const raw = await rawClient(first.socket)
  expect((await raw.ask('daemon.health')).ok).toMatchObject({ status: 'ok' })
})

test('equal roots are one root', async () => {
  const root = privateRoot()
  const { stop } = await daemon(root, [system], { ...envBelow(root), XDG_STATE_HOME: join(root, 'data') })
  await stop()
})

test('a directory others may enter is refused before anything listens', async () => {
  const root = privateRoot()
  mkdirSync(join(root, 'state/pohunek'), { recursive: true })
  chmodSync(join(root, 'state/pohunek'), 0o755)
  expect(await refusal(daemon(root))).toMatchObject({
    class: 'configuration',
    recover: expect.stringContaining('chmod 0700'),
  })
  expect(existsSync(join(root, 'run/pohunek/daemon.sock'))).toBe(false)
})

test('a plugin that fails to start gives the locks back and is named', async () => {
  const root = privateRoot()
  const broken = part('broken', { onSetup: () => Promise.reject(new Error('no luck')) })
  expect(await refusal(daemon(root, [system, broken]))).toMatchObject({
    code: 'plugin_failed',
    message: 'plugin broken failed in setup: no luck',
  })
  await (await daemon(root)).stop()
})

test('events reach the event log, also those published before the socket opens', async () => {
  const root = privateRoot()
  const early = demo()
  const reconciling = part('reconciling', {
    onSetup: (kernel) =>
      kernel.lifecycle.reconcile.tap('reconciling', () =>
        kernel.events.publish({ event: 'demo_event', payload: { n: 1 }, since: 3 }),
      ),
  })
  const { stop } = await daemon(root, [early.bootable, reconciling])
  await stop()
  const text = readFileSync(join(root, 'data/pohunek/events/events.jsonl'), 'utf8')
  expect(text).toContain('"demo_event"')
})

test('a stop while a client waits answers it', async () => {
  const it = demo()
  const { socket, stop } = await daemon(privateRoot(), [it.bootable])
  const raw = await rawClient(socket)
  raw.sendJson({ v: { minimum: 4, maximum: 4 }, id: 'w', method: 'demo.wait' })
  await until('it waits', () => it.started.length === 1)
  await stop()
  expect(await raw.json()).toMatchObject({ id: 'w', err: { code: 'daemon_shutting_down' } })
})

test('doctor reports and capabilities name exactly what is served', async () => {
  const { socket } = await daemon(privateRoot(), [system, demo().bootable])
  const raw = await rawClient(socket)
  const { report } = (await raw.ask('daemon.doctor')).ok as {
    report: { checks: { name: string; status: string }[]; overall: string }
  }
  const names = report.checks.map((check) => check.name)
  expect(names).toEqual(
    expect.arrayContaining([
      'bin:git',
      'node',
      'runtime_dir',
      'socket_dir_writable',
      'state_dir_writable',
      'log_dir_writable',
      'schema_version',
    ]),
  )
  expect(['ok', 'warn']).toContain(report.overall)
  expect(await raw.ask('daemon.doctor', {})).toMatchObject({ err: { code: 'bad_request' } })
  const served = (await raw.ask('daemon.capabilities')).ok as Record<string, { name: string }[]>
  expect(served.plugins?.map((plugin) => plugin.name)).toEqual(['system', 'demo'])
  const methods = served.methods?.map((method) => method.name) ?? []
  expect(methods).toEqual([...methods].sort())
  expect(methods).toEqual(expect.arrayContaining(['subscribe', 'daemon.health', 'demo.newer']))
  expect(served.streams).toEqual(['attach'])
})

test.each([
  [['--without', 'a,b', '--without', 'c'], { without: ['a', 'b', 'c'] }],
  [['--ready-fd', '3'], { readyFd: 3 }],
  [[], { without: [], readyFd: undefined, wants: 'serve' }],
  [['-h'], { wants: 'help' }],
  [['--version'], { wants: 'version' }],
])('arguments %j', (argv, expected) => expect(readArguments(argv)).toMatchObject(expected))
test.each([[['--nope']], [['word']], [['--ready-fd', 'x']], [['--ready-fd', '0']], [['--without']]])(
  'arguments %j are refused',
  (argv) => expect(() => readArguments(argv)).toThrow(),
)
