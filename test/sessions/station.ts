/**
 * A daemon inside the test: the real kernel with its record log, the sessions and packages plugins, the real supervisor
 * and real workers, on private roots. It can be dropped and started again on the same roots.
 */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { onTestFinished } from 'vitest'
import {
  boot,
  listen,
  Scope,
  systemClock,
  type Bootable,
  type DaemonConfig,
  type RecordTables,
  type RunningKernel,
} from '../../kernel/index.ts'
import { resolvePaths } from '../../kernel/paths.ts'
import { privateDir } from '../../kernel/secure-files.ts'
import { openTables } from '../../kernel/store/record-log.ts'
import { coreFaults } from '../../protocol/fault.ts'
import packagesPlugin from '../../plugins/packages/plugin.ts'
import { workerEnvironment } from '../../plugins/sessions/launch-env.ts'
import { sessionsPlugin, type SessionEdges } from '../../plugins/sessions/plugin.ts'
import { memoryLog, testConfig, type LogEntry } from '../harness/kernel.ts'
import { carrying, endCarrying, programOf, show, type Seen } from '../harness/processes.ts'
import { CHILD, makeRoots, REPOSITORY, type Roots } from '../harness/roots.ts'
import { Session } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import { Events, Wire, type Answer } from '../harness/wire.ts'

export interface StationOptions {
  readonly spares?: number
  readonly workers?: Partial<DaemonConfig['workers']>
  readonly input?: Partial<DaemonConfig['input']>
  readonly environment?: DaemonConfig['environment']
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly without?: readonly string[]
  readonly edges?: Partial<SessionEdges>
  /** In place of the packages plugin of this build. */
  readonly packages?: Bootable
  /** Beside those two. */
  readonly plugins?: readonly Bootable[]
  /** While `now` is true the store refuses every write, as on a full disk. */
  readonly diskFull?: { now: boolean }
  /** Errors in the daemon's log do not fail the test. */
  readonly allowErrors?: boolean
}

export class Station {
  readonly roots: Roots
  readonly options: StationOptions
  readonly log: LogEntry[] = []
  #life: { scope: Scope; kernel: RunningKernel } | undefined
  #wire: Wire | undefined
  readonly #kept: { close(): void }[] = []

  constructor(roots: Roots, options: StationOptions) {
    this.roots = roots
    this.options = options
  }

  get kernel(): RunningKernel {
    if (this.#life === undefined) throw new Error('no daemon runs')
    return this.#life.kernel
  }

  async start(more: Partial<StationOptions> = {}): Promise<void> {
    const options = { ...this.options, ...more }
    const env = this.roots.env({ POHUNEK_TEST_ROOT: this.roots.base, ...options.env })
    const scope = new Scope('station', systemClock)
    const paths = resolvePaths(env, { uid: process.geteuid?.() ?? 0, platform: process.platform, tmpdir: '/tmp' })
    for (const path of [paths.runtime, paths.config, paths.data, paths.state, paths.cache, paths.logs]) privateDir(path)
    const log = memoryLog(this.log)
    const tables = openTables({
      file: join(paths.data, 'metadata.jsonl'),
      schema: { current: 9 },
      migrations: {},
      clock: systemClock,
      log,
    })
    scope.defer('tables', () => tables.close())
    const worker: SessionEdges['worker'] = (given) => ({
      executable: process.execPath,
      args: [join(REPOSITORY, 'dist/pohunek-sessiond.cjs')],
      env: { ...workerEnvironment(given), POHUNEK_TEST_ROOT: this.roots.base },
    })
    const plugins: Bootable[] = [
      options.packages ?? packagesPlugin,
      sessionsPlugin({ worker, ...options.edges }),
      ...(options.plugins ?? []),
    ]
    try {
      const kernel = await boot(plugins, {
        paths,
        env,
        config: {
          ...testConfig,
          workers: { ...testConfig.workers, spares: options.spares ?? 0, ...options.workers },
          input: { ...testConfig.input, ...options.input },
          environment: options.environment ?? testConfig.environment,
        },
        tables: options.diskFull === undefined ? tables : fillable(tables, options.diskFull),
        loadTables: () => tables.load(),
        daemonVersion: '0.0.0-test',
        checked: true,
        log,
        without: options.without ?? [],
      })
      scope.defer('kernel', () => kernel[Symbol.asyncDispose]())
      const server = await listen(kernel, { socketPath: paths.daemonSocket, stopGraceMs: 500 })
      scope.defer('server', () => server[Symbol.asyncDispose]())
      this.#life = { scope, kernel }
    } catch (failure) {
      await scope.close()
      throw failure
    }
  }

  /** The daemon goes, its workers stay. */
  async drop(): Promise<void> {
    this.#wire?.close()
    this.#wire = undefined
    const life = this.#life
    this.#life = undefined
    await life?.scope.close()
  }

  async restart(more: Partial<StationOptions> = {}): Promise<void> {
    await this.drop()
    await this.start(more)
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
  async events(): Promise<Events> {
    return this.keep(await Events.open(this.roots.socket))
  }
  async call(method: string, params: unknown = null): Promise<Answer> {
    return await (await this.wire()).call(method, params)
  }

  /** Writes a host profile. */
  profile(name: string, lines: readonly string[], mode = 0o600): void {
    const directory = join(this.roots.config, 'pohunek/agents')
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    writeFileSync(join(directory, `${name}.toml`), `${lines.join('\n')}\n`, { mode })
  }

  /** A session that runs `program`. */
  async program(
    program: string,
    args: readonly string[] = [],
    params: Record<string, unknown> = {},
    rules: readonly string[] = [],
  ): Promise<Session> {
    const name = `p-${Buffer.from(JSON.stringify([program, args, rules]))
      .toString('hex')
      .slice(-40)}`
    this.profile(name, [
      'base = "shell"',
      `program = ${JSON.stringify(program)}`,
      `args = ${JSON.stringify(args)}`,
      ...rules,
    ])
    return new Session(this, await this.create({ agent: name, ...params }))
  }
  sh(script: string, params: Record<string, unknown> = {}): Promise<Session> {
    return this.program('/bin/sh', ['-c', script], params)
  }
  child(...script: string[]): Promise<Session> {
    return this.program(process.execPath, [CHILD, ...script])
  }
  create(params: Record<string, unknown> = {}): Promise<Answer> {
    return this.call('session.new', { agent: 'shell', cols: 80, rows: 24, cwd: this.roots.work, ...params })
  }

  processes(): Seen[] {
    return carrying(this.roots.base)
  }
  workers(): Seen[] {
    return this.processes().filter((it) => programOf(it) === 'worker')
  }

  files(root: 'runtime' | 'state' | 'data' | 'cache'): string[] {
    const base = this.roots[root]
    const walk = (directory: string): string[] =>
      readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
        const path = join(directory, entry.name)
        return entry.isDirectory() ? [`${relative(base, path)}/`, ...walk(path)] : [relative(base, path)]
      })
    return walk(base).sort()
  }
  /** Files and processes that belong to any session. */
  traces(): string[] {
    const ids = /s-[0-9A-HJKMNP-TV-Z]{26}/
    const files = (['runtime', 'state', 'cache'] as const).flatMap((root) =>
      this.files(root).filter((it) => ids.test(it)),
    )
    return [...files, ...this.processes().map((it) => show([it]))]
  }

