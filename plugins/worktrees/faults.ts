/** Error catalogue of projects and worktrees (contract/errors.md "runtime — projects, worktrees, diff"). */
import { catalogue } from '../../protocol/fault.ts'

type Problem = { problem: string }

export const faults = catalogue({
  project_not_found: {
    class: 'runtime',
    say: (d: { reference: string }) => `no project ${JSON.stringify(d.reference.slice(0, 200))}`,
    recover: 'pohunek project list shows them; pohunek project add registers one',
  },
  project_ambiguous: {
    class: 'runtime',
    say: (d: { reference: string; ids: readonly string[] }) =>
      `${JSON.stringify(d.reference.slice(0, 200))} means ${d.ids.length} projects: ${d.ids.slice(0, 8).join(', ')}`,
    recover: 'use the p-… id of one of them',
  },
  project_store_error: { class: 'runtime', say: (d: Problem) => d.problem, recover: 'free disk space and retry' },
  project_detect_failed: { class: 'runtime', say: (d: Problem) => d.problem, recover: 'run git status there' },
  not_a_git_repo: {
    class: 'runtime',
    say: (d: { path: string; said?: string }) =>
      `${JSON.stringify(d.path)} is in no git repository that can be used${d.said === undefined ? '' : `: ${d.said}`}`,
    recover: 'point at a git work tree',
  },
  prompt_not_found: {
    class: 'runtime',
    say: (d: { name: string; looked: string }) => `no prompt ${d.name} in ${d.looked}`,
  },
  template_not_found: {
    class: 'runtime',
    say: (d: { name: string; looked: string }) => `no template ${d.name} in ${d.looked}`,
  },
  action_not_found: {
    class: 'runtime',
    say: (d: { name: string; looked: string }) => `no action ${d.name} in ${d.looked}`,
  },
  invalid_name: {
    class: 'runtime',
    say: (d: { what: string; name: string }) => `${JSON.stringify(d.name.slice(0, 200))} is not a valid ${d.what} name`,
    recover: 'use letters, digits, dot, dash and underscore',
  },
  invalid_template: {
    class: 'runtime',
    say: (d: { file: string } & Problem) => `${d.file}: ${d.problem}`,
    recover: 'correct the file',
  },
  invalid_action: {
    class: 'runtime',
    say: (d: { file: string } & Problem) => `${d.file}: ${d.problem}`,
    recover: 'correct the file',
  },
  path_escape: { class: 'runtime', say: (d: { path: string; root: string }) => `${d.path} leaves ${d.root}` },
  config_read_failed: {
    class: 'runtime',
    say: (d: { file: string } & Problem) => `${d.file}: ${d.problem}`,
    recover: 'make the file readable',
  },
  worktree_store_error: { class: 'runtime', say: (d: Problem) => d.problem, recover: 'free disk space and retry' },
  worktree_add_failed: {
    class: 'runtime',
    say: (d: Problem) => `the worktree could not be made: ${d.problem}`,
    recover: 'nothing was left behind; correct what git says and retry',
  },
  worktree_path_conflict: {
    class: 'runtime',
    say: (d: { path: string }) => `${d.path} exists and is no worktree of pohunek`,
    recover: 'move it away, or choose another branch',
  },
  worktree_branch_in_use: {
    class: 'runtime',
    say: (d: { branch: string; path: string; session: string | undefined }) =>
      `branch ${d.branch} is checked out in ${d.path}${d.session === undefined ? '' : ` by session ${d.session}`}`,
    recover: 'use another branch, or work there: pohunek session new --cwd',
  },
  invalid_branch: {
    class: 'runtime',
    say: (d: { branch: string } & Problem) => `branch ${JSON.stringify(d.branch.slice(0, 200))}: ${d.problem}`,
    recover: 'choose a branch name git takes and that is free',
  },
  invalid_branch_slug: {
    class: 'runtime',
    say: (d: { branch: string }) =>
      `branch ${JSON.stringify(d.branch.slice(0, 200))} has no character a folder name can keep`,
    recover: 'use at least one ASCII letter or digit in it',
  },
  invalid_base_branch: {
    class: 'runtime',
    say: (d: { branch: string } & Problem) => `base branch ${JSON.stringify(d.branch.slice(0, 200))}: ${d.problem}`,
    recover: 'name a branch, tag or commit of the repository',
  },
  worktree_not_owned: { class: 'runtime', say: (d: { path: string }) => `${d.path} is no worktree of pohunek` },
  worktree_in_use: {
    class: 'runtime',
    say: (d: { path: string; session: string }) => `session ${d.session} runs in ${d.path}`,
    recover: 'stop the session first',
  },
  worktree_unsaved: {
    class: 'runtime',
    say: (d: { path: string; what: string }) => `${d.path} holds ${d.what}; nothing was removed`,
    recover: 'commit it, or pass --force: it is kept under refs/pohunek/rescue then',
  },
  worktree_remove_failed: {
    class: 'runtime',
    say: (d: { path: string } & Problem) => `${d.path} stays: ${d.problem}`,
    recover: 'settle what is said there and retry; pohunek worktree list shows the tree',
  },
  rescue_not_found: {
    class: 'runtime',
    say: (d: { ref: string }) => `no rescued work ${JSON.stringify(d.ref.slice(0, 300))}`,
    recover: 'pohunek worktree rescue list shows it',
  },
  session_no_worktree: {
    class: 'runtime',
    say: (d: { id: string; gone?: string; problem?: string }) =>
      d.gone === undefined
        ? `session ${d.id} has no worktree of its own`
        : `the worktree of session ${d.id}, ${d.gone}, cannot be used: ${d.problem ?? 'it is gone'}`,
  },
  session_diff_base_unresolved: {
    class: 'runtime',
    say: (d: { base: string } & Problem) => `base ${JSON.stringify(d.base.slice(0, 200))}: ${d.problem}`,
    recover: 'pass --base',
  },
  session_diff_failed: { class: 'runtime', say: (d: Problem) => d.problem },
  session_diff_store_error: { class: 'runtime', say: (d: Problem) => d.problem },
})
