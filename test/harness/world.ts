/**
 * One test's world: private roots, a real daemon, connections, sessions. At the end everything is taken down through
 * the product itself, and then nothing may be left: no process, no socket, no job, no temporary directory.
 */
import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { onTestFailed, onTestFinished } from 'vitest'
import { runCli, type CliResult, type RunOptions } from './cli.ts'
import { startDaemon, type Daemon, type DaemonOptions } from './daemon.ts'
import { carrying, endCarrying, programOf, runs, show, type Seen } from './processes.ts'
import { Outer, type OuterOptions } from './pty.ts'
import { bin, CHILD, makeRoots, type Roots } from './roots.ts'
import { Session, type Home } from './session.ts'
import { until } from './wait.ts'
import { Events, Wire, type Answer } from './wire.ts'

export interface WorldOptions {
  /** Start a daemon at once; default true. */
  readonly daemon?: boolean
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly args?: readonly string[]
  /** Written as <config>/config.toml before the daemon starts. */
  readonly config?: string
  readonly base?: string
  /**
   * What the end of the test does with sessions: `remove` (default) removes each through the daemon and then looks for
   * leftovers; `kill` only ends all processes, for tests that broke their roots on purpose.
   */
  readonly end?: 'remove' | 'kill'
}

export interface NewOptions {
  readonly cols?: number
  readonly rows?: number
  readonly name?: string
  readonly cwd?: string
  readonly [key: string]: unknown
}

const quote = (text: string): string => JSON.stringify(text)

export class World implements Home {
  readonly roots: Roots
  readonly log: string[] = []
  readonly #options: WorldOptions
  #daemon: Daemon | undefined
  readonly #daemons: Daemon[] = []
  #wire: Wire | undefined
  readonly #kept: { close(): void }[] = []
  readonly #profiles = new Map<string, string>()

  constructor(roots: Roots, options: WorldOptions) {
    this.roots = roots
    this.#options = options
    if (options.config !== undefined) {
      mkdirSync(join(roots.config, 'pohunek'), { recursive: true, mode: 0o700 })
      writeFileSync(join(roots.config, 'pohunek/config.toml'), options.config, { mode: 0o600 })
    }
  }

