/**
 * The PATH of the user's login shell: a daemon started by a service manager has a tiny one (FC-a823). Asking is
 * bounded, has no terminal and its own process group, and tolerates noise (FC-e4a2).
 */
import { spawn } from 'node:child_process'
import { homedir } from 'node:os'
import type { Clock } from '../../kernel/clock.ts'
import { loginShell } from '../../platform/login-shell.ts'

/** Long enough for an ordinary start-up file; a creation waits for it at most once per RETRY_MS. */
const ASK_MS = 3_000
const MAX_OUTPUT_BYTES = 1_048_576
/** A shell that failed is asked again after this. */
const RETRY_MS = 60_000
// No character that could belong to a variable's name: the mark stands right behind $PATH in every shell's syntax.
const MARK = '--pohunek-path--'

export interface LoginPath {
  /** Directories of the login shell's PATH, or undefined when it told none in time. */
  ask(): Promise<readonly string[] | undefined>
}

/** One question at a time; a good answer is kept, a bad one is asked again later. `warn` hears why there is none. */
export function loginPath(
  env: Readonly<Record<string, string | undefined>>,
  clock: Clock,
  signal: AbortSignal,
  warn: (problem: string) => void,
): LoginPath {
  let answer: { at: number; path: readonly string[] | undefined } | undefined
  let asking: Promise<readonly string[] | undefined> | undefined
  return {
    ask() {
      if (answer !== undefined && (answer.path !== undefined || clock.monotonic() - answer.at < RETRY_MS))
        return Promise.resolve(answer.path)
      asking ??= askShell(env, clock, signal).then((result) => {
        asking = undefined
        if (typeof result === 'string') warn(result)
        const path = typeof result === 'string' ? undefined : result
        answer = { at: clock.monotonic(), path }
        return path
      })
      return asking
    },
  }
}

/** Directories, or why there are none. */
function askShell(
  env: Readonly<Record<string, string | undefined>>,
  clock: Clock,
  signal: AbortSignal,
): Promise<readonly string[] | string> {
  const { shell, problem } = loginShell(env)
  if (problem !== undefined) return Promise.resolve(`login shell ${shell}: ${problem}`)
  return new Promise((resolve) => {
    const known = {
      HOME: env['HOME'] ?? homedir(),
      PATH: env['PATH'] ?? '/usr/bin:/bin',
      USER: env['USER'],
      LOGNAME: env['LOGNAME'],
      SHELL: shell,
      TERM: 'dumb',
      XDG_CONFIG_HOME: env['XDG_CONFIG_HOME'],
    }
    const child = spawn(shell, ['-l', '-i', '-c', `printf '%s' "${MARK}$PATH${MARK}"`], {
      cwd: '/',
      detached: true, // its own session: no terminal to ask on, one group to end
      env: Object.fromEntries(Object.entries(known).filter(([, value]) => value !== undefined)),
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    let output = ''
    let bytes = 0
    const finish = (result: readonly string[] | string): void => {
      timer[Symbol.dispose]()
      signal.removeEventListener('abort', stop)
      child.stdout.destroy()
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
      } catch {
        // the group is gone
      }
      resolve(result)
    }
    const stop = (): void => finish('the daemon stops')
    const timer = clock.after(ASK_MS, () => finish(`login shell ${shell} did not answer within ${ASK_MS} ms`))
    signal.addEventListener('abort', stop, { once: true })
    child.on('error', (failure) => finish(`login shell ${shell}: ${failure.message}`))
    child.stdout.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      // Only what may still hold the two marks is kept: start-up files may print a lot.
      output = (output + chunk.toString('latin1')).slice(-65_536)
      const found = between(output)
      if (found !== undefined) finish(found)
      else if (bytes > 2 * MAX_OUTPUT_BYTES) finish(`login shell ${shell} printed over ${2 * MAX_OUTPUT_BYTES} bytes`)
    })
    child.on('close', () => finish(between(output) ?? `login shell ${shell} told no PATH`))
  })
}

function between(output: string): readonly string[] | undefined {
  const start = output.lastIndexOf(MARK, output.lastIndexOf(MARK) - 1)
  const end = output.lastIndexOf(MARK)
  if (start < 0 || end <= start) return undefined
  const text = Buffer.from(output.slice(start + MARK.length, end), 'latin1').toString('utf8')
  return text.split(':').filter((it) => it.startsWith('/'))
}
