/** Questions about managed trees: whose, where, who works in one, and what holds one back. */
import { realpathSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import type { Table } from '../../kernel/store/tables.ts'
import type { SessionService } from '../sessions/api.ts'
import type { SessionInfo } from '../sessions/types.ts'
import type { Hold } from './api.ts'
import type { Binding } from './binding.ts'
import { isInside } from './copy.ts'
import { stored } from './create.ts'
import { faults } from './faults.ts'
import type { Git } from './git/run.ts'
import { holdingsOf, lostHead } from './holdings.ts'
import { exists, locate, treesAbove, type Located } from './locate.ts'
import { commitsApart } from './private-commits.ts'

type Present = Extract<Located, { kind: 'present' }>

/** Places a tree is remembered to have been at. */
const MAX_FORMER = 8

export interface LookupEdges {
  readonly git: Git
  readonly bindings: Table<Binding>
  readonly sessions: SessionService
}

export class Lookup {
  readonly #edges: LookupEdges

  constructor(edges: LookupEdges) {
    this.#edges = edges
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
    return this.#above(path)?.at.path
  }

  /** The innermost managed tree a canonical path lies in. */
  #above(path: string): { readonly binding: Binding; readonly at: Present } | undefined {
    for (const { root, admin } of treesAbove(path)) {
      const entry = canonical(admin)
      const named = this.list().filter(
        (it) => it.common_dir === dirname(dirname(entry)) && (it.entry === undefined || it.entry === basename(entry)),
      )
      for (const binding of named) {
        const at = locate(binding)
        if (at.kind === 'present' && canonical(at.path) === root) return { binding, at }
      }
    }
    return undefined
  }

  /** The trees of one repository, where they are now. */
  inRepository(commonDir: string): { path: string; sessionId: string }[] {
    return this.list()
      .filter((it) => it.common_dir === commonDir)
      .map((it) => ({ path: locate(it).path, sessionId: it.session_id }))
  }

  /**
   * The managed tree at a path, under whatever name it is reached. One that was moved from there is meant only while
   * nothing else is there.
   */
  at(path: string): Binding | undefined {
    const real = canonical(path)
    const above = this.#above(real)
    if (above !== undefined && canonical(above.at.path) === real) return above.binding
    // No tree stands there, or one that git does not take: only the records tell whose it was.
    const here = this.list().find((it) => {
      const now = locate(it).path
      return now === path || canonical(now) === real
    })
    return (
      here ??
      (exists(path) ? undefined : this.list().find((it) => [it.path, ...(it.former_paths ?? [])].includes(path)))
    )
  }

  /** Where a session's tree is now; a tree that was moved is remembered where it is. Throws session_no_worktree. */
  async find(sessionId: string): Promise<{ binding: Binding; at: Present }> {
    const binding = this.get(sessionId)
    if (binding === undefined) throw faults.session_no_worktree({ id: sessionId })
    const at = locate(binding)
    if (at.kind !== 'present')
      throw faults.session_no_worktree({ id: sessionId, gone: at.path, problem: problemOf(at) })
    if (at.path === binding.path) return { binding, at }
    await this.follow({ id: sessionId, cwd: binding.path })
    const moved = this.get(sessionId) ?? binding
    return { binding: moved, at }
  }

  /**
   * Finds out whether the tree of a session, or the one it is in, was moved with git: the record of that tree and the
   * directories of all sessions in it follow, whatever is in the old place meanwhile. Throws worktree_store_error.
   */
  async follow({ id, cwd }: Pick<SessionInfo, 'id' | 'cwd'>): Promise<void> {
    const { sessions } = this.#edges
    for (const binding of this.list().filter((it) => it.session_id === id || isInside(it.path, cwd))) {
      const at = locate(binding)
      if (at.kind !== 'present' || at.path === binding.path) continue
      for (const it of sessions.list())
        // A look that was under way as the tree was moved may have shown its own session without it.
        if ((it.id === binding.session_id || it.worktree_path === binding.path) && isInside(binding.path, it.cwd))
          sessions.show(it.id, { cwd: join(at.path, relative(binding.path, it.cwd)), worktree_path: at.path })
      await this.#follow(binding, at.path)
    }
  }

  /** Where a directory is now that is gone and was in a tree before that was moved. */
  movedTo(path: string): string | undefined {
    for (const binding of this.list()) {
      const from = binding.former_paths?.find((it) => isInside(it, path))
      const at = from === undefined ? undefined : locate(binding)
      if (from !== undefined && at?.kind === 'present') return join(at.path, relative(from, path))
    }
    return undefined
  }

  async #follow(binding: Binding, path: string): Promise<Binding> {
    const former = [...(binding.former_paths ?? []), binding.path].filter((it) => it !== path).slice(-MAX_FORMER)
    const moved = { ...binding, path, former_paths: former }
    await stored(() => this.#edges.bindings.put(moved))
    return moved
  }

  /** Session that works in a tree. */
  holder(path: string): string | undefined {
    return this.at(path)?.session_id ?? this.users(path)[0]?.id
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
      // Somebody wants it to stay, whatever it holds (FC-454d).
      if (exists(join(at.admin, 'locked'))) return 'worktree_unknown'
      if (at.kind === 'absent') {
        const isOwn = (await lostHead(git, at)) !== undefined
        const apart = await commitsApart(git, at, binding.common_dir, signal)
        return isOwn || apart.length > 0 ? 'worktree_unpushed' : undefined
      }
      if (this.users(at.path).some((it) => it.id !== sessionId)) return 'worktree_unknown'
      const { uncommitted, untracked, ownCommits, apart, inside } = await holdingsOf(
        git,
        at,
        binding.common_dir,
        signal,
      )
      if (uncommitted > 0) return 'worktree_uncommitted'
      if (untracked > 0) return 'worktree_untracked'
      if (ownCommits || apart.length > 0) return 'worktree_unpushed'
      return inside === undefined ? undefined : 'worktree_uncommitted'
    } catch {
      return 'worktree_unknown'
    }
  }

  /**
   * Session a tree is in use by: its own, or one that runs in it. A session that is only being made is nobody's to find
   * yet, and a tree whose session is gone is marked: one that is neither belongs to somebody.
   */
  user(binding: Binding, path: string): string | undefined {
    const owner = this.#edges.sessions.get(binding.session_id)
    const owned = owner === undefined ? binding.orphaned !== true : isLive(owner)
    return owned ? binding.session_id : this.users(path)[0]?.id
  }

  /** Sessions whose programs run in a tree. */
  users(path: string): SessionInfo[] {
    return this.#edges.sessions
      .list()
      .filter(isLive)
      .filter((it) => isInside(path, it.cwd) || (it.worktree_path !== undefined && isInside(path, it.worktree_path)))
  }
}

/** Its program runs, or is about to. */
const isLive = (session: SessionInfo | undefined): boolean =>
  session?.state === 'running' || session?.state === 'starting'

const problemOf = (at: Located): string =>
  at.kind === 'broken' ? at.problem : 'it was removed, or moved without git worktree move'

/** A path under its one name; as it is where nothing is there. */
export function canonical(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}
