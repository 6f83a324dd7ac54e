/** Which sessions are over their time. Pure; what cannot be classified is never a candidate (seed 000, "Retention"). */
import type { SessionInfo } from '../sessions/types.ts'
import type { RetentionPolicy } from './contract.ts'

export interface Candidate {
  readonly id: string
  readonly reason: 'terminal' | 'lost'
  readonly ageSecs: number
}

/** Metadata key with which an owner keeps a session for ever; any value but an empty one. */
export const PIN_KEY = 'pin'

/** Oldest first. `nowMs` is wall time, milliseconds. */
export function overdue(sessions: readonly SessionInfo[], policy: RetentionPolicy, nowMs: number): Candidate[] {
  return sessions
    .flatMap((it) => {
      const reason = reasonOf(it)
      if (reason === undefined) return []
      const ageSecs = ageOf(it, nowMs)
      return ageSecs >= (reason === 'lost' ? policy.lost_ttl_secs : policy.terminal_ttl_secs)
        ? [{ id: it.id, reason, ageSecs }]
        : []
    })
    .sort((a, b) => b.ageSecs - a.ageSecs || (a.id < b.id ? -1 : 1))
}

/** A program that is known to have ended, or whose runtime is known to be lost; anything else lives or is in doubt. */
function reasonOf(it: SessionInfo): Candidate['reason'] | undefined {
  if (it.external === true) return undefined
  switch (it.runtime?.state) {
    case 'lost':
      return 'lost'
    case 'terminal':
      return it.state === 'stopped' || it.state === 'done' || it.state === 'failed' ? 'terminal' : undefined
    default:
      return undefined
  }
}

/** Since something last happened to it; never negative, whatever the clock did. */
export function ageOf(it: SessionInfo, nowMs: number): number {
  const since = Date.parse(it.updated_at)
  return Number.isNaN(since) ? 0 : Math.max(0, Math.floor((nowMs - since) / 1_000))
}

export const isPinned = (it: SessionInfo): boolean =>
  it.metadata !== undefined && Object.hasOwn(it.metadata, PIN_KEY) && it.metadata[PIN_KEY] !== ''

/** It ended, and processes of it may live on: only its owner can say that they do not matter. */
export const isUnconfirmed = (it: SessionInfo): boolean =>
  it.runtime?.loss_reason === 'runtime_lost_cleanup_unconfirmed'
