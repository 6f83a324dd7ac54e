/** The managed trees: what happens to one as its session is planned, made, ended and removed. Wired by plugin.ts. */
import { join } from 'node:path'
import { Fault, messageOf } from '../../protocol/fault.ts'
import type { LaunchPlan, LaunchTarget, Leaving, Preparation, Rescued, SessionService } from '../sessions/api.ts'
import type { SessionInfo } from '../sessions/types.ts'
import type { Binding } from './binding.ts'
import { copyListed } from './copy.ts'
import { keepTree, makeTree, stored, undoTree, type Making } from './create.ts'
import { faults } from './faults.ts'
import { GitFailure } from './git/run.ts'
import { holdingsOf, loss } from './holdings.ts'
import { entryFor, exists, locate } from './locate.ts'
import { canonical, Lookup } from './lookup.ts'
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
  readonly lookup: Lookup
  readonly turns = new Turns()
  readonly #fetches: Fetches
  /** Of plans whose sessions are not made yet; a plan that goes nowhere takes its request along. */
  readonly #requests = new WeakMap<LaunchTarget, TreeRequest>()

  constructor(edges: TreeEdges) {
    this.#edges = edges
    this.lookup = new Lookup(edges)
    this.#fetches = new Fetches(edges.git)
  }

  get #target(): TargetEdges {
    const { git, places, signal, projects } = this.#edges
    return { git, places, signal, project: (it) => projects.resolve(it), holder: (path) => this.lookup.holder(path) }
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
    const user = this.lookup.users(at.path).find((it) => it.id !== session?.id)
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
    this.#edges.projects.left(at.path)
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

  /** Removes the trees of a repository nobody works in and that hold nothing unsaved. Answers their paths. */
  async prune(commonDir: string): Promise<{ removed: string[]; skipped: string[]; rescued: Rescued[] }> {
    const { git, log } = this.#edges
    const removed: string[] = []
    const skipped: string[] = []
    const rescued: Rescued[] = []
    for (const binding of this.lookup.list().filter((it) => it.common_dir === commonDir)) {
      const at = locate(binding)
      try {
        const free = this.lookup.user(binding, at.path) === undefined
        const held = at.kind === 'present' ? loss(await holdingsOf(git, at, binding.common_dir)) : undefined
        const removal = free && held === undefined ? await this.remove(binding, undefined) : undefined
        ;(removal?.kind === 'removed' ? removed : skipped).push(at.path)
        if (removal?.rescued !== undefined) rescued.push({ ...removal.rescued, repo: binding.repo })
      } catch (failure) {
        skipped.push(at.path)
        log.warn({ path: at.path, problem: messageOf(failure) }, 'a worktree stays')
      }
    }
    return { removed, skipped, rescued }
  }

  #put(binding: Binding): Promise<void> {
    return stored(() => this.#edges.bindings.put(binding))
  }
}
