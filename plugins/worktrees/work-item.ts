/**
 * A work item as its provider describes it, and what a prompt or a session takes of it. Pure: the same item gives the same
 * bytes, whoever asks. Understood are our own names and those of the providers' own tools.
 */
import { catalogue } from '../../protocol/fault.ts'
import { METADATA_MAX_VALUE_BYTES } from '../../protocol/limits.ts'
import { CONTROL_CHARACTER } from '../../protocol/words.ts'

/** Raised by the CLI, before anything is sent. */
export const itemFaults = catalogue({
  prompt_render_failed: {
    class: 'runtime',
    say: (d: { problem: string }) => d.problem,
    recover: 'give the work item as one JSON object on standard input',
  },
})

export const ITEM_PROVIDERS = ['linear_issue', 'github_pr'] as const
export type ItemProvider = (typeof ITEM_PROVIDERS)[number]

const LINKED: Readonly<Record<ItemProvider, { readonly provider: string; readonly kind: string }>> = {
  linear_issue: { provider: 'linear', kind: 'issue' },
  github_pr: { provider: 'github', kind: 'pr' },
}

export type Item = Readonly<Record<string, unknown>>

/** Throws prompt_render_failed. */
export function parseItem(text: string): Item {
  let item: unknown
  try {
    item = JSON.parse(text)
  } catch (failure) {
    throw itemFaults.prompt_render_failed({ problem: 'standard input is no JSON' }, failure)
  }
  if (typeof item !== 'object' || item === null || Array.isArray(item))
    throw itemFaults.prompt_render_failed({ problem: 'standard input is no JSON object' })
  return item as Item
}

/** What a prompt says when none was given. */
export const PLAIN_TEMPLATE = '${title}\n\n${body}\n'

/**
 * The template with `${title}` and `${body}` filled in, once: what an item says is never read as a placeholder. Anything
 * else that looks like one is text. Throws prompt_render_failed where the template asks for what the item lacks.
 */
export function renderPrompt(template: string, item: Item): string {
  return template.replace(/\$\{(title|body)\}/g, (_, key: string) => {
    const names = key === 'title' ? ['title'] : ['body', 'description']
    const value = text(item, names)
    // An issue without a description has one that is null.
    if (value === undefined && names.some((it) => item[it] === null)) return ''
    if (value === undefined) throw itemFaults.prompt_render_failed({ problem: `the work item has no ${key}` })
    return value.replaceAll('\r\n', '\n')
  })
}

export interface Link {
  readonly 'link.provider': string
  readonly 'link.kind': string
  readonly 'link.id': string
  readonly 'link.url': string
  readonly 'link.branch': string
}

/** Always the same five keys in the same order; a branch that is not known is empty. Throws prompt_render_failed. */
export function linkOf(
  provider: ItemProvider,
  item: Item,
  given: { readonly id?: string | undefined; readonly url?: string | undefined },
): Link {
  const need = (what: string, flag: string, value: string | undefined): string => {
    if (value === undefined || value === '')
      throw itemFaults.prompt_render_failed({ problem: `the work item has no ${what}; pass --${flag}` })
    return value
  }
  const link: Link = {
    'link.provider': LINKED[provider].provider,
    'link.kind': LINKED[provider].kind,
    'link.id': need('id', 'item-id', given.id ?? text(item, ['identifier', 'number', 'id'])),
    'link.url': need('url', 'url', given.url ?? text(item, ['url'])),
    'link.branch': text(item, ['branch', 'branchName', 'branch_name', 'headRefName']) ?? '',
  }
  for (const [key, value] of Object.entries(link) as [string, string][]) {
    if (CONTROL_CHARACTER.test(value))
      throw itemFaults.prompt_render_failed({ problem: `${key} would hold control characters` })
    if (Buffer.byteLength(value) > METADATA_MAX_VALUE_BYTES)
      throw itemFaults.prompt_render_failed({ problem: `${key} would be over ${METADATA_MAX_VALUE_BYTES} bytes` })
  }
  return link
}

function text(item: Item, names: readonly string[]): string | undefined {
  for (const name of names) {
    const value = Object.hasOwn(item, name) ? item[name] : undefined
    if (typeof value === 'string') return value
    if (typeof value === 'number' && Number.isSafeInteger(value)) return String(value)
  }
  return undefined
}
