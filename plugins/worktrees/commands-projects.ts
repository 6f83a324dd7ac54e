/** CLI of projects and prompts, as data (contract/cli.md "other groups"). Imports the contract's types alone. Long because it is a table. */
import { readFileSync, realpathSync, statSync } from 'node:fs'
import {
  JSON_FLAG,
  type Block,
  type Command,
  type CommandContext,
  type Flag,
  type Input,
  type Outcome,
  type TypedCall,
} from '../../protocol/command.ts'
import type { ProjectInfo, ProjectListFilter, projectMethods, ProjectWorktree } from './contract-projects.ts'
import {
  ITEM_PROVIDERS,
  itemFaults,
  linkOf,
  parseItem,
  PLAIN_TEMPLATE,
  renderPrompt,
  type ItemProvider,
} from './work-item.ts'

const plugin = 'worktrees'
/** Git is asked, in a repository that may be large and on a slow disk; the daemon bounds it itself. */
const GIT_TIMEOUT_MS = 40_000
/** Trees are deleted one after the other. */
const PRUNE_TIMEOUT_MS = 600_000

type ProjectContract = { name: 'worktrees'; methods: typeof projectMethods; events: Record<never, never> }
const typed = (context: CommandContext): TypedCall<ProjectContract> =>
  context.call.bind(context) as TypedCall<ProjectContract>
const present = <K extends string>(key: K, value: string | undefined): { [P in K]?: string } =>
  value === undefined ? {} : ({ [key]: value } as { [P in K]?: string })

const REFERENCE = { name: 'ref', about: 'project id or label, or a directory of its repository such as .' }

/** `~` and relative paths mean the caller's. */
function directory(context: CommandContext, given = '.'): string {
  const { home, cwd = '/' } = context
  return home !== undefined && (given === '~' || given.startsWith('~/'))
    ? context.resolvePath(home, `.${given.slice(1)}`)
    : context.resolvePath(cwd, given)
}

const IS_DIRECTORY = /^(\/|~\/|~$|\.{1,2}(\/|$))/

/** The project meant: an id or label as it is, a directory by the repository it lies in. */
async function reference(context: CommandContext, input: Input): Promise<string> {
  const given = input.argument('ref') ?? ''
  if (!IS_DIRECTORY.test(given)) return given
  const path = real(directory(context, given))
  const isAbove = ({ repo_root: root }: ProjectInfo): boolean => path === root || path.startsWith(`${root}/`)
  const above = (await typed(context)('project.list', null)).filter(isAbove)
  return above.sort((a, b) => b.repo_root.length - a.repo_root.length)[0]?.id ?? path
}

function real(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path // told as no project
  }
}

const FILTER_KEYS = ['source', 'label', 'id']
const filterOf = (text: string): { key: string; value: string } => {
  const at = text.indexOf('=')
  return { key: text.slice(0, Math.max(at, 0)), value: text.slice(at + 1) }
}

const projectList: Command = {
  path: ['project', 'list'],
  aliases: ['ls'],
  about: 'list the projects of this host',
  details: ['A project is a repository somebody worked in, or added; nothing looks for repositories.'],
  arguments: [],
  flags: [{ name: 'filter', value: 'key=value', repeat: true, about: 'source, label or id' }, JSON_FLAG],
  json: true,
  plugin,
  check: (input) => {
    for (const text of input.values('filter')) {
      const { key, value } = filterOf(text)
      if (!FILTER_KEYS.includes(key))
        return `--filter takes <key>=<value> with a key of ${FILTER_KEYS.join(', ')}; not ${JSON.stringify(text)}`
      if (key === 'source' && value !== 'auto' && value !== 'manual') return '--filter source= takes auto or manual'
    }
    return undefined
  },
  async run(context, input): Promise<Outcome> {
    const filters = input.values('filter').map((it) => filterOf(it) as ProjectListFilter)
    const ok = await typed(context)('project.list', filters.length === 0 ? null : { filters })
    const rows = ok.map((it) => [it.id, it.label, it.source, it.is_bare ? 'yes' : 'no', it.repo_root])
    const none = ok.length === 0 ? { notes: ['no projects; pohunek project add registers one'] } : {}
    return { ok, human: [{ table: { columns: ['ID', 'LABEL', 'SOURCE', 'BARE', 'ROOT'], rows } }], ...none }
  },
}

