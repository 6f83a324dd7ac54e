import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import type { Registry } from '../registry.ts'
import type { SessionInfo, SessionListFilter } from '../types.ts'

export const list =
  (registry: Registry): Handler<(typeof contract.methods)['session.list']> =>
  (params) => {
    const { filters = [], limit, after } = params ?? {}
    const all = registry.list()
    const found = filters.length === 0 ? all : all.filter((it) => filters.every((filter) => matches(it, filter)))
    return (limit === undefined && after === undefined ? found : page(found, limit, after)) as SessionInfo[]
  }

/** Pure. Ordered by id, so that a page is found again even when the session it ended with is gone. */
export function page(all: readonly SessionInfo[], limit = all.length, after = ''): SessionInfo[] {
  return all
    .filter((it) => it.id > after)
    .sort((a, b) => (a.id < b.id ? -1 : 1))
    .slice(0, limit)
}

/** Pure. */
export function matches(info: SessionInfo, filter: SessionListFilter): boolean {
  switch (filter.key) {
    case 'state':
      return info.state === filter.value
    case 'activity':
      return info.activity === filter.value
    case 'agent':
      return [info.agent, info.agent_base, info.active_agent, info.active_agent_base].includes(filter.value)
    case 'id':
      return info.id === filter.value
    case 'project':
      return info.project_id === filter.value || info.project_label === filter.value
    case 'metadata_eq':
      return own(info.metadata, filter.value.key) === filter.value.value
    case 'metadata_has':
      return own(info.metadata, filter.value) !== undefined
  }
}

const own = (metadata: Readonly<Record<string, string>> | undefined, key: string): string | undefined =>
  metadata !== undefined && Object.hasOwn(metadata, key) ? metadata[key] : undefined
