/**
 * Runs the checks of a start once on values of its own, for their code to be there when a daemon asks. Nothing is kept,
 * started or written.
 */
import * as v from 'valibot'
import { HOOK_PROTOCOL_VERSION, WorkerRequest } from '../protocol/worker/messages.ts'
import { childEnvironment, markerEntries } from './child-env.ts'
import { checkLaunch } from './launch-check.ts'

/** Takes some milliseconds; for a worker that nobody waits for. */
export function warmUp(sessionId: string): void {
  const base = { PATH: '/bin', HOME: '/', TERM: 'xterm-256color', TMPDIR: '/tmp' }
  v.safeParse(WorkerRequest, {
    type: 'initialize',
    request_id: 'r0',
    lease_id: 'lease',
    initialize: {
      session_id: sessionId,
      transaction_id: 'transaction',
      expected_worker_id: 'worker',
      launch: { agent: 'shell', agent_base: 'shell' },
      executable: process.execPath,
      arguments: ['-c'],
      cwd: '/',
      dimensions: { columns: 80, rows: 24 },
      environment: { NAME: 'value' },
      base_environment: base,
      limits: {
        output_history_bytes: 1,
        subscriber_queue_bytes: 1,
        write_dedup_entries: 1,
        terminal_retention_ms: 1,
      },
      stop_policy: { grace_ms: 1 },
      hook_protocol_version: HOOK_PROTOCOL_VERSION,
      public_protocol_version: 1,
      input_stall_ms: 1,
    },
  })
  checkLaunch({ executable: process.execPath, args: ['-c'], cwd: '/' })
  const markers = markerEntries({
    sessionId,
    workerId: 'worker',
    workerInstanceId: 'runtime',
    workerSocketPath: '/socket',
    hookProtocolVersion: HOOK_PROTOCOL_VERSION,
    daemonSocketPath: '/daemon',
    publicProtocolVersion: 1,
    daemonId: 'daemon',
    hookTracePath: '/trace',
  })
  childEnvironment(base, { NAME: 'value' }, markers)
}
