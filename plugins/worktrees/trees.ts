/** The managed trees: what happens to one as its session is planned, made, ended and removed. Wired by plugin.ts. */
import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import { Fault, messageOf } from '../../protocol/fault.ts'
import type { LaunchPlan, LaunchTarget, Leaving, Preparation, SessionService } from '../sessions/api.ts'
import type { SessionInfo } from '../sessions/types.ts'
import type { Hold } from './api.ts'
import type { Binding } from './binding.ts'
import { copyListed, isInside } from './copy.ts'
import { keepTree, makeTree, stored, undoTree, type Making } from './create.ts'
import { faults } from './faults.ts'
import { GitFailure } from './git/run.ts'
import { holdingsOf, loss, lostHead } from './holdings.ts'
import { entryFor, exists, locate, type Located } from './locate.ts'
import type { Places } from './places.ts'
import type { ProjectDoor } from './projects-door.ts'
import { removeTree, type TreeRemoval } from './remove.ts'
import type { ScriptFacts, Scripts } from './scripts.ts'
import { Fetches, startOf, type Warning } from './start-commit.ts'
import { checkBranch, resolveTarget, startDirectory, type TargetEdges, type TreeRequest } from './target.ts'
import { Turns } from './turns.ts'

export interface TreeEdges extends Making {
  readonly sessions: SessionService
  readonly projects: ProjectDoor
  readonly scripts: Scripts
  readonly places: Places
  /** Ends what the plugin asks of git for itself. */
  readonly signal: AbortSignal
}

export class Trees {
  readonly #edges: TreeEdges
  readonly turns = new Turns()
  readonly #fetches: Fetches
  /** Of plans whose sessions are not made yet; a plan that goes nowhere takes its request along. */
  readonly #requests = new WeakMap<LaunchTarget, TreeRequest>()

  constructor(edges: TreeEdges) {
    this.#edges = edges
    this.#fetches = new Fetches(edges.git)
  }

