/** Facts about repositories and their trees. Every value is asked for alone or NUL-separated: paths may hold line feeds. */
import { realpathSync } from 'node:fs'
import { AS_STORED, Git, GIT_DETECT_MS, GitFailure, oneLine, type GitCall } from './run.ts'

export interface Repository {
  /** Canonical; what a main checkout and all its linked trees have in common. */
  readonly commonDir: string
  /** Canonical; where HEAD of the tree that was asked about is. */
  readonly gitDir: string
  readonly isBare: boolean
  /** Root of the work tree that was asked about; undefined in a bare repository or inside a .git directory. */
  readonly topLevel: string | undefined
  /** That tree is a linked one, not the main checkout. */
  readonly isLinked: boolean
}

export type Found =
  | { readonly kind: 'repository'; readonly repository: Repository }
  | { readonly kind: 'none' }
  /** There is one, and git refuses to look at it: it belongs to somebody else, or is damaged. `said` is one line. */
  | { readonly kind: 'refused'; readonly said: string }

/** The repository `directory` lies in. Throws GitFailure where git cannot be run or does not answer in time. */
export async function findRepository(git: Git, directory: string, signal?: AbortSignal): Promise<Found> {
  const call: GitCall = { cwd: directory, timeoutMs: GIT_DETECT_MS, signal }
  const ask = async (...args: string[]): Promise<string> => (await git.run(['rev-parse', ...args], call)).text
  try {
    const asked = ['--is-bare-repository', '--is-inside-work-tree', '--git-common-dir', '--absolute-git-dir']
    let answer = (await ask('--path-format=absolute', ...asked)).split('\n')
    // A path with a line feed in it: one question for each.
    if (answer.length !== asked.length)
      answer = [
        ...(await ask('--is-bare-repository', '--is-inside-work-tree')).split('\n'),
        await ask('--path-format=absolute', '--git-common-dir'),
        await ask('--absolute-git-dir'),
      ]
    const [bare = '', inside = '', common = '', own = ''] = answer
    const commonDir = realpathSync(common)
    const gitDir = realpathSync(own)
    const topLevel = inside === 'true' ? realpathSync(await ask('--show-toplevel')) : undefined
    const isBare = bare === 'true' || (topLevel === undefined && (await configBare(git, commonDir, call)))
    return {
      kind: 'repository',
      repository: { commonDir, gitDir, isBare, topLevel, isLinked: topLevel !== undefined && gitDir !== commonDir },
    }
  } catch (failure) {
    if (!(failure instanceof GitFailure)) {
      // A directory that went away between two questions.
      if ((failure as NodeJS.ErrnoException).code === 'ENOENT') return { kind: 'none' }
      throw failure
    }
    if (failure.how !== 'exit') throw failure
    if (/not a git repository|cannot change to/i.test(failure.said)) return { kind: 'none' }
    return { kind: 'refused', said: oneLine(failure.said) }
  }
}

async function configBare(git: Git, cwd: string, call: GitCall): Promise<boolean> {
  const { status, text } = await git.run(['config', '--type=bool', '--get', 'core.bare'], {
    ...call,
    cwd,
    accept: [0, 1],
  })
  return status === 0 && text === 'true'
}

/** One entry of `git worktree list`; the first one is the main checkout or the bare repository. */
export interface Tree {
  readonly path: string
  readonly head: string | undefined
  /** Full ref, `refs/heads/…`; undefined while detached. */
  readonly ref: string | undefined
  readonly bare: boolean
  readonly locked: boolean
  /** Its directory is gone. */
  readonly prunable: boolean
}

/** Throws GitFailure. */
export async function listTrees(git: Git, commonDir: string, signal?: AbortSignal): Promise<Tree[]> {
  const { stdout } = await git.run(['worktree', 'list', '--porcelain', '-z'], {
    cwd: commonDir,
    signal,
  })
  return parseTrees(stdout.toString('utf8'))
}

/** Pure. Fields end in NUL, entries in an empty field. */
export function parseTrees(text: string): Tree[] {
  const trees: Tree[] = []
  let fields = new Map<string, string>()
  const finish = (): void => {
    const path = fields.get('worktree')
    if (path !== undefined) {
      trees.push({
        path,
        head: fields.get('HEAD'),
        ref: fields.get('branch'),
        bare: fields.has('bare'),
        locked: fields.has('locked'),
        prunable: fields.has('prunable'),
      })
    }
    fields = new Map()
  }
  for (const field of text.split('\0')) {
    if (field === '') {
      finish()
      continue
    }
    const space = field.indexOf(' ')
    fields.set(space === -1 ? field : field.slice(0, space), space === -1 ? '' : field.slice(space + 1))
  }
  finish()
  return trees
}

export const branchOf = (ref: string | undefined): string | undefined =>
  ref?.startsWith('refs/heads/') === true ? ref.slice('refs/heads/'.length) : undefined

/** What a work tree holds that is in no commit. Ignored files do not count. */
export interface Unsaved {
  readonly uncommitted: number
  readonly untracked: number
}

/** Asks for untracked files whatever the repository's configuration says (FC-8e93). Throws GitFailure. */
export async function unsavedIn(git: Git, tree: string, signal?: AbortSignal): Promise<Unsaved> {
  const entries = await git.list(
    [
      '-c',
      'status.showUntrackedFiles=all',
      '-c',
      'core.fsmonitor=false',
      // Where names differ by case alone it would take a new file for a tracked one.
      '-c',
      'core.ignorecase=false',
      'status',
      '--porcelain=v2',
      '-z',
      '--untracked-files=normal',
      '--ignore-submodules=none',
      '--no-renames',
    ],
    { cwd: tree, signal },
  )
  const untracked = entries.filter((it) => it.startsWith('? ')).length
  return { untracked, uncommitted: entries.filter((it) => /^[12u] /.test(it)).length }
}

/** Arguments that ask for the first of the commits that are on no branch, no remote branch and no tag. */
export const ownCommitOf = (commit: string, exclude: readonly string[] = []): string[] => [
  'rev-list',
  '--max-count=1',
  commit,
  '--not',
  ...exclude,
  '--branches',
  '--remotes',
  '--tags',
]

/**
 * Whether HEAD of a tree has commits that are on no branch but its own (`keep` is not counted), no remote branch and no
 * tag: what is lost with the tree or its branch. Throws GitFailure.
 */
export async function hasOwnCommits(
  git: Git,
  tree: string,
  own: string | undefined,
  signal?: AbortSignal,
): Promise<boolean> {
  const exclude = own === undefined ? [] : [`--exclude=${own.slice('refs/heads/'.length)}`]
  const { text } = await git.run(ownCommitOf('HEAD', exclude), {
    cwd: tree,
    env: AS_STORED,
    signal,
  })
  return text !== ''
}
