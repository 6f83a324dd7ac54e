/** A real daemon with real agents in its sessions, each with a fake model of its own. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { Session } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import { world, type World } from '../harness/world.ts'
import type { Answer, Events } from '../harness/wire.ts'
import { PINNED, prepare, programOf, type AgentKey } from './agents.ts'
import { FakeModels } from './fake-models.ts'
import { LOOKS } from './scenes.ts'

/** An agent on a busy machine; nothing here waits this long when all is well. */
export const SLOW_MS = 60_000
/** Within this after the model saw a turn begin, and before its end, news about it may still be on the way. */
const NEWS_MS = 1_000

export interface AgentOptions {
  input?: string
  unasked?: boolean
  name?: string
}

export class Stage {
  readonly world: World
  #events: Events | undefined
  readonly arrivals = new WeakMap<object, number>()

  private constructor(it: World) {
    this.world = it
  }

  static async open(): Promise<Stage> {
    // On a busy machine pi draws its prompt only after seconds.
    const stage = new Stage(await world({ config: '[input]\nstartup_grace_ms = 30000\n' }))
    await stage.subscribe()
    // Finished turns are no news to most owners; here each one is counted.
    const { policy } = await stage.world.call('notification.policy.get')
    policy.enabled.turn_completed = true
    await stage.world.call('notification.policy.set', { policy })
    return stage
  }

  get events(): Events {
    if (this.#events === undefined) throw new Error('not subscribed')
    return this.#events
  }

  /** Subscribes to the daemon that runs now; what earlier ones said is forgotten. */
  async subscribe(): Promise<void> {
    const events = await this.world.events()
    this.#events = events
    let known = 0
    events.wire.socket.on('data', () => {
      for (; known < events.wire.lines.length; known++)
        this.arrivals.set(events.wire.lines[known] as object, performance.now())
    })
  }

  /** Starts an agent in a session, in a home and with a model of its own. */
  async agent(key: AgentKey, options: AgentOptions = {}): Promise<Agent> {
    const { roots } = this.world
    const { name } = PINNED[key]
    const program = await programOf(key)
    const models = await FakeModels.start()
    onTestFinished(() => models.close())
    const home = join(roots.base, `home-${options.name ?? key}`)
    const cwd = join(home, 'project')
    const { args, env } = prepare(name, { home, cwd, url: models.url, unasked: options.unasked ?? false })
    const profile = options.name ?? `real-${name}`
    writeProfile(this.world, profile, { base: name, program, args, env })
    const info = await (
      await this.world.wire()
    ).call(
      'session.new',
      { agent: profile, cols: 100, rows: 30, cwd, ...(options.input !== undefined && { input: options.input }) },
      { deadlineMs: SLOW_MS },
    )
    return new Agent(this, key, new Session(this.world, info), models, { info, cwd })
  }
}

function writeProfile(
  { roots }: World,
  name: string,
  { base, program, args, env }: { base: string; program: string; args: string[]; env: Record<string, string> },
): void {
  const directory = join(roots.config, 'pohunek/agents')
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const lines = [
    `base = ${JSON.stringify(base)}`,
    `program = ${JSON.stringify(program)}`,
    `args = ${JSON.stringify(args)}`,
    '[env]',
    ...Object.entries(env).map(([key, value]) => `${key} = ${JSON.stringify(value)}`),
    '',
  ]
  writeFileSync(join(directory, `${name}.toml`), lines.join('\n'), { mode: 0o600 })
}

export class Agent {
  readonly key: AgentKey
  readonly session: Session
  readonly models: FakeModels
  /** What session.new answered. */
  readonly created: Answer
  readonly cwd: string
  readonly #stage: Stage

  constructor(
    stage: Stage,
    key: AgentKey,
    session: Session,
    models: FakeModels,
    { info, cwd }: { info: Answer; cwd: string },
  ) {
    this.#stage = stage
    this.key = key
    this.session = session
    this.models = models
    this.created = info
    this.cwd = cwd
  }

  get id(): string {
    return this.session.id
  }
  get look(): (typeof LOOKS)['claude'] {
    return LOOKS[PINNED[this.key].name]
  }

  /** What was told of it since the subscription, in order. */
  get activities(): string[] {
    return this.#stage.events.of('agent_state', this.id).map((it) => it.activity as string)
  }

  /** Waits for an activity told after `from` (an earlier length of `activities`). */
  async until(activity: string, from = 0): Promise<void> {
    await until(`${this.key} is ${activity}`, () => this.activities.slice(from).includes(activity), {
      deadlineMs: SLOW_MS,
      show: () => this.activities.join(' '),
    })
  }

  /** Waits for the activity that is shown now. */
  async is(activity: string | undefined): Promise<void> {
    let last: unknown
    await until(
      `${this.key} is ${activity}`,
      async () => (last = (await this.session.info()).activity) === activity || undefined,
      { deadlineMs: SLOW_MS, show: () => String(last) },
    )
  }

  async ready(): Promise<void> {
    await this.is('idle')
  }

  async input(text: string, more: Record<string, unknown> = {}): Promise<Answer> {
    return await this.session.call('session.input', { text, ...more })
  }

  /** Sends a prompt, and waits until the model has it. */
  async prompt(text: string): Promise<void> {
    const before = this.models.prompts.length
    await this.input(text).catch(async (refused: Error) => {
      throw new Error(`${this.key}: ${refused.message}\n${await this.session.screen()}`, { cause: refused })
    })
    await this.received(before + 1)
  }

  /** Waits until the model was given so many prompts. */
  async received(prompts: number): Promise<void> {
    let screen = ''
    await until(
      `the model of ${this.key} has its prompt`,
      async () => {
        if (this.models.prompts.length >= prompts) return true
        screen = await this.session.screen()
        return false
      },
      { deadlineMs: SLOW_MS, pollMs: 50, show: () => `${this.activities.join(' ')}\n${screen}` },
    )
  }

  /** Notices of the inbox about this session, of some kinds. */
  async notices(...kinds: string[]): Promise<Answer[]> {
    const { notifications } = await this.#stage.world.call('notification.list', { session_id: this.id })
    return (notifications as Answer[]).filter((it) => kinds.includes(it.kind as string))
  }

  async turnEvent(params: { kinds?: string[]; after?: string; timeout_ms?: number }): Promise<Answer> {
    const wire = await this.#stage.world.connect()
    const { timeout_ms = SLOW_MS } = params
    return await wire.call(
      'session.wait_turn',
      { session_ids: [this.id], ...params, timeout_ms },
      { deadlineMs: timeout_ms + 20_000 },
    )
  }

  /**
   * Moments at which it was called idle while its model was in the middle of an answer, well after its begin and before
   * its end.
   */
  falseIdles(): string[] {
    return this.#stage.events.of('agent_state', this.id).flatMap((event) => {
      const at = this.#stage.arrivals.get(event as object) ?? 0
      const turn = this.models.turns.find((it) => it.at + NEWS_MS < at && at < (it.endedAt ?? Infinity) - 50)
      return event.activity === 'idle' && turn !== undefined ? [`${at - turn.at} ms into ${turn.prompt}`] : []
    })
  }
}
