/**
 * The manifest of each agent, parsed once for each text. A text that cannot be used leaves the last good one in charge:
 * a slip of the pen must not blind the daemon, and never another agent.
 */
import type { Log } from '../../kernel/log.ts'
import { messageOf } from '../../protocol/fault.ts'
import type { ManifestSource, RuntimeService } from '../packages/api.ts'
import { slowness } from './allowance.ts'
import { parseManifest, type Manifest, type Rule } from './manifest.ts'
import { titlesOnly } from './readings.ts'

const SHELL = 'shell'
/** No profile can have this name: asks for the manifest of the runtime itself. */
const NO_PROFILE = '/'
/** More agents than any host has; what is dropped is read again. */
const MAX_KEPT = 256

export interface AgentManifest {
  /** What is used of it. */
  readonly manifest: Manifest
  /** All of it, for previews. */
  readonly whole: Manifest
  readonly file: string
  /** Digest of its text. */
  readonly revision: string
  /** A shell without an agent: what is on its screen is a text and no state. */
  readonly titlesOnly: boolean
  /** Why a newer text of the file is not used. */
  readonly problem?: string
}

interface Kept {
  readonly good: AgentManifest | undefined
  readonly revision: string
  readonly problem: string | undefined
}

export class Manifests {
  readonly #runtimes: RuntimeService
  readonly #log: Log
  readonly #kept = new Map<string, Kept>()

  constructor(runtimes: RuntimeService, log: Log) {
    this.#runtimes = runtimes
    this.#log = log
  }

  /** What to read the screen of `agent` with, undefined for an agent without any. Never throws. */
  of(agent: string, base: string): AgentManifest | undefined {
    const key = `${agent}\0${base}`
    const kept = this.#kept.get(key)
    let source: ManifestSource | undefined
    try {
      source = this.#runtimes.manifestOf(agent, base)
    } catch (failure) {
      return this.#broken(key, agent, kept, messageOf(failure), messageOf(failure))
    }
    if (source === undefined) {
      this.#kept.delete(key)
      return undefined
    }
    if (kept?.revision === source.revision) return kept.good
    try {
      return this.#keep(key, { good: this.#parsed(source, base), revision: source.revision, problem: undefined })
    } catch (failure) {
      return this.#broken(key, agent, kept, source.revision, messageOf(failure))
    }
  }

  /** The manifest a launch would use. Throws invalid_profile naming file and key. */
  check(agent: string, base: string): void {
    const source = this.#runtimes.manifestOf(agent, base)
    if (source !== undefined) parseManifest(source.text, source.file)
  }

  /** One line for each agent whose manifest cannot be used as it stands. */
  problems(): string[] {
    for (const key of [...this.#kept.keys()]) {
      const [agent = '', base = ''] = key.split('\0')
      this.of(agent, base) // a file may have been corrected, or spoiled, since somebody looked
    }
    return [...this.#kept.entries()].flatMap(([key, { problem, good }]) => {
      const agent = key.slice(0, key.indexOf('\0'))
      const slow = good && slownessOf(good.manifest)
      return [
        ...(problem === undefined
          ? []
          : [`${agent}: ${problem}${good === undefined ? '' : ' (the last good one is used)'}`]),
        ...(slow === undefined ? [] : [`${agent}: ${good?.file}: ${slow}`]),
      ]
    })
  }

  #parsed(source: ManifestSource, base: string): AgentManifest {
    const whole = parseManifest(source.text, source.file)
    const isShell = base === SHELL && source.file === this.#shellFile()
    return {
      manifest: isShell ? titlesOnly(whole) : whole,
      whole,
      file: source.file,
      revision: source.revision,
      titlesOnly: isShell,
    }
  }

  #shellFile(): string | undefined {
    return this.#runtimes.manifestOf(NO_PROFILE, SHELL)?.file
  }

  #broken(
    key: string,
    agent: string,
    kept: Kept | undefined,
    revision: string,
    problem: string,
  ): AgentManifest | undefined {
    if (kept?.revision === revision) return kept.good
    this.#log.warn({ agent, problem }, 'a detection manifest cannot be used')
    const good = kept?.good && { ...kept.good, problem }
    return this.#keep(key, { good, revision, problem })
  }

  #keep(key: string, kept: Kept): AgentManifest | undefined {
    if (this.#kept.size >= MAX_KEPT && !this.#kept.has(key)) this.#kept.clear()
    this.#kept.set(key, kept)
    return kept.good
  }
}

/** In words what of a manifest takes longer than a look may, undefined where nothing does. */
export function slownessOf(manifest: Manifest): string | undefined {
  const rules = slowness<Partial<Rule>>(manifest, (it) => (it.id === undefined ? 'composer' : `rule ${it.id}`))
  const names = slowness(manifest.process, () => '[process]')
  return rules === undefined || names === undefined ? (rules ?? names) : `${rules}; ${names}`
}
