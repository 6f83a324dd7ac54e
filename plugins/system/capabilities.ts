/** The surface of this daemon as data, read from the contracts of its plugins. Pure. */
import type { Surface } from '../../kernel/plugin.ts'
import { GAP_EVENT } from '../../kernel/server/subscription.ts'
import { coreFaults } from '../../protocol/fault.ts'
import { MIN_PROTOCOL_VERSION, SUPPORTED_VERSIONS } from '../../protocol/version.ts'
import type { Capabilities } from './contract.ts'

export interface DaemonFacts {
  readonly daemonId: string
  readonly daemonVersion: string
}

// The kernel's own: it hands out a connection, so no plugin has it.
const SUBSCRIBE: Capabilities['methods'][number] = {
  name: 'subscribe',
  plugin: 'kernel',
  effect: 'reads',
  local_only: false,
  origin_guarded: false,
  since: MIN_PROTOCOL_VERSION,
}
const GAP: Capabilities['events'][number] = { ...GAP_EVENT, plugin: 'kernel' }

/** What the contracts of the plugins say, and what the kernel serves by itself. */
export function capabilities({ plugins, streams }: Surface, facts: DaemonFacts): Capabilities {
  const methods = plugins.flatMap(({ name: plugin, contract }) =>
    Object.entries(contract.methods).map(([name, spec]) => ({
      name,
      plugin,
      effect: spec.effect,
      local_only: spec.localOnly ?? false,
      origin_guarded: spec.guard !== undefined,
      since: spec.since ?? MIN_PROTOCOL_VERSION,
    })),
  )
  const events = plugins.flatMap(({ name: plugin, contract }) =>
    Object.entries(contract.events).map(([name, spec]) => ({
      name,
      plugin,
      since: spec.since ?? MIN_PROTOCOL_VERSION,
    })),
  )
  const codes = new Map(Object.values(coreFaults).map((it) => [it.code, it.class]))
  for (const { contract } of plugins) {
    for (const { faults } of Object.values(contract.methods)) for (const it of faults) codes.set(it.code, it.class)
  }
  return {
    daemon_version: facts.daemonVersion,
    daemon_id: facts.daemonId,
    protocol: { minimum: SUPPORTED_VERSIONS.minimum, maximum: SUPPORTED_VERSIONS.maximum },
    plugins: plugins.map(({ name, needs }) => ({ name, version: facts.daemonVersion, needs: [...needs] })),
    methods: [...methods, SUBSCRIBE].sort(byName),
    events: [...events, GAP].sort(byName),
    error_codes: [...codes]
      .map(([code, errorClass]) => ({ code, class: errorClass }))
      .sort((a, b) => compare(a.code, b.code)),
    streams: [...streams].sort(compare),
    hook_schemas: [],
  }
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)
const byName = (a: { name: string }, b: { name: string }): number => compare(a.name, b.name)
