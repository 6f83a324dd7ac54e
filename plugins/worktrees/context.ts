/**
 * Where sessions work: project, repository, branch and managed tree of their directory, shown on the session.
 * Invariants
 *  1. No session waits for it: everything here happens behind what caused it.
 *  2. What is shown was looked up for the directory the session has: one that moved on meanwhile is looked up again.
 *  3. A look that fails changes nothing that is shown.
 */
import { messageOf } from '../../protocol/fault.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Log } from '../../kernel/log.ts'
import type { Scope } from '../../kernel/scope.ts'
import type { SessionContext, SessionService } from '../sessions/api.ts'
import type { SessionInfo } from '../sessions/types.ts'
import type { ProjectInfo } from './contract-projects.ts'
import type { Repository } from './git/repository.ts'
import { EntryWatch, type Entries } from './entry-watch.ts'
import { directoryAt, entryOf, type Place, type Places } from './places.ts'
import type { Projects } from './projects.ts'
import type { TreeDoor } from './trees-door.ts'

export interface ContextEdges {
  readonly sessions: SessionService
  readonly projects: Projects
  readonly places: Places
  readonly trees: Pick<TreeDoor, 'containing' | 'boundTo' | 'follow' | 'movedTo'>
  readonly scope: Scope
  readonly clock: Clock
  readonly log: Log
}

/**
 * Looks that run at once; each may start a git. One in a file system that does not answer keeps its place, so that no more
 * than these threads are lost to it.
 */
const AT_ONCE = 2
/** What a git that is told to stop takes at most. */
const IDLE_MS = 2_000
/** Git moves or deletes a tree within these three together, most of the time. */
const AGAIN_MS = 500
const AGAIN_TIMES = 3
/** What fails once more is told once, and tried again when something of the session changes. */
const RETRIES = 2
const RETRY_MS = 500

/** What a look is for. */
interface Why {
  /** Directory somebody started to work in: its repository becomes a project, wherever the session went since. */
  readonly starts: string | undefined
  /** The session has another directory than the one its context is of. */
  readonly moved: boolean
  /** So many looks before it saw something that may have been half done. */
  readonly again: number
}

export class Contexts {
  readonly #edges: ContextEdges
  /** Branches of checkouts: git writes HEAD anew for every checkout and rename. */
  readonly #heads: EntryWatch
  /** Whether directories are there. */
  readonly #directories: EntryWatch
  /** By session; one look at a time is made for each. */
  readonly #waiting = new Map<string, Why>()
  readonly #running = new Map<string, Promise<void>>()
  /** Looks of a session that failed one after the other. */
  readonly #failed = new Map<string, number>()

  constructor(edges: ContextEdges) {
    this.#edges = edges
    const changed = (id: string): void => this.look(id, {})
    this.#heads = edges.scope.own('heads', new EntryWatch(edges.scope, changed))
    this.#directories = edges.scope.own('directories', new EntryWatch(edges.scope, changed))
  }

