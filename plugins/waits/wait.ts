/** session.wait: one answer for the first predicate that holds, now or after a change. */
import type { Clock } from '../../kernel/clock.ts'
import { coreFaults } from '../../protocol/fault.ts'
import { MAX_WAIT_MS } from '../../protocol/limits.ts'
import type { Params, ResultInput } from '../../protocol/contract.ts'
import type { DetectionService } from '../detection/api.ts'
import type { SessionService } from '../sessions/api.ts'
import type { RuntimeIdentity, SessionInfo, SessionState } from '../sessions/types.ts'
import type contract from './contract.ts'
import type { WaitReason } from './contract.ts'
import { faults } from './faults.ts'
import { until, type Wakeups } from './wakeups.ts'

type Wait = Params<(typeof contract.methods)['session.wait']>
type WaitResult = ResultInput<(typeof contract.methods)['session.wait']>

export interface Sources {
  readonly sessions: SessionService
  readonly detection: DetectionService
  readonly wakeups: Wakeups
  readonly clock: Clock
}

/** Throws session_not_found, session_runtime_changed, session_terminal_unavailable, session_not_running, the limits. */
export async function wait(sources: Sources, request: Wait, signal: AbortSignal): Promise<WaitResult> {
  const { sessions, wakeups, clock } = sources
  const { session_id: id, timeout_ms: ms } = request
  checkWait(request)
  if (sessions.get(id) === undefined) throw faults.session_not_found({ id })
  if (request.runtime !== undefined && changedRuntime(request.runtime, sessions.get(id)))
    throw faults.session_runtime_changed({ id })
  using _place = sessions.waiter(id)
  sources.detection.glance(id)
  const boundary = request.fresh === true ? (sources.detection.current(id)?.revision ?? 0n) : undefined
  return await until<WaitResult>({
    look: () => {
      const reason = matched(sources, request, boundary)
      return reason && answer(sources, id, reason)
    },
    late: () => {
      sources.detection.glance(id)
      return answer(sources, id, 'timeout')
    },
    ms,
    after: (after, run) => clock.after(after, run),
    wake: (look) => wakeups.on(id, look),
    signal,
  })
}

/** Pure. Throws bad_request and session_wait_limit_exceeded. */
function checkWait(request: Wait): void {
  const { runtime, after_updated_at, after_terminal_watermark, after_output_offset, states, activities } = request
  const predicates = [after_updated_at, after_terminal_watermark, after_output_offset, states, activities]
  if (predicates.every((it) => it === undefined)) {
    const problem =
      'name at least one of after_updated_at, after_terminal_watermark, after_output_offset, states and activities'
    throw coreFaults.bad_request({ problem })
  }
  if ((after_terminal_watermark ?? after_output_offset) !== undefined && runtime === undefined)
    throw coreFaults.bad_request({ problem: 'after_terminal_watermark and after_output_offset need runtime' })
  if (request.timeout_ms > MAX_WAIT_MS)
    throw faults.session_wait_limit_exceeded({ ms: request.timeout_ms, max: MAX_WAIT_MS })
}

function matched(
  { sessions, detection }: Sources,
  request: Wait,
  boundary: bigint | undefined,
): WaitReason | undefined {
  const { session_id: id, runtime, states, activities } = request
  const info = sessions.get(id)
  if (info === undefined) throw faults.session_not_found({ id })
  if (runtime !== undefined && changedRuntime(runtime, info)) return 'runtime_changed'
  if (states?.includes(info.state) === true) return 'state_matched'
  if (activities !== undefined) {
    const evidence = detection.current(id)
    const isNew = boundary === undefined || (evidence !== undefined && evidence.revision > boundary)
    if (info.activity !== undefined && activities.includes(info.activity) && isNew) return 'activity_matched'
  }
  if (request.after_updated_at !== undefined && Date.parse(info.updated_at) > Date.parse(request.after_updated_at))
    return 'session_updated'
  const { after_terminal_watermark: watermark, after_output_offset: offset } = request
  if (watermark !== undefined || offset !== undefined) {
    const progress = sessions.progress(id)
    if (progress === undefined) throw faults.session_terminal_unavailable({ id })
    if (watermark !== undefined && BigInt(progress.watermark) > BigInt(watermark)) return 'terminal_changed'
    if (offset !== undefined && BigInt(progress.outputOffset) > BigInt(offset)) return 'output_advanced'
  }
  // A program that has ended does nothing any more: what is waited for beside its state cannot come.
  if (isOver(info.state) && request.after_updated_at === undefined && states === undefined)
    throw faults.session_not_running({ id })
  return undefined
}

/** Pure. True for a session whose program has ended, whatever became of it. */
export const isOver = (state: SessionState): boolean => state === 'stopped' || state === 'done' || state === 'failed'

function changedRuntime(wanted: RuntimeIdentity, info: SessionInfo | undefined): boolean {
  const { worker_instance_id, runtime_generation } = info?.runtime ?? {}
  return (
    worker_instance_id !== undefined &&
    (worker_instance_id !== wanted.worker_instance_id || runtime_generation !== wanted.runtime_generation)
  )
}

function answer({ sessions }: Sources, id: string, reason: WaitReason): WaitResult {
  const session = sessions.get(id)
  if (session === undefined) throw faults.session_not_found({ id })
  const progress = sessions.progress(id)
  return {
    reason,
    session,
    ...(progress === undefined
      ? {}
      : { terminal_watermark: String(progress.watermark), output_offset: String(progress.outputOffset) }),
  }
}
