/** Who reports, and whose word counts more. Pure. */
import type { SessionInfo } from '../sessions/types.ts'

/** Identity providers of the hook schemas (contract/runtime-packages.md §5). */
const HOOK_PROVIDERS: ReadonlySet<string> = new Set(['shell', 'codex', 'claude', 'hermes'])
/** Runtimes whose descriptor names a hook schema; every schema admits notifications of all identity providers. */
const RUNTIMES_WITH_HOOKS: ReadonlySet<string> = HOOK_PROVIDERS
const PROJECTORS: ReadonlySet<string> = new Set(['pohunek', 'daemon'])

export const PROJECTOR = 'pohunek'

export const isHook = (provider: string): boolean => HOOK_PROVIDERS.has(provider)
export const isProjector = (provider: string): boolean => PROJECTORS.has(provider)

/** Hook providers over users and external programs, the projector under all. */
export const rankOf = (provider: string): number => (isHook(provider) ? 2 : isProjector(provider) ? 0 : 1)

/** Neither a hook nor the projector. */
export const isOutside = (provider: string): boolean => rankOf(provider) === 1

/** Whether a session takes hook reports: it runs a runtime with an integration. */
export const admitsHooks = (session: SessionInfo): boolean => RUNTIMES_WITH_HOOKS.has(session.agent_base)