  get daemon(): Daemon {
    if (this.#daemon === undefined) throw new Error('no daemon was started')
    return this.#daemon
  }

  /** Starts a daemon on these roots; it becomes the one the helpers talk to. */
  async start(options: DaemonOptions = {}): Promise<Daemon> {
    const daemon = await startDaemon(this.roots, {
      log: this.log,
      ...options,
      args: [...(this.#options.args ?? []), ...(options.args ?? [])],
      env: { ...this.#options.env, ...options.env },
    })
    this.#daemons.push(daemon)
    this.#daemon = daemon
    this.#wire?.close()
    this.#wire = undefined
    return daemon
  }

  /** Kills the daemon with SIGKILL and starts another one. */
  async crash(): Promise<Daemon> {
    await this.daemon.kill()
    return await this.start()
  }

  keep<T extends { close(): void }>(it: T): T {
    this.#kept.push(it)
    return it
  }

  async wire(): Promise<Wire> {
    if (this.#wire === undefined || this.#wire.ended) this.#wire = await this.connect()
    return this.#wire
  }

  async connect(): Promise<Wire> {
    return this.keep(await Wire.open(this.roots.socket))
  }

  async events(v?: unknown): Promise<Events> {
    return this.keep(await Events.open(this.roots.socket, v))
  }

  async call(method: string, params: unknown = null): Promise<Answer> {
    return await (await this.wire()).call(method, params)
  }

  /** Writes a host profile that runs `program` and answers its name. */
  profile(
    program: string,
    args: readonly string[] = [],
    more: { name?: string; env?: Record<string, string>; inputRules?: Record<string, boolean | number> } = {},
  ): string {
    const key = JSON.stringify([program, args, more])
    const known = this.#profiles.get(key)
    if (known !== undefined) return known
    const name = more.name ?? `p${this.#profiles.size + 1}`
    const directory = join(this.roots.config, 'pohunek/agents')
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    const env = Object.entries(more.env ?? {}).map(([variable, value]) => `${variable} = ${quote(value)}`)
    const rules = Object.entries(more.inputRules ?? {}).map(([key, value]) => `${key} = ${value}`)
    writeFileSync(
      join(directory, `${name}.toml`),
      [
        'base = "shell"',
        `program = ${quote(program)}`,
        `args = [${args.map(quote).join(', ')}]`,
        ...(env.length > 0 ? ['', '[env]', ...env] : []),
        ...(rules.length > 0 ? ['', '[input_rules]', ...rules] : []),
        '',
      ].join('\n'),
      { mode: 0o600 },
    )
    this.#profiles.set(key, name)
    return name
  }

  /** Starts the scripted child (child.mjs) in a session. */
  async child(script: readonly string[], options: NewOptions = {}): Promise<Session> {
    return await this.session(process.execPath, [CHILD, ...script], options)
  }

  async sh(script: string, options: NewOptions = {}): Promise<Session> {
    return await this.session('/bin/sh', ['-c', script], options)
  }

  async session(program: string, args: readonly string[], options: NewOptions = {}): Promise<Session> {
    return await this.agent(this.profile(program, args), options)
  }

  async agent(agent: string, options: NewOptions = {}): Promise<Session> {
    const info = await (
      await this.wire()
    ).call('session.new', { agent, cols: 80, rows: 24, cwd: this.roots.work, ...options })
    return new Session(this, info)
  }

  /** Runs bin/pohunek. It never starts a daemon by itself unless the test takes POHUNEK_NO_START away. */
  async cli(
    args: readonly string[],
    options: Partial<Omit<RunOptions, 'env'>> & { env?: Record<string, string | undefined> } = {},
  ): Promise<CliResult> {
    return await runCli(args, {
      cwd: this.roots.work,
      ...options,
      env: this.roots.env({ POHUNEK_NO_START: '1', ...options.env }),
    })
  }

  /** Runs bin/pohunek in a terminal of its own. */
  terminal(
    args: readonly string[],
    options: Partial<Omit<OuterOptions, 'env'>> & { env?: Record<string, string | undefined> } = {},
  ): Outer {
    const outer = new Outer(bin('pohunek'), args, {
      cwd: this.roots.work,
      ...options,
      env: this.roots.env({ POHUNEK_NO_START: '1', ...options.env }),
    })
    this.keep({ close: () => outer.dispose() })
    return outer
  }

  /** Processes of this test by program, whoever started them. */
  running(program: 'daemon' | 'worker' | 'cli' | 'other'): Seen[] {
    return carrying(this.roots.base).filter((it) => programOf(it) === program)
  }

  /** Paths below a root, relative to it. */
  files(root: 'runtime' | 'state' | 'data' | 'cache' | 'config'): string[] {
    const base = this.roots[root]
    const walk = (directory: string): string[] =>
      readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
        const path = join(directory, entry.name)
        return entry.isDirectory() ? [`${relative(base, path)}/`, ...walk(path)] : [relative(base, path)]
      })
    return existsSync(base) ? walk(base).sort() : []
  }

  /** What of sessions is still there after they were removed and the daemon stopped. */
  leftovers(): string[] {
    const ids = /s-[0-9A-HJKMNP-TV-Z]{26}/
    const left = (['runtime', 'state', 'cache'] as const).flatMap((root) =>
      this.files(root)
        .filter((path) => ids.test(path) || statIsSocket(join(this.roots[root], path)) || /(^|\/)jobs?\/.+/.test(path))
        .map((path) => `${root}/${path}`),
    )
    return [...left, ...carrying(this.roots.base).map((it) => `process ${show([it])}`)]
  }

  /** Takes the test down and answers what it left behind. */
  async end(failed: boolean): Promise<string[]> {
    for (const it of this.#kept.splice(0).reverse()) it.close()
    this.#wire = undefined
    try {
      if (this.#options.end === 'kill' || failed) return []
      for (const it of this.#daemons) if (it.running) it.signal('SIGCONT')
      // A daemon the command line started serves as well; without any, one is needed to take the sessions down.
      if (this.running('daemon').length === 0 && this.files('state').length > 0) await this.start()
      if (this.running('daemon').length === 0) return this.leftovers()
      const wire = await this.wire()
      for (const { id, external } of await wire.call('session.list')) {
        if (external !== true) await wire.call('session.remove', id, { deadlineMs: 40_000 })
      }
      wire.close()
      for (const it of this.#daemons) await it.stop()
      for (const it of this.running('daemon')) process.kill(it.pid, 'SIGTERM')
      await until('all processes of the test are gone', () => carrying(this.roots.base).length === 0, {
        deadlineMs: 5_000,
      }).catch(
        () => undefined, // told below with their names
      )
      return this.leftovers()
    } finally {
      await endCarrying(this.roots.base)
      for (const it of this.#daemons) await until('a daemon is gone', () => !runs(it.pid))
      this.roots.remove()
    }
  }
}

const statIsSocket = (path: string): boolean => {
  try {
    return statSync(path).isSocket()
  } catch {
    return false // removed meanwhile
  }
}

/** A world that ends with the running test. */
export async function world(options: WorldOptions = {}): Promise<World> {
  const it = new World(makeRoots(options.base === undefined ? {} : { base: options.base }), options)
  onTestFailed(() => {
    if (it.log.length > 0) console.error(`daemon output:\n${it.log.join('').slice(-8_000)}`)
  })
  onTestFinished(async ({ task }) => {
    const left = await it.end(task.result?.state === 'fail')
    if (left.length > 0) throw new Error(`left behind:\n${left.join('\n')}`)
  }, 60_000)
  if (options.daemon !== false) await it.start()
  return it
}
