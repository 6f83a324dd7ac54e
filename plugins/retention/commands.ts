/** CLI of retention, as data (contract/cli.md "session policy", "session retention"). */
import { JSON_FLAG, type Command, type CommandContext, type Input, type TypedCall } from '../../protocol/command.ts'
import type contract from './contract.ts'
import type { RetentionPolicy, RetentionResult } from './contract.ts'

const plugin = 'retention'
const typed = (context: CommandContext): TypedCall<typeof contract> =>
  context.call.bind(context) as TypedCall<typeof contract>
const U32 = { minimum: 1, maximum: 4_294_967_295 }
/** Removing many sessions with their trees; the daemon goes on when the caller leaves, to the end of one removal. */
const SWEEP_TIMEOUT_MS = 15 * 60_000

const rows = (policy: RetentionPolicy) => [
  { fields: Object.entries(policy).map(([key, value]) => [key, String(value)] as const) },
]

const policyGet: Command = {
  path: ['session', 'policy', 'get'],
  about: 'show when sessions that are over are removed',
  arguments: [],
  flags: [JSON_FLAG],
  json: true,
  plugin,
  run: async (context) => {
    const ok = await typed(context)('session.policy.get', null)
    return { ok, human: rows(ok.retention) }
  },
}

const NUMBERS = {
  'sweep-interval-secs': 'seconds between two automatic sweeps (60 or more)',
  'terminal-ttl-secs': 'keep an ended session this long (3600 or more)',
  'lost-ttl-secs': 'keep a lost session this long (3600 or more)',
  'max-removals-per-sweep': 'remove so many in one sweep',
} as const
const keyOf = (flag: string): string => flag.replaceAll('-', '_')
const SETTINGS = ['enabled', 'disabled', ...Object.keys(NUMBERS)]

const policySet: Command = {
  path: ['session', 'policy', 'set'],
  about: 'change when sessions that are over are removed; what is not named stays',
  arguments: [],
  flags: [
    { name: 'enabled', about: 'turn automatic sweeps on' },
    { name: 'disabled', about: 'turn automatic sweeps off' },
    ...Object.entries(NUMBERS).map(([name, about]) => ({ name, value: 'n', integer: { ...U32, minimum: 0 }, about })),
    JSON_FLAG,
  ],
  exclusive: [['enabled', 'disabled']],
  json: true,
  plugin,
  check: (input) =>
    SETTINGS.some((it) => input.has(it)) ? undefined : `name at least one of --${SETTINGS.join(', --')}`,
  run: async (context, input) => {
    const { retention } = await typed(context)('session.policy.get', null)
    const ok = await typed(context)('session.policy.set', { retention: { ...retention, ...changes(input) } })
    return { ok, human: rows(ok.retention) }
  },
}

function changes(input: Input): Record<string, number | boolean> {
  const numbers = Object.keys(NUMBERS).flatMap((flag) => {
    const value = input.integer(flag)
    return value === undefined ? [] : [[keyOf(flag), value] as const]
  })
  const isNamed = input.has('enabled') || input.has('disabled')
  return { ...Object.fromEntries(numbers), ...(isNamed ? { enabled: input.has('enabled') } : {}) }
}

const sweep: Command = {
  path: ['session', 'retention', 'sweep'],
  examples: [
    'pohunek session retention sweep --dry-run\twhat would go, and what is held and why',
    'pohunek session retention sweep --apply\tremove it now',
  ],
  about: 'remove the sessions the policy selects, or only show them',
  details: [
    'A session is held while its worktree holds unsaved or unpushed work, while it has an unread notice, while its',
    'metadata has a pin (pohunek session metadata <target> --set pin=yes), and while processes of it may still run.',
  ],
  arguments: [],
  flags: [
    { name: 'dry-run', about: 'show what would go and touch nothing' },
    { name: 'apply', about: 'remove it' },
    { name: 'limit', value: 'n', integer: U32, about: 'remove so many at most' },
    JSON_FLAG,
  ],
  exclusive: [['dry-run', 'apply']],
  json: true,
  plugin,
  check: (input) => (input.has('dry-run') || input.has('apply') ? undefined : 'name --dry-run or --apply'),
  run: async (context, input) => {
    const limit = input.integer('limit')
    const ok = await typed(context)(
      'session.retention.sweep',
      { dry_run: input.has('dry-run'), ...(limit === undefined ? {} : { limit }) },
      { timeoutMs: SWEEP_TIMEOUT_MS },
    )
    return { ok, human: sweepBlocks(ok), exitCode: ok.failed > 0 || ok.worktrees_failed > 0 ? 1 : 0 }
  },
}

function sweepBlocks(it: RetentionResult) {
  const { sessions, dry_run, ...counts } = it
  const table = {
    columns: ['ID', 'REASON', 'AGE', 'OUTCOME', ...(dry_run ? ['MIB'] : []), 'WORKTREE'],
    rows: sessions.map((one) => [
      one.session_id,
      one.reason,
      `${Math.floor(one.age_secs / 86_400)}d`,
      one.hold ?? (one.removed ? 'removed' : dry_run ? 'would go' : 'kept'),
      ...(dry_run ? [mebibytes(one)] : []),
      one.worktree_path ?? '-',
    ]),
  }
  const line = Object.entries(counts)
    .map(([key, value]) => `${key}=${value}`)
    .join(' ')
  const kept = sessions.flatMap((one) =>
    (one.rescued ?? []).map(({ ref, repo }) => ({ line: `work of ${one.session_id} is kept as ${ref} in ${repo}` })),
  )
  return [...(sessions.length === 0 ? [] : [{ table }]), ...kept, { line }]
}

const mebibytes = (it: RetentionResult['sessions'][number]): string =>
  it.worktree_bytes === undefined
    ? '-'
    : `${it.worktree_bytes_partial === true ? 'over ' : ''}${(it.worktree_bytes / 1_048_576).toFixed(1)}`

export const commands: readonly Command[] = [policyGet, policySet, sweep]
