/** A program inside a session must not change that session through our clients (contract/protocol.md §6). */
import type { AdmitRequest } from '../../kernel/plugin.ts'
import { coreFaults } from '../../protocol/fault.ts'
import type { Registry } from './registry.ts'

/** Throws plugin_self_target_denied. The daemon that launched the worker is recognised after a restart, too. */
export function guardOrigin(registry: Registry, daemonId: string, { method, spec, params, call }: AdmitRequest): void {
  const { origin } = call
  if (origin === undefined || spec.guard === undefined) return
  const id = spec.guard.target(params)
  if (id === undefined || id !== origin.sessionId) return
  const launchDaemonId = registry.find(id)?.record.worker.launch_daemon_id
  if (origin.daemonId === daemonId || origin.daemonId === launchDaemonId)
    throw coreFaults.plugin_self_target_denied({ method, id })
}
