/**
 * Kills daemons under load and looks whether anybody notices: four sessions flood, terminals are attached to them by
 * both ways, inputs are sent and typed, and the daemon is killed again and again at random times, also while it starts.
 */
import { cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runs } from '../harness/processes.ts'
import { makeRoots } from '../harness/roots.ts'
import { monotonicMs, pause, until } from '../harness/wait.ts'
import type { UserSystemd } from '../harness/user-systemd.ts'
import { serviceNamespace } from '../../platform/service-namespace.ts'
import { World } from '../harness/world.ts'
import { checkpoint } from './checkpoint.ts'
import { attach, clientOf, follow, listen, meddle, send } from './clients.ts'
import { findings } from './inputs.ts'
import { Random } from './random.ts'
import { Stage, Subject } from './stage.ts'

const PROGRAM = join(dirname(fileURLToPath(import.meta.url)), 'child.mjs')
const SESSIONS = 4
/** The programs' output outruns no daemon that is away for a minute: a gap is never the program's fault. */
const CONFIG = '[workers]\noutput_history_bytes = 67108864\n'
const AS_UNITS = '[supervisor]\nkind = "systemd"\n'
const READY_MS = 30_000
const POLL_MS = 5
/** How long a daemon that is ready lives, and one that is not yet. */
const LIFE_MS = 1_500
const START_MS = 400
const SUBMIT_DELAY_MS = 150
const EARLY_CHANCE = 0.2
const COMMAND_LINE_CHANCE = 0.5

export interface ChaosOptions {
  readonly kills: number
  readonly seed: number
  /** Kills between two comparisons of everything; output is compared all the time. */
  readonly checkEvery?: number
  /** Average bytes per second of each program. */
  readonly rate?: number
  /** Workers are units of this manager instead of detached processes. */
  readonly manager?: UserSystemd
  readonly signal?: AbortSignal
  readonly say?: (line: string) => void
}

export interface Report {
  readonly lines: readonly string[]
  readonly violations: readonly string[]
}

/** One run. Nothing is left of it but, after a violation, a directory of evidence that the report names. */
export async function chaos(options: ChaosOptions): Promise<Report> {
  const { kills, seed, checkEvery = 10, rate = 500_000, manager, say = () => undefined } = options
  const random = new Random(seed)
  const env: Record<string, string> = manager === undefined ? {} : { DBUS_SESSION_BUS_ADDRESS: manager.bus }
  const world = new World(makeRoots(), { config: manager === undefined ? CONFIG : CONFIG + AS_UNITS, env })
  const stage = new Stage(world)
  const run = new Run(stage, random, env)
  const units = unitsOf(world, manager)
  const clients: Promise<void>[] = []
  say(`chaos: seed ${seed}, ${kills} kills`)
  try {
    await run.createSessions(rate)
    if (manager !== undefined && units().length < SESSIONS)
      throw new Error(`the workers are not units: ${units().join()}`)
    for (const subject of stage.subjects) {
      clients.push(follow(stage, subject), send(stage, subject, random.fork()))
      clients.push(attach(stage, subject, 'daemon', random.fork()), attach(stage, subject, 'direct', random.fork()))
      subject.release()
    }
    clients.push(listen(stage), meddle(stage, random.fork()))
    for (const client of clients)
      client.catch((failure: unknown) => stage.violation(`a client failed: ${String(failure)}`))
    for (let checked = 0; checked < kills && stage.violations.length === 0 && options.signal?.aborted !== true;) {
      await run.round(kills)
      if (stage.kills < Math.min(kills, checked + checkEvery)) continue
      await checkpoint(stage)
      checked = stage.kills
      say(`chaos: ${checked} kills, ${run.bytes} bytes compared`)
    }
  } catch (failure) {
    stage.violation((failure as Error).stack ?? String(failure))
  }
  const lines = run.lines()
  stage.end()
  await Promise.allSettled(clients)
  const evidence = stage.violations.length > 0 ? keepEvidence(stage, seed) : undefined
  for (const { output } of stage.subjects) output.close()
  try {
    for (const it of await world.end(false)) stage.violation(`left behind: ${it}`)
    for (const it of units()) stage.violation(`left behind: unit ${it}`)
  } catch (failure) {
    stage.violation(`the end: ${(failure as Error).message}`)
  }
  const violations = stage.violations.map((it) => `after ${it.kills} kills: ${it.what}`)
  if (evidence !== undefined) violations.push(`seed ${seed}, evidence in ${evidence}`)
  return { lines, violations }
}

/** Names of the worker units of these roots; none without a manager. */
function unitsOf({ roots }: World, manager: UserSystemd | undefined): () => string[] {
  const namespace = serviceNamespace({ state: join(roots.state, 'pohunek'), runtime: join(roots.runtime, 'pohunek') })
  return () => manager?.units(`pohunek-${namespace}-worker-*`) ?? []
}

class Run {
  readonly #stage: Stage
  readonly #random: Random
  readonly #env: Readonly<Record<string, string>>
  readonly #readyMs: number[] = []
  readonly #liveMs: number[] = []
  #early = 0
  #byCommand = 0

  constructor(stage: Stage, random: Random, env: Readonly<Record<string, string>>) {
    this.#stage = stage
    this.#random = random
    this.#env = env
  }

  get bytes(): number {
    return this.#stage.subjects.reduce((sum, it) => sum + it.output.next, 0)
  }

