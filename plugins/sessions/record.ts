/** The durable record of one session: what clients see, what the owner wants, and how to find the worker again. */
import * as v from 'valibot'
import type { TableSpec } from '../../kernel/store/tables.ts'
import { Int, nonEmpty } from '../../protocol/scalars.ts'
import { SessionInfo } from './types.ts'

const Identity = v.object({ pid: Int, start_identity: v.string() })

export const InputRules = v.object({
  bracketed_paste: v.boolean(),
  submit_delay_ms: Int,
  text_policy: v.picklist(['unrestricted', 'hermes_safe_text']),
  ready: v.picklist(['grace', 'bracketed_paste', 'screen_idle']),
  composer: v.optional(v.picklist(['required', 'none'])),
  while_working: v.optional(v.picklist(['queue', 'steer', 'refuse'])),
  startup_grace_ms: v.optional(Int),
})
export type InputRules = v.InferOutput<typeof InputRules>

export const SessionRecord = v.object({
  info: SessionInfo,
  intent: v.picklist(['run', 'stop', 'remove']),
  /** What runs. Environment values are never stored: they may be secrets. */
  launch: v.object({
    executable: nonEmpty,
    args: v.array(v.string()),
    cwd: nonEmpty,
    agent: nonEmpty,
    agent_base: nonEmpty,
    base_env_names: v.array(v.string()),
    profile_env_names: v.array(v.string()),
    input: InputRules,
  }),
  worker: v.object({
    worker_id: nonEmpty,
    generation: v.pipe(Int, v.minValue(1)),
    process: Identity,
    /** Kernel boot the start identities belong to. */
    boot_id: v.string(),
    runtime_id: v.optional(nonEmpty),
    child: v.optional(Identity),
    /** Daemon instance told to the program at launch; the origin guard recognises it after a restart. */
    launch_daemon_id: nonEmpty,
  }),
  /** Set while a transaction is in flight; what an interrupted one left is finished at the next start. */
  transaction: v.optional(
    v.object({ kind: v.picklist(['create', 'stop', 'remove']), id: nonEmpty, initial_input: v.optional(v.boolean()) }),
  ),
})
export type SessionRecord = v.InferOutput<typeof SessionRecord>

const text = (value: unknown): boolean => typeof value === 'string' && value !== ''
const fields = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}

/**
 * A session that is over is only shown and removed. What that reads is checked by hand, because a store may hold tens of
 * thousands of them and full validation would be most of a daemon's start.
 */
function isFinished(raw: unknown): raw is SessionRecord {
  const { info, intent, launch, worker } = fields(raw)
  const {
    id,
    agent,
    agent_base,
    cwd,
    state,
    created_at,
    updated_at,
    cols,
    rows,
    pid,
    runtime,
    metadata,
    capabilities,
  } = fields(info)
  const { state: runtimeState, runtime_generation } = fields(runtime)
  const { worker_id, generation, boot_id, process } = fields(worker)
  return (
    (runtimeState === 'terminal' || runtimeState === 'lost') &&
    (state === 'done' || state === 'failed' || state === 'stopped') &&
    (intent === 'run' || intent === 'stop') &&
    [
      id,
      agent,
      agent_base,
      cwd,
      runtime_generation,
      worker_id,
      boot_id,
      fields(launch)['executable'],
      fields(process)['start_identity'],
    ].every(text) &&
    [created_at, updated_at].every((it) => typeof it === 'string' && !Number.isNaN(Date.parse(it))) &&
    [cols, rows, pid, generation, fields(process)['pid']].every(Number.isSafeInteger) &&
    typeof capabilities === 'object' &&
    Object.values(fields(metadata)).every((it) => typeof it === 'string')
  )
}

export const sessionTable: TableSpec<SessionRecord> = {
  kind: 'session',
  key: (record) => record.info.id,
  decode: (raw) => (isFinished(raw) ? raw : v.parse(SessionRecord, raw)),
  encode: (record) => record,
}
