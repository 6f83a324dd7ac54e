/** The only door other plugins use to reach runtimes and host profiles. */
import { token } from '../../kernel/plugin.ts'
import type { RuntimeDescriptor } from './descriptor.ts'

/** A runtime this daemon can launch: data only, whatever it came from. */
export interface RuntimeDefinition {
  /** What an agent name resolves to, e.g. `claude`. */
  readonly id: string
  readonly descriptor: RuntimeDescriptor
  /** sha256 of descriptor and manifest. */
  readonly digest: string
}

/** Text of a detection manifest and where it stands, for messages. */
export interface ManifestSource {
  readonly file: string
  readonly text: string
  /** Another value when the text is another. */
  readonly revision: string
}

export interface RuntimeService {
  /** In the order of their ids. */
  list(): readonly RuntimeDefinition[]
  get(id: string): RuntimeDefinition | undefined
  /**
   * The manifest that reads the screen of an agent: its host profile's own, else its runtime's. A profile that is gone
   * or cannot be read falls back to the runtime. Looks at the file again, so that an edit counts without a restart;
   * throws invalid_profile for a manifest that is named and cannot be read.
   */
  manifestOf(agent: string, base: string): ManifestSource | undefined
}

export const Runtimes = token<RuntimeService>('runtimes')
