/** CLI commands of sessions, as data (contract/cli.md). Imports the contract's types alone: no schema is loaded. Long because it is a table. */
import {
  JSON_FLAG,
  type Command,
  type CommandContext,
  type Flag,
  type Input,
  type Outcome,
  type TypedCall,
} from '../../protocol/command.ts'
import {
  DEFAULT_CLI_OUTPUT_BYTES,
  MAX_OUTPUT_BYTES,
  MAX_READ_LINES,
  MAX_SESSION_NAME_BYTES,
  MAX_WAIT_MS,
} from '../../protocol/limits.ts'
import { Fault } from '../../protocol/fault.ts'
import { withRuntimeId } from '../../protocol/window/spelling.ts'
import { AGENT_ACTIVITIES, CONTROL_CHARACTER } from '../../protocol/words.ts'
import type contract from './contract.ts'
import { absent, inspectBlocks, listBlocks } from './views.ts'
import type { SessionInfo, SessionListFilter } from './types.ts'

const U16 = { minimum: 0, maximum: 65_535 }
const U32 = { minimum: 1, maximum: 4_294_967_295 }
/** Ending a program is grace, escalation and the drain of its output; the daemon bounds it itself. */
const END_TIMEOUT_MS = 40_000
/** An agent is asked for its release first, and initial input waits for it to be ready; the daemon bounds both itself. */
const NEW_TIMEOUT_MS = 30_000

const plugin = 'sessions'
const target = { name: 'target', about: 'session id, unique name or id prefix', session: true }
const STDIN: Flag = { name: 'stdin', about: 'take the text from standard input', aliases: ['input-stdin'] }
const typed = (context: CommandContext): TypedCall<typeof contract> =>
  context.call.bind(context) as TypedCall<typeof contract>
const targetId = (context: CommandContext, input: Input): Promise<string> =>
  context.session(input.argument('target') ?? '')
const lines = (...texts: string[]): { line: string }[] => texts.map((line) => ({ line }))

/** `k=v` at its first equals sign. */
function pair(text: string): [key: string, value: string] | undefined {
  const at = text.indexOf('=')
  return at < 1 ? undefined : [text.slice(0, at), text.slice(at + 1)]
}

function pairsProblem(flag: string, values: readonly string[]): string | undefined {
  const keys = new Set<string>()
  for (const value of values) {
    const [key] = pair(value) ?? []
    if (key === undefined) return `--${flag} takes <key>=<value> with a key; not ${JSON.stringify(value)}`
    if (keys.has(key)) return `--${flag} names ${JSON.stringify(key)} twice`
    keys.add(key)
  }
  return undefined
}

/** Raised by the CLI: whether the text arrived is not known, so nothing says to try again. */
const interruptedInput = (): Fault =>
  new Fault({
    class: 'runtime',
    code: 'session_input_interrupted',
    msg: 'interrupted while waiting; the input may have been delivered',
  })

function nameProblem(name: string | undefined): string | undefined {
  if (name === undefined) return undefined
  if (name.trim() === '') return 'the name is empty'
  if (name.startsWith('-')) return 'a name cannot start with -'
  if (Buffer.byteLength(name.trim()) > MAX_SESSION_NAME_BYTES)
    return `a name is at most ${MAX_SESSION_NAME_BYTES} bytes`
  return CONTROL_CHARACTER.test(name) ? 'a name cannot hold control characters' : undefined
}

/** `~` and relative directories mean the caller's; nothing given means where the caller is. */
function directory(context: CommandContext, given: string | undefined): string | undefined {
  if (given === undefined) return context.cwd
  const home = context.home
  if (home !== undefined && (given === '~' || given.startsWith('~/')))
    return context.resolvePath(home, `.${given.slice(1)}`)
  return context.resolvePath(context.cwd ?? '/', given)
}

/** Fetching the base and checking out a large repository; the daemon bounds both itself. */
const TREE_TIMEOUT_MS = 900_000

/** Names need not be unique; whoever makes a second one should know that it no longer says which. */
async function sharedName(context: CommandContext, id: string, name: string | undefined): Promise<readonly string[]> {
  if (name === undefined) return []
  const sessions = (await context.sessions([])) as readonly SessionInfo[]
  return sessions.some((it) => it.name === name && it.id !== id)
    ? ['warning: another session has this name; address it by id']
    : []
}

