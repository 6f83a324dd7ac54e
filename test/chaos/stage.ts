/** What all parts of a chaos run share: the sessions, the counts, what was found wrong, and the way to hold still. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ClientError, type Session } from '../../client/index.ts'
import { look } from '../harness/processes.ts'
import { pause, until } from '../harness/wait.ts'
import type { World } from '../harness/world.ts'
import { Source } from './inputs.ts'
import { JoinedOutput } from './output.ts'
import type { View } from './view.ts'

/** What a client may meet while daemons are killed. Anything else is a defect. */
const MEETS_A_KILL = new Set([
  'daemon_unreachable',
  'framing',
  'session_runtime_reconnecting',
  'worker_write_outcome_unknown',
  'attach_not_found',
  'attach_expired',
  'worker_attach_stream_failed',
])
const HOLD_MS = 40_000
const HELD_POLL_MS = 20
const MAX_VIOLATIONS = 20

export interface Identity {
  readonly worker_instance_id: string
  readonly runtime_generation: string
}

/** One session under test. */
export class Subject {
  readonly id: string
  readonly pid: number
  readonly runtime: Identity
  readonly directory: string
  readonly output: JoinedOutput
  /** i: session.input; d: typed through the daemon; x: typed straight to the worker. */
  readonly sources = { i: new Source('i'), d: new Source('d'), x: new Source('x') }
  /** What attached readers see, by reader. */
  readonly views = new Map<string, View>()
  readonly #startIdentity: string | undefined
  readonly #workerPid: number | undefined

  constructor(info: Session, directory: string) {
    const { worker_instance_id, runtime_generation } = info.runtime ?? {}
    if (worker_instance_id === undefined || runtime_generation === undefined)
      throw new Error(`${info.id} has no runtime`)
    this.id = info.id
    this.pid = info.pid
    this.runtime = { worker_instance_id, runtime_generation }
    this.directory = directory
    this.output = new JoinedOutput(join(directory, 'out'))
    this.#startIdentity = look(this.pid)?.startIdentity
    this.#workerPid = look(this.pid)?.ppid
  }

  get read(): string {
    return readFileSync(join(this.directory, 'in'), 'latin1')
  }

  /** What is not as it was when the session began; `info` is what a daemon tells of it. */
  changed(info: Session): string | undefined {
    const { state, pid, runtime } = info
    const same =
      pid === this.pid &&
      state === 'running' &&
      (runtime?.state === 'live' || runtime?.state === 'reconnecting') &&
      runtime.worker_instance_id === this.runtime.worker_instance_id &&
      runtime.runtime_generation === this.runtime.runtime_generation
    if (!same) return `${this.id} was pid ${pid} of ${JSON.stringify(this.runtime)}, told is ${JSON.stringify(info)}`
    const seen = look(this.pid)
    if (seen?.startIdentity === this.#startIdentity && seen?.ppid === this.#workerPid) return undefined
    return `the program of ${this.id} was ${this.pid} below worker ${this.#workerPid}, now it is ${JSON.stringify(seen)}`
  }

  /** The program writes nothing from when this resolves on; answers the bytes it has written. */
  async hold(): Promise<number> {
    const held = join(this.directory, 'held')
    writeFileSync(join(this.directory, 'hold'), '')
    return Number(await until(`the program of ${this.id} holds`, () => readFileSync(held, 'utf8') || undefined))
  }

  release(): void {
    rmSync(join(this.directory, 'hold'))
    rmSync(join(this.directory, 'held'), { force: true })
  }
}

export interface Violation {
  /** Kills before it was found. */
  readonly kills: number
  readonly what: string
}

export class Stage {
  readonly world: World
  readonly subjects: Subject[] = []
  readonly violations: Violation[] = []
  /** Faults clients met, by code. */
  readonly faults = new Map<string, number>()
  readonly attached = { daemon: 0, direct: 0 }
  readonly #ending = new AbortController()
  kills = 0
  calls = 0
  screens = 0
  #busy = 0
  #holding = false

  constructor(world: World) {
    this.world = world
  }

  get ending(): AbortSignal {
    return this.#ending.signal
  }

  end(): void {
    this.#ending.abort()
  }

  violation(what: string): void {
    if (this.violations.length < MAX_VIOLATIONS) this.violations.push({ kills: this.kills, what })
  }

  /** Counts what a kill explains; everything else is a violation. */
  met(who: string, failure: unknown): void {
    if (this.ending.aborted) return
    const code = failure instanceof ClientError ? failure.code : String(failure)
    this.faults.set(code, (this.faults.get(code) ?? 0) + 1)
    if (!MEETS_A_KILL.has(code)) this.violation(`${who} met ${code}: ${(failure as Error).message}`)
  }

  /** Runs what changes a session, or does nothing for a moment while all hold still. */
  async act(run: () => Promise<void>): Promise<void> {
    if (this.#holding) return await pause(HELD_POLL_MS)
    this.#busy++
    try {
      await run()
    } finally {
      this.#busy--
    }
  }

  /** Nothing changes a session from when this resolves on. */
  async hold(): Promise<void> {
    this.#holding = true
    await until('the clients hold still', () => this.#busy === 0, { deadlineMs: HOLD_MS })
  }

  release(): void {
    this.#holding = false
  }
}
