/** Error catalogue of sessions (contract/errors.md "runtime"). Hints say the next step. */
import { catalogue } from '../../protocol/fault.ts'

type Id = { id: string }
const inspect = 'pohunek session inspect shows its state'

export const faults = catalogue({
  session_not_found: {
    class: 'runtime',
    say: (d: Id) => `no session ${JSON.stringify(d.id)}`,
    recover: 'pohunek session list',
  },
  session_not_running: { class: 'runtime', say: (d: Id) => `session ${d.id} is not running`, recover: inspect },
  session_external_read_only: {
    class: 'runtime',
    say: (d: Id) => `${d.id} was started outside pohunek and is read-only`,
  },
  session_exit_timeout: {
    class: 'runtime',
    say: (d: Id & { ms: number }) => `session ${d.id} did not end within ${d.ms} ms`,
    recover: 'inspect it, then stop it again',
  },
  session_runtime_lost: {
    class: 'runtime',
    say: (d: Id & { reason?: string }) => `the runtime of session ${d.id} is lost${d.reason ? ` (${d.reason})` : ''}`,
    recover: 'pohunek session rm removes the record',
  },
  session_runtime_reconnecting: {
    class: 'runtime',
    say: (d: Id) => `the worker of session ${d.id} is not reachable yet`,
    recover: 'wait a moment and retry',
  },
  session_runtime_conflict: {
    class: 'runtime',
    say: (d: Id & { reason?: string }) =>
      `the runtime of session ${d.id} is in conflict${d.reason ? ` (${d.reason})` : ''}; nothing was touched`,
    recover: inspect,
  },
  session_runtime_changed: {
    class: 'runtime',
    say: (d: Id) => `session ${d.id} has another runtime than the one named`,
    recover: 'restart from a fresh screen or tail',
  },
  runtime_supervision_unavailable: {
    class: 'runtime',
    say: (d: Id & { problem: string }) => `the worker job of ${d.id} cannot be inspected: ${d.problem}`,
    recover: 'retry',
  },
  runtime_supervision_ambiguous: {
    class: 'runtime',
    say: (d: Id & { problem: string; processes?: readonly string[] }) =>
      `cleanup of ${d.id} cannot be confirmed: ${d.problem}${processList(d.processes ?? [])}`,
    recover: (d: Id & { problem: string; processes?: readonly string[] }) =>
      d.processes === undefined
        ? inspect
        : 'inspect them and end the ones that belong to the session, then retry; session rm --accept-unconfirmed-cleanup goes past them',
  },
  runtime_identity_mismatch: {
    class: 'runtime',
    say: (d: Id & { problem: string }) => `the worker found is not the one recorded for ${d.id}: ${d.problem}`,
    recover: inspect,
  },
  attach_not_found: {
    class: 'runtime',
    say: (_: Record<string, never>) => 'no such attach stream',
    recover: 'attach again',
  },
  attach_expired: {
    class: 'runtime',
    say: (_: Record<string, never>) => 'the attach stream expired or was used',
    recover: 'attach again',
  },
  attach_snapshot_unsupported: {
    class: 'runtime',
    say: (d: Id) => `the worker of ${d.id} is too old to attach to`,
    recover: 'restart or fork the session',
  },
  attach_self_feedback: {
    class: 'daemon',
    say: (d: Id) => `session ${d.id} cannot be attached to from inside itself`,
    recover: 'attach from another terminal',
  },
  worker_attach_stream_failed: {
    class: 'runtime',
    say: (d: { problem: string }) => d.problem,
    recover: 'attach again',
  },
  worker_protocol_incompatible: {
    class: 'runtime',
    say: (d: Id) => `the worker of ${d.id} speaks no common private protocol; it was left running`,
    recover: 'use the pohunek release that started it, or pohunek session rm',
  },
  worker_operation_failed: {
    class: 'runtime',
    say: (d: Id & { problem: string }) => `${d.id}: ${d.problem}`,
    recover: 'see the session log',
  },
  worker_write_outcome_unknown: {
    class: 'runtime',
    say: (d: Id) => `the worker of ${d.id} vanished before it confirmed the input`,
    recover: 'inspect the session before sending again',
  },
  worker_feature_unavailable: { class: 'runtime', say: (d: Id) => `the worker of ${d.id} cannot be observed` },
  worker_invalid_request: { class: 'runtime', say: (d: Id & { problem: string }) => `${d.id}: ${d.problem}` },
  worker_invalid_state: { class: 'runtime', say: (d: Id & { problem: string }) => `${d.id}: ${d.problem}` },
  session_input_rejected: { class: 'runtime', say: (d: { problem: string }) => d.problem },
  session_input_stalled: {
    class: 'runtime',
    say: (d: Id) =>
      `the program in ${d.id} stopped reading its terminal; a part of the text may stand in its input box, the rest was not written`,
    recover: 'inspect the session before sending again',
  },
  session_input_not_ready: {
    class: 'runtime',
    say: (d: Id) => `the prompt of ${d.id} never appeared; the session was rolled back`,
    recover: 'start it without a first prompt, attach to answer what it asks, then use pohunek session input',
  },
  session_input_wait_unsupported: {
    class: 'runtime',
    say: (d: Id & { why: string }) => `waited input is not available for ${d.id}: ${d.why}`,
    recover: 'send it without waiting, then wait with pohunek session wait',
  },
  session_input_invalid_wait: { class: 'runtime', say: (d: { problem: string }) => d.problem },
  session_input_timeout: {
    class: 'runtime',
    say: (d: Id) => `${d.id} did not reach the state waited for in time; the input may have been delivered`,
    recover: 'inspect the session before sending again',
  },
  session_input_blocked: {
    class: 'runtime',
    say: (d: Id & { what?: string }) =>
      `${d.id} shows a question its owner has to answer${d.what === undefined ? '' : ` (${d.what})`}; nothing was sent`,
    recover: 'attach to answer it; --force sends the text into the question',
  },
  session_agent_blocked: {
    class: 'runtime',
    say: (d: Id & { what?: string }) =>
      `${d.id} shows a question its owner has to answer${d.what === undefined ? '' : ` (${d.what})`}; nothing was sent`,
    recover: 'attach to answer it',
  },
  session_input_no_prompt: {
    class: 'runtime',
    say: (d: Id & { what: string }) => `${d.id} shows no prompt that would take the text (${d.what}); nothing was sent`,
    recover: 'look at it with pohunek session screen or session explain; --force sends it all the same',
  },
  session_input_draft: {
    class: 'runtime',
    say: (d: Id & { draft: string }) =>
      `a text stands in the input box of ${d.id} already (${quoted(d.draft)}); nothing was sent`,
    recover:
      'attach and clear or send it, or send an empty text, which is Enter alone; --force puts the text behind what stands there',
  },
  session_input_unsubmitted: {
    class: 'runtime',
    say: (d: Id & { why: string }) => `the text stands in the input box of ${d.id}, and Enter was not sent: ${d.why}`,
    recover: 'attach to see to it, or send an empty text once the prompt is free, which is Enter alone',
  },
  session_input_busy: {
    class: 'runtime',
    say: (d: Id) => `${d.id} works on a turn and its agent does not queue another prompt; nothing was sent`,
    recover: 'wait for idle with pohunek session wait, or pass --force',
  },
  session_terminal_unavailable: { class: 'runtime', say: (d: Id) => `session ${d.id} has no live terminal` },
  session_has_no_managed_terminal: { class: 'runtime', say: (d: Id) => `session ${d.id} has no managed terminal` },
  session_read_ansi_unavailable: {
    class: 'runtime',
    say: (_: Record<string, never>) => 'format ansi is not available',
    recover: 'use format text',
  },
  session_output_limit_exceeded: { class: 'runtime', say: (d: { problem: string }) => d.problem },
  session_wait_limit_exceeded: {
    class: 'runtime',
    say: (d: { ms: number; max: number }) => `a wait of ${d.ms} ms is over the limit of ${d.max} ms`,
  },
  session_waiter_limit_reached: {
    class: 'runtime',
    say: (d: { scope: string; max: number }) => `${d.max} waiters ${d.scope} are already waiting`,
    recover: 'close one or retry later',
  },
  session_tmpdir_unsafe: {
    class: 'runtime',
    say: (d: { path: string; problem: string }) => `${d.path}: ${d.problem}`,
    recover: 'fix or remove the directory',
  },
  agent_profile_not_found: {
    class: 'runtime',
    say: (d: { agent: string; directory: string }) =>
      `no agent ${JSON.stringify(d.agent)}: no runtime and no profile of that name in ${d.directory}`,
    recover: 'use --agent shell, or write a profile file there',
  },
  agent_binary_missing: {
    class: 'runtime',
    say: (d: { program: string; path: string }) =>
      `program ${JSON.stringify(d.program)} was not found; searched ${d.path}`,
    recover: 'install it, or give its absolute path in the profile',
  },
  invalid_name: {
    class: 'runtime',
    say: (d: { name: string }) => `${JSON.stringify(d.name)} is not a valid agent name`,
    recover: 'use letters, digits, dot, dash and underscore',
  },
  pty_alloc_failed: {
    class: 'runtime',
    say: (d: { problem: string }) => d.problem,
    recover: 'end sessions, or raise the terminal limit',
  },
  spawn_failed: {
    class: 'runtime',
    say: (d: { problem: string }) => d.problem,
    recover: 'correct the program named, or the profile that starts it',
  },
  cwd_failed: {
    class: 'runtime',
    say: (d: { cwd: string; problem: string }) => `start directory ${d.cwd}: ${d.problem}`,
    recover: 'create it or pass --cwd',
  },
  session_store_failed: {
    class: 'runtime',
    say: (d: { problem: string }) => `the session could not be recorded: ${d.problem}`,
    recover: 'free disk space and retry',
  },
})

function processList(processes: readonly string[]): string {
  if (processes.length === 0) return ''
  const more = processes.length > 8 ? ` and ${processes.length - 8} more` : ''
  return `: ${processes.slice(0, 8).join(', ')}${more}`
}

const MAX_QUOTED = 60

/** A text from a screen as one short line. */
function quoted(text: string): string {
  const line = Array.from(text.replace(/[\p{C}\s]+/gu, ' ').trim())
  return JSON.stringify(line.length <= MAX_QUOTED ? line.join('') : `${line.slice(0, MAX_QUOTED).join('')}…`)
}
