/** The durable record of one session: what clients see, what the owner wants, and how to find the worker again. */
import * as v from 'valibot'
import type { TableSpec } from '../../kernel/store/tables.ts'
import { Int, SessionId, nonEmpty } from '../../protocol/scalars.ts'
import { SessionInfo } from './types.ts'

const Identity = v.object({ pid: Int, start_identity: v.string() })

export const InputRules = v.object({
  bracketed_paste: v.boolean(),
  submit_delay_ms: Int,
  text_policy: v.picklist(['unrestricted', 'hermes_safe_text']),
  ready: v.picklist(['grace', 'bracketed_paste', 'screen_idle']),
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
  transaction: v.optional(v.object({ kind: v.picklist(['create', 'stop', 'remove']), id: nonEmpty, initial_input: v.optional(v.boolean()) })),
})
export type SessionRecord = v.InferOutput<typeof SessionRecord>

export const sessionTable: TableSpec<SessionRecord> = {
  kind: 'session',
  key: (record) => record.info.id,
  decode(raw) {
    const record = v.parse(SessionRecord, raw)
    v.parse(SessionId, record.info.id)
    return record
  },
  encode: (record) => record,
}
