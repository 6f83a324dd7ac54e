/** The durable record of one managed tree: written before anything of it is made, gone after everything of it is. */
import * as v from 'valibot'
import type { TableSpec } from '../../kernel/store/tables.ts'
import { Int, nonEmpty } from '../../protocol/scalars.ts'

export const Binding = v.object({
  /** Owner; one tree per session. Kept after its session is gone when the tree could not be removed. */
  session_id: nonEmpty,
  project_id: v.optional(nonEmpty),
  /** Canonical common directory of the repository. */
  common_dir: nonEmpty,
  /** Main checkout, or the common directory of a bare repository. */
  repo: nonEmpty,
  branch: nonEmpty,
  /** What the branch was made from, as a person named it; the default of session.diff. */
  base_branch: v.optional(nonEmpty),
  /** Where it was made, or was found last; git's own registration tells where it is now. */
  path: nonEmpty,
  /** Where it was before, the newest last: sessions may still tell directories of then. */
  former_paths: v.optional(v.array(nonEmpty)),
  /** Name of git's entry for it below <common_dir>/worktrees; it stays when the tree is moved. */
  entry: v.optional(nonEmpty),
  /** Commit the branch was made at; undefined for a branch that was there before, which is never deleted. */
  start_commit: v.optional(nonEmpty),
  /** `making`: everything of it goes when it is found so at a start. */
  state: v.picklist(['making', 'made']),
  /** Its session is gone and the tree is not. */
  orphaned: v.optional(v.boolean()),
  made_at_ms: Int,
})
export type Binding = v.InferOutput<typeof Binding>

export const bindingTable: TableSpec<Binding> = {
  kind: 'worktree',
  key: (it) => it.session_id,
  decode: (raw) => v.parse(Binding, raw),
  encode: (it) => it,
}
