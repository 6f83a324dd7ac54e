/**
 * Data stream frames on the worker socket (contract/environment.md §5): u32 BE header length, JSON header, u32 BE
 * payload length, payload. The first byte of a data connection is therefore 0; a control or raw attach connection
 * starts with `{`.
 */
import type { ChildExit, StreamCloseReason, TerminalSnapshot, WorkerError } from './messages.ts'

export const MAX_FRAME_HEADER_BYTES = 262_144
export const MAX_FRAME_PAYLOAD_BYTES = 1_048_576
/** What a worker puts into one output frame. */
export const FRAME_PAYLOAD_BYTES = 65_536
export const DATA_TOKEN_TTL_MS = 10_000

export type FrameHeader = { version: number; stream_id: string; runtime_id: string } & (
  | {
      kind: 'open'
      token: string
      mode: 'attach' | 'detector' | 'observation'
      after_offset: number
      attach?: { dimensions?: { columns: number; rows: number } }
    }
  | { kind: 'attach_ready'; dimensions: { columns: number; rows: number } }
  | { kind: 'replay' | 'output'; offset: number }
  | {
      kind: 'observation_start'
      history_start_offset: number
      start_offset: number
      next_offset: number
      runtime_end_offset: number
      gap?: { missing_start: number; missing_end: number }
      has_more: boolean
      timed_out: boolean
    }
  | { kind: 'terminal_snapshot'; snapshot: TerminalSnapshot }
  | { kind: 'gap'; missing_start: number; missing_end: number; watermark: number }
  | { kind: 'input'; write_id: string }
  | { kind: 'input_ack'; write_id: string; bytes_written: number }
  | { kind: 'exit'; exit: ChildExit }
  | { kind: 'error'; error: WorkerError }
  | { kind: 'close'; reason: StreamCloseReason }
)
export interface Frame {
  header: FrameHeader
  payload: Uint8Array
}

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { fatal: true })

/** Everything of one frame before its payload; the payload follows unchanged. */
export function encodeFrameHead(header: FrameHeader, payloadBytes: number): Uint8Array {
  const json = encoder.encode(JSON.stringify(header))
  const head = new Uint8Array(8 + json.length)
  const view = new DataView(head.buffer)
  view.setUint32(0, json.length)
  head.set(json, 4)
  view.setUint32(4 + json.length, payloadBytes)
  return head
}

const LENGTH_BYTES = 4
/** Smallest buffer for a frame that arrives in pieces; it doubles from there. */
const FIRST_BUFFER_BYTES = 4_096

/**
 * Incremental decoder. `push` answers the complete frames; it throws RangeError on an oversized or undecodable one.
 * A byte is copied a bounded number of times on average, whatever the sizes of the chunks; a payload handed out is never
 * overwritten.
 */
export class FrameDecoder {
  #buffer: Uint8Array = new Uint8Array(0)
  #start = 0
  #end = 0

  push(chunk: Uint8Array): Frame[] {
    this.#append(chunk)
    const frames: Frame[] = []
    for (let frame = this.#next(); frame !== undefined; frame = this.#next()) frames.push(frame)
    return frames
  }

  #append(chunk: Uint8Array): void {
    const held = this.#end - this.#start
    if (held === 0) {
      this.#buffer = chunk
      this.#start = 0
      this.#end = chunk.length
      return
    }
    if (this.#end + chunk.length > this.#buffer.length) {
      const grown = new Uint8Array(Math.max(FIRST_BUFFER_BYTES, 2 * held, held + chunk.length))
      grown.set(this.#buffer.subarray(this.#start, this.#end))
      this.#buffer = grown
      this.#start = 0
      this.#end = held
    }
    this.#buffer.set(chunk, this.#end)
    this.#end += chunk.length
  }

  /** The next complete frame; undefined until one is there. */
  #next(): Frame | undefined {
    const held = this.#end - this.#start
    const view = new DataView(this.#buffer.buffer, this.#buffer.byteOffset + this.#start, held)
    if (held < LENGTH_BYTES) return undefined
    const headerBytes = view.getUint32(0)
    if (headerBytes > MAX_FRAME_HEADER_BYTES) throw new RangeError(`frame header of ${headerBytes} bytes`)
    const payloadAt = 2 * LENGTH_BYTES + headerBytes
    if (held < payloadAt) return undefined
    const payloadBytes = view.getUint32(LENGTH_BYTES + headerBytes)
    if (payloadBytes > MAX_FRAME_PAYLOAD_BYTES) throw new RangeError(`frame payload of ${payloadBytes} bytes`)
    if (held < payloadAt + payloadBytes) return undefined
    const bytes = this.#buffer.subarray(this.#start, this.#start + payloadAt + payloadBytes)
    this.#start += bytes.length
    return {
      header: parseHeader(bytes.subarray(LENGTH_BYTES, LENGTH_BYTES + headerBytes)),
      payload: bytes.subarray(payloadAt),
    }
  }
}

function parseHeader(bytes: Uint8Array): FrameHeader {
  try {
    const header: unknown = JSON.parse(decoder.decode(bytes))
    if (typeof header === 'object' && header !== null && 'kind' in header) return header as FrameHeader
  } catch {
    // falls through: a header that is no JSON object is as wrong as one without a kind
  }
  throw new RangeError('undecodable frame header')
}
