/** Waits raise the faults of sessions; the bounds are theirs (contract/errors.md "input, observation, waits"). */
import { faults as sessions } from '../sessions/faults.ts'

export const faults = {
  session_not_found: sessions.session_not_found,
  session_not_running: sessions.session_not_running,
  session_runtime_changed: sessions.session_runtime_changed,
  session_terminal_unavailable: sessions.session_terminal_unavailable,
  session_wait_limit_exceeded: sessions.session_wait_limit_exceeded,
  session_waiter_limit_reached: sessions.session_waiter_limit_reached,
} as const
