/**
 * Actions and the templates they start from (contract/environment.md "Project config"): templates.toml and actions.toml,
 * read strictly. An entry of the repository hides the entry of that name of the host.
 */
import { parse, TomlError } from 'smol-toml'
import * as v from 'valibot'
import type { FaultMaker } from '../../protocol/fault.ts'
import { FILE_NAME } from '../../protocol/scalars.ts'
import { branchProblem } from './branch.ts'
import { checkName, looked, readLayer, type Layer, type LayerFile } from './config-layers.ts'
import { Provider } from './contract-projects.ts'
import { faults } from './faults.ts'
import { readPrompt } from './prompts.ts'

const MAX_TOML_BYTES = 65_536
const TEMPLATES = 'templates.toml'
const ACTIONS = 'actions.toml'

const name = v.pipe(v.string(), v.regex(FILE_NAME, 'is not a name'))
const branch = v.pipe(
  v.string(),
  v.check((it) => branchProblem(it) === undefined, 'is not a branch name'),
)
const Template = v.strictObject({ agent: name, prompt: name, base_branch: v.optional(branch) })
type Template = v.InferOutput<typeof Template>
const Action = v.pipe(
  v.strictObject({ template: name, provider: Provider, branch: v.optional(branch) }),
  v.check((it) => it.branch === undefined || it.provider === 'none', 'has a branch, which only provider none may have'),
)
type Action = v.InferOutput<typeof Action>
const Templates = v.strictObject({ template: v.optional(v.record(name, Template), {}) })
const Actions = v.strictObject({ action: v.optional(v.record(name, Action), {}) })

interface Entry<T> {
  readonly layer: Layer['layer']
  readonly file: string
  readonly value: T
}

export interface ResolvedAction {
  readonly provider: Provider
  readonly agent: string
  readonly base_branch?: string
  readonly branch?: string
  readonly prompt_name: string
  readonly prompt_content: string
}

/** Throws what contract/methods.md lists for project.action. */
export async function resolveAction(layers: readonly Layer[], wanted: string): Promise<ResolvedAction> {
  checkName('action', wanted)
  const action = await find(layers, ACTIONS, actionsIn, wanted)
  if (action === undefined) throw faults.action_not_found({ name: wanted, looked: looked(layers, ACTIONS) })
  const { provider, template: from, branch } = action.value
  const template = await find(layers, TEMPLATES, templatesIn, from)
  if (template === undefined) throw faults.template_not_found({ name: from, looked: looked(layers, TEMPLATES) })
  const { agent, prompt, base_branch } = template.value
  const { text } = await readPrompt(layers, prompt)
  return {
    provider,
    agent,
    ...(base_branch === undefined ? {} : { base_branch }),
    ...(branch === undefined ? {} : { branch }),
    prompt_name: prompt,
    prompt_content: text,
  }
}

/** By name. Throws what contract/methods.md lists for project.actions. */
export async function listActions(
  layers: readonly Layer[],
): Promise<{ name: string; provider: Provider; template: string; layer: Layer['layer'] }[]> {
  const all = new Map<string, Entry<Action>>()
  for (const layer of layers) {
    for (const [name, entry] of await entries(layer, ACTIONS, actionsIn)) if (!all.has(name)) all.set(name, entry)
  }
  return [...all]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, { layer, value }]) => ({ name, provider: value.provider, template: value.template, layer }))
}

type Read<T> = (file: LayerFile) => Readonly<Record<string, T>>
const templatesIn: Read<Template> = (file) => strict(Templates, file, faults.invalid_template).template
const actionsIn: Read<Action> = (file) => strict(Actions, file, faults.invalid_action).action

async function find<T>(
  layers: readonly Layer[],
  path: string,
  read: Read<T>,
  wanted: string,
): Promise<Entry<T> | undefined> {
  for (const layer of layers) {
    const found = (await entries(layer, path, read)).get(wanted)
    if (found !== undefined) return found
  }
  return undefined
}

async function entries<T>(layer: Layer, path: string, read: Read<T>): Promise<ReadonlyMap<string, Entry<T>>> {
  const file = await readLayer(layer, path, MAX_TOML_BYTES)
  if (file === undefined) return new Map()
  const all = Object.entries(read(file))
  return new Map(all.map(([name, value]) => [name, { layer: file.layer, file: file.file, value }]))
}

/** Names the key that is to blame, never a value that was found. */
function strict<S extends v.GenericSchema>(
  schema: S,
  { file, text }: LayerFile,
  invalid: FaultMaker<{ file: string; problem: string }>,
): v.InferOutput<S> {
  let raw: unknown
  try {
    raw = parse(text)
  } catch (failure) {
    if (!(failure instanceof TomlError)) throw failure
    throw invalid({ file, problem: `line ${failure.line}: ${failure.message.split('\n')[0]}` }, failure)
  }
  const parsed = v.safeParse(schema, raw)
  if (parsed.success) return parsed.output
  const [issue] = parsed.issues
  throw invalid({ file, problem: `${v.getDotPath(issue) ?? 'the file'} ${inWords(issue)}` })
}

function inWords(issue: v.BaseIssue<unknown>): string {
  if (issue.expected === 'never') return 'is an unknown key'
  if (issue.input === undefined) return 'is missing'
  if (issue.type === 'picklist') return `must be ${issue.expected?.replace(/[()"]/g, '').replaceAll(' | ', ', ')}`
  if (issue.type === 'regex' || issue.type === 'check') return issue.message
  return 'has the wrong type'
}