export const sessionNew: Command = {
  path: ['session', 'new'],
  about: 'start a program in a new session',
  examples: [
    'pohunek session new --name work --attach\tyour shell, attached',
    "pohunek session new --agent claude --name fix --input 'run the tests'\tan agent with its first prompt",
    'pohunek session new --agent claude --repo . --branch fix/login\tin a worktree and a branch of its own',
  ],
  arguments: [],
  flags: [
    { name: 'agent', value: 'name', about: 'runtime or host profile (default shell); host inspect local shows them' },
    { name: 'name', value: 'name', about: 'display name' },
    { name: 'cwd', value: 'directory', about: 'start directory (default: the current one)' },
    { name: 'cols', value: 'n', integer: U16, about: 'columns (default 80)' },
    { name: 'rows', value: 'n', integer: U16, about: 'rows (default 24)' },
    { name: 'project', value: 'ref', about: 'run in this project (id or label)' },
    { name: 'repo', value: 'directory', about: 'run in this repository' },
    { name: 'branch', value: 'name', about: 'work in a new worktree, on a new branch' },
    { name: 'base-branch', value: 'name', about: 'start of the new branch' },
    { name: 'reuse-branch', about: 'work on the branch that is there' },
    { name: 'input', value: 'text', about: 'type this once the program is ready' },
    { name: 'input-stdin', aliases: ['stdin'], about: 'as --input, from standard input' },
    { name: 'meta', value: 'key=value', repeat: true, about: 'a note of yours, which session list can filter by' },
    {
      name: 'request-timeout-ms',
      value: 'ms',
      integer: U32,
      about: 'how long to wait for the answer (default 30000; with --branch 900000)',
    },
    { name: 'yes', short: 'y', about: 'do not ask before creating on another host' },
    { name: 'attach', about: 'attach to it at once' },
    JSON_FLAG,
  ],
  exclusive: [
    ['project', 'repo'],
    ['base-branch', 'reuse-branch'],
    ['input', 'input-stdin'],
    ['attach', 'json'],
    ['attach', 'input-stdin'],
  ],
  json: true,
  plugin,
  check: (input) => {
    for (const flag of ['base-branch', 'reuse-branch'])
      if (input.has(flag) && !input.has('branch')) return `--${flag} needs --branch`
    if (input.has('branch') && !input.has('repo') && !input.has('project')) return '--branch needs --repo or --project'
    for (const flag of ['agent', 'cwd', 'project', 'repo', 'branch', 'base-branch']) {
      if (input.value(flag) === '') return `--${flag} is empty`
    }
    if (input.integer('cols') === 0 || input.integer('rows') === 0) return '--cols and --rows must not be zero'
    return nameProblem(input.value('name')) ?? pairsProblem('meta', input.values('meta'))
  },
  async run(context, input): Promise<Outcome> {
    if (input.has('attach')) context.checkAttach()
    const text = input.has('input-stdin') ? await context.readInput() : input.value('input')
    const repo = input.value('repo')
    const elsewhere = repo !== undefined || input.has('project')
    const cwd = elsewhere && !input.has('cwd') ? undefined : directory(context, input.value('cwd'))
    const metadata = input.values('meta').map((it) => pair(it) as [string, string])
    const own = input.has('branch') ? TREE_TIMEOUT_MS : NEW_TIMEOUT_MS
    const timeoutMs = input.integer('request-timeout-ms') ?? own
    // A program that is looked at from its first moment starts at the size it is looked at.
    const size = input.has('attach') ? context.terminal : undefined
    const info = await typed(context)(
      'session.new',
      {
        agent: input.value('agent') ?? 'shell',
        cols: input.integer('cols') ?? size?.cols ?? 80,
        rows: input.integer('rows') ?? size?.rows ?? 24,
        ...present('name', input.value('name')),
        ...present('cwd', cwd),
        ...present('project', input.value('project')),
        ...present('repo', repo === undefined ? undefined : directory(context, repo)),
        ...present('branch', input.value('branch')),
        ...present('base_branch', input.value('base-branch')),
        ...(input.has('reuse-branch') ? { reuse_branch: true } : {}),
        ...(text === undefined ? {} : { input: text, accept_startup_grace: true }),
        ...(metadata.length > 0 ? { metadata: Object.fromEntries(metadata) } : {}),
        ...present('search_path', context.env.PATH),
      },
      timeoutMs === undefined ? {} : { timeoutMs },
    )
    if (input.has('attach')) return { ok: null, human: [], exitCode: await context.attach(info.id) }
    const warnings = (info.warnings ?? []).map((it) => ({ line: `warning (${it.kind}): ${it.message}` }))
    const shared = input.has('json') ? [] : await sharedName(context, info.id, info.name)
    const unconfirmed = text !== undefined && info.applied_input !== true
    return {
      ok: withRuntimeId(info),
      human: [
        { line: `session ${info.id} created (state: ${info.state})` },
        ...(info.worktree_path === undefined ? [] : [{ line: `worktree ${info.worktree_path}` }]),
        ...warnings,
      ],
      notes: [...(unconfirmed ? ['warning: the input could not be confirmed'] : []), ...shared],
    }
  },
}

