/**
 * Lifecycle scripts (contract/environment.md "Lifecycle hook scripts"): the host's, then the repository's. A script gets a
 * small environment, no input and no output: nothing it prints is kept anywhere, its exit status is all that is told.
 */
import { spawn } from 'node:child_process'
import { existsSync, realpathSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Clock } from '../../kernel/clock.ts'
import type { SessionInfo } from '../sessions/types.ts'
import { isInside } from './copy.ts'
import type { Warning } from './start-commit.ts'

export type ScriptEvent =
  'pre-create' | 'post-create' | 'pre-remove' | 'post-remove' | 'session-start' | 'session-stop' | 'agent-state'

export interface ScriptFacts {
  readonly sessionId: string
  readonly agent: string
  readonly projectId?: string | undefined
  readonly repo?: string | undefined
  readonly worktree?: string | undefined
  readonly branch?: string | undefined
  readonly baseBranch?: string | undefined
  readonly stopReason?: string | undefined
  readonly activity?: SessionInfo['activity'] | undefined
}

/** Whose scripts: the repository of a session may be known later than the session. */
export type ScriptLayer = 'host' | 'repo'

const SCRIPT_MS = 300_000
const TERM_GRACE_MS = 1_000

interface Script {
  readonly layer: ScriptLayer
  readonly file: string
  readonly kind: 'hook' | 'setup_script'
  /** Nothing of the script may be outside of it. */
  readonly root: string
  /** As a person knows it. */
  readonly name: string
}

export class Scripts {
  readonly #config: string
  readonly #env: Readonly<Record<string, string | undefined>>
  readonly #clock: Clock
  readonly #signal: AbortSignal

  /** `signal` ends what runs. */
  constructor(config: string, env: Readonly<Record<string, string | undefined>>, clock: Clock, signal: AbortSignal) {
    this.#config = config
    this.#env = env
    this.#clock = clock
    this.#signal = signal
  }

  /** Whether any would run; costs a look at two or three file names. */
  has(event: ScriptEvent, repo: string | undefined): boolean {
    return this.#of(event, repo).length > 0
  }

  /** Runs them one after the other in `cwd`; answers a warning for each that failed. */
  async run(event: ScriptEvent, facts: ScriptFacts, cwd: string, only?: ScriptLayer): Promise<Warning[]> {
    const warnings: Warning[] = []
    for (const script of this.#of(event, facts.repo).filter((it) => only === undefined || it.layer === only)) {
      const problem = await this.#runOne(script, this.#environment(event, facts), cwd)
      if (problem !== undefined) warnings.push({ kind: script.kind, message: `${script.name} ${problem}` })
    }
    return warnings
  }

  #of(event: ScriptEvent, repo: string | undefined): Script[] {
    const host = { root: this.#config, file: join(this.#config, 'hooks', event), name: `host hook ${event}` }
    const found: Script[] = existsSync(host.file) ? [{ ...host, layer: 'host', kind: 'hook' }] : []
    if (repo === undefined) return found
    const root = join(repo, '.pohunek')
    const own = join(root, 'hooks', event)
    const setup = join(root, 'setup')
    if (existsSync(own)) found.push({ layer: 'repo', root, file: own, kind: 'hook', name: `.pohunek/hooks/${event}` })
    else if (event === 'post-create' && existsSync(setup))
      found.push({ layer: 'repo', root, file: setup, kind: 'setup_script', name: '.pohunek/setup' })
    return found
  }

  #environment(event: ScriptEvent, facts: ScriptFacts): Record<string, string> {
    const all = {
      PATH: this.#env['PATH'],
      HOME: this.#env['HOME'],
      POHUNEK_HOOK_EVENT: event,
      POHUNEK_SESSION_ID: facts.sessionId,
      POHUNEK_PROJECT_ID: facts.projectId,
      POHUNEK_AGENT: facts.agent,
      POHUNEK_REPO: facts.repo,
      POHUNEK_WORKTREE: facts.worktree,
      POHUNEK_BRANCH: facts.branch,
      POHUNEK_BASE_BRANCH: facts.baseBranch,
      POHUNEK_STOP_REASON: facts.stopReason,
      POHUNEK_ACTIVITY: facts.activity,
    }
    return Object.fromEntries(Object.entries(all).filter((it): it is [string, string] => it[1] !== undefined))
  }

  /** What went wrong; undefined for exit status 0. */
  async #runOne({ file, root }: Script, env: Record<string, string>, cwd: string): Promise<string | undefined> {
    try {
      if (!isInside(realpathSync(root), realpathSync(file))) return 'is not run: it leads outside of its folder'
      if (!statSync(file).isFile()) return 'is not run: it is no file'
    } catch {
      return 'cannot be read'
    }
    if (this.#signal.aborted) return 'is not run: the daemon stops'
    const child = spawn('sh', [file], { cwd, env, stdio: 'ignore', detached: true })
    let stopped: string | undefined
    let escalation: Disposable | undefined
    const kill = (name: NodeJS.Signals): void => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, name)
      } catch {
        // it has ended
      }
    }
    const stop = (why: string): void => {
      if (stopped !== undefined) return
      stopped = why
      kill('SIGTERM')
      escalation = this.#clock.after(TERM_GRACE_MS, () => kill('SIGKILL'))
    }
    const timer = this.#clock.after(SCRIPT_MS, () => stop(`was ended after ${SCRIPT_MS / 60_000} minutes`))
    const abort = (): void => stop('was ended: the daemon stops')
    this.#signal.addEventListener('abort', abort, { once: true })
    try {
      const end = await new Promise<string | undefined>((resolve) => {
        child.once('error', () => resolve('could not be started'))
        child.once('exit', (code, signal) => {
          if (code === 0) resolve(undefined)
          else resolve(code === null ? `was ended by ${signal ?? 'a signal'}` : `failed with exit status ${code}`)
        })
      })
      return stopped ?? end
    } finally {
      timer[Symbol.dispose]()
      escalation?.[Symbol.dispose]()
      this.#signal.removeEventListener('abort', abort)
      if (stopped !== undefined) kill('SIGKILL')
    }
  }
}
