import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'

/** Answers from memory: it says that the daemon dispatches, nothing more. */
export const health =
  (daemonVersion: string): Handler<(typeof contract.methods)['daemon.health']> =>
  (_, call) => ({ status: 'ok', daemon_version: daemonVersion, protocol_version: call.version })
