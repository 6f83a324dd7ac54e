/** Scripts of what sessions do: session-start, session-stop, agent-state. They run behind and delay nothing. */
import type { Log } from '../../kernel/log.ts'
import type { Scope } from '../../kernel/scope.ts'
import { messageOf } from '../../protocol/fault.ts'
import type { SessionService } from '../sessions/api.ts'
import type { SessionInfo } from '../sessions/types.ts'
import type { Binding } from './binding.ts'
import { exists } from './locate.ts'
import type { ScriptEvent, ScriptFacts, ScriptLayer, Scripts } from './scripts.ts'

/** contract/environment.md: an activity that passes quicker is not told. */
const DEBOUNCE_MS = 50
const MAX_WARNINGS = 20

interface Edges {
  readonly sessions: SessionService
  readonly scripts: Scripts
  readonly binding: (sessionId: string) => Binding | undefined
  readonly scope: Scope
  readonly log: Log
}

export class SessionScripts {
  readonly #edges: Edges
  /** One script of a session after the other. */
  readonly #last = new Map<string, Promise<void>>()
  readonly #due = new Map<string, Disposable>()
  /** Started sessions whose repository, if any, is not known yet: its script for that is still to run. */
  readonly #unplaced = new Set<string>()

  constructor(edges: Edges) {
    this.#edges = edges
    const { hooks } = edges.sessions
    hooks.created.tap('worktrees', (session) => {
      if (session.repo === undefined) this.#unplaced.add(session.id)
      this.#run('session-start', session)
    })
    hooks.ended.tap('worktrees', (session) => {
      this.#unplaced.delete(session.id)
      this.#run('session-stop', session, { stopReason: session.state })
    })
    hooks.changed.tap('worktrees', (now, before) => {
      if (now.repo !== undefined && this.#unplaced.delete(now.id)) this.#run('session-start', now, {}, 'repo')
      if (now.activity !== before.activity && now.activity !== undefined) this.#activity(now)
    })
    hooks.removed.tap('worktrees', ({ id }) => this.#forget(id))
  }

  /** Resolves when nothing runs any more. */
  async idle(): Promise<void> {
    while (this.#last.size > 0) await Promise.all(this.#last.values())
  }

  #activity({ id, repo }: SessionInfo): void {
    if (!this.#edges.scripts.has('agent-state', repo)) return
    this.#due.get(id)?.[Symbol.dispose]()
    if (this.#edges.scope.closed) return
    this.#due.set(
      id,
      this.#edges.scope.after(DEBOUNCE_MS, 'agent-state', () => {
        this.#due.delete(id)
        const session = this.#edges.sessions.get(id)
        if (session !== undefined) this.#run('agent-state', session, { activity: session.activity })
      }),
    )
  }

  #forget(id: string): void {
    this.#unplaced.delete(id)
    this.#due.get(id)?.[Symbol.dispose]()
    this.#due.delete(id)
  }

  #run(event: ScriptEvent, session: SessionInfo, more: Partial<ScriptFacts> = {}, only?: ScriptLayer): void {
    const { scripts, log } = this.#edges
    if (!scripts.has(event, session.repo)) return
    const run = (this.#last.get(session.id) ?? Promise.resolve())
      .then(() => this.#runNow(event, session, more, only))
      .catch((failure: unknown) =>
        log.warn({ session_id: session.id, event, problem: messageOf(failure) }, 'a lifecycle script was not run'),
      )
    this.#last.set(session.id, run)
    void run.then(() => {
      if (this.#last.get(session.id) === run) this.#last.delete(session.id)
    })
  }

  async #runNow(
    event: ScriptEvent,
    session: SessionInfo,
    more: Partial<ScriptFacts>,
    only: ScriptLayer | undefined,
  ): Promise<void> {
    const { sessions, scripts, binding } = this.#edges
    const { id, repo, worktree_path: worktree } = session
    const facts: ScriptFacts = {
      sessionId: id,
      agent: session.agent,
      projectId: session.project_id,
      repo,
      worktree,
      branch: session.branch,
      baseBranch: binding(id)?.base_branch,
      ...more,
    }
    // Never another checkout: a script for a tree that is gone must not work in the main one.
    const cwd = [worktree, session.cwd].find((it) => it !== undefined && exists(it)) ?? '/'
    const warnings = await scripts.run(event, facts, cwd, only)
    const now = sessions.get(id)
    if (warnings.length === 0 || now === undefined) return
    const all = [...(now.warnings ?? []), ...warnings]
    const told = all.filter((it, at) => all.findIndex((other) => other.message === it.message) === at)
    await sessions.record(id, { warnings: told.slice(-MAX_WARNINGS) })
  }
}
