/** A real worker process per test, driven over its real socket with the private protocol. */
import { spawn, type ChildProcess } from 'node:child_process'
import * as fs from 'node:fs'
import * as net from 'node:net'
import * as os from 'node:os'
import { join, resolve } from 'node:path'
import { onTestFinished } from 'vitest'
import { encodeFrameHead, FrameDecoder, type Frame, type FrameHeader } from '../../protocol/worker/frames.ts'
import {
  CAPABILITIES,
  type Initialize,
  type InspectSnapshot,
  type TerminalSnapshot,
  type WorkerError,
} from '../../protocol/worker/messages.ts'
import { until as waitUntil } from '../harness/wait.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const DEADLINE_MS = 20_000

/** The program as it is shipped; the run's global set-up built it. */
export const WORKER_PROGRAM = join(ROOT, 'dist/pohunek-sessiond.cjs')

/** Waits for a fact, longer than elsewhere: programs print megabytes here. */
export const until = <T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>,
  deadlineMs = DEADLINE_MS,
): Promise<Exclude<T, undefined | null | false>> => waitUntil<T | undefined | false>(what, look, { deadlineMs })

class WireError extends Error {
  readonly code: string
  constructor(error: WorkerError) {
    super(`${error.code}: ${error.message}`)
    this.code = error.code
  }
}

type Message = Record<string, unknown> & { type: string }

/** One control connection. */
export class ControlClient {
  readonly socket: net.Socket
  readonly events: Message[] = []
  readonly lines: Message[] = []
  readonly #waiting = new Map<string, { resolve: (message: Message) => void; reject: (failure: Error) => void }>()
  #next = 0
  #pending = ''
  closed = false

