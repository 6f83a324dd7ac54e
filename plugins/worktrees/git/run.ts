/**
 * Runs git: no shell, a clean environment, bounded in time and output, its own process group so that what it started
 * ends with it. Messages carry git's own words, shortened and without control characters.
 */
import { spawn } from 'node:child_process'
import type { Clock } from '../../../kernel/clock.ts'

/** One git command (contract/environment.md §4). */
export const GIT_COMMAND_MS = 30_000
/** Finding out whether a directory is a repository. */
export const GIT_DETECT_MS = 5_000
/** Lists of files and refs of very large repositories. */
const MAX_OUTPUT_BYTES = 64 * 1_048_576
const MAX_STDERR_BYTES = 8_192
const MAX_MESSAGE_CHARS = 400
/** After SIGTERM: git removes its lock files. */
const TERM_GRACE_MS = 1_000
/** A process that a hook left behind may hold the pipes of a git that ended; its last words are there by then. */
const DRAIN_MS = 500

/** What git is given of the daemon's environment; the rest would be configuration of whoever started the daemon. */
const PASSED = [
  'PATH',
  'HOME',
  'XDG_CONFIG_HOME',
  'SSH_AUTH_SOCK',
  'LANG',
  'TMPDIR',
  'USER',
  'LOGNAME',
  // How a remote is reached.
  'http_proxy',
  'https_proxy',
  'HTTPS_PROXY',
  'all_proxy',
  'ALL_PROXY',
  'no_proxy',
  'NO_PROXY',
  'SSL_CERT_FILE',
  'SSL_CERT_DIR',
] as const
const FIXED: Readonly<Record<string, string>> = {
  // No question can be answered here, and no pager or editor is wanted. How ssh is called stays the repository's choice:
  // without a terminal of its own it cannot ask either.
  GIT_TERMINAL_PROMPT: '0',
  GIT_ASKPASS: 'true',
  SSH_ASKPASS: 'true',
  GIT_PAGER: 'cat',
  GIT_EDITOR: 'true',
  // Looking at a tree must not lock the index under an agent's feet.
  GIT_OPTIONAL_LOCKS: '0',
  // Messages are matched in one language.
  LC_ALL: 'C.UTF-8',
}

/** Commits as they are: one that a replaced or grafted commit only pretends to lead to is kept by nothing. */
export const AS_STORED = { GIT_NO_REPLACE_OBJECTS: '1', GIT_GRAFT_FILE: '/dev/null' } as const

export class GitFailure extends Error {
  readonly how: 'exit' | 'timeout' | 'aborted' | 'output' | 'spawn'
  /** Exit status, when it ended by itself. */
  readonly status: number | undefined
  /** What git said, bounded, one line per line, no control characters. */
  readonly said: string

  constructor(how: GitFailure['how'], args: readonly string[], said: string, status?: number) {
    const [verb = ''] = args.filter((it, at) => !it.startsWith('-') && args[at - 1] !== '-c')
    super(`git ${verb}: ${said === '' ? how : oneLine(said).slice(0, MAX_MESSAGE_CHARS)}`)
    this.name = 'GitFailure'
    this.how = how
    this.status = status
    this.said = said
  }
}

export interface GitCall {
  /** Directory it runs in, as `git -C`; it must exist. */
  readonly cwd: string
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
  /** Exit statuses that are answers; 0 is one. */
  readonly accept?: readonly number[]
  readonly stdin?: string | Buffer
  readonly maxBytes?: number
  /** More output than maxBytes is cut instead of being a failure. */
  readonly cut?: boolean
  readonly env?: Readonly<Record<string, string>>
}

export interface GitAnswer {
  readonly status: number
  readonly stdout: Buffer
  readonly truncated: boolean
  /** stdout as UTF-8 without its last line feed; a value that itself ends in one is not asked for. */
  readonly text: string
}

/** Runs git commands of one daemon. */
export class Git {
  readonly #env: Readonly<Record<string, string>>
  readonly #clock: Clock

  constructor(daemonEnv: Readonly<Record<string, string | undefined>>, clock: Clock) {
    const passed = PASSED.flatMap((name) => {
      const value = daemonEnv[name]
      return value === undefined ? [] : [[name, value] as const]
    })
    this.#env = { ...Object.fromEntries(passed), ...FIXED }
    this.#clock = clock
  }

