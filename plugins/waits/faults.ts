/** Error catalogue of waits (contract/errors.md "runtime — input, observation, waits"). */
import { catalogue } from '../../protocol/fault.ts'

type Id = { id: string }

export const faults = catalogue({
  session_not_found: {
    class: 'runtime',
    say: (d: Id) => `no session ${JSON.stringify(d.id)}`,
    recover: 'pohunek session list',
  },
  session_not_running: {
    class: 'runtime',
    say: (d: Id) => `session ${d.id} is not running`,
    recover: 'pohunek session inspect shows its state',
  },
  session_runtime_changed: {
    class: 'runtime',
    say: (d: Id) => `session ${d.id} has another runtime than the one named`,
    recover: 'restart from a fresh screen or tail',
  },
  session_terminal_unavailable: { class: 'runtime', say: (d: Id) => `session ${d.id} has no live terminal` },
  session_wait_limit_exceeded: {
    class: 'runtime',
    say: (d: { ms: number; max: number }) => `a wait of ${d.ms} ms is over the limit of ${d.max} ms`,
    recover: 'wait again when it ends: its cursor misses nothing',
  },
})

/** Raised by sessions for a place among the calls that wait. */
export const waiterLimit = { code: 'session_waiter_limit_reached', class: 'runtime' } as const
