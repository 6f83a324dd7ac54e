/** Error catalogue of waits (contract/errors.md "runtime — input, observation, waits"). */
import { catalogue } from '../../protocol/fault.ts'
import { sessionFaults } from '../sessions/api.ts'

export const faults = {
  session_not_found: sessionFaults.session_not_found,
  session_not_running: sessionFaults.session_not_running,
  session_runtime_changed: sessionFaults.session_runtime_changed,
  session_terminal_unavailable: sessionFaults.session_terminal_unavailable,
  ...catalogue({
    session_wait_limit_exceeded: {
      class: 'runtime',
      say: (d: { ms: number; max: number }) => `a wait of ${d.ms} ms is over the limit of ${d.max} ms`,
      recover: 'wait again when it ends: its cursor misses nothing',
    },
  }),
  /** Raised by sessions, which count the calls that wait. */
  session_waiter_limit_reached: sessionFaults.session_waiter_limit_reached,
} as const