const projectAdd: Command = {
  path: ['project', 'add'],
  about: 'register the repository a directory lies in',
  details: ['A repository that is registered already takes the name and the base branch given.'],
  arguments: [{ name: 'path', about: 'the directory (default: the current one)', optional: true }],
  flags: [
    { name: 'name', value: 'label', about: 'label (default: the name of its folder)' },
    { name: 'base-branch', value: 'branch', about: 'where new branches start when nothing else is said' },
    JSON_FLAG,
  ],
  json: true,
  plugin,
  check: (input) => {
    if (input.argument('path') === '') return 'the path is empty'
    return ['name', 'base-branch'].flatMap((it) => (input.value(it) === '' ? [`--${it} is empty`] : []))[0]
  },
  async run(context, input): Promise<Outcome> {
    const ok = await typed(context)(
      'project.add',
      {
        path: directory(context, input.argument('path')),
        ...present('name', input.value('name')),
        ...present('base_branch', input.value('base-branch')),
      },
      { timeoutMs: GIT_TIMEOUT_MS },
    )
    return { ok, human: [{ line: `project ${ok.id} added: ${ok.label}` }, { line: `root ${ok.repo_root}` }] }
  },
}

/** A command that takes one project and nothing else but what is said. */
function onProject(name: string, about: string, run: Command['run'], more: Partial<Command> = {}): Command {
  return {
    path: ['project', name],
    about,
    arguments: [REFERENCE],
    flags: [JSON_FLAG],
    json: true,
    plugin,
    ...more,
    run,
  }
}

const projectShow = onProject('show', 'show a project and the worktrees of its repository', async (context, input) => {
  const ok = await typed(context)(
    'project.show',
    { reference: await reference(context, input) },
    { timeoutMs: GIT_TIMEOUT_MS },
  )
  return { ok, human: showBlocks(ok.project, ok.worktrees) }
})

/** Pure. */
function showBlocks(project: ProjectInfo, worktrees: readonly ProjectWorktree[]): Block[] {
  const fields = Object.entries(project).map(([key, value]) => [key, String(value)] as const)
  return [
    { fields },
    { line: `worktrees (${worktrees.length}):` },
    ...worktrees.map((it) => ({ line: worktreeLine(it) })),
  ]
}

function worktreeLine({ path, branch, owned, bare, locked, session_id }: ProjectWorktree): string {
  const facts = [
    ...(owned ? ['owned'] : []),
    ...(bare ? ['bare'] : []),
    ...(locked ? ['locked'] : []),
    ...(session_id === undefined ? [] : [`session=${session_id}`]),
  ]
  return `${path} ${branch ?? '-'}${facts.length === 0 ? '' : ` [${facts.join(', ')}]`}`
}

const projectRename = onProject(
  'rename',
  'set the label of a project',
  async (context, input) => {
    const name = input.argument('name') ?? ''
    const ok = await typed(context)('project.rename', { reference: await reference(context, input), name })
    return { ok, human: [{ line: `project ${ok.id}: renamed to "${ok.label}"` }] }
  },
  {
    arguments: [REFERENCE, { name: 'name', about: 'the new label' }],
    check: (input) => (input.argument('name')?.trim() === '' ? 'the name is blank' : undefined),
  },
)

const projectRemove = onProject(
  'rm',
  'forget a project; the repository stays',
  async (context, input) => {
    const prune = input.has('prune-worktrees')
    const ref = await reference(context, input)
    const ok = await typed(context)(
      'project.remove',
      { reference: ref, ...(prune ? { prune_worktrees: true } : {}) },
      { timeoutMs: prune ? PRUNE_TIMEOUT_MS : GIT_TIMEOUT_MS },
    )
    const skipped = ok.skipped_worktrees ?? []
    return {
      ok,
      human: [
        {
          line: `project ${ref}: removed=${ok.removed}${prune ? ` pruned_worktrees=${ok.pruned_worktrees}` : ''}`,
        },
        ...skipped.map((it) => ({ line: `skipped ${it}` })),
        ...(ok.rescued ?? []).map(({ ref, repo }) => ({ line: `work is kept as ${ref} in ${repo}` })),
      ],
      notes: skipped.length === 0 ? [] : ['warning: worktrees in use or with unsaved work stay'],
    }
  },
  {
    aliases: ['remove'],
    flags: [
      { name: 'prune-worktrees', about: 'also remove the worktrees pohunek made that hold nothing unsaved' },
      JSON_FLAG,
    ],
  },
)

const projectPrompt = onProject(
  'prompt',
  'show a prompt template of a project',
  async (context, input) => {
    const ok = await typed(context)('project.prompt', {
      reference: await reference(context, input),
      name: input.argument('name') ?? '',
    })
    return { ok, human: [{ stream: ok.content }], notes: [`layer: ${ok.layer}`] }
  },
  { arguments: [REFERENCE, { name: 'name', about: 'name of the prompt' }] },
)