  async end(failed: boolean): Promise<string[]> {
    try {
      if (failed) return []
      if (this.#life === undefined) await this.start()
      for (const { id } of await this.call('session.list')) await this.call('session.remove', id)
      for (const it of this.#kept.splice(0)) it.close()
      await this.drop()
      await until('all workers are gone', () => this.processes().length === 0, { deadlineMs: 5_000 }).catch(
        () => undefined,
      )
      const errors = this.log
        .filter((it) => it.level === 'error')
        .map((it) => `log: ${it.message} ${JSON.stringify(it.fields, errorText)}`)
      return [...this.traces(), ...(this.options.allowErrors === true ? [] : errors)]
    } finally {
      for (const it of this.#kept.splice(0)) it.close()
      await this.drop()
      await endCarrying(this.roots.base)
      this.roots.remove()
    }
  }
}

function fillable(tables: RecordTables, disk: { readonly now: boolean }): RecordTables {
  return {
    batch: (changes) => tables.batch(changes),
    get quarantined() {
      return tables.quarantined
    },
    table(spec) {
      const table = tables.table(spec)
      return {
        get size() {
          return table.size
        },
        get: (key) => table.get(key),
        values: () => table.values(),
        put: (record) =>
          disk.now
            ? Promise.reject(coreFaults.io_error({ what: 'metadata.jsonl', problem: 'no space left on device' }))
            : table.put(record),
        delete: (key) =>
          disk.now
            ? Promise.reject(coreFaults.io_error({ what: 'metadata.jsonl', problem: 'no space left on device' }))
            : table.delete(key),
      }
    },
  }
}

const errorText = (_: string, value: unknown): unknown =>
  value instanceof Error ? (value.stack ?? value.message) : value

/** A station that ends with the running test, and fails it when something of a session is left. */
export async function station(options: StationOptions = {}): Promise<Station> {
  const it = new Station(makeRoots(), options)
  onTestFinished(async ({ task }) => {
    const left = await it.end(task.result?.state === 'fail')
    if (task.result?.state === 'fail')
      console.error(
        it.log
          .filter((entry) => entry.level !== 'debug')
          .map((entry) => `${entry.level} ${entry.message} ${JSON.stringify(entry.fields, errorText)}`)
          .join('\n')
          .slice(-6_000),
      )
    if (left.length > 0) throw new Error(`left behind:\n${left.join('\n')}`)
  }, 60_000)
  await it.start()
  return it
}