  /** Looks again, soon. */
  look(id: string, { starts, moved = false, again = 0 }: Partial<Why>): void {
    if (this.#edges.scope.closed) return
    const why = this.#waiting.get(id)
    this.#waiting.set(id, {
      starts: starts ?? why?.starts,
      moved: moved || why?.moved === true,
      again: Math.min(again, why?.again ?? again),
    })
    this.#next()
  }

  /** The session is gone. */
  leave(id: string): void {
    this.#heads.follow(id, undefined)
    this.#directories.follow(id, undefined)
    this.#failed.delete(id)
  }

  /** Resolves when nothing is in hand, or soon: a file system that does not answer holds nobody up. */
  async idle(): Promise<void> {
    let timer: Disposable | undefined
    const late = new Promise<void>((resolve) => {
      timer = this.#edges.clock.after(IDLE_MS, resolve)
    })
    await Promise.race([this.#settled(), late])
    timer?.[Symbol.dispose]()
  }

  async #settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running.values())
  }

  /** Shows another label of a project, or that it is forgotten. */
  relabel(projectId: string, label: string | undefined): void {
    const { sessions } = this.#edges
    for (const it of sessions.list()) {
      if (it.project_id !== projectId) continue
      sessions.show(
        it.id,
        label === undefined ? { project_id: undefined, project_label: undefined } : { project_label: label },
      )
    }
  }

  #next(): void {
    for (const [id, why] of this.#waiting) {
      if (this.#running.size >= AT_ONCE) return
      if (this.#running.has(id)) continue
      this.#waiting.delete(id)
      const look = this.#look(id, why)
        .then(
          () => void this.#failed.delete(id),
          (failure: unknown) => this.#retry(id, why, failure),
        )
        .finally(() => {
          this.#running.delete(id)
          if (this.#edges.scope.closed) this.#waiting.clear()
          this.#next()
        })
      this.#running.set(id, look)
    }
  }

  /** A directory that moves away under a look fails it; the next one finds where it went. */
  #retry(id: string, why: Why, failure: unknown): void {
    const { scope, log, sessions } = this.#edges
    if (scope.closed || sessions.get(id) === undefined) return
    const times = (this.#failed.get(id) ?? 0) + 1
    this.#failed.set(id, times)
    if (times <= RETRIES) scope.after(times * RETRY_MS, 'retry', () => this.look(id, why))
    else if (times === RETRIES + 1)
      log.warn({ session_id: id, problem: messageOf(failure) }, 'where a session works is not known') // 3
  }

  /** What changed between a look and its watch is seen by another look; without a watch, what was just going on. */
  #makeSure(id: string, told: 'now' | 'never', again: number): void {
    if (again === AGAIN_TIMES) return
    const look = (): void => this.look(id, { again: again + 1 })
    if (told === 'now') look()
    else this.#edges.scope.after(AGAIN_MS * (again + 1), 'again', look)
  }

  async #register(repository: Repository): Promise<void> {
    const { projects, scope, log } = this.#edges
    await projects.ensure(repository, scope.signal).catch((failure: unknown) => {
      if (!scope.closed)
        log.warn({ repo: repository.commonDir, problem: messageOf(failure) }, 'a project could not be registered')
    })
  }

  async #look(id: string, { starts, moved, again }: Why): Promise<void> {
    const { sessions, projects, places, trees, scope } = this.#edges
    const known = sessions.get(id)
    if (known === undefined) return
    await trees.follow(known)
    const session = sessions.get(id)
    if (session === undefined) return
    // Before the look: what changes from now on is told.
    this.#directories.follow(id, isLive(session) ? entryOf(session.cwd) : undefined)
    let place = await places.at(session.cwd, scope.signal)
    const isMissing = place.kind === 'missing'
    if (isMissing) {
      const to = trees.movedTo(session.cwd)
      if (to !== undefined && (await directoryAt(to)) !== undefined) {
        this.look(id, { starts, moved: true })
        if (sessions.get(id)?.cwd === session.cwd) sessions.show(id, { cwd: to })
        return
      }
      // The tree is elsewhere, or is gone with everything in it.
      const bound = trees.boundTo(id)
      if (bound !== undefined) place = await places.at(bound, scope.signal)
    }
    if (starts !== undefined) {
      const from = starts === session.cwd ? place : await places.at(starts, scope.signal)
      if (from.kind === 'repository') await this.#register(from.repository)
    }
    const project = place.kind === 'repository' ? projects.ofRepository(place.repository.commonDir) : undefined
    const repo =
      place.kind === 'repository' ? (project?.repo_root ?? (await places.root(place.repository, scope.signal))) : ''
    if (scope.closed) return
    const now = sessions.get(id)
    if (now === undefined) return this.leave(id)
    if (now.cwd !== session.cwd) return this.look(id, { moved: true }) // 2
    const told =
      isLive(now) && place.kind === 'missing'
        ? 'never'
        : this.#heads.follow(id, isLive(now) ? headOf(place) : undefined)
    if (isLive(now) && now.repo !== undefined && told !== 'before' && !(moved && place.kind === 'none'))
      this.#makeSure(id, told, again)
    // No repository leaves a directory: where one was, it is being deleted, and its own files go first.
    if (place.kind === 'none' && !moved && now.repo !== undefined) place = { kind: 'missing' }
    const tree = place.kind === 'repository' ? trees.containing(place.directory) : undefined
    sessions.show(id, { ...contextOf(place, repo, project, tree), cwd_missing: isMissing ? true : undefined })
  }
}

export const isLive = ({ state }: Pick<SessionInfo, 'state'>): boolean => state === 'running' || state === 'starting'

/** Pure. What says the branch that is shown, and where the tree is. */
const headOf = (place: Place): Entries | undefined =>
  place.kind === 'repository' && place.repository.topLevel !== undefined
    ? { directory: place.repository.gitDir, names: ['HEAD', 'gitdir'] }
    : undefined

/** Pure. Every field of it; what does not hold is undefined. A directory that is gone still belonged to its project. */
export function contextOf(
  place: Place,
  repo: string,
  project: Pick<ProjectInfo, 'id' | 'label'> | undefined,
  tree: string | undefined,
): SessionContext {
  const elsewhere = { branch: undefined, worktree_path: undefined, is_linked_worktree: undefined }
  if (place.kind === 'missing') return elsewhere
  if (place.kind === 'none') return { ...elsewhere, project_id: undefined, project_label: undefined, repo: undefined }
  return {
    project_id: project?.id,
    project_label: project?.label,
    repo,
    branch: place.branch,
    is_linked_worktree: place.repository.topLevel === undefined ? undefined : place.repository.isLinked,
    worktree_path: tree,
  }
}
