/** The socket file: modes, stale and live ones, take-overs, a wiped directory. */
import { existsSync, mkdirSync, rmSync, statSync, writeFileSync, renameSync } from 'node:fs'
import { createServer } from 'node:net'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { Scope, systemClock } from '../../kernel/index.ts'
import { listenLocal } from '../../kernel/server/listener.ts'
import { memoryLog, privateRoot, testKernel } from '../harness/kernel.ts'
import { rawClient } from '../harness/ndjson.ts'
import { until } from '../harness/wait.ts'
import { demo } from '../kernel/fixtures.ts'

async function daemon(root: string, prepare?: () => void) {
  const kernel = await testKernel([demo().bootable], [], { clock: systemClock, root })
  const socketPath = join(root, 'd.sock')
  return { ...(await kernel.serve({ socketPath, ...(prepare === undefined ? {} : { prepare }) })), kernel }
}
const refusal = async (work: Promise<unknown>): Promise<unknown> =>
  await work.then(
    () => 'no refusal',
    (failure: unknown) => failure,
  )

test('mode 0600, no staged name left behind, gone after the stop', async () => {
  const { path, server } = await daemon(privateRoot())
  expect(statSync(path).mode & 0o777).toBe(0o600)
  expect(statSync(path).isSocket()).toBe(true)
  await server[Symbol.asyncDispose]()
  expect(existsSync(path)).toBe(false)
})

test('a stale socket is replaced', async () => {
  const root = privateRoot()
  const path = join(root, 'd.sock')
  const script = `require('node:net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 'SIGKILL'))`
  const dead = spawn(process.execPath, ['-e', script], { stdio: 'ignore' })
  await until('it died', () => dead.signalCode === 'SIGKILL')
  expect(existsSync(path)).toBe(true)
  const { connect } = await daemon(root)
  expect((await (await connect()).ask('demo.nothing')).ok).toBeNull()
})

test('a live socket is never stolen', async () => {
  const root = privateRoot()
  const path = join(root, 'd.sock')
  const other = createServer((socket) => socket.on('error', () => undefined).end('mine\n'))
  await new Promise<void>((resolve) => other.listen(path, resolve))
  onTestFinished(() => void other.close())
  expect(await refusal(daemon(root))).toMatchObject({ class: 'daemon', code: 'daemon_already_running' })
  expect(await (await rawClient(path)).line()).toBe('mine')
})

test('a file that is no socket is left alone', async () => {
  const root = privateRoot()
  writeFileSync(join(root, 'd.sock'), 'precious')
  expect(await refusal(daemon(root))).toMatchObject({ code: 'socket_path_taken' })
  expect(statSync(join(root, 'd.sock')).size).toBe(8)
})

test('FC-55c2: a daemon that stops leaves the socket alone once another daemon owns the path', async () => {
  const root = privateRoot()
  const first = await daemon(root)
  renameSync(first.path, `${first.path}.old`) // a forced take-over: B does not see A's live socket
  const second = await daemon(root)
  await first.server[Symbol.asyncDispose]()
  expect((await (await second.connect()).ask('demo.nothing')).ok).toBeNull()
  await second.server[Symbol.asyncDispose]()
  expect(existsSync(second.path)).toBe(false)
})

test('FC-257a: a runtime directory wiped under the daemon gets its socket back', async () => {
  const root = join(privateRoot(), 'run')
  const prepare = (): void => void mkdirSync(root, { recursive: true, mode: 0o700 })
  prepare()
  const { path } = await daemon(root, prepare)
  rmSync(root, { recursive: true })
  await until('the socket is back', () => existsSync(path))
  expect((await (await rawClient(path)).ask('demo.nothing')).ok).toBeNull()
})

test('FC-5b46: a socket path over the limit is refused before anything is made, at the limit it works', async () => {
  const root = privateRoot()
  const log = memoryLog()
  const limit = process.platform === 'darwin' ? 103 : 107
  const at = (bytes: number): string => join(root, 'x'.repeat(bytes - root.length - 1))
  await using scope = new Scope('test', systemClock)
  const listen = (path: string) => listenLocal({ path, scope, log, accept: (socket) => socket.destroy() })
  const failure = (await refusal(listen(at(limit + 1)))) as Error
  expect(failure).toMatchObject({ code: 'socket_path_invalid' })
  expect(failure.message).toContain(`${limit + 1} bytes`)
  await listen(at(limit))
  expect(existsSync(at(limit))).toBe(true)
})

test('a connection whose kernel peer is another user is refused', async () => {
  const kernel = await testKernel([demo().bootable], [], { clock: systemClock })
  const served = await kernel.serve({ peerOf: () => ({ uid: (process.geteuid?.() ?? 0) + 1, gid: 0, pid: 1 }) })
  const raw = await served.connect()
  await raw.end()
  expect(raw.waiting).toEqual([])
  expect(kernel.log.some((entry) => entry.level === 'warn' && entry.message.includes('another user'))).toBe(true)
})

test('five stops and starts leave the same counts', async () => {
  const root = privateRoot()
  const kernel = await testKernel([demo().bootable], [], { clock: systemClock, root })
  const counts: number[] = []
  for (let round = 0; round < 5; round++) {
    const { server, connect } = await kernel.serve({ socketPath: join(root, 'd.sock') })
    const raw = await connect()
    await raw.ask('demo.echo', round)
    raw.socket.destroy()
    await until('it is gone', () => server.connections === 0)
    await server[Symbol.asyncDispose]()
    counts.push(kernel.running.scope.live.length)
  }
  expect(new Set(counts).size).toBe(1)
})
