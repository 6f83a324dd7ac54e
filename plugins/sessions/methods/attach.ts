import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import { faults } from '../faults.ts'
import type { Host } from '../host.ts'
import { terminalSize } from '../request.ts'
import { workerFault } from '../worker-faults.ts'

/** Refuses a session's own terminal, then prepares one stream with the worker; nothing is open before it is redeemed. */
export const attach =
  (host: Host): Handler<(typeof contract.methods)['session.attach']> =>
  async (params, call) => {
    const session = host.registry.get(params.session_id)
    const { origin_session_id, origin_worker_id, initial_dimensions, history_rows } = params
    if (origin_session_id === session.id && origin_worker_id === session.record.worker.worker_id)
      throw faults.attach_self_feedback({ id: session.id })
    const size = initial_dimensions === undefined ? undefined : terminalSize(initial_dimensions)
    const link = session.running()
    if (!link.negotiated.capabilities.includes('attach_snapshot'))
      throw faults.attach_snapshot_unsupported({ id: session.id })
    try {
      const stream = await host.attachments.prepare(session, {
        ...(size === undefined ? {} : { dimensions: { columns: size.cols, rows: size.rows } }),
        ...(history_rows === undefined ? {} : { historyRows: Math.max(0, history_rows) }),
      })
      // Only a caller on this machine can reach the worker's socket.
      const direct =
        params.direct === true && call.local ? { socket_path: stream.socketPath, token: stream.token } : undefined
      return { stream_id: stream.id, ...(direct === undefined ? {} : { direct }) }
    } catch (failure) {
      throw workerFault(session.id, failure, { invalidState: 'session_not_running' })
    }
  }
