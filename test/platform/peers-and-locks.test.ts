import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readFileSync, renameSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { lockFaults, lockRoots } from '../../kernel/locks.ts'
import { lockFile, peerOf } from '../../platform/index.ts'
import { temporary } from './fixtures/temporary.ts'

const descriptorOf = (socket: net.Socket): number => (socket as unknown as { _handle: { fd: number } })._handle.fd

test('the kernel names the process at the other end', async () => {
  const path = join(temporary(), 's')
  const server = net.createServer().listen(path)
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const client = spawn(process.execPath, ['-e', `require('net').connect(${JSON.stringify(path)})`], { stdio: 'ignore' })
  onTestFinished(() => void client.kill('SIGKILL'))
  const [socket] = (await once(server, 'connection')) as [net.Socket]
  onTestFinished(() => void socket.destroy())
  expect(peerOf(descriptorOf(socket))).toEqual({ pid: client.pid, uid: process.getuid?.(), gid: process.getgid?.() })
})

test('what is no connected local socket has no peer', async () => {
  const server = net.createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const client = net.connect((server.address() as net.AddressInfo).port, '127.0.0.1')
  onTestFinished(() => void client.destroy())
  await once(client, 'connect')
  expect(peerOf(descriptorOf(client))).toBeUndefined()
  expect(peerOf(9_999)).toBeUndefined()
})

test('a lock is exclusive, private, and free once it is disposed', async () => {
  const path = join(temporary(), 'lock')
  const lock = await lockFile(path)
  if (lock === 'held') throw new Error('a fresh lock is held')
  expect(statSync(path).mode & 0o777).toBe(0o600)
  expect(await lockFile(path)).toBe('held')
  lock[Symbol.dispose]()
  lock[Symbol.dispose]()
  const again = await lockFile(path)
  expect(again).not.toBe('held')
  if (again !== 'held') again[Symbol.dispose]()
})

test('a lock that was taken on a replaced file does not guard the new one', async () => {
  const path = join(temporary(), 'lock')
  using first = (await lockFile(path)) as Disposable
  expect(first).toBeDefined()
  renameSync(path, `${path}.old`)
  using second = (await lockFile(path)) as Disposable
  expect(second).not.toBe('held')
})

test('a lock ends with its process, however it ends, and is not inherited', async () => {
  const path = join(temporary(), 'lock')
  // flock(1) holds the lock while its command runs; -o keeps it from the command.
  const holder = spawn('flock', ['-o', path, 'sh', '-c', 'echo held; exec sleep 60'], { detached: true })
  onTestFinished(() => {
    try {
      process.kill(-(holder.pid as number), 'SIGKILL')
    } catch {
      // gone already
    }
  })
  await once(holder.stdout, 'data')
  expect(await lockFile(path)).toBe('held')
  const exited = once(holder, 'exit')
  holder.kill('SIGKILL')
  await exited
  const lock = await lockFile(path)
  if (lock === 'held') throw new Error('the lock outlived its process')
  const child = spawn('sleep', ['60'], { stdio: 'ignore' })
  onTestFinished(() => void child.kill('SIGKILL'))
  lock[Symbol.dispose]()
  const again = await lockFile(path)
  expect(again).not.toBe('held')
  if (again !== 'held') again[Symbol.dispose]()
})

test('a lock file that is a symlink, or that others may write, is refused', async () => {
  const directory = temporary()
  writeFileSync(join(directory, 'victim'), 'x')
  symlinkSync(join(directory, 'victim'), join(directory, 'lock'))
  await expect(lockFile(join(directory, 'lock'))).rejects.toMatchObject({ code: 'path_not_private' })
  writeFileSync(join(directory, 'loose'), '', { mode: 0o600 })
  chmodSync(join(directory, 'loose'), 0o666)
  await expect(lockFile(join(directory, 'loose'))).rejects.toMatchObject({
    code: 'path_not_private',
    recover: `chmod 0600 '${join(directory, 'loose')}'`,
  })
})

test('a second daemon on any of the three roots is refused with the holder, and keeps no lock', async () => {
  const base = temporary()
  const roots = (names: string[]) => {
    for (const name of names) mkdirSync(join(base, name), { recursive: true, mode: 0o700 })
    const [runtime, data, state] = names.map((name) => join(base, name)) as [string, string, string]
    return { runtime, data, state, config: join(base, 'c'), daemonSocket: join(runtime, 'daemon.sock') }
  }
  using _first = await lockRoots(roots(['r', 'd', 's']), lockFile)
  for (const names of [
    ['r', 'd2', 's2'],
    ['r2', 'd', 's2'],
    ['r2', 'd2', 's'],
  ]) {
    const failure = await lockRoots(roots(names), lockFile).catch((it: unknown) => it)
    expect(failure).toMatchObject({ code: lockFaults.daemon_already_running.code, class: 'daemon' })
    expect((failure as Error).message).toContain(`pid ${process.pid}`)
    // From another runtime root it is told where that daemon answers and how to get there.
    const elsewhere = names[0] !== 'r'
    expect((failure as Error).message.includes(join(base, 'r', 'daemon.sock'))).toBe(elsewhere)
    expect((failure as { recover?: string }).recover?.includes('XDG_RUNTIME_DIR')).toBe(elsewhere)
  }
  using _other = await lockRoots(roots(['r2', 'd2', 's2']), lockFile)
  expect(readFileSync(join(base, 'r2', 'daemon.lock'), 'utf8').split('\n')[0]).toBe(String(process.pid))
})
