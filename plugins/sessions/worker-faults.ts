/** Worker refusals and silences as the contract's faults (contract/environment.md §5: `worker_` prefix where missing). */
import { Fault } from '../../protocol/fault.ts'
import { faults } from './faults.ts'
import { WorkerRefusal, WorkerUnreachable } from './worker-link.ts'

export interface During {
  /** Bytes may have been written when no answer came. */
  readonly write?: boolean
  /** Start directory of the launch. */
  readonly cwd?: string
  /** What a worker in the wrong state means to this caller; worker_invalid_state when left out. */
  readonly invalidState?: 'session_not_running' | 'session_terminal_unavailable'
}

/** Any failure of a worker request as something that may be thrown to a client; other failures pass unchanged. */
export function workerFault(id: string, failure: unknown, during?: During): unknown {
  if (failure instanceof Fault) return failure
  if (failure instanceof WorkerUnreachable) {
    if (during?.write === true) return faults.worker_write_outcome_unknown({ id }, failure)
    return faults.session_runtime_reconnecting({ id }, failure)
  }
  if (!(failure instanceof WorkerRefusal)) return failure
  const problem = failure.error.message
  switch (failure.error.code) {
    case 'worker_protocol_incompatible':
      return faults.worker_protocol_incompatible({ id }, failure)
    case 'write_outcome_unknown':
      return faults.worker_write_outcome_unknown({ id }, failure)
    case 'input_stalled':
      return faults.session_input_stalled({ id }, failure)
    case 'pty_alloc_failed':
      return faults.pty_alloc_failed({ problem }, failure)
    case 'spawn_failed':
      return faults.spawn_failed({ problem }, failure)
    case 'cwd_failed':
      return faults.cwd_failed({ cwd: during?.cwd ?? '', problem }, failure)
    case 'worker_feature_unavailable':
      return faults.worker_feature_unavailable({ id }, failure)
    case 'observation_limit_exceeded':
      return faults.session_output_limit_exceeded({ problem }, failure)
    case 'invalid_request':
      return faults.worker_invalid_request({ id, problem }, failure)
    case 'invalid_state':
      return during?.invalidState === undefined
        ? faults.worker_invalid_state({ id, problem }, failure)
        : faults[during.invalidState]({ id }, failure)
    case 'controller_busy':
    case 'identity_mismatch':
    case 'invalid_data_token':
    case 'runtime_fault':
      return faults.worker_operation_failed({ id, problem: `${failure.error.code}: ${problem}` }, failure)
  }
}