  get #target(): TargetEdges {
    const { git, places, signal, projects } = this.#edges
    return { git, places, signal, project: (it) => projects.resolve(it), holder: (path) => this.holder(path) }
  }

  /** A plan without a target costs nothing. Throws what contract/methods.md lists for session.new. */
  async plan(plan: LaunchPlan): Promise<LaunchPlan> {
    if (Object.keys(plan.target).length === 0) return plan
    const found = await resolveTarget(this.#target, plan.target)
    const target: LaunchTarget = {}
    if (found.kind === 'none') return { ...plan, target }
    if (found.kind === 'in_place') return { ...plan, target, cwd: found.cwd }
    // The target stays the same object whatever the other plugins make of the plan.
    this.#requests.set(target, found.request)
    return { ...plan, target, cwd: startDirectory(found.request.repository) }
  }

  /** Makes the tree of a plan that wants one. Throws worktree_*, invalid_branch; what was made is undone by `leave`. */
  async prepare(preparation: Preparation): Promise<void> {
    const request = this.#requests.get(preparation.plan.target)
    if (request === undefined) return
    try {
      await this.#make(preparation, request)
    } catch (failure) {
      if (!(failure instanceof GitFailure)) throw failure
      throw faults.worktree_add_failed({ problem: failure.message }, failure)
    }
  }

  async #make(preparation: Preparation, request: TreeRequest): Promise<void> {
    const { git, projects, scripts } = this.#edges
    const { repository, branch } = request
    const { sessionId } = preparation
    const project = await projects.ensure(repository)
    const from = startDirectory(repository)
    const facts: ScriptFacts = {
      sessionId,
      agent: preparation.plan.agent,
      projectId: project?.id,
      repo: request.repo,
      branch,
      baseBranch: request.baseBranch,
    }
    const warnings: Warning[] = [...(await scripts.run('pre-create', facts, from))]
    const start = request.reuse
      ? undefined
      : (request.head ?? (await startOf(git, this.#fetches, from, repository.commonDir, request.baseBranch)))
    warnings.push(...(start?.warnings ?? []))
    const binding = await this.turns.run(repository.commonDir, () =>
      makeTree(this.#edges, sessionId, request, start, project?.id).catch(async (failure: unknown) => {
        // Somebody may have been quicker than the making: then that is what is said.
        if (failure instanceof Fault && failure.code === 'worktree_add_failed')
          await checkBranch(this.#target, repository, branch, request.reuse, true)
        throw failure
      }),
    )
    const { path } = binding
    if (!repository.isBare)
      for (const message of await copyListed(git, request.repo, path)) warnings.push({ kind: 'setup_script', message })
    const made: ScriptFacts = { ...facts, worktree: path, baseBranch: binding.base_branch }
    warnings.push(...(await scripts.run('post-create', made, path)))
    await keepTree(this.#edges, binding)
    await this.#learn(binding)
    preparation.cwd = path
    Object.assign(preparation.context, {
      ...(project === undefined ? {} : { project_id: project.id, project_label: project.label }),
      repo: request.repo,
      branch,
      worktree_path: path,
      is_linked_worktree: true,
      ...(warnings.length === 0 ? {} : { warnings }),
    })
  }

  /** What a new tree is needs no asking: whoever looks at it next knows. */
  async #learn({ common_dir, path, repo }: Binding): Promise<void> {
    const entry = entryFor(common_dir, path)
    if (entry === undefined) return
    const made = { commonDir: common_dir, gitDir: join(common_dir, 'worktrees', entry), isBare: false, isLinked: true }
    await this.#edges.places.learn({ ...made, topLevel: canonical(path) }, repo)
  }

  async leave(leaving: Leaving): Promise<void> {
    const { session, why } = leaving
    const binding = this.#edges.bindings.get(session.id)
    if (binding === undefined) return
    if (why === 'undo') return await this.turns.run(binding.common_dir, () => undoTree(this.#edges, binding))
    const { log } = this.#edges
    const removal = await this.remove(binding, session)
    if (removal.rescued !== undefined) leaving.rescued.push({ ...removal.rescued, repo: binding.repo })
    if (removal.kind === 'removed') leaving.worktreesRemoved += 1
    else {
      leaving.worktreesFailed += 1
      await this.#put({ ...binding, orphaned: true })
      log.warn({ session_id: session.id, path: removal.path, problem: removal.problem }, 'a worktree stays')
    }
  }

  /** Removes a tree nobody works in, with its scripts; the binding is gone with it. Throws worktree_store_error. */
  async remove(binding: Binding, session: SessionInfo | undefined): Promise<TreeRemoval> {
    const { git, clock, bindings, scripts, log } = this.#edges
    const { session_id, repo, common_dir } = binding
    const at = locate(binding)
    const user = this.#users(at.path).find((it) => it.id !== session?.id)
    if (user !== undefined)
      return { kind: 'kept', path: at.path, problem: `session ${user.id} runs in it`, rescued: undefined }
    const facts: ScriptFacts = {
      sessionId: session_id,
      agent: session?.agent ?? '',
      projectId: binding.project_id,
      repo,
      worktree: at.path,
      branch: binding.branch,
      baseBranch: binding.base_branch,
    }
    const told = (warnings: readonly Warning[]): void => {
      for (const it of warnings) log.warn({ session_id, problem: it.message }, 'a lifecycle script failed')
    }
    if (at.kind === 'present') told(await scripts.run('pre-remove', facts, at.path))
    const removal = await this.turns.run(common_dir, () => removeTree(git, clock, binding))
    const { rescued } = removal
    if (rescued !== undefined)
      log.warn({ session_id, repo, ref: rescued.ref, commit: rescued.commit }, 'unsaved work of a worktree is kept')
    if (removal.kind === 'kept') return removal
    await stored(() => bindings.delete(session_id))
    if (exists(repo)) told(await scripts.run('post-remove', facts, repo))
    return removal
  }

  /** What became of trees whose sessions are gone: half-made ones go, complete ones stay and are listed. */
  async recover(recordsDamaged: boolean): Promise<void> {
    const { bindings, sessions, log } = this.#edges
    for (const binding of [...bindings.values()]) {
      if (sessions.get(binding.session_id) !== undefined || binding.orphaned === true) continue
      const { session_id, path } = binding
      try {
        // Damaged records may have been those of its session: nothing is deleted on their word.
        if (binding.state === 'making' && !recordsDamaged)
          await this.turns.run(binding.common_dir, () => undoTree(this.#edges, binding))
        else {
          log.warn({ session_id, path }, 'a worktree without its session stays; pohunek worktree remove takes it away')
          await this.#put({ ...binding, orphaned: true })
        }
      } catch (failure) {
        log.warn({ session_id, path, problem: messageOf(failure) }, 'a half-made worktree could not be undone yet')
      }
    }
  }

  get(sessionId: string): Binding | undefined {
    return this.#edges.bindings.get(sessionId)
  }
  list(): Binding[] {
    return [...this.#edges.bindings.values()]
  }

  /** Where the tree of a session is now, also when nothing is there. */
  boundTo(sessionId: string): string | undefined {
    const binding = this.get(sessionId)
    return binding && locate(binding).path
  }

  /** Root of the managed tree a canonical path lies in. */
  containing(path: string): string | undefined {
    return this.list()
      .map((it) => locate(it))
      .find((it) => it.kind === 'present' && isInside(canonical(it.path), path))?.path
  }

  /** The trees of one repository, where they are now. */
  inRepository(commonDir: string): { path: string; sessionId: string }[] {
    return this.list()
      .filter((it) => it.common_dir === commonDir)
      .map((it) => ({ path: locate(it).path, sessionId: it.session_id }))
  }

  /** Removes the trees of a repository nobody works in and that hold nothing unsaved. Answers their paths. */
  async prune(commonDir: string): Promise<{ removed: string[]; skipped: string[] }> {
    const { git, sessions, log } = this.#edges
    const removed: string[] = []
    const skipped: string[] = []
    for (const binding of this.list().filter((it) => it.common_dir === commonDir)) {
      const at = locate(binding)
      try {
        const free = this.#users(at.path).length === 0 && !isLive(sessions.get(binding.session_id))
        const held = at.kind === 'present' ? loss(await holdingsOf(git, at)) : undefined
        const gone = free && held === undefined && (await this.remove(binding, undefined)).kind === 'removed'
        ;(gone ? removed : skipped).push(at.path)
      } catch (failure) {
        skipped.push(at.path)
        log.warn({ path: at.path, problem: messageOf(failure) }, 'a worktree stays')
      }
    }
    return { removed, skipped }
  }

  /** The managed tree at a path, under whatever name it is reached. */
  at(path: string): Binding | undefined {
    const real = canonical(path)
    return this.list().find((it) => {
      const now = locate(it).path
      return now === path || it.path === path || canonical(now) === real
    })
  }

  /** Where a session's tree is now; a tree that was moved is remembered where it is. Throws session_no_worktree. */
  async find(sessionId: string): Promise<{ binding: Binding; at: Extract<Located, { kind: 'present' }> }> {
    const binding = this.get(sessionId)
    const at = binding && locate(binding)
    if (binding === undefined || at?.kind !== 'present') throw faults.session_no_worktree({ id: sessionId })
    if (at.path === binding.path) return { binding, at }
    const moved = { ...binding, path: at.path }
    await this.#put(moved)
    await this.#edges.sessions.record(sessionId, { worktree_path: at.path }).catch(() => undefined)
    return { binding: moved, at }
  }

  /** Session that works in a tree. */
  holder(path: string): string | undefined {
    return this.at(path)?.session_id ?? this.#users(path)[0]?.id
  }

  /** Why a session's tree must not go by itself. Never throws: what cannot be said is a reason. */
  async hold(sessionId: string, signal: AbortSignal): Promise<Hold | undefined> {
    const binding = this.get(sessionId)
    if (binding === undefined) return undefined
    const { git } = this.#edges
    try {
      const at = locate(binding)
      if (at.kind === 'gone') return undefined
      if (at.kind === 'broken') return 'worktree_unknown'
      if (at.kind === 'absent') return (await lostHead(git, at)) === undefined ? undefined : 'worktree_unpushed'
      if (this.#users(at.path).some((it) => it.id !== sessionId)) return 'worktree_unknown'
      const { uncommitted, untracked, ownCommits, inside } = await holdingsOf(git, at, signal)
      if (uncommitted > 0) return 'worktree_uncommitted'
      if (untracked > 0) return 'worktree_untracked'
      if (ownCommits) return 'worktree_unpushed'
      return inside === undefined ? undefined : 'worktree_uncommitted'
    } catch {
      return 'worktree_unknown'
    }
  }

  /** Sessions whose programs run in a tree or are bound to it. */
  users(path: string): readonly SessionInfo[] {
    return this.#users(path)
  }

  #users(path: string): SessionInfo[] {
    return this.#edges.sessions
      .list()
      .filter(isLive)
      .filter((it) => isInside(path, it.cwd) || (it.worktree_path !== undefined && isInside(path, it.worktree_path)))
  }

  #put(binding: Binding): Promise<void> {
    return stored(() => this.#edges.bindings.put(binding))
  }
}

/** Its program runs, or is about to. */
const isLive = (session: SessionInfo | undefined): boolean =>
  session?.state === 'running' || session?.state === 'starting'

function canonical(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}
