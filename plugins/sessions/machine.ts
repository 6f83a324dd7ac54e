/**
 * Pure decisions about one session: what was observed (phase), what is wanted (intent), and what follows from a
 * disagreement. The worker owns the truth about the child; a phase is the daemon's copy of it.
 */
import type { ChildExit } from '../../protocol/worker/messages.ts'
import type { RuntimeState, SessionState } from './types.ts'

export type Intent = 'run' | 'stop' | 'remove'
export type Phase = 'creating' | 'running' | 'stopping' | 'unreachable' | 'conflict' | 'incompatible' | 'ended' | 'lost'
export type Cause =
  | 'committed'
  | 'stop_sent'
  | 'child_exited'
  | 'link_lost'
  | 'adopted'
  | 'worker_gone'
  | 'evidence_conflicts'
  | 'no_common_protocol'

const degraded = {
  adopted: 'running',
  child_exited: 'ended',
  worker_gone: 'lost',
  link_lost: 'unreachable',
  evidence_conflicts: 'conflict',
  no_common_protocol: 'incompatible',
} as const

const next = {
  creating: { committed: 'running', ...degraded },
  running: { stop_sent: 'stopping', ...degraded },
  stopping: { stop_sent: 'stopping', ...degraded },
  unreachable: degraded,
  conflict: degraded,
  incompatible: degraded,
  ended: {},
  lost: {},
} as const satisfies Record<Phase, Partial<Record<Cause, Phase>>>

/** Pure. A cause the table does not list is a programming error, never a silent no-op. */
export function step(phase: Phase, cause: Cause): Phase {
  const to = (next[phase] as Partial<Record<Cause, Phase>>)[cause]
  if (to === undefined) throw new Error(`${cause} cannot happen to a session that is ${phase}`)
  return to
}

/** True once nothing can happen to the runtime any more. */
export const isOver = (phase: Phase): boolean => phase === 'ended' || phase === 'lost'

/** A runtime that cannot be used although, as far as is known, its end was not observed. */
export const isDegraded = (phase: Phase): boolean =>
  phase === 'lost' || phase === 'conflict' || phase === 'incompatible' || phase === 'unreachable'

/** The one place that turns disagreement into action; asked after every step and after every daemon start. */
export function owed(intent: Intent, phase: Phase): 'send_stop' | 'remove' | 'nothing' {
  if (intent === 'remove') return 'remove'
  return intent === 'stop' && (phase === 'running' || phase === 'unreachable') ? 'send_stop' : 'nothing'
}

const runtimeStates = {
  creating: 'starting',
  running: 'live',
  stopping: 'live',
  unreachable: 'reconnecting',
  conflict: 'conflict',
  incompatible: 'incompatible',
  ended: 'terminal',
  lost: 'lost',
} as const satisfies Record<Phase, RuntimeState>

export const runtimeStateOf = (phase: Phase): RuntimeState => runtimeStates[phase]

/**
 * Phase of a stored session before anything about its worker was observed: what is over stays over, everything else
 * has to be found again.
 */
export function storedPhase(state: SessionState, runtime: RuntimeState | undefined): Phase {
  if (runtime === 'lost') return 'lost'
  if (
    runtime === 'terminal' ||
    state === 'done' ||
    state === 'stopped' ||
    (state === 'failed' && runtime === undefined)
  )
    return 'ended'
  return 'unreachable'
}

/** How an observed end is told: a requested stop, a clean end, or a failure; a signal is shown as 128 + number. */
export function endOf(exit: ChildExit, intent: Intent): { state: SessionState; exitCode: number | undefined } {
  const exitCode = exit.code ?? (exit.signal === undefined ? undefined : 128 + exit.signal)
  if (exit.stopped_by_user || intent !== 'run') return { state: 'stopped', exitCode }
  return { state: exitCode === 0 ? 'done' : 'failed', exitCode }
}
