/** Spelling of protocol 3 in what the CLI prints. Pure. */

/** JSON summaries carry the protocol 3 spelling beside the current one. Metadata is never walked. */
export function withRuntimeId<T extends object>(value: T): T {
  const held = value as { runtime?: unknown; worker_instance_id?: unknown }
  const runtime =
    typeof held.runtime === 'object' && held.runtime !== null ? { runtime: withRuntimeId(held.runtime) } : {}
  const id = typeof held.worker_instance_id === 'string' ? { runtime_id: held.worker_instance_id } : {}
  return { ...value, ...runtime, ...id }
}
