/** Wire surface of worktrees and diffs (contract/methods.md "project / worktree", "session.diff"); the rest is ours. */
import * as v from 'valibot'
import type { Method } from '../../protocol/contract.ts'
import { Int, NoParams, SessionId, Timestamp, nonEmpty } from '../../protocol/scalars.ts'
import { sessionFaults } from '../sessions/api.ts'
import { faults } from './faults.ts'

export const Rescue = v.object({
  ref: v.string(),
  commit: v.string(),
  /** Main checkout of the repository it is in. */
  repo: v.string(),
})

export const WorktreeEntry = v.object({
  path: v.string(),
  repo: v.string(),
  project_id: v.optional(v.string()),
  /** Owner. */
  session_id: v.string(),
  /** Left out once the session is gone: then nobody but the operator removes the tree. */
  session_state: v.optional(v.string()),
  /** `making`: not complete. `absent`: its folder is gone. `broken`: something is there that git does not take. */
  state: v.picklist(['present', 'making', 'absent', 'broken']),
  problem: v.optional(v.string()),
  /** Branch it is on now; left out while detached. */
  branch: v.optional(v.string()),
  head: v.optional(v.string()),
  /** Left out where git cannot say. */
  uncommitted: v.optional(Int),
  untracked: v.optional(Int),
  /** Commits that are on no other branch, no remote branch and no tag. */
  unpushed: v.optional(v.boolean()),
  size_bytes: v.optional(Int),
  /** The size counts what was looked at until the bound was reached. */
  size_partial: v.optional(v.boolean()),
  created_at: Timestamp,
})
export type WorktreeEntry = v.InferOutput<typeof WorktreeEntry>

export const RescueListEntry = v.object({
  ...Rescue.entries,
  session_id: v.string(),
  at: v.string(),
  subject: v.string(),
})

export const treeMethods = {
  'session.diff': {
    about: "What a session's tree has beside its base, tracked and untracked; whole files up to 524,288 bytes.",
    params: v.object({ session_id: SessionId, base: v.optional(v.string()) }),
    result: v.object({ diff: v.string(), base: v.string(), truncated: v.boolean() }),
    effect: 'reads',
    faults: [
      sessionFaults.session_not_found,
      faults.session_no_worktree,
      faults.invalid_branch,
      faults.session_diff_base_unresolved,
      faults.session_diff_failed,
      faults.session_diff_store_error,
    ],
    needsRuntime: false,
  },
  'worktree.remove': {
    about:
      'Removes a managed tree nobody works in; its branch stays. With unsaved work only when forced, rescued first.',
    params: v.object({
      path: nonEmpty,
      /** Ours: remove it with its unsaved work, which a rescue ref keeps. */
      force: v.optional(v.boolean()),
    }),
    result: v.object({ removed: v.boolean(), rescued: v.optional(v.array(Rescue)) }),
    effect: 'mutates',
    faults: [
      faults.worktree_not_owned,
      faults.worktree_in_use,
      faults.worktree_unsaved,
      faults.worktree_remove_failed,
      faults.worktree_store_error,
    ],
  },
  'worktree.list': {
    about: 'Ours: the managed trees with their state, owner, unsaved work and size.',
    params: v.nullable(v.object({ sizes: v.optional(v.boolean()) })),
    result: v.array(WorktreeEntry),
    effect: 'reads',
    faults: [],
  },
  'worktree.rescue.list': {
    about: 'Ours: work that rescue refs keep, of every repository this daemon knows.',
    params: NoParams,
    result: v.array(RescueListEntry),
    effect: 'reads',
    faults: [],
  },
  'worktree.rescue.restore': {
    about:
      'Ours: makes a branch of a rescue ref, and with a path a worktree there with files and index as they were; the ref stays.',
    params: v.object({
      ref: nonEmpty,
      branch: v.optional(v.string()),
      /** Absolute; nothing is there yet. The worktree is nobody's but the operator's. */
      path: v.optional(nonEmpty),
    }),
    result: v.object({
      branch: v.string(),
      commit: v.string(),
      repo: v.string(),
      worktree_path: v.optional(v.string()),
    }),
    effect: 'mutates',
    faults: [
      faults.rescue_not_found,
      faults.invalid_branch,
      faults.worktree_branch_in_use,
      faults.worktree_path_conflict,
      faults.worktree_add_failed,
    ],
  },
} as const satisfies Readonly<Record<string, Method>>
