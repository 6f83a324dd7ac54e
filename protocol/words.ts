/** Words that schemas, the configuration and the CLI share; plain, so that the CLI loads no schema for them. */

/** C0, DEL and C1: never allowed in names, ids or labels. */
export const CONTROL_CHARACTER = /[\u0000-\u001f\u007f-\u009f]/
/** `text` with `by` in the place of each of them. */
export const replaceControls = (text: string, by: string): string =>
  text.replace(new RegExp(CONTROL_CHARACTER, 'g'), by)

export const SESSION_STATES = ['starting', 'running', 'stopped', 'done', 'failed'] as const
export const AGENT_ACTIVITIES = ['working', 'blocked', 'idle'] as const

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
