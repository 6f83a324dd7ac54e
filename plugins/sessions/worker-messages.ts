/**
 * Shapes of what a worker says, as far as the daemon reads it: a worker may be of another release, or no worker at all.
 * Fields nobody reads are not looked at, and what older releases leave out is optional.
 */
import * as v from 'valibot'
import { Int, U16, U32, nonEmpty } from '../../protocol/scalars.ts'
import type { WorkerEvent, WorkerResponse } from '../../protocol/worker/messages.ts'

const Nullish = <S extends v.GenericSchema>(schema: S) => v.optional(v.nullable(schema))
const Process = v.object({ pid: U32, start_identity: v.string() })
const Dimensions = v.object({ columns: v.pipe(U16, v.minValue(1)), rows: v.pipe(U16, v.minValue(1)) })
const Exit = v.object({
  code: Nullish(Int),
  signal: Nullish(Int),
  stopped_by_user: Nullish(v.boolean()),
  output_force_closed: Nullish(v.boolean()),
})
const Problem = v.object({ code: v.string(), message: v.string() })
const Snapshot = v.object({
  session_id: v.string(),
  worker_id: v.string(),
  runtime_id: Nullish(nonEmpty),
  phase: v.picklist(['uninitialized', 'starting', 'running', 'stopping', 'exited', 'faulted']),
  worker_process: Process,
  child_process: Nullish(Process),
  dimensions: Nullish(Dimensions),
  exit: Nullish(Exit),
  reported_cwd: Nullish(v.string()),
})
const Picture = v.object({
  watermark: Int,
  dimensions: Dimensions,
  cursor: v.object({ column: Int, row: Int, visible: v.boolean() }),
  alternate_screen: v.boolean(),
  title: Nullish(v.string()),
  progress: Nullish(v.string()),
  visible_lines: v.array(v.string()),
  wrapped_rows: Nullish(v.array(Int)),
})
const Opened = v.object({ token: nonEmpty })
const Anything = v.object({})

const events: { readonly [T in WorkerEvent['type']]: v.GenericSchema } = {
  runtime_started: Anything,
  identity_changed: Anything,
  output_advanced: Anything,
  terminal_changed: Anything,
  child_exited: v.object({ exit: Exit }),
  runtime_fault: v.object({ error: Problem }),
  stream_opened: v.object({ stream_id: v.string() }),
  stream_closed: v.object({ stream_id: v.string(), reason: v.string(), error: Nullish(Problem) }),
  resized_by_client: v.object({ dimensions: Dimensions }),
  cwd_reported: v.object({ cwd: v.string() }),
}

const responses: { readonly [T in WorkerResponse['type']]: v.GenericSchema } = {
  negotiated: v.object({
    selected_version: Int,
    worker_id: nonEmpty,
    challenge: v.string(),
    capabilities: v.array(v.string()),
  }),
  controller_acquired: v.object({ lease_id: nonEmpty }),
  inspected: v.object({ snapshot: Snapshot }),
  initialized: v.object({ runtime_id: nonEmpty, child_process: Process }),
  data_stream_opened: Opened,
  data_stream_closed: Anything,
  terminal_snapshot: v.object({ snapshot: Picture }),
  output_read_opened: Opened,
  write_completed: v.object({ acknowledgement: v.object({ bytes_written: Int }) }),
  resized: v.object({ dimensions: Dimensions }),
  stopped: v.object({ exit: Nullish(Exit) }),
  terminal_acknowledged: Anything,
  controller_released: Anything,
  error: v.object({ error: Problem }),
}

const schemaOf = (schemas: Readonly<Record<string, v.GenericSchema>>, type: unknown): v.GenericSchema | undefined =>
  typeof type === 'string' && Object.hasOwn(schemas, type) ? schemas[type] : undefined

/** Pure. Events of a type nobody knows are taken, since nobody reads them. */
export const isWorkerEvent = (message: { type: unknown }): message is WorkerEvent =>
  v.is(schemaOf(events, message.type) ?? Anything, message)

/** Pure. */
export function isWorkerResponse(message: { type: unknown }): message is WorkerResponse {
  const schema = schemaOf(responses, message.type)
  return (
    schema !== undefined && 'request_id' in message && typeof message.request_id === 'string' && v.is(schema, message)
  )
}