  private constructor(socket: net.Socket) {
    this.socket = socket
    socket.setEncoding('utf8')
    socket.on('data', (text: string) => {
      this.#pending += text
      for (let end = this.#pending.indexOf('\n'); end !== -1; end = this.#pending.indexOf('\n')) {
        const message = JSON.parse(this.#pending.slice(0, end)) as Message
        this.#pending = this.#pending.slice(end + 1)
        this.lines.push(message)
        if ('event_sequence' in message) this.events.push(message)
        const id = message['request_id'] as string
        const waiting = this.#waiting.get(id)
        this.#waiting.delete(id)
        if (message.type === 'error') waiting?.reject(new WireError(message['error'] as WorkerError))
        else waiting?.resolve(message)
      }
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      this.closed = true
      for (const { reject } of this.#waiting.values()) reject(new Error('the connection closed'))
      this.#waiting.clear()
    })
  }

  static connect(path: string): Promise<ControlClient> {
    return new Promise((resolve, reject) => {
      const socket = net.connect(path)
      socket.once('error', reject)
      socket.once('connect', () => resolve(new ControlClient(socket)))
    })
  }

  request<T = Message>(message: Record<string, unknown> & { type: string }): Promise<T> {
    const request_id = `q-${++this.#next}`
    return new Promise<Message>((resolve, reject) => {
      this.#waiting.set(request_id, { resolve, reject })
      this.socket.write(`${JSON.stringify({ request_id, ...message })}\n`)
    }) as Promise<T>
  }

  event(type: string, deadlineMs = DEADLINE_MS): Promise<Message> {
    return until(`event ${type}`, () => this.events.find((it) => it.type === type), deadlineMs)
  }

  close(): void {
    this.socket.destroy()
  }
}

export interface StartOptions {
  daemonId?: string
  version?: number
  env?: Record<string, string>
}

/** A started worker, the roots it lives in, and one leased controller. */
export class TestWorker {
  readonly root: string
  readonly process: ChildProcess
  readonly socketPath: string
  readonly sessionId: string
  control!: ControlClient
  leaseId = ''
  workerId = ''
  runtimeId = ''
  childPid = 0
  exitCode: number | null | undefined
  #streams = 0

  constructor(root: string, process: ChildProcess, socketPath: string, sessionId: string) {
    this.root = root
    this.process = process
    this.socketPath = socketPath
    this.sessionId = sessionId
    process.on('exit', (code) => (this.exitCode = code))
  }

  get scope(): Record<string, string> {
    return { lease_id: this.leaseId, session_id: this.sessionId, worker_id: this.workerId, runtime_id: this.runtimeId }
  }
  get state(): string {
    return join(this.root, 'state')
  }

  async lease(options: StartOptions = {}): Promise<void> {
    const daemon_instance_id = options.daemonId ?? 'd-test'
    this.control = await ControlClient.connect(this.socketPath)
    const negotiated = await this.control.request({
      type: 'negotiate',
      daemon_instance_id,
      minimum_version: 6,
      maximum_version: options.version ?? 7,
    })
    this.workerId = negotiated['worker_id'] as string
    if (typeof negotiated['runtime_id'] === 'string') this.runtimeId = negotiated['runtime_id']
    const acquired = await this.control.request({
      type: 'acquire_controller',
      daemon_instance_id,
      challenge: negotiated['challenge'],
      requested_capabilities: [...CAPABILITIES],
    })
    this.leaseId = acquired['lease_id'] as string
  }

  /** Initialize message for `argv`, run as it is. */
  spec(argv: readonly string[], overrides: Partial<Initialize> = {}): Initialize {
    const [executable = '/bin/sh', ...args] = argv
    return {
      session_id: this.sessionId,
      transaction_id: 't-1',
      expected_worker_id: this.workerId,
      launch: { agent: 'shell', agent_base: 'shell' },
      executable,
      arguments: args,
      cwd: this.root,
      dimensions: { columns: 80, rows: 24 },
      environment: {},
      base_environment: { PATH: process.env['PATH'] ?? '/usr/bin:/bin', HOME: this.root, LANG: 'C.UTF-8' },
      limits: {
        output_history_bytes: 10_000_000,
        subscriber_queue_bytes: 1_000_000,
        write_dedup_entries: 4_096,
        terminal_retention_ms: 600_000,
      },
      stop_policy: { grace_ms: 500 },
      hook_protocol_version: 1,
      public_protocol_version: 4,
      input_stall_ms: 10_000,
      ...overrides,
    }
  }

  async initialize(argv: readonly string[], overrides: Partial<Initialize> = {}): Promise<void> {
    const answer = await this.control.request({
      type: 'initialize',
      lease_id: this.leaseId,
      initialize: this.spec(argv, overrides),
    })
    this.runtimeId = answer['runtime_id'] as string
    this.childPid = (answer['child_process'] as { pid: number }).pid
  }

  async inspect(): Promise<InspectSnapshot> {
    return (await this.control.request({ type: 'inspect', lease_id: this.leaseId }))['snapshot'] as InspectSnapshot
  }

  async snapshot(): Promise<TerminalSnapshot> {
    return (await this.control.request({ type: 'terminal_snapshot', scope: this.scope }))[
      'snapshot'
    ] as TerminalSnapshot
  }

  /** Waits until the screen satisfies `look`; the failure prints the screen. */
  async screen(
    what: string,
    look: (screen: TerminalSnapshot) => boolean,
    deadlineMs = DEADLINE_MS,
  ): Promise<TerminalSnapshot> {
    let last: TerminalSnapshot | undefined
    try {
      return await until(
        what,
        async () => {
          last = await this.snapshot()
          return look(last) && last
        },
        deadlineMs,
      )
    } catch (failure) {
      throw new Error(`${(failure as Error).message}\n--- screen\n${last?.visible_lines.join('\n').trimEnd()}\n---`)
    }
  }

  shows(text: string, deadlineMs = DEADLINE_MS): Promise<TerminalSnapshot> {
    return this.screen(`screen shows ${text}`, (it) => it.visible_lines.join('\n').includes(text), deadlineMs)
  }

  async type(text: string, options: { writeId?: string; delayMs?: number } = {}): Promise<number> {
    const plan = {
      write_id: options.writeId ?? `w-${++this.#streams}`,
      fragments: [{ bytes: Buffer.from(text).toString('base64'), delay_after_ms: options.delayMs ?? 0 }],
    }
    const answer = await this.control.request({ type: 'write_plan', scope: this.scope, plan })
    return (answer['acknowledgement'] as { bytes_written: number }).bytes_written
  }

  async resize(
    columns: number,
    rows: number,
    extra: Record<string, unknown> = {},
  ): Promise<{ columns: number; rows: number }> {
    const answer = await this.control.request({
      type: 'resize',
      scope: this.scope,
      resize: { source_id: 'test', sequence: ++this.#streams, dimensions: { columns, rows }, ...extra },
    })
    return answer['dimensions'] as { columns: number; rows: number }
  }

  stop(): Promise<Message> {
    return this.control.request({
      type: 'stop',
      scope: this.scope,
      stop: { transaction_id: `stop-${++this.#streams}` },
    })
  }

  exited(): Promise<Message> {
    return this.control.event('child_exited')
  }

  async token(
    mode: 'attach' | 'detector',
    attach?: { dimensions?: { columns: number; rows: number }; history_rows?: number },
    after = 0,
  ): Promise<{ token: string; streamId: string }> {
    const streamId = `s-${++this.#streams}`
    const answer = await this.control.request({
      type: 'open_data_stream',
      scope: this.scope,
      stream_id: streamId,
      mode,
      after_offset: after,
      ...(attach && { attach }),
    })
    return { token: answer['token'] as string, streamId }
  }

  async attach(
    columns?: number,
    rows?: number,
    options: { history_rows?: number; answers?: (bytes: Buffer) => string } = {},
  ): Promise<RawClient> {
    const dimensions = columns === undefined || rows === undefined ? undefined : { columns, rows }
    const { token, streamId } = await this.token('attach', {
      ...(dimensions && { dimensions }),
      ...(options.history_rows !== undefined && { history_rows: options.history_rows }),
    })
    return RawClient.open(this.socketPath, token, streamId, options.answers)
  }

  async frames(mode: 'attach' | 'detector', after = 0): Promise<FrameClient> {
    const { token, streamId } = await this.token(mode, undefined, after)
    return FrameClient.open(this.socketPath, {
      version: 7,
      stream_id: streamId,
      runtime_id: this.runtimeId,
      kind: 'open',
      token,
      mode,
      after_offset: after,
    })
  }

  /** One bounded read of the history. */
  async read(
    after: number,
    maxBytes = 1_000_000,
    waitMs = 0,
  ): Promise<{ start: Extract<FrameHeader, { kind: 'observation_start' }>; bytes: Buffer; frames: Frame[] }> {
    const stream_id = `r-${++this.#streams}`
    const answer = await this.control.request({
      type: 'read_output',
      scope: this.scope,
      stream_id,
      after_offset: after,
      max_bytes: maxBytes,
      wait_ms: waitMs,
    })
    const client = await FrameClient.open(this.socketPath, {
      version: 7,
      stream_id,
      runtime_id: this.runtimeId,
      kind: 'open',
      token: answer['token'] as string,
      mode: 'observation',
      after_offset: after,
    })
    await until('the read is complete', () =>
      client.frames.find((it) => it.header.kind === 'close' || it.header.kind === 'error'),
    )
    const start = client.frames.find((it) => it.header.kind === 'observation_start')?.header
    if (start?.kind !== 'observation_start') throw new Error(JSON.stringify(client.frames[0]?.header))
    return {
      start,
      bytes: Buffer.concat(client.frames.filter((it) => it.header.kind === 'replay').map((it) => it.payload)),
      frames: client.frames,
    }
  }

  /** All kept output, once the session has ended. */
  async everything(): Promise<Buffer> {
    return (await this.read(0, 20_000_000)).bytes
  }

  journal(): Record<string, unknown> {
    return JSON.parse(
      fs.readFileSync(join(this.state, 'workers', this.sessionId, `${this.workerId}.json`), 'utf8'),
    ) as Record<string, unknown>
  }

  async gone(): Promise<void> {
    await until('the worker process ends', () => this.exitCode !== undefined)
  }
}

/** Starts a worker and leases it; it and what it started end with the test. */
export async function startWorker(options: StartOptions = {}): Promise<TestWorker> {
  const worker = await startBareWorker(options)
  await worker.lease(options)
  return worker
}

export async function startBareWorker(options: StartOptions & { argv?: string[] } = {}): Promise<TestWorker> {
  const root = fs.mkdtempSync(join(os.tmpdir(), 'pohunek-worker-'))
  const sessionId = 's-01ARZ3NDEKTSV4RRFFQ69G5FAV'
  const socketPath = join(root, 'run', 'workers', sessionId, 'control.sock')
  const args = [
    '--session-id',
    sessionId,
    '--worker-generation',
    '1',
    '--daemon-socket-path',
    join(root, 'daemon.sock'),
    '--control-socket-path',
    socketPath,
    '--state-root',
    join(root, 'state'),
    '--ready-fd',
    '3',
  ]
  const child = spawn(process.execPath, [WORKER_PROGRAM, ...(options.argv ?? args)], {
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    detached: true,
    env: { SECRET_OF_WORKER: 'x', ...options.env },
  })
  const worker = new TestWorker(root, child, socketPath, sessionId)
  let stderr = ''
  child.stderr?.on('data', (bytes: Buffer) => (stderr += bytes.toString()))
  onTestFinished(async () => {
    worker.control?.close()
    const marker = worker.runtimeId
    if (worker.exitCode === undefined) child.kill('SIGKILL')
    await worker.gone()
    killMarked(marker)
    fs.rmSync(root, { recursive: true, force: true })
  })
  await new Promise<void>((resolve, reject) => {
    child.stdio[3]?.on('data', (bytes: Buffer) => bytes.toString() === 'READY=1\n' && resolve())
    child.on('exit', (code) => reject(new Error(`the worker ended with ${code}: ${stderr}`)))
  })
  return worker
}

/** Pids whose environment carries the runtime's marker. */
export function marked(runtimeId: string): number[] {
  if (runtimeId === '') return []
  return fs
    .readdirSync('/proc')
    .filter((it) => /^\d+$/.test(it))
    .map(Number)
    .filter((pid) => {
      try {
        return (
          fs.readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`POHUNEK_WORKER_INSTANCE_ID=${runtimeId}`) &&
          !/^State:\s+Z/m.test(fs.readFileSync(`/proc/${pid}/status`, 'latin1'))
        )
      } catch {
        return false
      }
    })
}

function killMarked(runtimeId: string): void {
  for (const pid of marked(runtimeId)) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // it ended by itself
    }
  }
}

