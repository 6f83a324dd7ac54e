/** What a run is made of: what people and programs do in trees, and what the manager is asked to do meanwhile. */
import fc from 'fast-check'

/** `at` picks one of the trees that exist then, modulo their number; without any the step does nothing. */
export type UserStep =
  | { readonly do: 'edit' | 'stage' | 'delete' | 'ignored' | 'commit' | 'stash' | 'detach'; readonly at: number }
  | { readonly do: 'merge' | 'rebase' | 'lock' | 'unlock' | 'move' | 'vanish' | 'private ref'; readonly at: number }
  /** Commits that only a log has afterwards, and work that is at a remote. */
  | { readonly do: 'drop' | 'reset' | 'amend' | 'push'; readonly at: number }
  /** The submodule of the tree. */
  | { readonly do: 'init part' | 'edit part' | 'commit part' | 'update part' | 'push part'; readonly at: number }
  | { readonly do: 'new'; readonly at: number; readonly name: string }
  | { readonly do: 'branch' | 'rename branch'; readonly at: number; readonly name: string }
  | { readonly do: 'commit on main' }

/** `sweep` is asked while nothing else is; `aged`: every session is older than any policy by then. */
export type ManagerStep =
  | { readonly do: 'create'; readonly branch: string; readonly brief: boolean; readonly reuse: boolean }
  | { readonly do: 'stop' | 'remove'; readonly at: number }
  | { readonly do: 'remove tree'; readonly at: number; readonly force: boolean }
  | { readonly do: 'sweep'; readonly aged: boolean; readonly dry: boolean }

export type Step =
  | UserStep
  | ManagerStep
  /** SIGKILL for the daemon while it works on something, then another daemon. */
  | { readonly do: 'kill'; readonly during: ManagerStep | null; readonly afterMs: number }

const at = fc.nat({ max: 19 })
const branches = ['a', 'b', 'c/d', 'c/e', 'añ', 'f.g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o']
const branch = fc.constantFrom(...branches)
const names = ['new.c', 'deep/er/new.txt', ' spaced name ', 'quo"te', "it's", 'line\nfeed', 'ünï', '-dash', 'build.log']
const flag = (oneIn: number): fc.Arbitrary<boolean> => fc.nat({ max: oneIn - 1 }).map((it) => it === oneIn - 1)

const create = fc.record({ do: fc.constant('create' as const), branch, brief: fc.boolean(), reuse: flag(6) })
const remove = fc.record({ do: fc.constant('remove' as const), at })
const removeTree = fc.record({ do: fc.constant('remove tree' as const), at, force: fc.boolean() })
const sweep = fc.record({ do: fc.constant('sweep' as const), aged: fc.boolean(), dry: flag(4) })
const kill = fc.record({
  do: fc.constant('kill' as const),
  during: fc.option(fc.oneof(create, remove, removeTree, sweep)),
  afterMs: fc.nat({ max: 150 }),
})

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 26, arbitrary: create },
  {
    weight: 34,
    arbitrary: fc.record({
      do: fc.constantFrom('edit', 'stage', 'delete', 'ignored', 'commit', 'commit', 'stash', 'detach' as const),
      at,
    }),
  },
  {
    weight: 14,
    arbitrary: fc.record({
      do: fc.constantFrom('merge', 'rebase', 'lock', 'unlock', 'unlock', 'move', 'move', 'vanish', 'private ref'),
      at,
    }),
  },
  {
    weight: 12,
    arbitrary: fc.record({ do: fc.constantFrom('drop', 'drop', 'reset', 'amend', 'push' as const), at }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constantFrom('init part', 'init part', 'edit part', 'commit part', 'update part', 'push part' as const),
      at,
    }),
  },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('new' as const), at, name: fc.constantFrom(...names) }) },
  {
    weight: 8,
    arbitrary: fc.record({ do: fc.constantFrom('branch', 'rename branch'), at, name: branch }),
  },
  { weight: 4, arbitrary: fc.constant<Step>({ do: 'commit on main' }) },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('stop' as const), at }) },
  { weight: 8, arbitrary: remove },
  { weight: 8, arbitrary: removeTree },
  { weight: 6, arbitrary: sweep },
  { weight: 5, arbitrary: kill },
)

/** Runs of up to `length` steps; whatever is left of one is a run as well, so every failure can be made smaller. */
export const runsOf = (length: number): fc.Arbitrary<Step[]> =>
  fc.array(step, { minLength: Math.min(length, 5), maxLength: length, size: 'max' })

/** One line per step. */
export const told = (steps: readonly Step[]): string =>
  steps.map((it, index) => `${String(index + 1).padStart(3)} ${JSON.stringify(it)}`).join('\n')