const present = <K extends string>(key: K, value: string | undefined): { [P in K]?: string } =>
  value === undefined ? {} : ({ [key]: value } as { [P in K]?: string })

const FILTER_KEYS = ['state', 'activity', 'agent', 'id', 'project']

export const sessionList: Command = {
  path: ['session', 'list'],
  aliases: ['ls'],
  about: 'list sessions',
  details: ['On a narrow terminal long texts are cut and columns are left out; a pipe gets everything.'],
  examples: [
    'pohunek session list --filter activity=blocked\twho needs you',
    'pohunek session list -q --filter state=done\tids of what has ended, for xargs',
    'pohunek session list --meta-eq team=web\twhat session metadata set',
  ],
  arguments: [],
  flags: [
    JSON_FLAG,
    { name: 'quiet', short: 'q', about: 'ids only' },
    { name: 'targets', about: 'ids, then the names that mean one session', hidden: true },
    { name: 'filter', value: 'key=value', repeat: true, about: 'state, activity, agent, id or project' },
    { name: 'meta-eq', value: 'key=value', repeat: true, about: 'metadata has this value' },
    { name: 'meta-has', value: 'key', repeat: true, about: 'metadata has this key' },
  ],
  exclusive: [['json', 'quiet']],
  json: true,
  plugin,
  check: (input) => {
    for (const text of input.values('filter')) {
      const key = pair(text)?.[0]
      if (key === undefined || !FILTER_KEYS.includes(key))
        return `--filter takes <key>=<value> with a key of ${FILTER_KEYS.join(', ')}; not ${JSON.stringify(text)}`
    }
    return input.values('meta-has').includes('')
      ? '--meta-has is empty'
      : input.values('meta-eq').map(pair).includes(undefined)
        ? '--meta-eq takes <key>=<value>'
        : undefined
  },
  async run(context, input): Promise<Outcome> {
    const filters = [
      ...input.values('filter').map((it) => {
        const [key, value] = pair(it) as [string, string]
        return { key, value } as SessionListFilter
      }),
      ...input.values('meta-eq').map((it) => {
        const [key, value] = pair(it) as [string, string]
        return { key: 'metadata_eq' as const, value: { key, value } }
      }),
      ...input.values('meta-has').map((value) => ({ key: 'metadata_has' as const, value })),
    ]
    const sessions = (await context.sessions(filters)) as readonly SessionInfo[]
    if (input.has('quiet')) return { ok: null, human: sessions.map((it) => ({ line: it.id })) }
    if (input.has('targets')) return { ok: null, human: targetsOf(sessions).map((line) => ({ verbatim: `${line}\n` })) }
    const none = sessions.length === 0 ? { notes: ['no sessions; pohunek session new --attach starts one'] } : {}
    return { ok: sessions.map(withRuntimeId), human: listBlocks(sessions), ...none }
  },
}

/** What completion offers: a name that two sessions share, or that a target cannot spell, is left out. */
function targetsOf(sessions: readonly SessionInfo[]): readonly string[] {
  const ids = new Set(sessions.map((it) => it.id))
  const names = sessions.flatMap((it) => it.name ?? [])
  const usable = names.filter(
    (it, at) => names.indexOf(it) === at && names.lastIndexOf(it) === at && !it.includes('/') && !ids.has(it),
  )
  return [...ids, ...usable]
}

