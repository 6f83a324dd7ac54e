/** pohunek daemon start|stop|status: this machine's daemon, found by its lock, so an older or newer one is found too. */
import { spawn } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { monotonicMs, pause } from '../client/clock.ts'
import { openSocket } from '../client/connection.ts'
import { JSON_FLAG, type Command, type Outcome } from '../protocol/command.ts'
import { daemonEnvironment, startDaemon } from './autostart.ts'
import type { Cli } from './cli.ts'
import { faults } from './errors.ts'
import { err } from './out.ts'
import { exists } from './start-claim.ts'

const STOP_MS = 20_000
const POLL_MS = 20

/**
 * Pid of the process that holds the daemon's lock; undefined when none does. Linux's list of locks decides: it is true
 * for a daemon of any release. Elsewhere the pid file does, and a process of that pid must be there.
 */
export function lockHolder(runtime: string): number | undefined {
  try {
    if (process.platform !== 'linux') {
      const pid = Number(readFileSync(join(runtime, 'daemon.pid'), 'latin1').trim())
      return pid > 1 && exists(pid) ? pid : undefined
    }
    const inode = String(statSync(join(runtime, 'daemon.lock')).ino)
    const held = readFileSync('/proc/locks', 'latin1')
      .split('\n')
      .map((it) => it.trim().split(/\s+/))
    const found = held.find((it) => it[1] === 'FLOCK' && it[5]?.split(':').at(-1) === inode)
    return found === undefined ? undefined : Number(found[4])
  } catch {
    return undefined // no lock file: no daemon ran on this root
  }
}

async function accepts(socketPath: string): Promise<boolean> {
  try {
    const socket = await openSocket(socketPath, 1_000)
    socket.destroy()
    return true
  } catch {
    return false
  }
}

const line = (text: string): { line: string } => ({ line: text })

function start(cli: Cli): Command {
  return {
    path: ['daemon', 'start'],
    about: 'run the daemon, in the foreground or with --detach behind it',
    arguments: [],
    flags: [
      { name: 'detach', about: 'start it in the background and wait until it serves' },
      {
        name: 'dev-subprocess',
        about: 'accepted for compatibility; workers are always processes of their own',
        hidden: true,
      },
    ],
    json: false,
    async run(_context, input): Promise<Outcome> {
      const pid = lockHolder(cli.roots.runtime)
      if (pid !== undefined && (await accepts(cli.roots.daemonSocket)))
        return { ok: null, human: [line(`a daemon is running (pid ${pid})`)] }
      if (!input.has('detach')) return { ok: null, human: [], exitCode: await foreground(cli) }
      await startDaemon(cli.roots, cli.env, cli.installation, err)
      return { ok: null, human: [line(`daemon started (pid ${lockHolder(cli.roots.runtime) ?? 'unknown'})`)] }
    },
  }
}

/** The daemon as a child that gets our signals; answers its exit code. */
function foreground(cli: Cli): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(cli.installation.daemon, [], { stdio: 'inherit', env: daemonEnvironment(cli.env) })
    for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal))
    // The terminal sends SIGINT to both; the daemon's end is ours.
    process.on('SIGINT', () => undefined)
    child.once('error', (failure) => reject(faults.daemon_spawn_failed({ problem: failure.message }, failure)))
    child.once('exit', (code, signal) => resolve(code ?? (signal === null ? 1 : 128)))
  })
}

/** Ends the daemon of a runtime root and waits for its end; answers its pid, undefined when none runs. */
export async function endDaemon(runtime: string): Promise<number | undefined> {
  const pid = lockHolder(runtime)
  if (pid === undefined) return undefined
  try {
    process.kill(pid, 'SIGTERM')
  } catch (failure) {
    throw faults.io_error(
      { what: `pid ${pid}`, problem: (failure as NodeJS.ErrnoException).code ?? 'cannot be signalled' },
      failure,
    )
  }
  const end = monotonicMs() + STOP_MS
  while (lockHolder(runtime) === pid) {
    if (monotonicMs() > end) throw faults.daemon_stop_failed({ pid, ms: STOP_MS })
    await pause(POLL_MS)
  }
  return pid
}

function stop(cli: Cli): Command {
  return {
    path: ['daemon', 'stop'],
    about: 'end the local daemon; sessions keep running',
    arguments: [],
    flags: [JSON_FLAG],
    json: true,
    async run(): Promise<Outcome> {
      const pid = await endDaemon(cli.roots.runtime)
      if (pid === undefined) return { ok: { stopped: false }, human: [line('no daemon is running')] }
      return { ok: { stopped: true, pid }, human: [line(`daemon stopped (pid ${pid}); sessions keep running`)] }
    },
  }
}

function status(cli: Cli): Command {
  return {
    path: ['daemon', 'status'],
    about: 'show whether a local daemon runs',
    details: ['Exit code 1 when none answers.'],
    arguments: [],
    flags: [JSON_FLAG],
    json: true,
    async run(): Promise<Outcome> {
      const pid = lockHolder(cli.roots.runtime)
      const answers = await accepts(cli.roots.daemonSocket)
      const socket = cli.roots.daemonSocket
      const state = answers ? 'running' : pid === undefined ? 'stopped' : 'not answering'
      return {
        ok: { running: answers, ...(pid === undefined ? {} : { pid }), socket },
        human: [
          {
            fields: [
              ['daemon', state],
              ['pid', pid === undefined ? '-' : String(pid)],
              ['socket', socket],
            ],
          },
        ],
        exitCode: answers ? 0 : 1,
      }
    },
  }
}

export const daemonCommands = (cli: Cli): Command[] => [start(cli), stop(cli), status(cli)]