/** A raw attached client. `answers`: what its terminal replies to each chunk. */
export class RawClient {
  readonly socket: net.Socket
  readonly streamId: string
  readonly chunks: Buffer[] = []
  closed = false
  #bytes = 0

  private constructor(socket: net.Socket, streamId: string, answers?: (bytes: Buffer) => string) {
    this.socket = socket
    this.streamId = streamId
    socket.on('data', (bytes: Buffer) => {
      this.chunks.push(bytes)
      this.#bytes += bytes.length
      const answer = answers?.(bytes)
      if (answer) socket.write(answer, 'latin1')
    })
    socket.on('error', () => {})
    socket.on('close', () => (this.closed = true))
    onTestFinished(() => void socket.destroy())
  }

  static open(path: string, token: string, streamId: string, answers?: (bytes: Buffer) => string): Promise<RawClient> {
    return new Promise((resolve, reject) => {
      const socket = net.connect(path)
      socket.once('error', reject)
      socket.once('connect', () => {
        const client = new RawClient(socket, streamId, answers)
        socket.write(`${JSON.stringify({ attach: token })}\n`)
        resolve(client)
      })
    })
  }

  get bytes(): Buffer {
    return Buffer.concat(this.chunks)
  }
  get text(): string {
    return this.bytes.toString('utf8')
  }
  get received(): number {
    return this.#bytes
  }
  type(text: string): void {
    this.socket.write(text, 'latin1')
  }
  sees(text: string): Promise<true> {
    return until(`the client sees ${JSON.stringify(text)} in ${JSON.stringify(this.text.slice(-300))}`, () =>
      this.text.includes(text),
    )
  }
  async detach(): Promise<void> {
    this.socket.destroy()
    await until('the client is closed', () => this.closed)
  }
}

