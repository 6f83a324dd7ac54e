/** Wire surface of the daemon itself (contract/methods.md, "daemon / host"). Data only: the CLI and the client import this. */
import * as v from 'valibot'
import { contract } from '../../protocol/contract.ts'
import { Int, NoParams } from '../../protocol/scalars.ts'

export const CheckStatus = v.picklist(['ok', 'warn', 'fail'])
export const DoctorReport = v.object({
  /** `detail` carries the remedy. */
  checks: v.array(v.object({ name: v.string(), status: CheckStatus, detail: v.string() })),
  /** `fail` only for required checks. */
  overall: CheckStatus,
})
export type DoctorReport = v.InferOutput<typeof DoctorReport>

export const MethodCapability = v.object({
  name: v.string(),
  plugin: v.string(),
  effect: v.picklist(['reads', 'mutates', 'reports']),
  /** Served on the local socket only. */
  local_only: v.boolean(),
  /** Refused when the caller's origin markers name the target as its own session. */
  origin_guarded: v.boolean(),
  /** First protocol version that has it. */
  since: Int,
})

/** Ours: exactly what this daemon serves. */
export const Capabilities = v.object({
  daemon_version: v.string(),
  daemon_id: v.string(),
  protocol: v.object({ minimum: Int, maximum: Int }),
  plugins: v.array(v.object({ name: v.string(), version: v.string(), needs: v.array(v.string()) })),
  methods: v.array(MethodCapability),
  events: v.array(v.object({ name: v.string(), plugin: v.string(), since: Int })),
  error_codes: v.array(v.object({ code: v.string(), class: v.string() })),
  /** First lines `{"<stream>":"<id>"}` that turn a connection raw. */
  streams: v.array(v.string()),
  hook_schemas: v.array(Int),
})
export type Capabilities = v.InferOutput<typeof Capabilities>

const reads = { params: NoParams, effect: 'reads', faults: [] } as const

export default contract({
  name: 'system',
  methods: {
    'daemon.health': {
      about: 'That the daemon serves, its version, and the protocol version of this connection.',
      result: v.object({ status: v.literal('ok'), daemon_version: v.string(), protocol_version: Int }),
      ...reads,
    },
    'daemon.doctor': {
      about: 'Checks of what the daemon needs on this host.',
      result: v.object({ report: DoctorReport }),
      ...reads,
    },
    'daemon.capabilities': {
      about: 'Ours: plugins, methods, events, error codes and streams of this daemon, and its protocol window.',
      result: Capabilities,
      ...reads,
    },
  },
  events: {},
})
