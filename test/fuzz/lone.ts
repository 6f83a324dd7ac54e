/** A worker without a daemon: the fuzzer is its controller. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { spawn, type ChildProcess } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { workerArguments } from '../../protocol/worker/arguments.ts'
import { CAPABILITIES } from '../../protocol/worker/messages.ts'
import { CHILD } from '../harness/roots.ts'
import { until, within } from '../harness/wait.ts'
import { TestWorker, WORKER_PROGRAM } from '../worker/harness.ts'

const SESSION = 's-01ARZ3NDEKTSV4RRFFQ69G5FAV'

/** Runs with the scripted echo in it and without a controller. `directory` is the roots' own, so that it is swept with them. */
export async function startLone(directory: string): Promise<TestWorker> {
  const root = join(directory, 'lone')
  mkdirSync(root, { recursive: true, mode: 0o700 })
  const socket = join(root, 'run/control.sock')
  const args = workerArguments({
    'session-id': SESSION,
    'worker-generation': '1',
    'daemon-socket-path': join(root, 'daemon.sock'),
    'control-socket-path': socket,
    'state-root': join(root, 'state'),
    'ready-fd': '3',
  })
  const child = spawn(process.execPath, [WORKER_PROGRAM, ...args], {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
    detached: true,
    env: {},
  })
  const worker = new TestWorker(root, child, socket, SESSION)
  await within('the lone worker is ready', readiness(child))
  await worker.lease()
  await worker.initialize([process.execPath, CHILD, 'echo'])
  await worker.shows('ready')
  worker.control.close()
  return worker
}

function readiness(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    child.stdio[3]?.once('data', () => resolve())
    child.once('exit', (code) => reject(new Error(`the lone worker ended with ${code}`)))
  })
}

/** A connection whose bytes are the caller's, half-open like those of any client. */
export async function dial(path: string): Promise<Socket> {
  const socket = connect({ path, allowHalfOpen: true })
  await within('a connection is accepted', once(socket, 'connect'))
  return socket
}

/** A connection that is the lone worker's controller, and what its requests have to name. */
export async function lease(
  { socketPath, scope }: TestWorker,
  deadlineMs: number,
): Promise<{ socket: Socket; scope: Record<string, string> }> {
  return await until(
    'the lone worker takes the fuzzer as its controller',
    async () => {
      const socket = await dial(socketPath)
      try {
        const daemon_instance_id = 'd-fuzz'
        const negotiated = await ask(socket, {
          type: 'negotiate',
          daemon_instance_id,
          minimum_version: 6,
          maximum_version: 7,
        })
        const { lease_id } = await ask(socket, {
          type: 'acquire_controller',
          daemon_instance_id,
          challenge: negotiated['challenge'],
          requested_capabilities: [...CAPABILITIES],
        })
        if (typeof lease_id === 'string') return { socket, scope: { ...scope, lease_id } }
      } catch (failure) {
        socket.destroy()
        throw failure
      }
      socket.destroy()
      return undefined
    },
    { deadlineMs, pollMs: 2 },
  )
}

/** One request to a worker before anything else is said on the connection; rejects when it is not answered in time. */
export async function ask(socket: Socket, request: object): Promise<Record<string, unknown>> {
  socket.write(`${JSON.stringify({ request_id: 'f-open', ...request })}\n`)
  const ended = once(socket, 'end').then(() => {
    throw new Error('the worker closed the connection')
  })
  for (let text = ''; ;) {
    const [chunk] = (await within('a worker answers', Promise.race([once(socket, 'data'), ended]))) as [Buffer]
    text += chunk.toString()
    // Events for the controller may come before the answer.
    for (const line of text.split('\n').slice(0, -1)) {
      const answer = JSON.parse(line) as Record<string, unknown>
      if (answer['request_id'] === 'f-open') return answer
    }
  }
}

/** Takes the lease as a new controller and looks; throws when that is not possible in time. */
export async function look(worker: TestWorker, deadlineMs: number): Promise<void> {
  const { socket, scope } = await lease(worker, deadlineMs)
  try {
    const { snapshot } = await ask(socket, { type: 'inspect', lease_id: scope['lease_id'] })
    const phase = (snapshot as { phase?: unknown } | undefined)?.phase
    if (phase !== 'running') throw new Error(`the lone worker's program is ${String(phase)}`)
  } finally {
    socket.destroy()
  }
}