/** A command that takes one session and nothing else but --json. */
function onSession(
  name: string,
  about: string,
  run: (context: CommandContext, id: string, input: Input) => Promise<Outcome>,
  more: Partial<Command> = {},
): Command {
  return {
    path: ['session', name],
    about,
    arguments: [target],
    flags: [JSON_FLAG],
    json: true,
    plugin,
    ...more,
    run: async (context, input) => run(context, await targetId(context, input), input),
  }
}

export const sessionInspect = onSession('inspect', 'show one session', async (context, id) => {
  const info = await typed(context)('session.inspect', id)
  return { ok: withRuntimeId(info), human: inspectBlocks(info) }
})

export const sessionStop = onSession('stop', 'end the program of a session; the record stays', async (context, id) => {
  const ok = await typed(context)('session.stop', id, { timeoutMs: END_TIMEOUT_MS })
  return { ok, human: lines(`session ${id}: stopped=${ok.stopped}`) }
})

export const sessionRemove = onSession(
  'rm',
  'stop a session if needed and remove its record',
  async (context, id, input) => {
    const method = input.has('accept-unconfirmed-cleanup') ? 'session.remove_accepting_unconfirmed' : 'session.remove'
    const ok = await typed(context)(method, id, { timeoutMs: END_TIMEOUT_MS })
    const left = ok.accepted_unconfirmed_processes ?? []
    const each = left.map((it) => `pid ${it.pid} (start ${it.start_identity}, ${it.command ?? '<unknown>'})`)
    const kept = (ok.rescued ?? []).map((it) => `unsaved work of the worktree is kept as ${it.ref} in ${it.repo}`)
    const stays = ok.worktrees_failed > 0 ? ['warning: its worktree stays; pohunek worktree list says more'] : []
    const trailer = left.length > 0 ? ` (${left.length} accepted leftovers follow)` : ''
    return {
      ok,
      human: lines(`session ${id}: removed=${ok.removed} stopped=${ok.stopped}${trailer}`, ...each, ...kept),
      notes: stays,
    }
  },
  {
    aliases: ['remove'],
    flags: [
      { name: 'accept-unconfirmed-cleanup', about: 'go past processes whose environment cannot be read' },
      JSON_FLAG,
    ],
  },
)

export const sessionInput = onSession(
  'input',
  'type text and press Enter',
  async (context, id, input) => {
    const text = input.has('stdin') ? await context.readInput() : (input.argument('text') ?? '')
    const until = input.values('until') as (typeof AGENT_ACTIVITIES)[number][]
    const waits = until.length > 0 || input.has('timeout')
    const wait = { ...(until.length > 0 ? { until } : {}), timeout_ms: input.integer('timeout') ?? MAX_WAIT_MS }
    const ok = await typed(context)('session.input', {
      session_id: id,
      text,
      ...(input.has('force') ? { force: true } : {}),
      ...(input.has('paste') ? { paste: true } : {}),
      ...(waits ? { wait } : {}),
    })
    const activity = ok.activity === undefined ? '' : ` (${ok.activity})`
    return { ok: withRuntimeId(ok), human: lines(`session ${id}: input accepted${activity}`) }
  },
  {
    examples: [
      "pohunek session input work 'make test'\ttype a line",
      'git diff | pohunek session input fix --stdin\ta text of many lines',
      'pohunek session input fix y --force\tanswer a question that is on its screen',
      "pohunek session input fix 'go on' --until idle --until blocked\tand see what it comes to",
    ],
    arguments: [target, { name: 'text', about: "the text; '' presses Enter alone", optional: true }],
    flags: [
      STDIN,
      {
        name: 'until',
        value: 'activity',
        repeat: true,
        choices: AGENT_ACTIVITIES,
        about: 'wait for this activity after the text',
      },
      {
        name: 'timeout',
        value: 'ms',
        integer: { minimum: 1, maximum: MAX_WAIT_MS },
        about: `bound of the wait, milliseconds (default ${MAX_WAIT_MS})`,
      },
      { name: 'force', about: 'send it whatever the screen shows' },
      { name: 'paste', about: 'refuse unless the program takes pastes, so that line breaks stay line breaks' },
      JSON_FLAG,
    ],
    exclusive: [['text', 'stdin']],
    interrupted: (input) => (input.has('until') || input.has('timeout') ? interruptedInput() : undefined),
    check: (input) =>
      input.argument('text') === undefined && !input.has('stdin') ? 'session input needs <text> or --stdin' : undefined,
  },
)

