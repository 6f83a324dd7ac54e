/** worktree.list: every managed tree as it is now. Bounded: looks at a few at once, and counts sizes up to a number of files. */
import { diskUsage } from '../../platform/disk-usage.ts'
import type { SessionService } from '../sessions/api.ts'
import type { Binding } from './binding.ts'
import type { WorktreeEntry } from './contract-trees.ts'
import { branchOf } from './git/repository.ts'
import type { Git } from './git/run.ts'
import { holdingsOf, unreadable } from './holdings.ts'
import { locate } from './locate.ts'
import { headOf } from './start-commit.ts'

const AT_ONCE = 4

export async function listEntries(
  git: Git,
  sessions: Pick<SessionService, 'get'>,
  bindings: readonly Binding[],
  sizes: boolean,
  signal: AbortSignal,
): Promise<WorktreeEntry[]> {
  const entries: WorktreeEntry[] = []
  const queue = [...bindings.entries()]
  const work = async (): Promise<void> => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      signal.throwIfAborted()
      entries[next[0]] = await entryOf(git, sessions, next[1], sizes, signal)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  return entries
}

async function entryOf(
  git: Git,
  sessions: Pick<SessionService, 'get'>,
  binding: Binding,
  sizes: boolean,
  signal: AbortSignal,
): Promise<WorktreeEntry> {
  const at = locate(binding)
  const session = sessions.get(binding.session_id)
  const known = {
    path: at.path,
    repo: binding.repo,
    ...(binding.project_id === undefined ? {} : { project_id: binding.project_id }),
    session_id: binding.session_id,
    ...(session === undefined ? {} : { session_state: session.state }),
    created_at: new Date(binding.made_at_ms).toISOString(),
  }
  if (at.kind === 'broken') return { ...known, state: 'broken', problem: at.problem }
  if (at.kind !== 'present') return { ...known, state: 'absent' }
  const state = binding.state === 'making' ? 'making' : 'present'
  const size = sizes ? await sizeOf(at.path, signal) : {}
  try {
    const head = await headOf(git, at.path)
    const branch = branchOf(head?.ref)
    const { uncommitted, untracked, ownCommits, inside } = await holdingsOf(git, at, binding.common_dir, signal)
    return {
      ...known,
      ...size,
      state,
      ...(branch === undefined ? {} : { branch }),
      ...(head === undefined ? {} : { head: head.commit }),
      uncommitted,
      untracked,
      unpushed: ownCommits,
      ...(inside === undefined ? {} : { problem: `holds a ${inside}` }),
    }
  } catch (failure) {
    return { ...known, ...size, state, problem: unreadable(failure) }
  }
}

async function sizeOf(tree: string, signal: AbortSignal): Promise<Pick<WorktreeEntry, 'size_bytes' | 'size_partial'>> {
  const size = await diskUsage(tree, signal)
  if (size === undefined) return {}
  return { size_bytes: size.bytes, ...(size.partial ? { size_partial: true } : {}) }
}
