/** A whole kernel in this process: real plugins, fake edges, a clock that moves when told. */
import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import {
  boot,
  listen,
  manualClock,
  type Bootable,
  type BootOptions,
  type Clock,
  type Fake,
  type Log,
  type ManualClock,
} from '../../kernel/index.ts'
import type { DaemonConfig, RunningKernel, RunningServer, ServerOptions } from '../../kernel/index.ts'
import { parseConfig } from '../../kernel/config.ts'
import { resolvePaths } from '../../kernel/paths.ts'
import { privateDir } from '../../kernel/secure-files.ts'
import { memoryTables } from './memory-tables.ts'
import { rawClient, type RawClient } from './ndjson.ts'

/** A private directory that is gone when the test ended. Short: socket paths are bounded. */
export function privateRoot(): string {
  const root = mkdtempSync('/tmp/pk-')
  onTestFinished(() => rmSync(root, { recursive: true, force: true }))
  return root
}

export const envBelow = (root: string): Record<string, string> => ({
  HOME: join(root, 'home'),
  XDG_RUNTIME_DIR: join(root, 'run'),
  XDG_CONFIG_HOME: join(root, 'config'),
  XDG_DATA_HOME: join(root, 'data'),
  XDG_STATE_HOME: join(root, 'state'),
  XDG_CACHE_HOME: join(root, 'cache'),
  PATH: process.env.PATH ?? '/usr/bin:/bin',
})

const defaults = parseConfig('', 'no configuration file')
/** The defaults, with workers as plain processes and none kept warm. */
export const testConfig: DaemonConfig = {
  ...defaults,
  supervisor: 'detached',
  workers: { ...defaults.workers, spares: 0 },
}

export interface LogEntry {
  level: 'debug' | 'info' | 'warn' | 'error'
  fields: Record<string, unknown>
  message: string
}

/** A log that keeps what it was told. */
export function memoryLog(
  entries: LogEntry[] = [],
  bound: Record<string, unknown> = {},
): Log & { entries: LogEntry[] } {
  const write =
    (level: LogEntry['level']) =>
    (first: unknown, message?: unknown): void => {
      const fields = typeof first === 'object' && first !== null ? (first as Record<string, unknown>) : {}
      entries.push({
        level,
        fields: { ...bound, ...fields },
        message: String(typeof first === 'string' ? first : message),
      })
    }
  return {
    entries,
    debug: write('debug'),
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
    child: (bindings: Record<string, unknown>) => memoryLog(entries, { ...bound, ...bindings }),
  }
}

export interface TestKernelOptions extends Partial<Omit<BootOptions, 'fakes' | 'log' | 'clock'>> {
  readonly root?: string
  /** Real time, for tests that need sockets to time out by themselves. */
  readonly clock?: Clock
  /** Errors in the log fail the test unless this is set. */
  readonly allowErrors?: boolean
}

export interface TestKernel {
  readonly clock: ManualClock
  readonly running: RunningKernel
  readonly root: string
  readonly log: LogEntry[]
  readonly methods: readonly string[]
  readonly call: RunningKernel['call']
  /** Opens the socket; closed when the test ends. */
  readonly serve: (options?: Partial<ServerOptions>) => Promise<TestServer>
}

export interface TestServer {
  readonly path: string
  readonly server: RunningServer
  readonly connect: () => Promise<RawClient>
}

export async function testKernel(
  plugins: readonly Bootable[],
  fakes: readonly Fake[] = [],
  options: TestKernelOptions = {},
): Promise<TestKernel> {
  const before = resources()
  const root = options.root ?? privateRoot()
  const clock = manualClock()
  const log = memoryLog()
  const paths = resolvePaths(envBelow(root), {
    uid: process.geteuid?.() ?? 0,
    platform: process.platform,
    tmpdir: '/tmp',
  })
  for (const path of [paths.runtime, paths.config, paths.data, paths.state, paths.cache, paths.logs]) privateDir(path)
  const running = await boot(plugins, {
    paths,
    config: testConfig,
    env: envBelow(root),
    tables: memoryTables(),
    daemonVersion: '0.0.0-test',
    checked: true,
    ...options,
    clock: options.clock ?? clock,
    log,
    fakes,
  })
  const servers: RunningServer[] = []
  onTestFinished(async () => {
    for (const server of servers) await server[Symbol.asyncDispose]()
    await running[Symbol.asyncDispose]()
    expect(running.scope.live).toEqual([])
    await noMoreThan(before)
    if (options.allowErrors !== true) expect(log.entries.filter((entry) => entry.level === 'error')).toEqual([])
  })
  return {
    clock,
    running,
    root,
    log: log.entries,
    methods: running.methodNames,
    call: (method, params, call) => running.call(method, params, call),
    async serve(serverOptions = {}) {
      const path = serverOptions.socketPath ?? join(root, 'd.sock')
      const server = await listen(running, { stopGraceMs: 500, ...serverOptions, socketPath: path })
      servers.push(server)
      return { path, server, connect: () => rawClient(path) }
    },
  }
}

function resources(): Map<string, number> {
  const counts = new Map<string, number>()
  for (const kind of process.getActiveResourcesInfo()) counts.set(kind, (counts.get(kind) ?? 0) + 1)
  return counts
}

// Node lets go of closed handles on later turns of its loop; a real leak stays for all of them.
const TURNS = 50

/** A stray timer, socket or process fails the test that made it. The test runner may have closed some of its own. */
async function noMoreThan(before: Map<string, number>): Promise<void> {
  let more: [string, number][] = []
  for (let turn = 0; turn < TURNS; turn++) {
    await new Promise((resolve) => setImmediate(resolve))
    more = [...resources()].filter(([kind, count]) => count > (before.get(kind) ?? 0) && kind !== 'Immediate')
    if (more.length === 0) return
  }
  expect(more).toEqual([])
}
