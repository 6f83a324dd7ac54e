/** What is under fire: a daemon with a canary and a victim, and a worker of its own; and whether it still is as it was. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { CONFIG_OF_FUZZ, LIMITS } from './limits.ts'
import { descriptors, pssBytes, runs } from '../harness/processes.ts'
import { makeRoots } from '../harness/roots.ts'
import type { Session } from '../harness/session.ts'
import { monotonicMs, until } from '../harness/wait.ts'
import { Wire, WireError, type Answer, type Attached } from '../harness/wire.ts'
import { World } from '../harness/world.ts'
import type { TestWorker } from '../worker/harness.ts'
import { ask, dial, look, startLone } from './lone.ts'
import type { Names } from './plan.ts'

interface Measured {
  readonly what: string
  readonly pid: number
  readonly descriptors: number
  readonly pssBytes: number
}

export class Target {
  readonly #world: World
  #canary!: Session
  #typing!: Attached
  #canaryNext = 0n
  #victim!: Session
  #names: Names = {}
  #workerSocket = ''
  #lone!: TestWorker
  #baseline: Measured[] = []
  #runs = 0
  /** Bytes of each log that were looked at. */
  readonly #logsRead = new Map<string, number>()

  private constructor() {
    this.#world = new World(makeRoots(), { config: CONFIG_OF_FUZZ })
  }

  static async start(): Promise<Target> {
    const target = new Target()
    try {
      await target.#begin()
    } catch (failure) {
      await target.end()
      throw failure
    }
    return target
  }

  get daemonSocket(): string {
    return this.#world.roots.socket
  }
  get lone(): TestWorker {
    return this.#lone
  }

  async #begin(): Promise<void> {
    await this.#world.start()
    this.#canary = await this.#world.child(['echo'])
    await this.#canary.untilOutput('ready\r\r\n')
    this.#typing = await this.#canary.attach({ direct: true })
    await this.#newVictim()
    this.#lone = await startLone(this.#world.roots.work)
    // Whatever is opened once and kept is open from here on.
    ;(await this.#victim.attach()).close()
    await this.check()
    this.#baseline = this.#measure()
  }

  async #newVictim(): Promise<void> {
    this.#victim = await this.#world.child(['echo'])
    await this.#victim.untilOutput('ready\r\r\n')
    const { worker_instance_id: instance, runtime_generation: generation } = await this.#victim.identity()
    this.#names = { '@victim': this.#victim.id, '@instance': instance, '@generation': generation }
    this.#workerSocket = (await this.#attach()).direct.socket_path
  }

  get workerSocket(): string {
    return this.#workerSocket
  }
  /** What a plan may name, without an attach line. */
  get names(): Names {
    return this.#names
  }

  /** A fresh attach line for the victim, both ways. Waits while too many are unused. */
  async attachLine(): Promise<Names> {
    return await this.#withVictim(async () => {
      const answer = await until('an attach line', () => this.#attach().catch(unlessFull), {
        deadlineMs: LIMITS.connectionMs,
      })
      if (answer instanceof Error) throw answer
      const { stream_id: stream, direct } = answer
      return { ...this.#names, '@stream': stream, '@token': direct.token }
    })
  }

  #attach(): Promise<Answer> {
    return this.#victim.call('session.attach', { initial_dimensions: { cols: 80, rows: 24 }, direct: true })
  }

  /** A plan may end the victim, also after it has hung up: then it is replaced, and `act` runs once more. */
  async #withVictim<T>(act: () => Promise<T>): Promise<T> {
    try {
      return await act()
    } catch (failure) {
      if (await this.#victimLives()) throw failure
      await this.#newVictim()
      return await act()
    }
  }

  async #victimLives(): Promise<boolean> {
    const wire = await Wire.open(this.daemonSocket)
    try {
      const all: Answer[] = await wire.call('session.list', null, { deadlineMs: LIMITS.answerMs })
      const found = all.find((it) => it.id === this.#victim.id)
      return found?.runtime?.state === 'live' && found.state === 'running'
    } finally {
      wire.close()
    }
  }

  /** Throws when anything is not as it must be after every run. */
  async check(): Promise<void> {
    const { answerMs } = LIMITS
    const began = monotonicMs()
    const wire = await Wire.open(this.daemonSocket)
    try {
      await wire.call('daemon.health', null, { deadlineMs: answerMs })
      await this.#tidy(wire)
    } finally {
      wire.close()
    }
    await this.#withVictim(() => this.#victimAnswers())
    this.#readLogs()
    await look(this.#lone, answerMs)
    await this.#canaryEchoes(`canary ${++this.#runs} at ${Math.round(began)}\r`)
    if (this.#baseline.length > 0) await this.#descriptorsAreBack()
  }

  /** What a valid request made is taken away again; a victim that was ended is replaced. */
  async #tidy(wire: Wire): Promise<void> {
    let victimLives = false
    for (const { id, runtime, state } of await wire.call('session.list')) {
      if (id === this.#canary.id) continue
      if (id === this.#victim.id && runtime?.state === 'live' && state === 'running') victimLives = true
      else await wire.call('session.remove', id, { deadlineMs: LIMITS.removeMs }).catch(unlessGone)
    }
    if (!victimLives) await this.#newVictim()
  }

  async #victimAnswers(): Promise<void> {
    const socket = await dial(this.#workerSocket)
    try {
      const { session_id } = await ask(socket, {
        type: 'negotiate',
        daemon_instance_id: 'd-look',
        minimum_version: 6,
        maximum_version: 7,
      })
      if (session_id !== this.#victim.id) throw new Error(`the worker of the victim says it is ${String(session_id)}`)
    } finally {
      socket.destroy()
    }
  }

  async #canaryEchoes(text: string): Promise<void> {
    if (this.#canaryNext === 0n) this.#canaryNext = (await this.#canary.output()).next
    this.#typing.write(text)
    let echoed = ''
    await until(
      'the canary echoes',
      async () => {
        const { bytes } = await this.#canary.output(this.#canaryNext)
        echoed = bytes.toString('latin1')
        return echoed.length >= text.length
      },
      { deadlineMs: LIMITS.answerMs, show: () => JSON.stringify(echoed), pollMs: 2 },
    )
    if (echoed !== text) throw new Error(`the canary echoed ${JSON.stringify(echoed)}, not ${JSON.stringify(text)}`)
    this.#canaryNext += BigInt(text.length)
    this.#typing.forget()
  }

  #measure(): Measured[] {
    const all: [string, number][] = [
      ['daemon', this.#world.daemon.pid],
      ["canary's worker", this.#canary.worker().pid],
      ['lone worker', this.#lone.process.pid ?? 0],
    ]
    return all.map(([what, pid]) => ({ what, pid, descriptors: descriptors(pid).length, pssBytes: pssBytes(pid) }))
  }

  async #descriptorsAreBack(): Promise<void> {
    for (const { what, pid, descriptors: before } of this.#baseline) {
      if (!runs(pid)) throw new Error(`the ${what} ended`)
      await until(
        `the ${what} has the descriptors it had`,
        () => descriptors(pid).length <= before + LIMITS.spareDescriptors,
        {
          deadlineMs: LIMITS.settleMs,
          show: () => `${before} before, now\n${descriptors(pid).join('\n')}`,
        },
      )
    }
  }

  /** After many runs: memory and the daemon's log. Answers the figures. */
  checkGrowth(): string {
    const now = this.#measure()
    for (const [index, it] of now.entries()) {
      const before = this.#baseline[index]?.pssBytes ?? 0
      if (it.pssBytes > before + LIMITS.growthBytes)
        throw new Error(`the ${it.what} grew from ${mib(before)} to ${mib(it.pssBytes)}`)
    }
    return now.map((it) => `${it.what} ${mib(it.pssBytes)}, ${it.descriptors} fds`).join('; ')
  }

  /** Throws for failures that no answer tells, in what the logs of daemon and workers say since the last look. */
  #readLogs(): void {
    const directories = [join(this.#world.roots.state, 'pohunek/logs'), join(this.#lone.state, 'logs')]
    for (const path of directories.flatMap((it) =>
      existsSync(it) ? readdirSync(it).map((name) => join(it, name)) : [],
    )) {
      const { size } = statSync(path)
      const from = this.#logsRead.get(path) ?? 0
      this.#logsRead.set(path, size)
      if (size <= from) continue
      const failed = readFileSync(path).subarray(from, size).toString().split('\n').filter(isFailure)
      if (failed.length > 0) throw new Error(`${basename(path)} tells a failure: ${failed[0]}`)
    }
  }

  /** The end of what the daemon wrote, for a report. */
  tail(): string {
    return this.#world.log.join('').slice(-2_000)
  }

  async end(): Promise<void> {
    await this.#world.end(true)
  }
}

/** Too many unused attach lines pass by themselves; every other failure is told. */
const unlessFull = (failure: unknown): Error | undefined =>
  failure instanceof WireError && failure.code === 'session_output_limit_exceeded' ? undefined : (failure as Error)
/** Somebody else removed it first: a request of a plan that has hung up. */
const unlessGone = (failure: unknown): void => {
  if (!(failure instanceof WireError && failure.code === 'session_not_found')) throw failure
}
const isFailure = (line: string): boolean => /"level":("error"|"fatal"|[56]0)/.test(line)
const mib = (bytes: number): string => `${(bytes / 1_048_576).toFixed(1)} MiB`
