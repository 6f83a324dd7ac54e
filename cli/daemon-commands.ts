/** pohunek daemon start|stop|status: this machine's daemon, found by its lock, so an older or newer one is found too. */
import { spawn } from 'node:child_process'
import type { Readable } from 'node:stream'
import { monotonicMs, pause } from '../client/clock.ts'
import { openSocket } from '../client/connection.ts'
import { wayTo } from '../platform/roots.ts'
import { JSON_FLAG, type Command, type Outcome } from '../protocol/command.ts'
import { daemonEnvironment, startDaemon } from './autostart.ts'
import type { Cli } from './cli.ts'
import { faults } from './errors.ts'
import { err, out } from './out.ts'
import { daemonElsewhere, daemonHere, type Holder } from './running-daemon.ts'

const STOP_MS = 20_000
const POLL_MS = 20

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
      const pid = daemonHere(cli.roots)?.pid
      if (pid !== undefined && (await accepts(cli.roots.daemonSocket)))
        return { ok: null, human: [line(`a daemon is running (pid ${pid})`)] }
      if (!input.has('detach')) return { ok: null, human: [], exitCode: await foreground(cli) }
      await startDaemon(cli.roots, cli.env, cli.installation, err)
      return { ok: null, human: [line(`daemon started (pid ${daemonHere(cli.roots)?.pid ?? 'unknown'})`)] }
    },
  }
}

/** The daemon as a child that gets our signals; answers its exit code. */
function foreground(cli: Cli): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(cli.installation.daemon, ['--ready-fd', '3'], {
      stdio: ['inherit', 'inherit', 'inherit', 'pipe'],
      env: daemonEnvironment(cli.env),
    })
    const ready = child.stdio[3] as Readable
    ready.once('error', () => undefined)
    ready.once('data', () => {
      ready.destroy()
      out(`the daemon serves on ${cli.roots.daemonSocket} (pid ${child.pid}); Ctrl-C ends it, sessions run on\n`)
    })
    for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal))
    // The terminal sends SIGINT to both; the daemon's end is ours.
    process.on('SIGINT', () => undefined)
    child.once('error', (failure) => reject(faults.daemon_spawn_failed({ problem: failure.message }, failure)))
    child.once('exit', (code, signal) => resolve(code ?? (signal === null ? 1 : 128)))
  })
}

/** The daemon that answers here, else the one that holds the same sessions elsewhere. */
const daemonOf = (cli: Cli): Holder | undefined => daemonHere(cli.roots) ?? daemonElsewhere(cli.roots)

/** Ends every daemon that holds one of the caller's directories and waits for their ends; answers the pids. */
export async function endDaemons(cli: Cli): Promise<readonly number[]> {
  const ended: number[] = []
  for (let holder = daemonOf(cli); holder !== undefined; holder = daemonOf(cli)) {
    await end(cli, holder)
    ended.push(holder.pid)
  }
  return ended
}

async function end(cli: Cli, { pid }: Holder): Promise<void> {
  try {
    process.kill(pid, 'SIGTERM')
  } catch (failure) {
    throw faults.io_error(
      { what: `pid ${pid}`, problem: (failure as NodeJS.ErrnoException).code ?? 'cannot be signalled' },
      failure,
    )
  }
  const end = monotonicMs() + STOP_MS
  while (daemonOf(cli)?.pid === pid) {
    if (monotonicMs() > end) throw faults.daemon_stop_failed({ pid, ms: STOP_MS })
    await pause(POLL_MS)
  }
}

function stop(cli: Cli): Command {
  return {
    path: ['daemon', 'stop'],
    about: 'end the local daemon; sessions keep running',
    details: ['Also ends one that serves the same sessions from another XDG_RUNTIME_DIR.'],
    arguments: [],
    flags: [JSON_FLAG],
    json: true,
    async run(): Promise<Outcome> {
      const holder = daemonOf(cli)
      if (holder === undefined) return { ok: { stopped: false }, human: [line('no daemon is running')] }
      await end(cli, holder)
      const { pid } = holder
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
      const pid = daemonHere(cli.roots)?.pid
      const elsewhere = pid === undefined ? daemonElsewhere(cli.roots) : undefined
      const other = elsewhere?.serves
      const answers = await accepts(cli.roots.daemonSocket)
      const socket = cli.roots.daemonSocket
      const state = answers ? 'running' : pid === undefined ? 'stopped' : 'not answering'
      return {
        ok: {
          running: answers,
          ...(pid === undefined ? {} : { pid }),
          socket,
          ...(elsewhere === undefined ? {} : { elsewhere: { pid: elsewhere.pid, socket: other?.socket ?? null } }),
        },
        human: [
          {
            fields: [
              ['daemon', state],
              ['pid', pid === undefined ? '-' : String(pid)],
              ['socket', socket],
              ...(elsewhere === undefined
                ? []
                : ([
                    ['elsewhere', `pid ${elsewhere.pid} serves your sessions on ${other?.socket ?? 'another socket'}`],
                  ] as const)),
              ...(other === undefined ? [] : ([['to use it', wayTo(other.runtime)]] as const)),
            ],
          },
        ],
        exitCode: answers ? 0 : 1,
      }
    },
  }
}

export const daemonCommands = (cli: Cli): Command[] => [start(cli), stop(cli), status(cli)]
