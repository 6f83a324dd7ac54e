/** Reading a session's terminal: the picture, its newest lines, and the raw output. Ended sessions too, while kept. */
import type { Socket } from 'node:net'
import { coreFaults } from '../../protocol/fault.ts'
import {
  MAX_OUTPUT_BYTES,
  MAX_RESULT_BYTES,
  MAX_WAITERS,
  MAX_WAITERS_PER_SESSION,
  MAX_WAIT_MS,
  SCREEN_MAX_COLS,
  SCREEN_MAX_ROWS,
} from '../../protocol/limits.ts'
import { utf8Bytes } from '../../protocol/scalars.ts'
import { encodeFrameHead, FrameDecoder, type Frame, type FrameHeader } from '../../protocol/worker/frames.ts'
import type { TerminalSnapshot } from '../../protocol/worker/messages.ts'
import { faults } from './faults.ts'
import type { Session } from './session.ts'
import { isConnectFailure } from './supply.ts'
import type { RuntimeIdentity, SessionOutputResult } from './types.ts'
import { workerFault } from './worker-faults.ts'
import { connect, secretToken, WorkerRefusal, WorkerUnreachable } from './worker-link.ts'

/** Names of the runtime an observation belongs to; a cursor of another one is refused. */
export function runtimeOf(session: Session): RuntimeIdentity {
  const { runtime_id, generation } = session.record.worker
  if (runtime_id === undefined) throw faults.session_terminal_unavailable({ id: session.id })
  return { worker_instance_id: runtime_id, runtime_generation: String(generation) }
}

/** The picture after every byte that arrived before this request. Throws session_terminal_unavailable and worker faults. */
export async function snapshotOf(session: Session): Promise<TerminalSnapshot> {
  const link = session.observable()
  try {
    const { snapshot } = await link.request('terminal_snapshot', { scope: session.scopeOf(link) })
    return snapshot
  } catch (failure) {
    throw observed(session, failure)
  }
}

/** A connection lost while looking means that there is no terminal to look at, whatever becomes of the session. */
function observed(session: Session, failure: unknown): unknown {
  if (isConnectFailure(failure) || failure instanceof WorkerUnreachable)
    return faults.session_terminal_unavailable({ id: session.id }, failure)
  return workerFault(session.id, failure, { invalidState: 'session_terminal_unavailable' })
}

/** Throws session_output_limit_exceeded for a picture over the contract's bound. */
export function boundedPicture(snapshot: TerminalSnapshot): TerminalSnapshot {
  const { columns, rows } = snapshot.dimensions
  if (rows > SCREEN_MAX_ROWS || columns > SCREEN_MAX_COLS) {
    throw faults.session_output_limit_exceeded({
      problem: `a screen of ${columns}x${rows} is over ${SCREEN_MAX_COLS}x${SCREEN_MAX_ROWS}`,
    })
  }
  return snapshot
}

/** JSON takes at most this many bytes for one UTF-16 unit of a text (`\\u001b`). */
const JSON_UNIT_BYTES = 6
/** More than the fields beside the texts of a picture take. */
const JSON_FIELDS_BYTES = 4_096

/** Throws session_output_limit_exceeded when `picture` would not fit one response line. */
export function fitting<T extends { visible_lines: string[]; title?: string; progress?: string }>(picture: T): T {
  // It is made into JSON again for the line: only one that could be too long is worth an exact count.
  const { visible_lines: lines, title = '', progress = '' } = picture
  const units = lines.reduce((sum, line) => sum + line.length + 1, title.length + progress.length)
  if (
    units * JSON_UNIT_BYTES + JSON_FIELDS_BYTES > MAX_RESULT_BYTES &&
    utf8Bytes(JSON.stringify(picture)) > MAX_RESULT_BYTES
  )
    throw faults.session_output_limit_exceeded({ problem: `the result is over ${MAX_RESULT_BYTES} bytes` })
  return picture
}

/**
 * Pure. Rows of the picture for session.read: everything below the last row with text or the cursor is blank by nature
 * and left out; blank rows above stay. `join` puts soft-wrapped rows back together.
 */
export function textRows(snapshot: TerminalSnapshot, join: boolean): string[] {
  const lines = snapshot.visible_lines
  let used = lines.length
  while (used > snapshot.cursor.row + 1 && (lines[used - 1] ?? '') === '') used--
  // The cursor's own row is text only when something stands on it or above it.
  if (used === snapshot.cursor.row + 1 && (lines[used - 1] ?? '') === '') used--
  const wrapped = new Set(join ? snapshot.wrapped_rows : [])
  const rows: string[] = []
  for (const [index, line] of lines.slice(0, used).entries()) {
    if (wrapped.has(index) && rows.length > 0) rows[rows.length - 1] += line
    else rows.push(line)
  }
  return rows
}

export interface OutputRequest {
  readonly runtime?: RuntimeIdentity
  readonly after_offset?: string
  readonly max_bytes: number
  readonly wait_ms?: number
}

/** Counts calls that wait, over all sessions and by session. */
export class Waiters {
  #all = 0