/** A framed data connection. */
export class FrameClient {
  readonly socket: net.Socket
  readonly frames: Frame[] = []
  readonly #header: FrameHeader
  closed = false

  private constructor(socket: net.Socket, header: FrameHeader) {
    this.socket = socket
    this.#header = header
    const decoder = new FrameDecoder()
    socket.on('data', (bytes: Buffer) =>
      this.frames.push(
        ...decoder.push(bytes).map((it) => ({ header: it.header, payload: Uint8Array.from(it.payload) })),
      ),
    )
    socket.on('error', () => {})
    socket.on('close', () => (this.closed = true))
    onTestFinished(() => void socket.destroy())
  }

  static open(path: string, header: FrameHeader): Promise<FrameClient> {
    return new Promise((resolve, reject) => {
      const socket = net.connect(path)
      socket.once('error', reject)
      socket.once('connect', () => {
        const client = new FrameClient(socket, header)
        socket.write(encodeFrameHead(header, 0))
        resolve(client)
      })
    })
  }

  send(header: Record<string, unknown>, payload: Uint8Array = new Uint8Array(0)): void {
    const { version, stream_id, runtime_id } = this.#header
    this.socket.write(encodeFrameHead({ version, stream_id, runtime_id, ...header } as FrameHeader, payload.length))
    this.socket.write(payload)
  }

  get output(): Buffer {
    return Buffer.concat(
      this.frames.filter((it) => it.header.kind === 'output' || it.header.kind === 'replay').map((it) => it.payload),
    )
  }
  frame(kind: FrameHeader['kind']): Promise<Frame> {
    return until(`a ${kind} frame`, () => this.frames.find((it) => it.header.kind === kind))
  }
}

/** The test's own command line for a program of a session. */
export const sh = (script: string): string[] => ['/bin/sh', '-c', script]
export const bash = (script: string): string[] => ['/bin/bash', '-c', script]
