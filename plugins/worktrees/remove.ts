/**
 * Taking a managed tree away. Nothing it holds is lost: what is in no commit, or in commits no branch has, gets a rescue
 * ref first, and what no ref can keep keeps the tree. Branches always stay.
 */
import type { Clock } from '../../kernel/clock.ts'
import { crashPoint } from '../../kernel/crash-points.ts'
import type { Binding } from './binding.ts'
import { REMOVE_MS } from './create.ts'
import { GitFailure, type Git } from './git/run.ts'
import { exists, locate } from './locate.ts'
import { shelter, Unrescuable, type Rescued } from './rescue.ts'

export type TreeRemoval =
  | { readonly kind: 'removed'; readonly rescued: Rescued | undefined }
  /** It is still there, and so is everything in it. */
  | { readonly kind: 'kept'; readonly path: string; readonly problem: string; readonly rescued: Rescued | undefined }

/** Run in the repository's turn; repeatable. A tree that is not there counts as removed. The binding is the caller's. */
export async function removeTree(git: Git, clock: Clock, binding: Binding): Promise<TreeRemoval> {
  const at = locate(binding)
  let rescued: Rescued | undefined
  const kept = (problem: string): TreeRemoval => ({ kind: 'kept', path: at.path, problem, rescued })
  if (at.kind === 'gone') return { kind: 'removed', rescued }
  if (at.kind === 'broken') return kept(at.problem)
  try {
    rescued = await shelter(git, clock, binding, at)
    crashPoint('worktree.rescued')
    // Once: a tree that somebody locked stays. Only this entry goes; `worktree prune` would take others along.
    await git.run(['worktree', 'remove', '--force', '--', at.path], { cwd: binding.common_dir, timeoutMs: REMOVE_MS })
  } catch (failure) {
    if (failure instanceof GitFailure || failure instanceof Unrescuable) return kept(failure.message)
    throw failure
  }
  if (exists(at.path)) return kept('git says it is removed and it is still there')
  crashPoint('worktree.removed')
  return { kind: 'removed', rescued }
}
