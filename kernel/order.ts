/** Start order of plugins and what makes a list of them impossible. Pure. */
import { catalogue } from '../protocol/fault.ts'
import type { Bootable } from './plugin.ts'

export const bootFaults = catalogue({
  plugin_unknown: {
    class: 'configuration',
    say: (d: { name: string; known: readonly string[] }) => `no plugin ${JSON.stringify(d.name)} in this build`,
    recover: (d: { name: string; known: readonly string[] }) => `use names of ${d.known.join(', ')}`,
  },
  plugin_need_missing: {
    class: 'configuration',
    say: (d: { plugin: string; need: string; left?: string }) =>
      d.left === undefined
        ? `plugin ${d.plugin} needs ${d.need}, which no plugin in this build provides`
        : `plugin ${d.plugin} needs ${d.need} of plugin ${d.left}, which is left out`,
    recover: (d: { plugin: string; need: string; left?: string }) =>
      d.left === undefined ? `leave ${d.plugin} out too` : `leave ${d.plugin} out too, or keep ${d.left}`,
  },
  plugin_cycle: {
    class: 'configuration',
    say: (d: { names: readonly string[] }) => `plugins need each other: ${d.names.join(' -> ')}`,
  },
  plugin_duplicate: {
    class: 'configuration',
    say: (d: { what: string; first: string; second: string }) =>
      `${d.what} is offered twice: by plugin ${d.first} and by plugin ${d.second}`,
  },
  plugin_failed: {
    class: 'daemon',
    say: (d: { plugin: string; hook: string; problem: string }) =>
      `plugin ${d.plugin} failed in ${d.hook}: ${d.problem}`,
    recover: (d: { plugin: string; hook: string; problem: string }) =>
      `see the daemon log, or start with --without ${d.plugin}`,
  },
})

/** The plugins without those named. Throws Fault plugin_unknown, or plugin_need_missing naming both sides. */
export function without(plugins: readonly Bootable[], names: readonly string[]): Bootable[] {
  const known = plugins.map((plugin) => plugin.contract.name)
  for (const name of names) {
    if (!known.includes(name)) throw bootFaults.plugin_unknown({ name, known })
  }
  const kept = plugins.filter((plugin) => !names.includes(plugin.contract.name))
  const left = plugins.filter((plugin) => names.includes(plugin.contract.name))
  for (const plugin of kept) {
    for (const need of Object.values(plugin.needs)) {
      const provider = left.find((it) => it.provides?.id === need.id)
      if (provider !== undefined) {
        throw bootFaults.plugin_need_missing({
          plugin: plugin.contract.name,
          need: need.id,
          left: provider.contract.name,
        })
      }
    }
  }
  return kept
}

/**
 * Providers before those that need them, else in list order. `given` are tokens that exist already (fakes); a plugin
 * that provides one of them is not started. Throws the boot faults above, before anything runs.
 */
export function startOrder(plugins: readonly Bootable[], given: readonly string[] = []): Bootable[] {
  const started = plugins.filter((plugin) => plugin.provides === undefined || !given.includes(plugin.provides.id))
  const providers = new Map<string, Bootable>()
  for (const plugin of started) refuseDuplicates(plugin, started, providers)

  const order: Bootable[] = []
  const visit = (plugin: Bootable, path: readonly Bootable[]): void => {
    if (order.includes(plugin)) return
    if (path.includes(plugin)) {
      throw bootFaults.plugin_cycle({
        names: [...path.slice(path.indexOf(plugin)), plugin].map((it) => it.contract.name),
      })
    }
    for (const need of Object.values(plugin.needs)) {
      if (given.includes(need.id)) continue
      const provider = providers.get(need.id)
      if (provider === undefined) throw bootFaults.plugin_need_missing({ plugin: plugin.contract.name, need: need.id })
      visit(provider, [...path, plugin])
    }
    order.push(plugin)
  }
  for (const plugin of started) visit(plugin, [])
  return order
}

function refuseDuplicates(plugin: Bootable, all: readonly Bootable[], providers: Map<string, Bootable>): void {
  const { name, methods, events } = plugin.contract
  const twice = (what: string, other: Bootable | undefined): void => {
    if (other !== undefined) throw bootFaults.plugin_duplicate({ what, first: other.contract.name, second: name })
  }
  const others = all.slice(0, all.indexOf(plugin))
  twice(
    `the name ${name}`,
    others.find((it) => it.contract.name === name),
  )
  for (const method of Object.keys(methods))
    twice(
      `method ${method}`,
      others.find((it) => Object.hasOwn(it.contract.methods, method)),
    )
  for (const event of Object.keys(events))
    twice(
      `event ${event}`,
      others.find((it) => Object.hasOwn(it.contract.events, event)),
    )
  if (plugin.provides === undefined) return
  twice(`the service ${plugin.provides.id}`, providers.get(plugin.provides.id))
  providers.set(plugin.provides.id, plugin)
}
