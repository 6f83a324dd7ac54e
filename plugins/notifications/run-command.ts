/** One run of the owner's notify command: no shell, a small environment, its own process group, bounded in time. */
import { spawn } from 'node:child_process'
import type { Clock } from '../../kernel/clock.ts'
import type { Processes } from '../../platform/processes.ts'

/** All of the daemon's environment that the command gets: what a desktop notice needs to find its session. */
const PASSED = [
  'PATH',
  'HOME',
  'LANG',
  'DBUS_SESSION_BUS_ADDRESS',
  'DISPLAY',
  'WAYLAND_DISPLAY',
  'XDG_RUNTIME_DIR',
] as const

export interface CommandRun {
  /** Program and arguments; not empty. */
  readonly command: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  /** Written to its standard input, which is then closed. */
  readonly input: string
  readonly timeoutMs: number
  readonly clock: Clock
  readonly processes: Pick<Processes, 'identify' | 'membersOf' | 'signal'>
  /** Ends the run. */
  readonly signal: AbortSignal
}

/** Pure. */
export const commandEnvironment = (env: CommandRun['env']): Record<string, string> =>
  Object.fromEntries(PASSED.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])))

/** Looks at what is left; what is started while one lasts is found by the next. */
const LOOKS = 3

/**
 * Ends what a command left behind in its terminal session. Its leader is reaped: nothing is signalled by its number, each
 * process is named by its own identity, and none while the number is somebody else's already.
 */
function endRest(processes: CommandRun['processes'], leader: number): void {
  try {
    for (let look = 0; look < LOOKS && processes.identify(leader) === undefined; look++) {
      const left = processes.membersOf({ session: leader })
      if (left.length === 0) return
      for (const it of left) processes.signal(it, 'SIGKILL')
    }
  } catch {
    // Processes cannot be looked at here: what is left is left alone.
  }
}

/** undefined when it exited with 0 in time, else what went wrong. Its output is thrown away. Never rejects. */
export function runCommand({
  command,
  env,
  input,
  timeoutMs,
  clock,
  processes,
  signal,
}: CommandRun): Promise<string | undefined> {
  const [program = '', ...args] = command
  return new Promise((resolve) => {
    if (signal.aborted) return resolve('the daemon stops')
    let child: ReturnType<typeof spawn>
    try {
      child = spawn(program, args, {
        cwd: '/',
        detached: true, // a group of its own: what it starts ends with it
        env: commandEnvironment(env),
        stdio: ['pipe', 'ignore', 'ignore'],
      })
    } catch (failure) {
      return resolve(`${program}: ${(failure as Error).message}`)
    }
    let isDone = false
    const finish = (problem: string | undefined): void => {
      if (isDone) return
      isDone = true
      timer[Symbol.dispose]()
      signal.removeEventListener('abort', stop)
      resolve(problem)
    }
    let cut: string | undefined
    // The leader is not reaped before its exit is told: its group is nobody else's.
    const kill = (why: string): void => {
      cut = why
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
      } catch {
        finish(why) // the group is gone
      }
    }
    const stop = (): void => kill('the daemon stops')
    const timer = clock.after(timeoutMs, () => kill(`did not end within ${timeoutMs} ms`))
    signal.addEventListener('abort', stop, { once: true })
    child.once('error', (failure) => finish(`${program}: ${failure.message}`))
    child.once('exit', (code, by) => {
      child.stdin?.destroy()
      if (child.pid !== undefined) endRest(processes, child.pid)
      if (cut !== undefined) finish(cut)
      else finish(code === 0 ? undefined : code === null ? `was ended by ${by}` : `exited with ${code}`)
    })
    child.stdin?.on('error', () => undefined) // it need not read
    child.stdin?.end(input)
  })
}