const projectAction = onProject(
  'action',
  'show what an action of a project starts',
  async (context, input) => {
    const ok = await typed(context)('project.action', {
      reference: await reference(context, input),
      name: input.argument('name') ?? '',
    })
    const { provider, agent, base_branch, branch, prompt_name, prompt_content } = ok
    return {
      ok,
      human: [
        { line: `provider: ${provider}` },
        { line: `agent: ${agent}` },
        ...(base_branch === undefined ? [] : [{ line: `base branch: ${base_branch}` }]),
        ...(branch === undefined ? [] : [{ line: `branch: ${branch}` }]),
        { line: `prompt: ${prompt_name}` },
        { line: '---' },
        { stream: prompt_content },
      ],
    }
  },
  { arguments: [REFERENCE, { name: 'name', about: 'name of the action' }] },
)

const projectActions = onProject('actions', 'list the actions of a project', async (context, input) => {
  const ok = await typed(context)('project.actions', { reference: await reference(context, input) })
  const rows = [
    ['ACTION', 'PROVIDER', 'TEMPLATE', 'LAYER'],
    ...ok.actions.map((it) => [it.name, it.provider, it.template, it.layer]),
  ]
  // Names have no character that needs to be escaped.
  const none =
    ok.actions.length === 0 ? { notes: ['no actions; docs/contract/environment.md says where they are'] } : {}
  return { ok, human: rows.map((it) => ({ verbatim: `${it.join('\t')}\n` })), ...none }
})

const ITEM_FLAGS: readonly Flag[] = [
  { name: 'provider', value: 'name', choices: ITEM_PROVIDERS, about: 'where the work item is from' },
  { name: 'item-id', value: 'id', about: 'its id there (default: what the item says)' },
]
/** As large as a prompt may be that is sent. */
const MAX_TEMPLATE_BYTES = 262_144

const promptRender: Command = {
  path: ['prompt', 'render'],
  about: 'fill a prompt template with a work item',
  details: [
    'The work item is one JSON object on standard input; ${title} and ${body} of the template are replaced.',
    'Without --template-file the prompt is the title, an empty line and the body.',
  ],
  arguments: [],
  flags: [...ITEM_FLAGS, { name: 'template-file', value: 'file', about: 'the template' }],
  json: false,
  check: (input) => (input.value('template-file') === '' ? '--template-file is empty' : undefined),
  async run(context, input): Promise<Outcome> {
    const file = input.value('template-file')
    const template = file === undefined ? PLAIN_TEMPLATE : readTemplate(directory(context, file))
    const text = renderPrompt(template, parseItem(await context.readInput()))
    return { ok: null, human: [{ stream: text }] }
  },
}

function readTemplate(file: string): string {
  const fail = (problem: string, cause?: unknown): Error =>
    itemFaults.prompt_render_failed({ problem: `${file}: ${problem}` }, cause)
  try {
    const { size } = statSync(file)
    if (size > MAX_TEMPLATE_BYTES) throw fail(`is larger than ${MAX_TEMPLATE_BYTES} bytes`)
    return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(file))
  } catch (failure) {
    if (failure instanceof TypeError) throw fail('is not UTF-8 text', failure)
    if (failure instanceof Error && 'syscall' in failure) throw fail(failure.message, failure)
    throw failure
  }
}

const promptLink: Command = {
  path: ['prompt', 'link'],
  about: 'print the metadata that ties a session to a work item',
  details: ['The work item is one JSON object on standard input. Each line goes into --meta of pohunek session new.'],
  arguments: [],
  flags: [...ITEM_FLAGS, { name: 'url', value: 'url', about: 'its address (default: what the item says)' }, JSON_FLAG],
  json: true,
  check: (input) => {
    if (input.value('provider') === undefined) return 'prompt link needs --provider'
    return ['item-id', 'url'].flatMap((it) => (input.value(it) === '' ? [`--${it} is empty`] : []))[0]
  },
  async run(context, input): Promise<Outcome> {
    const item = parseItem(await context.readInput())
    const given = { id: input.value('item-id'), url: input.value('url') }
    const link = linkOf(input.value('provider') as ItemProvider, item, given)
    return {
      ok: link,
      human: [
        {
          stream: Object.entries(link)
            .map(([key, value]) => `${key}=${value}\n`)
            .join(''),
        },
      ],
    }
  },
}

export const projectCommands: readonly Command[] = [
  projectList,
  projectAdd,
  projectShow,
  projectRename,
  projectRemove,
  projectPrompt,
  projectAction,
  projectActions,
  promptRender,
  promptLink,
]
