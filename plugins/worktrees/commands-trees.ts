/** CLI of worktrees and diffs, as data (contract/cli.md "session diff"; `worktree` is ours). Imports the contract's types alone. */
import {
  JSON_FLAG,
  type Block,
  type Command,
  type CommandContext,
  type Outcome,
  type TypedCall,
} from '../../protocol/command.ts'
import type { WorktreeEntry } from './contract-trees.ts'
import type contract from './contract.ts'

const plugin = 'worktrees'
/** Large trees are looked through, stored and deleted; the daemon bounds each step itself. */
const LONG_MS = 900_000
const typed = (context: CommandContext): TypedCall<typeof contract> =>
  context.call.bind(context) as TypedCall<typeof contract>

export const sessionDiff: Command = {
  path: ['session', 'diff'],
  about: "show what a session's worktree has beside its base branch",
  examples: [
    'pohunek session diff fix | less\ttracked and untracked, against where its branch began',
    'pohunek session diff fix --base main\tagainst something else',
  ],
  arguments: [{ name: 'target', about: 'session id, unique name or id prefix', session: true }],
  flags: [
    { name: 'base', value: 'ref', about: 'compare with this (default: what its branch was made from)' },
    JSON_FLAG,
  ],
  json: true,
  plugin,
  async run(context, input): Promise<Outcome> {
    const id = await context.session(input.argument('target') ?? '')
    const base = input.value('base')
    const ok = await typed(context)(
      'session.diff',
      { session_id: id, ...(base === undefined ? {} : { base }) },
      { timeoutMs: LONG_MS },
    )
    return {
      ok,
      human: ok.diff === '' ? [] : [{ stream: ok.diff }],
      notes: ok.truncated ? ['warning: the diff is too large and ends early, at the end of a file'] : [],
    }
  },
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const

/** Pure. `1.5 MiB`. */
export function sizeText(bytes: number): string {
  const power = bytes < 1 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(bytes) / 10))
  const value = bytes / 1_024 ** power
  return `${power === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[power]}`
}

/** Pure. What is in no commit, or in commits only this branch has. */
export function workOf({ uncommitted, untracked, unpushed }: WorktreeEntry): string {
  if (uncommitted === undefined || untracked === undefined) return 'unknown'
  const parts = [
    ...(uncommitted > 0 ? [`${uncommitted} uncommitted`] : []),
    ...(untracked > 0 ? [`${untracked} untracked`] : []),
    ...(unpushed === true ? ['unpushed'] : []),
  ]
  return parts.length === 0 ? '-' : parts.join(', ')
}

export function worktreeBlocks(entries: readonly WorktreeEntry[]): Block[] {
  const rows = entries.map((it) => [
    it.session_state === undefined ? '-' : it.session_id,
    it.session_state ?? 'none',
    it.state,
    it.branch ?? '-',
    it.size_bytes === undefined ? '-' : `${it.size_partial === true ? 'over ' : ''}${sizeText(it.size_bytes)}`,
    it.state === 'absent' ? '-' : workOf(it),
    it.path,
  ])
  const problems = entries.flatMap((it) => (it.problem === undefined ? [] : [{ line: `${it.path}: ${it.problem}` }]))
  return [{ table: { columns: ['SESSION', 'OWNER', 'STATE', 'BRANCH', 'SIZE', 'UNSAVED', 'PATH'], rows } }, ...problems]
}

export const worktreeList: Command = {
  path: ['worktree', 'list'],
  about: 'list the worktrees made for sessions: state, owner, size, unsaved work',
  arguments: [],
  flags: [{ name: 'no-size', about: 'do not count sizes' }, JSON_FLAG],
  json: true,
  plugin,
  async run(context, input): Promise<Outcome> {
    const ok = await typed(context)('worktree.list', { sizes: !input.has('no-size') }, { timeoutMs: LONG_MS })
    const notes = ok.length === 0 ? ['no worktrees; pohunek session new --repo . --branch <name> makes one'] : []
    return { ok, human: worktreeBlocks(ok), notes }
  },
}

export const worktreeRemove: Command = {
  path: ['worktree', 'remove'],
  aliases: ['rm'],
  about: 'remove a worktree made for a session; its branch stays',
  details: ['Unsaved work keeps it. With --force that is kept under a rescue ref first: see worktree rescue.'],
  arguments: [{ name: 'path', about: 'folder of the worktree' }],
  flags: [{ name: 'force', short: 'f', about: 'also with unsaved work' }, JSON_FLAG],
  json: true,
  plugin,
  async run(context, input): Promise<Outcome> {
    const path = context.resolvePath(context.cwd ?? '/', input.argument('path') ?? '')
    const ok = await typed(context)(
      'worktree.remove',
      { path, ...(input.has('force') ? { force: true } : {}) },
      { timeoutMs: LONG_MS },
    )
    return { ok, human: [{ line: `worktree ${path} removed` }, ...rescuedLines(ok.rescued)] }
  },
}

const rescuedLines = (rescued: readonly { ref: string }[] = []): Block[] =>
  rescued.map(({ ref }) => ({ line: `unsaved work is kept as ${ref}` }))

export const rescueList: Command = {
  path: ['worktree', 'rescue', 'list'],
  about: 'list unsaved work that was kept when a worktree went',
  arguments: [],
  flags: [JSON_FLAG],
  json: true,
  plugin,
  async run(context): Promise<Outcome> {
    const ok = await typed(context)('worktree.rescue.list', null, { timeoutMs: LONG_MS })
    const rows = ok.map((it) => [it.at, it.session_id, it.commit.slice(0, 12), it.repo, it.ref])
    const notes = ok.length === 0 ? ['nothing was rescued'] : []
    return { ok, human: [{ table: { columns: ['AT', 'SESSION', 'COMMIT', 'REPOSITORY', 'REF'], rows } }], notes }
  },
}

export const rescueRestore: Command = {
  path: ['worktree', 'rescue', 'restore'],
  about: 'make a branch of rescued work, or a worktree as it was; the ref stays',
  details: [
    'With --worktree the files come back changed, staged and untracked as they were, in a new folder on a branch where',
    'HEAD was; pohunek session new --cwd <dir> goes on there. Without it the branch is a commit of all of them; git reset',
    'HEAD~1 in a checkout of it makes them uncommitted again.',
  ],
  arguments: [{ name: 'ref', about: 'as worktree rescue list shows it' }],
  flags: [
    { name: 'branch', value: 'name', about: 'name of the branch (default rescue/<session>/<time>)' },
    { name: 'worktree', value: 'dir', about: 'a new folder for the files as they were' },
    JSON_FLAG,
  ],
  json: true,
  plugin,
  async run(context, input): Promise<Outcome> {
    const branch = input.value('branch')
    const directory = input.value('worktree')
    const ok = await typed(context)(
      'worktree.rescue.restore',
      {
        ref: input.argument('ref') ?? '',
        ...(branch === undefined ? {} : { branch }),
        ...(directory === undefined ? {} : { path: context.resolvePath(context.cwd ?? '/', directory) }),
      },
      { timeoutMs: LONG_MS },
    )
    const { worktree_path: path } = ok
    const lines = [
      `branch ${ok.branch} made in ${ok.repo}`,
      ...(path === undefined ? [] : [`worktree made in ${path}`]),
    ]
    return { ok, human: lines.map((line) => ({ line })) }
  },
}

export const treeCommands: readonly Command[] = [sessionDiff, worktreeList, worktreeRemove, rescueList, rescueRestore]