export const sessionScreen = onSession('screen', 'show the rendered screen', async (context, id) => {
  const ok = await typed(context)('session.screen', { session_id: id })
  return { ok: withRuntimeId(ok), human: [{ screen: ok.visible_lines }] }
})

export const sessionRead = onSession(
  'read',
  'show the newest lines of the screen',
  async (context, id, input) => {
    const ok = await typed(context)('session.read', {
      session_id: id,
      source: (input.value('source') ?? 'visible') as 'visible',
      lines: input.integer('lines') ?? MAX_READ_LINES,
      format: (input.value('format') ?? 'text') as 'text',
    })
    const text = ok.text === '' || ok.text.endsWith('\n') ? ok.text : `${ok.text}\n`
    return { ok: withRuntimeId(ok), human: [{ stream: text }] }
  },
  {
    flags: [
      {
        name: 'source',
        value: 'name',
        choices: ['visible', 'recent', 'recent_unwrapped', 'detection'],
        about: 'what to read; all show the visible screen',
      },
      {
        name: 'lines',
        value: 'n',
        integer: { minimum: 1, maximum: MAX_READ_LINES },
        about: `so many of the newest lines (default ${MAX_READ_LINES})`,
      },
      { name: 'format', value: 'name', choices: ['text', 'ansi'], about: 'without or with colours (default text)' },
      JSON_FLAG,
    ],
  },
)

export const sessionOutput = onSession(
  'output',
  'show raw terminal output',
  async (context, id, input) => {
    const instance = input.value('worker-instance-id')
    const generation = input.value('runtime-generation')
    const ok = await typed(context)(
      'session.output',
      {
        session_id: id,
        ...(instance !== undefined && generation !== undefined
          ? { runtime: { worker_instance_id: instance, runtime_generation: generation } }
          : {}),
        ...present('after_offset', input.value('after-offset')),
        max_bytes: input.integer('max-bytes') ?? DEFAULT_CLI_OUTPUT_BYTES,
        ...(input.has('wait-ms') ? { wait_ms: input.integer('wait-ms') } : {}),
      },
      input.has('wait-ms') ? { lasting: true } : {},
    )
    if (input.has('follow')) {
      await context.follow(id, ok.start_offset)
      return { ok: null, human: [] }
    }
    return { ok: withRuntimeId(ok), human: [{ stream: Buffer.from(ok.data_base64, 'base64').toString('utf8') }] }
  },
  {
    examples: [
      'pohunek session output work --follow | tee work.log\tall that is kept, and what comes',
      'pohunek session output work --max-bytes 1000\tthe newest thousand bytes',
    ],
    flags: [
      { name: 'worker-instance-id', aliases: ['runtime-id'], value: 'id', about: 'read of exactly this runtime' },
      { name: 'runtime-generation', value: 'n', about: 'its generation' },
      { name: 'after-offset', value: 'n', about: 'from this offset of that runtime on; --json tells all three' },
      {
        name: 'max-bytes',
        value: 'n',
        integer: { minimum: 1, maximum: MAX_OUTPUT_BYTES },
        about: `at most so many bytes (default ${DEFAULT_CLI_OUTPUT_BYTES})`,
      },
      {
        name: 'wait-ms',
        value: 'ms',
        integer: { minimum: 1, maximum: MAX_WAIT_MS },
        about: 'wait so long for more where there is none',
      },
      { name: 'follow', short: 'f', about: 'go on with what comes, until the program ended' },
      JSON_FLAG,
    ],
    exclusive: [
      ['follow', 'json'],
      ['follow', 'wait-ms'],
    ],
    check: (input) => {
      if (input.has('worker-instance-id') !== input.has('runtime-generation'))
        return '--worker-instance-id and --runtime-generation go together'
      if (input.has('after-offset') && !input.has('worker-instance-id'))
        return '--after-offset needs --worker-instance-id and --runtime-generation'
      if (input.has('wait-ms') && !input.has('after-offset')) return '--wait-ms needs --after-offset'
      return undefined
    },
  },
)

