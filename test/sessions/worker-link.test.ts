/** A worker that says what no worker says. */
import { createServer } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../kernel/index.ts'
import { Scope } from '../../kernel/scope.ts'
import { WorkerLink, WorkerUnreachable } from '../../plugins/sessions/worker-link.ts'
import { privateRoot } from '../harness/kernel.ts'
import { until } from '../harness/wait.ts'

const negotiated = { type: 'negotiated', selected_version: 7, worker_id: 'w-1', challenge: 'c', capabilities: [] }

/** A socket that answers the handshake, then `answer` to every other request. */
async function worker(answer: object): Promise<string> {
  const path = join(privateRoot(), 'w.sock')
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.on('data', (bytes) => {
      const { type, request_id } = JSON.parse(bytes.toString()) as { type: string; request_id: string }
      const shake = { negotiate: negotiated, acquire_controller: { type: 'controller_acquired', lease_id: 'l' } }
      socket.write(`${JSON.stringify({ request_id, ...(shake[type as keyof typeof shake] ?? answer) })}\n`)
    })
  })
  await new Promise<void>((resolve) => server.listen(path, resolve))
  onTestFinished(() => void server.close())
  return path
}

async function open(socketPath: string): Promise<WorkerLink> {
  const scope = new Scope('test', systemClock)
  onTestFinished(() => scope.close())
  return await WorkerLink.open({ socketPath, daemonId: 'd-1', scope, requestMs: 5_000 })
}

test.each([
  { type: 'inspected' },
  { type: 'inspected', snapshot: { session_id: 's', worker_id: 'w', phase: 'running' } },
  { type: 'error' },
  { type: 'nonesuch' },
  { type: 7 },
])('the answer %j ends the connection', async (answer) => {
  const link = await open(await worker(answer))
  await expect(link.request('inspect', { lease_id: 'l' })).rejects.toBeInstanceOf(WorkerUnreachable)
  await until('it is closed', () => !link.alive)
})

test.each([
  { type: 'child_exited' },
  { type: 'runtime_fault' },
  { type: 'resized_by_client', dimensions: { columns: 0, rows: 'x' } },
  { type: 'cwd_reported', cwd: null },
])('the event %j ends the connection and is told to nobody', async (event) => {
  const link = await open(await worker({ ...event, event_sequence: 1 }))
  let told = 0
  let closed = false
  link.attend(
    () => told++,
    () => (closed = true),
  )
  await expect(link.request('inspect', { lease_id: 'l' })).rejects.toBeInstanceOf(WorkerUnreachable)
  await until('it is closed', () => closed)
  expect(told).toBe(0)
})

test('an event nobody knows is let pass', async () => {
  const link = await open(await worker({ type: 'of_tomorrow', event_sequence: 1 }))
  link.attend(
    () => undefined,
    () => undefined,
  )
  await expect(link.request('inspect', { lease_id: 'l' }, 200)).rejects.toMatchObject({ how: 'deadline' })
  expect(link.alive).toBe(true)
})