  async createSessions(rate: number): Promise<void> {
    const { world, subjects } = this.#stage
    await world.start()
    for (let number = 0; number < SESSIONS; number++) {
      const directory = join(world.roots.work, String(number))
      mkdirSync(directory)
      writeFileSync(join(directory, 'hold'), '')
      const args = [PROGRAM, directory, number % 2 === 0 ? 'plain' : 'colour', String(rate)]
      // Half of the inputs are in the terminal for a while before their submit key is.
      const rules = { submit_delay_ms: number < SESSIONS / 2 ? 0 : SUBMIT_DELAY_MS }
      const { id } = await world.agent(world.profile(process.execPath, args, { inputRules: rules }))
      await until('the program is ready', () => existsSync(join(directory, 'held')))
      subjects.push(new Subject(await world.call('session.inspect', id), directory))
    }
  }

  /** A daemon lives for a while, is killed, and sooner or later there is another one that is ready. */
  async round(kills: number): Promise<void> {
    await pause(this.#random.between(0, LIFE_MS))
    await this.#strike()
    while (this.#stage.kills < kills && this.#random.chance(EARLY_CHANCE)) {
      const started = this.#begin('killed early')
      await until('a daemon starts', () => this.#stage.world.running('daemon').length > 0, { pollMs: POLL_MS })
      await pause(this.#random.between(0, START_MS))
      await this.#strike()
      await started
      this.#early++
    }
    const from = monotonicMs()
    const started = this.#begin('lives')
    await this.#ready(from)
    await started
  }

  /**
   * Starts a daemon as a supervisor does, or as a command that finds none; resolves when that is done and never rejects.
   * A command has to end, and to succeed when its daemon lives.
   */
  async #begin(daemon: 'lives' | 'killed early'): Promise<void> {
    const { world, subjects } = this.#stage
    try {
      if (!this.#random.chance(COMMAND_LINE_CHANCE)) return void (await world.start({ unready: true }))
      this.#byCommand++
      const { code, stdout, stderr } = await world.cli(['session', 'list', '--json'], {
        env: { ...this.#env, POHUNEK_NO_START: undefined },
        deadlineMs: READY_MS,
      })
      if (daemon === 'lives' && (code !== 0 || subjects.some(({ id }) => !stdout.includes(id))))
        this.#stage.violation(`pohunek session list ended with ${code}: ${stdout}${stderr}`)
    } catch (failure) {
      this.#stage.violation(`starting a daemon: ${(failure as Error).message}`)
    }
  }

  async #ready(from: number): Promise<void> {
    using client = clientOf(this.#stage)
    const waiting = { deadlineMs: READY_MS, pollMs: POLL_MS, show: () => this.#stage.world.log.join('').slice(-4_000) }
    await until('a daemon answers', () => client.call('daemon.health', null), waiting)
    this.#readyMs.push(monotonicMs() - from)
    const live = async (): Promise<boolean> =>
      (await client.listSessions()).filter((it) => it.runtime?.state === 'live').length === SESSIONS
    await until('all sessions are live', live, waiting)
    this.#liveMs.push(monotonicMs() - from)
  }

  async #strike(): Promise<void> {
    const daemons = this.#stage.world.running('daemon')
    if (daemons.length === 0) throw new Error('the daemon ended by itself')
    for (const { pid } of daemons) process.kill(pid, 'SIGKILL')
    this.#stage.kills++
    await until('the daemon is gone', () => daemons.every(({ pid }) => !runs(pid)), { pollMs: POLL_MS })
  }

  /** What was done and measured, for people. */
  lines(): string[] {
    const { kills, subjects, faults, attached, screens, calls } = this.#stage
    const sources = subjects.flatMap((it) => Object.values(it.sources))
    const sum = (of: (it: (typeof sources)[number]) => number): number => sources.reduce((all, it) => all + of(it), 0)
    const found = subjects.map((it) => findings(it.read, Object.values(it.sources)))
    const total = (of: 'arrived' | 'overtaken'): number => found.reduce((all, it) => all + it[of], 0)
    return [
      `kills            ${kills}, ${this.#early} of them before the daemon was ready; ${this.#byCommand} starts by a command`,
      `time to ready    ${figures(this.#readyMs)}; all sessions live ${figures(this.#liveMs)}`,
      `output           ${this.bytes} bytes compared`,
      `inputs           ${sum((it) => it.count('accepted'))} accepted, ${sum((it) => it.count('refused'))} refused, ` +
        `${sum((it) => it.count('unknown'))} unknown; ${total('arrived')} arrived, ${total('overtaken')} before a submit key`,
      `attach streams   ${attached.daemon} through the daemon, ${attached.direct} direct; ${screens} screens compared`,
      `other calls      ${calls}`,
      `faults met       ${[...faults].map(([code, count]) => `${code} ${count}`).join(', ') || 'none'}`,
    ]
  }
}

function figures(samples: readonly number[]): string {
  const sorted = [...samples].sort((a, b) => a - b)
  const middle = sorted[Math.floor(sorted.length / 2)] ?? NaN
  return `p50 ${middle.toFixed(0)} ms, max ${(sorted.at(-1) ?? NaN).toFixed(0)} ms`
}

/** Copies what tells how it came to the violations; answers where. */
function keepEvidence({ world, violations, subjects }: Stage, seed: number): string {
  const directory = join(tmpdir(), `pohunek-chaos-${seed}`)
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  writeFileSync(join(directory, 'violations.json'), JSON.stringify(violations, null, 2))
  writeFileSync(join(directory, 'daemon-output.txt'), world.log.join(''))
  for (const { id, read, sources } of subjects) {
    writeFileSync(join(directory, `${id}.in`), read)
    writeFileSync(join(directory, `${id}.sent.json`), JSON.stringify(sources, null, 1))
  }
  cpSync(join(world.roots.state, 'pohunek'), join(directory, 'state'), { recursive: true })
  return directory
}
