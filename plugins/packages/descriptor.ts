/** runtime.toml: what a runtime package says about its agent (contract/runtime-packages.md §1). */
import type { InputPlan } from '../sessions/api.ts'

export interface RuntimeDescriptor {
  readonly runtime: {
    readonly id: string
    readonly name: string
    readonly program: string
    readonly args: readonly string[]
    readonly promptArg: boolean
  }
  readonly input: InputPlan
  /** Ours: how the agent tells its own state beside its screen. */
  readonly reports?: {
    /** Value of `app=` in OSC 7501 reports that speak for this agent. */
    readonly osc7501App?: string
  }
}
