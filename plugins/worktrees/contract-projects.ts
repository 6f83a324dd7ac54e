/** Wire surface of projects (contract/methods.md "project / worktree", contract/types.md "Projects and worktrees"). */
import * as v from 'valibot'
import type { Method } from '../../protocol/contract.ts'
import { Int, nonEmpty, Timestamp } from '../../protocol/scalars.ts'
import { Rescue } from './contract-trees.ts'
import { faults } from './faults.ts'

const Source = v.picklist(['auto', 'manual'])
export const Provider = v.picklist(['linear_issue', 'github_pr', 'none'])
export type Provider = v.InferOutput<typeof Provider>
const Layer = v.picklist(['in_repo', 'host'])

export const ProjectInfo = v.object({
  id: v.pipe(v.string(), v.regex(/^p-[0-9a-f]{8}$/, 'is not a project id')),
  label: nonEmpty,
  /** Main checkout, or the common directory of a bare repository. */
  repo_root: nonEmpty,
  /** Canonical. */
  git_common_dir: nonEmpty,
  /** Without credentials. */
  origin_url: v.optional(v.string()),
  default_base_branch: v.optional(nonEmpty),
  source: Source,
  is_bare: v.boolean(),
  added_at: Timestamp,
  last_used_at: Timestamp,
})
export type ProjectInfo = v.InferOutput<typeof ProjectInfo>

const ProjectWorktree = v.object({
  path: v.string(),
  /** Left out while HEAD is detached. */
  branch: v.optional(v.string()),
  head: v.optional(v.string()),
  session_id: v.optional(v.string()),
  bare: v.boolean(),
  locked: v.boolean(),
  /** pohunek made it. */
  owned: v.boolean(),
})
export type ProjectWorktree = v.InferOutput<typeof ProjectWorktree>

const ProjectListFilter = v.variant('key', [
  v.strictObject({ key: v.literal('source'), value: Source }),
  v.strictObject({ key: v.literal('label'), value: v.string() }),
  v.strictObject({ key: v.literal('id'), value: v.string() }),
])
export type ProjectListFilter = v.InferOutput<typeof ProjectListFilter>

const reference = v.string()
const Referred = v.strictObject({ reference })
const Named = v.strictObject({ reference, name: v.string() })
const referring = [faults.project_not_found, faults.project_ambiguous]
const reading = [...referring, faults.invalid_name, faults.path_escape, faults.config_read_failed]
const recipes = [...reading, faults.invalid_action, faults.invalid_template]

export const projectMethods = {
  'project.list': {
    about: 'Lists the projects of this host by label; filters combine with AND.',
    params: v.nullable(v.strictObject({ filters: v.optional(v.array(ProjectListFilter)) })),
    result: v.array(ProjectInfo),
    effect: 'reads',
    faults: [],
  },
  'project.add': {
    about: 'Registers the repository a directory lies in; one that is registered takes the name and base branch given.',
    params: v.strictObject({
      /** Absolute. */
      path: v.optional(v.string()),
      name: v.optional(v.string()),
      base_branch: v.optional(v.string()),
    }),
    result: ProjectInfo,
    effect: 'mutates',
    faults: [
      faults.not_a_git_repo,
      faults.project_detect_failed,
      faults.project_store_error,
      faults.invalid_base_branch,
    ],
  },
  'project.show': {
    about: 'One project, and every worktree git has of its repository.',
    params: Referred,
    result: v.object({ project: ProjectInfo, worktrees: v.array(ProjectWorktree) }),
    effect: 'reads',
    faults: [...referring, faults.project_detect_failed],
  },
  'project.rename': {
    about: 'Sets the label of a project.',
    params: Named,
    result: ProjectInfo,
    effect: 'mutates',
    faults: [...referring, faults.project_store_error],
  },
  'project.remove': {
    about:
      'Forgets a project; the repository stays. With prune_worktrees the trees made here go that hold nothing unsaved.',
    params: v.strictObject({ reference, prune_worktrees: v.optional(v.boolean(), false) }),
    result: v.object({
      removed: v.boolean(),
      pruned_worktrees: Int,
      /** Paths of owned trees that stayed. */
      skipped_worktrees: v.optional(v.array(v.string())),
      /** Ours: where work of the trees that went is kept. */
      rescued: v.optional(v.array(Rescue)),
    }),
    effect: 'mutates',
    faults: [...referring, faults.project_store_error],
  },
  'project.prompt': {
    about: 'One prompt, the one of the repository before the one of the host.',
    params: Named,
    result: v.object({ name: v.string(), content: v.string(), layer: Layer }),
    effect: 'reads',
    faults: [...reading, faults.prompt_not_found],
  },
  'project.action': {
    about: 'What an action starts: agent, branches and the text of its prompt.',
    params: Named,
    result: v.object({
      provider: Provider,
      agent: v.string(),
      base_branch: v.optional(v.string()),
      branch: v.optional(v.string()),
      prompt_name: v.string(),
      prompt_content: v.string(),
    }),
    effect: 'reads',
    faults: [...recipes, faults.action_not_found, faults.template_not_found, faults.prompt_not_found],
  },
  'project.actions': {
    about: 'The actions of a project by name; one of the repository hides the one of the host.',
    params: Referred,
    result: v.object({
      actions: v.array(v.object({ name: v.string(), provider: Provider, template: v.string(), layer: Layer })),
    }),
    effect: 'reads',
    faults: recipes,
  },
} as const satisfies Record<string, Method>
