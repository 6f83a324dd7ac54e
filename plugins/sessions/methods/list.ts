import type { Handler } from '../../../kernel/plugin.ts'
import { coreFaults } from '../../../protocol/fault.ts'
import { MAX_RESULT_BYTES } from '../../../protocol/limits.ts'
import type contract from '../contract.ts'
import type { Registry } from '../registry.ts'
import type { SessionInfo, SessionListFilter } from '../types.ts'

/** Filters, then pages; a page is cut to what one line holds, what was asked for as a whole is whole or an error. */
export const list =
  (registry: Registry, glance: () => void): Handler<(typeof contract.methods)['session.list']> =>
  (params) => {
    const { filters = [], limit, after } = params ?? {}
    glance()
    const all = registry.list()
    const found = filters.length === 0 ? all : all.filter((it) => filters.every((filter) => matches(it, filter)))
    const whole = limit === undefined && after === undefined
    const asked = whole ? found : page(found, limit, after)
    const fits = fitting(asked)
    if (whole && fits.length < asked.length) {
      const problem = `one line holds ${fits.length} of these ${asked.length} sessions; ask for pages with limit and after`
      throw coreFaults.serialize_failed({ problem })
    }
    return fits as SessionInfo[]
  }

/** Pure. The first sessions that fit one line together; never none while there are any. */
export function fitting(sessions: readonly SessionInfo[], maxBytes = MAX_RESULT_BYTES): readonly SessionInfo[] {
  let left = maxBytes - '[]'.length
  const cut = sessions.findIndex((it, at) => {
    left -= wireBytes(it) + 1
    return left < 0 && at > 0
  })
  return cut === -1 ? sessions : sessions.slice(0, cut)
}

// A changed session is another object, so the size of one is computed once.
const sizes = new WeakMap<SessionInfo, number>()
function wireBytes(info: SessionInfo): number {
  let bytes = sizes.get(info)
  if (bytes === undefined) sizes.set(info, (bytes = Buffer.byteLength(JSON.stringify(info))))
  return bytes
}

/** Pure. Ordered by id, so that a page is found again even when the session it ended with is gone. */
export function page(all: readonly SessionInfo[], limit = all.length, after = ''): SessionInfo[] {
  return all
    .filter((it) => it.id > after)
    .sort((a, b) => (a.id < b.id ? -1 : 1))
    .slice(0, limit)
}

/** Pure. */
function matches(info: SessionInfo, filter: SessionListFilter): boolean {
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
