/** One run of a real agent under a real worker, with all it writes taken down together with its time. */
import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import * as net from 'node:net'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { encodeFrameHead, FrameDecoder } from '../../protocol/worker/frames.ts'
import type { TerminalSnapshot } from '../../protocol/worker/messages.ts'
import type { Entry, Recording } from '../harness/recording.ts'
import { startWorker, type TestWorker } from '../worker/harness.ts'
import { PINNED, prepare, programOf, type AgentKey, type HomeOptions } from './agents.ts'
import { FakeModels } from './fake-models.ts'

export interface Size {
  columns: number
  rows: number
}
const USUAL: Size = { columns: 100, rows: 30 }
/** As long as the home that is put in its place, so that nothing on the screen moves. */
const NEUTRAL_HOME = '/home/user'
const randomHome = (): string =>
  `/tmp/${randomBytes(3)
    .toString('hex')
    .slice(0, NEUTRAL_HOME.length - '/tmp/'.length)}`

export class Recorder {
  readonly key: AgentKey
  readonly models: FakeModels
  readonly worker: TestWorker
  readonly #home: string
  readonly #size: Size
  readonly #begun: number
  readonly #parts: { at: number; bytes: Buffer }[] = []
  readonly #marks: { at: number; mark: string }[] = []

  private constructor(key: AgentKey, models: FakeModels, worker: TestWorker, home: string, size: Size) {
    this.key = key
    this.models = models
    this.worker = worker
    this.#home = home
    this.#size = size
    this.#begun = performance.now()
    const seen = new Set<object>()
    const ended = new Set<object>()
    models.onTurn(() => {
      for (const turn of models.turns) {
        if (!seen.has(turn)) this.mark('request')
        seen.add(turn)
        if (turn.endedAt !== undefined && !ended.has(turn)) {
          ended.add(turn)
          this.mark('response ended')
        }
      }
    })
  }

  static async start(
    key: AgentKey,
    options: Omit<HomeOptions, 'home' | 'cwd' | 'url'>,
    size = USUAL,
  ): Promise<Recorder> {
    const program = await programOf(key)
    const models = await FakeModels.start()
    onTestFinished(() => models.close())
    const home = randomHome()
    onTestFinished(() => rmSync(home, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 }))
    const cwd = join(home, 'project')
    const { name } = PINNED[key]
    const { args, env } = prepare(name, { home, cwd, url: models.url, ...options })
    const worker = await startWorker()
    const recorder = new Recorder(key, models, worker, home, size)
    await worker.initialize([program, ...args], {
      cwd,
      environment: env,
      base_environment: {
        PATH: process.env['PATH'] ?? '/usr/bin:/bin',
        TERM: 'xterm-256color',
        COLORTERM: 'truecolor',
        USER: 'user',
      },
      dimensions: size,
    })
    await recorder.#listen()
    return recorder
  }

  async #listen(): Promise<void> {
    const { token, streamId } = await this.worker.token('detector')
    const socket = net.connect(this.worker.socketPath)
    onTestFinished(() => void socket.destroy())
    const decoder = new FrameDecoder()
    socket.on('data', (bytes: Buffer) => {
      for (const { header, payload } of decoder.push(bytes)) {
        if (header.kind === 'output') this.#parts.push({ at: this.#now(), bytes: Buffer.from(payload) })
        if (header.kind === 'gap') throw new Error('a gap in the output')
      }
    })
    socket.on('error', () => {})
    const open = {
      version: 7,
      stream_id: streamId,
      runtime_id: this.worker.runtimeId,
      kind: 'open',
      token,
      mode: 'detector',
      after_offset: 0,
    } as const
    socket.write(encodeFrameHead(open, 0))
  }

  #now(): number {
    return Math.round((performance.now() - this.#begun) * 10) / 10
  }

  mark(mark: string): void {
    this.#marks.push({ at: this.#now(), mark })
  }

  /** Waits for a screen and marks the moment. */
  async sees(mark: string, pattern: RegExp, deadlineMs = 30_000): Promise<TerminalSnapshot> {
    const screen = await this.worker.screen(
      `${this.key}: ${mark}`,
      (it) => pattern.test(it.visible_lines.join('\n')),
      deadlineMs,
    )
    this.mark(mark)
    return screen
  }

  async shows(mark: string, look: (it: TerminalSnapshot) => boolean, deadlineMs = 30_000): Promise<void> {
    await this.worker.screen(`${this.key}: ${mark}`, look, deadlineMs)
    this.mark(mark)
  }

  async press(keys: string, name: string): Promise<void> {
    await this.worker.type(keys)
    this.mark(`key ${name}`)
  }

  /** Bracketed paste, a pause, Enter: what every agent takes for a prompt. */
  async prompt(text: string): Promise<void> {
    await this.worker.type(`\x1b[200~${text}\x1b[201~`)
    await this.rest(300)
    await this.worker.type('\r')
    this.mark(`prompt ${text}`)
  }

  /** Lets the agent be for a while: what it writes then belongs to the scene. */
  async rest(ms: number): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, ms))
  }

  async exited(): Promise<void> {
    await this.worker.exited()
    this.mark('exit')
  }

  /** What was taken down, with the home replaced. Throws when anything of this machine is still in it. */
  recording(scene: string): Recording {
    const { name, version } = PINNED[this.key]
    const { entries, text } = neutral(this.#parts, this.#home)
    for (const word of [this.#home, this.#home.slice(5), '/root', '/work/', process.env['HOSTNAME'] ?? '\0']) {
      if (text.includes(word)) throw new Error(`the recording of ${scene} has ${JSON.stringify(word)} in it`)
    }
    return {
      header: { format: 1, agent: name, agent_version: version, scene, ...this.#size },
      entries: [...entries, ...this.#marks].sort((a, b) => a.at - b.at),
    }
  }
}

/** Pure. Replaces the home over the whole stream, also where it was cut between two reads. */
function neutral(parts: { at: number; bytes: Buffer }[], home: string): { entries: Entry[]; text: string } {
  const text = Buffer.concat(parts.map((it) => it.bytes))
    .toString('latin1')
    .replaceAll(home, NEUTRAL_HOME)
  const whole = Buffer.from(text, 'latin1')
  let from = 0
  const entries = parts.map(({ at, bytes }) => {
    const data = whole.subarray(from, (from += bytes.length)).toString('base64')
    return { at, data }
  })
  return { entries, text }
}
