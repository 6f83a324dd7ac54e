/** Starts a local daemon for a command that found none, and waits until one answers. */
import { spawn } from 'node:child_process'
import { closeSync, constants, fstatSync, ftruncateSync, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { after, monotonicMs, pause } from '../client/clock.ts'
import { openSocket } from '../client/connection.ts'
import { makeDirectories } from '../platform/directories.ts'
import { wayTo, type Roots } from '../platform/roots.ts'
import type { Installation } from './cli.ts'
import { faults } from './errors.ts'
import { daemonElsewhere } from './running-daemon.ts'
import { claimStart } from './start-claim.ts'

type Environment = Readonly<Record<string, string | undefined>>
/** From no daemon to an answering one; a cold machine that adopts many sessions needs a while. */
const START_MS = 20_000
const POLL_MS = 20
/** Output of daemons that were started by the CLI is kept up to this size. */
const LOG_BYTES = 262_144
const TAIL_BYTES = 4_096

export const STARTING = 'starting a local daemon (pohunek daemon stop ends it)'

/**
 * Resolves once a daemon accepts connections, whoever started it. Throws daemon_spawn_failed with what the daemon said.
 */
export async function startDaemon(
  roots: Roots,
  env: Environment,
  installation: Installation,
  tell: (line: string) => void,
): Promise<void> {
  const end = monotonicMs() + START_MS
  for (;;) {
    if (await answers(roots.daemonSocket)) return
    if (monotonicMs() > end) throw faults.daemon_spawn_failed({ problem: `none answered within ${START_MS} ms` })
    refuseElsewhere(roots)
    using claim = claimed(roots)
    if (claim === undefined) {
      await pause(POLL_MS)
      continue
    }
    // Between the first look and the claim another starter may have finished.
    if (await answers(roots.daemonSocket)) return
    const where = roots.runtimeIsFallback ? `; XDG_RUNTIME_DIR is not set, it uses ${roots.runtime}` : ''
    tell(`${STARTING}${where}\n`)
    await launch(roots, env, installation, end - monotonicMs())
    return
  }
}

/** A second daemon for the same directories would not start; the first one is where the caller wants to be. */
export function refuseElsewhere(roots: Roots): void {
  const { pid, serves } = daemonElsewhere(roots) ?? {}
  if (pid === undefined) return
  const way = serves === undefined ? undefined : wayTo(serves.runtime)
  throw faults.daemon_unreachable({ socket: roots.daemonSocket, pid, other: serves?.socket, way })
}

function claimed(roots: Roots): Disposable | undefined {
  try {
    return claimStart(roots.runtime)
  } catch (failure) {
    throw faults.daemon_spawn_failed({ problem: `${roots.runtime}: ${(failure as Error).message}` }, failure)
  }
}

async function answers(socketPath: string): Promise<boolean> {
  try {
    const socket = await openSocket(socketPath)
    socket.destroy()
    return true
  } catch {
    return false // nobody, or nobody yet
  }
}

async function launch(roots: Roots, env: Environment, installation: Installation, leftMs: number): Promise<void> {
  const log = openLog(roots)
  const from = log === undefined ? 0 : fstatSync(log).size
  const child = spawn(installation.daemon, ['--ready-fd', '3'], {
    detached: true,
    cwd: '/',
    env: daemonEnvironment(env),
    stdio: ['ignore', log ?? 'ignore', log ?? 'ignore', 'pipe'],
  })
  const ready = child.stdio[3] as Readable
  const told = await new Promise<'ready' | 'late' | { failed: string }>((resolve) => {
    const timer = after(leftMs, () => resolve('late'))
    const settle = (how: 'ready' | { failed: string }): void => {
      timer[Symbol.dispose]()
      resolve(how)
    }
    ready.once('data', () => settle('ready'))
    ready.once('error', () => undefined)
    child.once('error', (failure) => settle({ failed: failure.message }))
    child.once('exit', (code, signal) => settle({ failed: `it ended with ${code ?? signal}` }))
  })
  child.unref()
  ready.destroy()
  // A daemon somebody started beside us holds the locks: then ours refused, and theirs serves in a moment.
  const problem = told === 'ready' ? undefined : await problemOf(roots, told, log, from)
  if (log !== undefined) closeSync(log)
  if (problem !== undefined) throw faults.daemon_spawn_failed({ problem })
}

/**
 * What a daemon started from inside a session must not take with it: the session's markers, by which its processes are
 * found and ended, and its temporary directory, which is removed with it.
 */
export function daemonEnvironment(env: Environment): Environment {
  const inside = env.POHUNEK_WORKER_INSTANCE_ID !== undefined || env.POHUNEK_SESSION_ID !== undefined
  const entries = Object.entries(env).filter(
    ([name]) => !inside || !((name.startsWith('POHUNEK_') && !name.startsWith('POHUNEK_PASS_')) || name === 'TMPDIR'),
  )
  return Object.fromEntries(entries)
}

async function problemOf(
  roots: Roots,
  told: 'late' | { failed: string },
  log: number | undefined,
  from: number,
): Promise<string | undefined> {
  if (told === 'late') return `it was not ready within ${START_MS} ms`
  const said = log === undefined ? '' : tail(log, from)
  const rivals = /another pohunekd|already/.test(said)
  const end = monotonicMs() + (rivals ? START_MS : 0)
  do {
    if (await answers(roots.daemonSocket)) return undefined
    await pause(POLL_MS)
  } while (monotonicMs() < end)
  return said === '' ? told.failed : said
}

/**
 * <state>/logs/pohunekd.out: what a daemon says before its own log is open, or when it crashes. Where that cannot be
 * written the daemon will not start either, and it is to be heard why: then it is a file in the runtime directory.
 */
function openLog(roots: Roots): number | undefined {
  return openLogIn(join(roots.state, 'logs')) ?? openLogIn(roots.runtime)
}

function openLogIn(directory: string): number | undefined {
  try {
    makeDirectories(directory)
    const flags = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW
    const fd = openSync(join(directory, 'pohunekd.out'), flags, 0o600)
    if (fstatSync(fd).size > LOG_BYTES) ftruncateSync(fd)
    return fd
  } catch {
    return undefined
  }
}

function tail(fd: number, from: number): string {
  const buffer = Buffer.alloc(TAIL_BYTES)
  const bytes = readSync(fd, buffer, 0, buffer.length, from)
  return buffer.toString('utf8', 0, bytes).trim()
}
