/** Questions about managed trees: whose, where, who works in one, and what holds one back. */
import { realpathSync } from 'node:fs'
import { join } from 'node:path'
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
import { exists, locate, type Located } from './locate.ts'

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
    await stored(() => this.#edges.bindings.put(moved))
    await this.#edges.sessions.record(sessionId, { worktree_path: at.path }).catch(() => undefined)
    return { binding: moved, at }
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
      if (at.kind === 'absent') return (await lostHead(git, at)) === undefined ? undefined : 'worktree_unpushed'
      if (this.users(at.path).some((it) => it.id !== sessionId)) return 'worktree_unknown'
      const { uncommitted, untracked, ownCommits, apart, inside } = await holdingsOf(git, at, signal)
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

/** A path under its one name; as it is where nothing is there. */
export function canonical(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}
