/** Commits made and read without a work tree. */
import type { Git, GitCall } from './run.ts'

/** The tree of a commit, asked with `call`. Throws GitFailure. */
export async function treeOf(git: Git, call: GitCall, commit: string): Promise<string> {
  return (await git.run(['rev-parse', `${commit}^{tree}`], call)).text
}

/** Makes a commit and answers its name; who writes it is told by `call.env`. Throws GitFailure. */
export async function commitTree(
  git: Git,
  call: GitCall,
  tree: string,
  parents: readonly string[],
  message: string,
): Promise<string> {
  const args = ['commit-tree', tree, ...parents.flatMap((it) => ['-p', it])]
  return (await git.run(args, { ...call, stdin: message })).text
}

/** Pure. Of what `rev-list --parents` printed: the commits that none of the others leads to. */
export function tipsOf(text: string): string[] {
  const rows = text.split('\n').map((it) => it.split(' '))
  const led = new Set(rows.flatMap(([, ...parents]) => parents))
  return rows.flatMap(([commit = '']) => (commit === '' || led.has(commit) ? [] : [commit]))
}
