/** One session as a test sees it through the public socket. */
import { join } from 'node:path'
import { readdirSync, readFileSync } from 'node:fs'
import { DEADLINE_MS, until } from './wait.ts'
import { carrying, programOf, type Seen } from './processes.ts'
import { Attached, WireError, type Answer, type Wire } from './wire.ts'
import type { Roots } from './roots.ts'

/** What a session needs of the test it belongs to. */
export interface Home {
  readonly roots: Roots
  /** A connection to the daemon that runs now. */
  wire(): Promise<Wire>
  keep<T extends { close(): void }>(it: T): T
}

export class Session {
  readonly id: string
  /** Pid of the program, as session.new told it. */
  readonly pid: number
  readonly #home: Home

  constructor(home: Home, info: Answer) {
    this.#home = home
    this.id = info.id
    this.pid = info.pid
  }

  async call(method: string, params: Record<string, unknown> = {}): Promise<Answer> {
    return await (await this.#home.wire()).call(method, { session_id: this.id, ...params })
  }

  async info(): Promise<Answer> {
    return await (await this.#home.wire()).call('session.inspect', this.id)
  }

  async stop(): Promise<boolean> {
    const { stopped } = await (await this.#home.wire()).call('session.stop', this.id)
    return stopped
  }

  async remove(): Promise<Answer> {
    return await (await this.#home.wire()).call('session.remove', this.id)
  }

  async screen(): Promise<string> {
    const { visible_lines } = await this.call('session.screen')
    return (visible_lines as string[]).join('\n')
  }

  async untilScreen(text: string | RegExp, deadlineMs = DEADLINE_MS): Promise<string> {
    let last = ''
    return await until(
      `${String(text)} on the screen of ${this.id}`,
      async () => {
        last = await this.screen()
        return (typeof text === 'string' ? last.includes(text) : text.test(last)) ? last : undefined
      },
      { deadlineMs, show: () => last },
    )
  }

  async input(text: string): Promise<void> {
    await this.call('session.input', { text })
  }

  async identity(): Promise<{ worker_instance_id: string; runtime_generation: string }> {
    const { runtime } = await this.info()
    return { worker_instance_id: runtime.worker_instance_id, runtime_generation: runtime.runtime_generation }
  }

  /** Raw output from an offset to the current end. Fails on a gap: what a test counts must be complete. */
  async output(from = 0n): Promise<{ bytes: Buffer; next: bigint }> {
    const runtime = await this.identity()
    const parts: Buffer[] = []
    let next = from
    for (;;) {
      const answer = await this.call('session.output', { runtime, after_offset: String(next), max_bytes: 783_240 })
      if (answer.gap) throw new Error(`a gap in the output: ${JSON.stringify(answer.gap)}`)
      parts.push(Buffer.from(answer.data_base64, 'base64'))
      next = BigInt(answer.next_offset)
      if (!answer.has_more) return { bytes: Buffer.concat(parts), next }
    }
  }

  async untilOutput(text: string, deadlineMs = DEADLINE_MS): Promise<Buffer> {
    let last: Buffer = Buffer.alloc(0)
    return await until(
      `${JSON.stringify(text)} in the output of ${this.id}`,
      async () => {
        last = (await this.output()).bytes
        return last.includes(text) ? last : undefined
      },
      { deadlineMs, show: () => JSON.stringify(last.subarray(-1000).toString()) },
    )
  }

  /** Opens an attach stream: through the daemon, or straight to the worker. */
  async attach(
    options: { cols?: number; rows?: number; direct?: boolean; [key: string]: unknown } = {},
  ): Promise<Attached> {
    const { cols = 80, rows = 24, direct = false, ...rest } = options
    const answer = await this.call('session.attach', {
      initial_dimensions: { cols, rows },
      ...(direct ? { direct } : {}),
      ...rest,
    })
    if (direct && !answer.direct) throw new Error('the daemon offered no direct way to the worker')
    const attached = direct
      ? await Attached.open(answer.direct.socket_path, answer.direct.token)
      : await Attached.open(this.#home.roots.socket, answer.stream_id)
    return this.#home.keep(attached)
  }

  async ended(deadlineMs = DEADLINE_MS): Promise<Answer> {
    let last: Answer
    return await until(
      `${this.id} ended`,
      async () => {
        last = await this.info()
        return ['stopped', 'done', 'failed'].includes(last.state) ? last : undefined
      },
      { deadlineMs, show: () => last },
    )
  }

  /** The worker process, from its journal. */
  worker(): Seen {
    const found = this.workers()
    if (found.length !== 1) throw new Error(`${found.length} workers for ${this.id}`)
    return found[0] as Seen
  }

  /** Running workers whose journal names this session. */
  workers(): Seen[] {
    const pids = this.journals().map((it) => Number(it.worker_pid))
    return carrying(this.#home.roots.base).filter((it) => programOf(it) === 'worker' && pids.includes(it.pid))
  }

  journals(): Answer[] {
    const directory = join(this.#home.roots.state, 'pohunek/workers', this.id)
    try {
      return readdirSync(directory)
        .filter((name) => name.endsWith('.json'))
        .map((name): Answer => JSON.parse(readFileSync(join(directory, name), 'utf8')))
    } catch {
      return []
    }
  }
}

/** Runs `act` and answers the typed error it must fail with. */
export async function refused(act: Promise<unknown>): Promise<WireError> {
  try {
    const answer = await act
    throw new Error(`not refused: ${JSON.stringify(answer)?.slice(0, 300)}`)
  } catch (problem) {
    if (problem instanceof WireError) return problem
    throw problem
  }
}