export const sessionResize = onSession(
  'resize',
  'set the terminal size',
  async (context, id, input) => {
    const size = { cols: input.integer('cols') as number, rows: input.integer('rows') as number }
    const ok = await typed(context)('session.resize', { session_id: id, ...size })
    return {
      ok: { session: withRuntimeId(ok.session) },
      human: lines(`resized ${id} to ${ok.session.cols}x${ok.session.rows}`),
    }
  },
  {
    flags: [
      { name: 'cols', value: 'n', integer: { ...U16, minimum: 1 }, about: 'columns' },
      { name: 'rows', value: 'n', integer: { ...U16, minimum: 1 }, about: 'rows' },
      JSON_FLAG,
    ],
    check: (input) => (input.has('cols') && input.has('rows') ? undefined : 'session resize needs --cols and --rows'),
  },
)

export const sessionMetadata = onSession(
  'metadata',
  'set or clear owner metadata',
  async (context, id, input) => {
    const set = input.values('set').map((it) => pair(it) as [string, string | null])
    const clear = input.values('clear').map((it): [string, null] => [it, null])
    const ok = await typed(context)('session.set_metadata', {
      session_id: id,
      metadata: Object.fromEntries([...set, ...clear]),
    })
    return { ok: { session: withRuntimeId(ok.session) }, human: lines(`updated metadata for ${id}`) }
  },
  {
    examples: [
      'pohunek session metadata work --set team=web --clear old\tnotes of yours',
      'pohunek session metadata work --set pin=yes\tnever removed by a sweep',
    ],
    flags: [
      { name: 'set', value: 'key=value', repeat: true, about: 'set a value' },
      { name: 'clear', value: 'key', repeat: true, about: 'remove a key' },
      JSON_FLAG,
    ],
    check: (input) => {
      if (!input.has('set') && !input.has('clear')) return 'session metadata needs --set or --clear'
      const keys = input.values('set').map((it) => pair(it)?.[0])
      const both = input.values('clear').find((it) => keys.includes(it))
      if (both !== undefined) return `${JSON.stringify(both)} is both set and cleared`
      return input.values('clear').includes('') ? '--clear is empty' : pairsProblem('set', input.values('set'))
    },
  },
)

export const sessionRename = onSession(
  'rename',
  'set or clear the display name',
  async (context, id, input) => {
    const ok = await typed(context)('session.rename', { session_id: id, name: input.argument('name') ?? null })
    const { name } = ok.session
    const notes = input.has('json') ? [] : await sharedName(context, id, name)
    return {
      notes,
      ok: { session: withRuntimeId(ok.session) },
      human: lines(name === undefined ? `session ${id}: name cleared` : `session ${id}: renamed to "${name}"`),
    }
  },
  {
    arguments: [target, { name: 'name', about: 'the new name', optional: true }],
    flags: [{ name: 'clear', about: 'remove the name' }, JSON_FLAG],
    exclusive: [['name', 'clear']],
    check: (input) => {
      if (input.argument('name') === undefined && !input.has('clear')) return 'session rename needs <name> or --clear'
      return nameProblem(input.argument('name'))
    },
  },
)

export const sessionInventory: Command = {
  path: ['session', 'runtime-inventory'],
  about: 'workers found when the daemon started',
  arguments: [],
  flags: [JSON_FLAG],
  json: true,
  plugin,
  async run(context): Promise<Outcome> {
    const { entries } = await typed(context)('session.runtime_inventory', null)
    const blocks = entries.map((it) => ({ verbatim: `${absent(it.runtime_slot)}\t${it.status}\n` }))
    const none = entries.length === 0 ? { notes: ['no workers were there when the daemon started'] } : {}
    return { ok: { entries: entries.map((it) => withRuntimeId(it)) }, human: blocks, ...none }
  },
}

export const commands: readonly Command[] = [
  sessionNew,
  sessionList,
  sessionInspect,
  sessionStop,
  sessionRemove,
  sessionInput,
  sessionScreen,
  sessionRead,
  sessionOutput,
  sessionResize,
  sessionMetadata,
  sessionRename,
  sessionInventory,
]
