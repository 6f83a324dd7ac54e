/**
 * Asks a program for its release: with nothing of this daemon but PATH, in directories of its own, bounded in time and
 * output, in a process group that is ended whatever it answered (contract/runtime-packages.md, "Version probe").
 */
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../kernel/clock.ts'
import { privateDir } from '../../kernel/secure-files.ts'

const MAX_OUTPUT_BYTES = 4_096

export interface ProbeRequest {
  /** Absolute. */
  readonly program: string
  readonly args: readonly string[]
  /** PATH of the program. */
  readonly path: string
  readonly timeoutMs: number
}

/** What it printed, or in words why that is not known; never quotes the program. */
export type ProbeAnswer = { readonly stdout: string; readonly stderr: string } | { readonly problem: string }

export interface ProbeEdges {
  /** Directories of probes are made below it. */
  readonly directory: string
  readonly clock: Clock
  /** Ends what runs. */
  readonly signal: AbortSignal
}

export async function probe(request: ProbeRequest, edges: ProbeEdges): Promise<ProbeAnswer> {
  privateDir(edges.directory)
  const root = mkdtempSync(join(edges.directory, 'p-'))
  try {
    return await ask(request, root, edges)
  } finally {
    await rm(root, { recursive: true, force: true, maxRetries: 2 }).catch(() => undefined)
  }
}

/** The whole environment: every place an agent may write to is below `root`. */
function environment(root: string, path: string): Record<string, string> {
  const below = (name: string): string => {
    const directory = join(root, name)
    mkdirSync(directory, { mode: 0o700 })
    return directory
  }
  return {
    PATH: path,
    HOME: below('home'),
    XDG_CONFIG_HOME: below('config'),
    XDG_DATA_HOME: below('data'),
    XDG_STATE_HOME: below('state'),
    XDG_CACHE_HOME: below('cache'),
    XDG_RUNTIME_DIR: below('runtime'),
    TMPDIR: below('tmp'),
  }
}

function ask(
  { program, args, path, timeoutMs }: ProbeRequest,
  root: string,
  { clock, signal }: ProbeEdges,
): Promise<ProbeAnswer> {
  return new Promise((resolve) => {
    const env = environment(root, path)
    const cwd = join(root, 'cwd')
    mkdirSync(cwd, { mode: 0o700 })
    const child = spawn(program, [...args], { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
    const texts = { stdout: '', stderr: '' }
    let bytes = 0
    let ended = false
    let failed: string | undefined
    /** Only while its number can be nobody else's: it was not waited for yet, or was right now and nobody has it. */
    const endGroup = (): void => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
      } catch {
        // the group is gone
      }
    }
    const finish = (answer: ProbeAnswer): void => {
      timer[Symbol.dispose]()
      signal.removeEventListener('abort', stop)
      if (!ended) endGroup()
      child.stdout.destroy()
      child.stderr.destroy()
      resolve(answer)
    }
    const stop = (): void => finish({ problem: 'was not asked, the daemon stops' })
    const timer = clock.after(timeoutMs, () => {
      // What it left behind in another group may hold its output open; what it said before it ended counts.
      if (ended && failed === undefined) finish(texts)
      else finish({ problem: failed ?? `did not tell its release within ${timeoutMs} ms` })
    })
    if (signal.aborted) return stop()
    signal.addEventListener('abort', stop, { once: true })
    child.on('error', (failure) => finish({ problem: `cannot be run (${failure.message})` }))
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].on('data', (chunk: Buffer) => {
        bytes += chunk.length
        texts[name] += chunk.toString('latin1')
        if (bytes > MAX_OUTPUT_BYTES) finish({ problem: `printed over ${MAX_OUTPUT_BYTES} bytes` })
      })
    }
    child.on('exit', (code, by) => {
      ended = true
      // What it started must not hold its output open.
      if (!isTaken(child.pid)) endGroup()
      if (code !== 0) failed = by === null ? `ended with code ${String(code)}` : `was ended by ${by}`
    })
    child.on('close', () => finish(failed === undefined ? texts : { problem: failed }))
  })
}

function isTaken(pid: number | undefined): boolean {
  try {
    return pid !== undefined && process.kill(pid, 0)
  } catch (failure) {
    return (failure as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}
