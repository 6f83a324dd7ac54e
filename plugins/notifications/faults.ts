/** Error catalogue of notifications (contract/errors.md "runtime — notifications"). */
import { catalogue } from '../../protocol/fault.ts'

type Problem = { problem: string }

export const faults = catalogue({
  notification_kind_disabled: {
    class: 'runtime',
    say: (d: { kind: string; provider: string }) =>
      `the policy keeps no ${d.kind} notifications of ${JSON.stringify(d.provider)}`,
    recover: (d: { kind: string; provider: string }) =>
      `pohunek notifications policy set --kind ${d.kind} --enabled keeps them`,
  },
  notification_not_found: {
    class: 'runtime',
    say: (d: { id: string }) => `no notification ${JSON.stringify(d.id)}`,
    recover: 'pohunek notifications list',
  },
  invalid_notification_transition: {
    class: 'runtime',
    say: (d: { id: string; from: string; to: string; allowed: readonly string[] }) =>
      `notification ${d.id} is ${d.from} and cannot become ${d.to}`,
    recover: (d: { allowed: readonly string[] }) =>
      d.allowed.length === 0 ? 'nothing follows after deleted' : `allowed from here: ${d.allowed.join(', ')}`,
  },
  invalid_notification_metadata: {
    class: 'runtime',
    say: (d: Problem) => d.problem,
    recover: 'remove the key',
  },
  invalid_notification_session_id: {
    class: 'runtime',
    say: (d: Problem) => d.problem,
    recover: 'use an id that session.list shows, or leave session_id out',
  },
  invalid_notification_dedupe_key: {
    class: 'runtime',
    say: (d: Problem) => d.problem,
    recover:
      'use attention:<session_id> with agent_blocked or approval_required, turn:<session_id> with turn_completed, and the same session_id',
  },
  invalid_notification_timestamp: {
    class: 'runtime',
    say: (d: { key: string }) => `${d.key} is not an RFC 3339 time`,
    recover: 'write it like 2026-01-31T09:30:00Z',
  },
  invalid_notification_cursor: {
    class: 'runtime',
    say: (_: Record<string, never>) => 'the cursor is not one of notification.list',
    recover: 'list again without a cursor',
  },
  invalid_notification_policy: {
    class: 'runtime',
    say: (d: Problem) => d.problem,
    recover: 'set values above zero',
  },
  notification_store_error: {
    class: 'runtime',
    say: (d: Problem) => `notifications could not be stored: ${d.problem}`,
    recover: 'see pohunek doctor, make room on the disk and retry',
  },
  hook_not_admitted: {
    class: 'runtime',
    say: (d: { id: string; runtime: string; provider: string }) =>
      `session ${d.id} runs ${d.runtime}, which takes no hook reports of ${JSON.stringify(d.provider)}`,
    recover: 'leave session_id out, or report from a session whose runtime has an integration',
  },
})
