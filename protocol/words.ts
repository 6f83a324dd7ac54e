/** Words that schemas, the configuration and the CLI share; plain, so that the CLI loads no schema for them. */

/** `task_settled` and `task_attention` are reserved and refused. */
export const NOTIFICATION_KINDS = [
  'agent_blocked',
  'approval_required',
  'turn_completed',
  'session_finished',
  'error',
  'system',
] as const
export const NOTIFICATION_SEVERITIES = ['info', 'success', 'warning', 'error', 'action_required'] as const

/** Events of session.wait_turn. */
export const TURN_KINDS = ['turn_completed', 'agent_blocked', 'approval_required', 'exited'] as const