  /** For one session, or for several at once. Throws session_waiter_limit_reached. Disposing the answer gives the place back. */
  enter(session: Session | undefined): Disposable {
    if (session !== undefined && session.waiters >= MAX_WAITERS_PER_SESSION)
      throw faults.session_waiter_limit_reached({ scope: 'of this session', max: MAX_WAITERS_PER_SESSION })
    if (this.#all >= MAX_WAITERS)
      throw faults.session_waiter_limit_reached({ scope: 'of this daemon', max: MAX_WAITERS })
    this.#all++
    if (session !== undefined) session.waiters++
    let held = true
    return {
      [Symbol.dispose]: () => {
        if (!held) return
        held = false
        this.#all--
        if (session !== undefined) session.waiters--
      },
    }
  }
}

/** Raw output. Without an offset the newest tail; with wait_ms, waits at the current end for more. */
export async function readOutput(
  session: Session,
  request: OutputRequest,
  waiters: Waiters,
  signal: AbortSignal,
): Promise<SessionOutputResult> {
  const { runtime, after_offset, max_bytes, wait_ms } = request
  if (after_offset !== undefined && runtime === undefined)
    throw coreFaults.bad_request({ problem: 'after_offset needs runtime' })
  if (wait_ms !== undefined && after_offset === undefined)
    throw coreFaults.bad_request({ problem: 'wait_ms needs after_offset' })
  if (max_bytes > MAX_OUTPUT_BYTES)
    throw faults.session_output_limit_exceeded({ problem: `max_bytes is over ${MAX_OUTPUT_BYTES}` })
  if (wait_ms !== undefined && wait_ms > MAX_WAIT_MS)
    throw faults.session_wait_limit_exceeded({ ms: wait_ms, max: MAX_WAIT_MS })
  const offset = after_offset === undefined ? -1 : Number(after_offset)
  if (!Number.isSafeInteger(offset)) throw coreFaults.bad_request({ problem: 'after_offset is over 2^53' })
  const current = runtimeOf(session)
  if (runtime !== undefined && !sameRuntime(runtime, current)) throw faults.session_runtime_changed({ id: session.id })
  using _place = wait_ms === undefined ? undefined : waiters.enter(session)
  const link = session.observable()
  const streamId = `o-${secretToken()}`
  try {
    const { token } = await link.request('read_output', {
      scope: session.scopeOf(link),
      stream_id: streamId,
      after_offset: offset,
      max_bytes,
      wait_ms: wait_ms ?? 0,
    })
    const open = {
      version: link.version,
      stream_id: streamId,
      runtime_id: current.worker_instance_id,
      kind: 'open',
      token,
      mode: 'observation',
      after_offset: offset,
    } as const
    const { head, data } = await observe(link.socketPath, open, signal)
    if (head.start_offset < offset)
      throw coreFaults.bad_request({ problem: `after_offset ${offset} is past the end, ${head.runtime_end_offset}` })
    return { session_id: session.id, ...current, ...outputFields(head, data) }
  } catch (failure) {
    if (signal.aborted) throw signal.reason
    if (failure instanceof WorkerRefusal && failure.error.code === 'invalid_request')
      throw coreFaults.bad_request({ problem: failure.error.message }, failure)
    throw observed(session, failure)
  }
}

const sameRuntime = (a: RuntimeIdentity, b: RuntimeIdentity): boolean =>
  a.worker_instance_id === b.worker_instance_id && a.runtime_generation === b.runtime_generation

type ObservationStart = Extract<FrameHeader, { kind: 'observation_start' }>

function outputFields(
  head: ObservationStart,
  data: Buffer,
): Omit<SessionOutputResult, 'session_id' | 'worker_instance_id' | 'runtime_generation'> {
  return {
    history_start_offset: String(head.history_start_offset),
    start_offset: String(head.start_offset),
    next_offset: String(head.next_offset),
    runtime_end_offset: String(head.runtime_end_offset),
    data_base64: data.toString('base64'),
    ...(head.gap === undefined
      ? {}
      : { gap: { start_offset: String(head.gap.missing_start), end_offset: String(head.gap.missing_end) } }),
    has_more: head.has_more,
    timed_out: head.timed_out,
  }
}

/** One observation stream, from its token to its close. The signal ends it, and with it the worker's wait. */
async function observe(
  socketPath: string,
  open: FrameHeader,
  signal: AbortSignal,
): Promise<{ head: ObservationStart; data: Buffer }> {
  const socket = await connect(socketPath, signal)
  const abort = (): void => void socket.destroy()
  signal.addEventListener('abort', abort, { once: true })
  try {
    socket.write(encodeFrameHead(open, 0))
    return await collect(socket)
  } finally {
    signal.removeEventListener('abort', abort)
    socket.destroy()
  }
}

function collect(socket: Socket): Promise<{ head: ObservationStart; data: Buffer }> {
  return new Promise((resolve, reject) => {
    const decoder = new FrameDecoder()
    const parts: Buffer[] = []
    let head: ObservationStart | undefined
    const take = ({ header, payload }: Frame): void => {
      if (header.kind === 'observation_start') head = header
      else if (header.kind === 'output' || header.kind === 'replay') parts.push(Buffer.from(payload))
      else if (header.kind === 'error') reject(new WorkerRefusal(header.error))
      else if (header.kind === 'close') finish()
    }
    const finish = (): void => {
      if (head === undefined) return reject(new WorkerUnreachable('closed', 'the worker ended the observation early'))
      const data = Buffer.concat(parts)
      if (data.length !== head.next_offset - head.start_offset)
        return reject(new WorkerUnreachable('closed', 'the observation is not complete'))
      resolve({ head, data })
    }
    socket.on('data', (chunk: Buffer) => {
      try {
        for (const frame of decoder.push(chunk)) take(frame)
      } catch (failure) {
        reject(failure)
      }
    })
    socket.on('error', reject)
    socket.on('end', finish)
    socket.on('close', finish)
  })
}
