/** The daemon as a function: an operating system's signals and descriptors are its caller's business. */
import { join } from 'node:path'
import {
  boot,
  listen,
  Scope,
  systemClock,
  type Bootable,
  type DaemonConfig,
  type Log,
  type Paths,
} from '../kernel/index.ts'
import { loadConfig } from '../kernel/config.ts'
import { openEventLog } from '../kernel/event-log.ts'
import { DAEMON_LOG_LIMITS, openLog } from '../kernel/log.ts'
import { lockRoots } from '../kernel/locks.ts'
import { METADATA_LOG, resolvePaths } from '../kernel/paths.ts'
import { privateDir } from '../kernel/secure-files.ts'
import { openTables, type StoreOptions } from '../kernel/store/record-log.ts'
import { lockFile } from '../platform/index.ts'

/** Schema of the metadata log (contract/environment.md §3). No release of ours wrote an older one. */
export const STORE_SCHEMA: Pick<StoreOptions, 'schema' | 'migrations'> = { schema: { current: 9 }, migrations: {} }
/** Never TMPDIR: it is the caller's, and the directory must be the same one for every program of this user. */
export const SYSTEM_TMP = '/tmp'

export interface ServeOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly plugins: readonly Bootable[]
  /** Plugins left out, beside those the configuration leaves out. */
  readonly without?: readonly string[]
  readonly version: string
  /** Schema of the store and the steps up to it; default STORE_SCHEMA. */
  readonly store?: Pick<StoreOptions, 'schema' | 'migrations'>
  /** Ends the daemon. */
  readonly stop: AbortSignal
  /** Called once the log is open, before anything is read. */
  readonly logging?: (log: Log) => void
  /** Sockets accept from here on. */
  readonly ready: (facts: { paths: Paths; config: DaemonConfig }) => void
}

/**
 * Runs the daemon until `stop` aborts and everything it started is released. Throws a Fault when it cannot start:
 * configuration, daemon_already_running, storage, or a failing plugin.
 */
export async function serve({
  env,
  plugins,
  without = [],
  version,
  store = STORE_SCHEMA,
  stop,
  logging,
  ready,
}: ServeOptions): Promise<void> {
  await using scope = new Scope('daemon', systemClock)
  const paths = resolvePaths(env, { uid: process.geteuid?.() ?? 0, platform: process.platform, tmpdir: SYSTEM_TMP })
  makeDirectories(paths)
  scope.own('locks', await lockRoots(paths, lockFile))
  const config = loadConfig(paths)
  const log = startLog(paths, config, scope)
  logging?.(log)
  const tables = openTables({ file: join(paths.data, METADATA_LOG), ...store, clock: systemClock, log })
  scope.defer('record store', () => tables.close())
  log.info(
    { version, node: process.version, runtime: paths.runtime, runtimeIsFallback: paths.runtimeIsFallback },
    'the daemon starts',
  )

  const file = join(paths.data, 'events', 'events.jsonl')
  const events = scope.own('event log', openEventLog({ file, clock: systemClock, log }))

  await using kernel = await boot(plugins, {
    log,
    paths,
    config,
    env,
    tables,
    loadTables: () => tables.load(),
    onEvent: ({ event, payload }) => events.append(event, payload),
    daemonVersion: version,
    without: [...new Set([...config.without, ...without])],
  })
  {
    await using _server = await listen(kernel, {
      socketPath: paths.daemonSocket,
      prepare: () => makeDirectories(paths),
    })
    log.info({ socket: paths.daemonSocket }, 'the daemon serves')
    ready({ paths, config })
    await aborted(stop)
    log.info('the daemon stops')
  }
}

function makeDirectories(paths: Paths): void {
  for (const path of [paths.runtime, paths.data, paths.state, paths.logs]) privateDir(path)
}

function startLog(paths: Paths, config: DaemonConfig, scope: Scope): Log {
  const file = join(paths.logs, 'pohunekd.jsonl')
  return scope.own('log', openLog({ file, ...DAEMON_LOG_LIMITS, level: config.logLevel, name: 'pohunekd' })).log
}

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