  /** Throws GitFailure. */
  async run(args: readonly string[], call: GitCall): Promise<GitAnswer> {
    const { timeoutMs = GIT_COMMAND_MS, signal, accept = [0], maxBytes = MAX_OUTPUT_BYTES } = call
    if (signal?.aborted === true) throw new GitFailure('aborted', args, '')
    const child = spawn('git', ['--no-pager', '-c', 'core.quotePath=false', ...args], {
      cwd: call.cwd,
      env: { ...this.#env, ...call.env },
      stdio: ['pipe', 'pipe', 'pipe'],
      detached: true,
    })
    // Without a descriptor left there is no child and no pipe, and nobody may miss its only word.
    const unborn = new Promise<never>((_, reject) =>
      child.once('error', (failure) => reject(new GitFailure('spawn', args, failure.message))),
    )
    unborn.catch(() => undefined) // told below as well, or there was a child
    if (child.pid === undefined) return await unborn
    const out: Buffer[] = []
    let bytes = 0
    let truncated = false
    const err: Buffer[] = []
    let errBytes = 0
    let stopped: GitFailure['how'] | undefined
    let escalation: Disposable | undefined
    let drain: Disposable | undefined
    const kill = (name: NodeJS.Signals): void => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, name)
      } catch {
        // it has ended
      }
    }
    const stop = (how: GitFailure['how']): void => {
      if (stopped !== undefined) return
      stopped = how
      kill('SIGTERM')
      escalation = this.#clock.after(TERM_GRACE_MS, () => {
        kill('SIGKILL')
        child.stdout.destroy()
        child.stderr.destroy()
      })
    }
    const timer = this.#clock.after(timeoutMs, () => stop('timeout'))
    const abort = (): void => stop('aborted')
    signal?.addEventListener('abort', abort, { once: true })
    child.stdout.on('data', (chunk: Buffer) => {
      const room = maxBytes - bytes
      if (chunk.length > room) {
        truncated = true
        stop('output')
      }
      if (room <= 0) return
      out.push(chunk.subarray(0, room))
      bytes += Math.min(chunk.length, room)
    })
    child.stderr.on('data', (chunk: Buffer) => {
      if (errBytes < MAX_STDERR_BYTES) err.push(chunk.subarray(0, MAX_STDERR_BYTES - errBytes))
      errBytes += chunk.length
    })
    child.stdin.on('error', () => undefined) // it may end without reading
    child.stdin.end(call.stdin)
    try {
      const status = await new Promise<number | undefined>((resolve, reject) => {
        child.once('error', (failure) => reject(new GitFailure('spawn', args, failure.message)))
        child.once('exit', () => {
          drain = this.#clock.after(DRAIN_MS, () => {
            child.stdout.destroy()
            child.stderr.destroy()
          })
        })
        child.once('close', (code) => resolve(code ?? undefined))
      })
      const said = printable(Buffer.concat(err).toString('utf8'))
      const cut = stopped === 'output' && call.cut === true
      if (stopped !== undefined && !cut) throw new GitFailure(stopped, args, said)
      if (!cut && (status === undefined || !accept.includes(status))) throw new GitFailure('exit', args, said, status)
      const stdout = Buffer.concat(out)
      return {
        status: status ?? 0,
        stdout,
        truncated,
        get text() {
          return stdout.toString('utf8').replace(/\n$/, '')
        },
      }
    } finally {
      timer[Symbol.dispose]()
      escalation?.[Symbol.dispose]()
      drain?.[Symbol.dispose]()
      signal?.removeEventListener('abort', abort)
      // A hook or a helper it left behind in its group must not go on working in a tree that is about to go.
      if (stopped !== undefined) kill('SIGKILL')
    }
  }

  /** Output as its NUL-separated parts, the empty one at the end left out. Throws GitFailure. */
  async list(args: readonly string[], call: GitCall): Promise<string[]> {
    const { stdout } = await this.run(args, call)
    const parts = stdout.toString('utf8').split('\0')
    if (parts.at(-1) === '' || parts.at(-1) === '\n') parts.pop()
    return parts
  }

  /** Whether git can be run at all. */
  async available(): Promise<boolean> {
    try {
      await this.run(['--version'], { cwd: '/', timeoutMs: GIT_DETECT_MS })
      return true
    } catch (failure) {
      if (failure instanceof GitFailure) return false
      throw failure
    }
  }
}

/** Pure. Several lines as one. */
export const oneLine = (text: string): string =>
  text
    .split('\n')
    .map((it) => it.trim())
    .filter((it) => it !== '')
    .join(' ')

const printable = (text: string): string =>
  text
    .replace(/^(warning|hint): .*$/gm, '')
    .replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, '?')
    .trim()
