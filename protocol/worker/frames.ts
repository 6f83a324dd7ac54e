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

/** Incremental decoder. `push` answers the complete frames; it throws RangeError on an oversized or undecodable one. */
export class FrameDecoder {
  #pending = new Uint8Array(0)

  push(chunk: Uint8Array): Frame[] {
    let data = chunk
    if (this.#pending.length > 0) {
      data = new Uint8Array(this.#pending.length + chunk.length)
      data.set(this.#pending)
      data.set(chunk, this.#pending.length)
    }
    const frames: Frame[] = []
    let at = 0
    for (;;) {
      const view = new DataView(data.buffer, data.byteOffset, data.byteLength)
      if (data.length - at < 4) break
      const headerBytes = view.getUint32(at)
      if (headerBytes > MAX_FRAME_HEADER_BYTES) throw new RangeError(`frame header of ${headerBytes} bytes`)
      if (data.length - at < 8 + headerBytes) break
      const payloadBytes = view.getUint32(at + 4 + headerBytes)
      if (payloadBytes > MAX_FRAME_PAYLOAD_BYTES) throw new RangeError(`frame payload of ${payloadBytes} bytes`)
      const end = at + 8 + headerBytes + payloadBytes
      if (data.length < end) break
      frames.push({
        header: parseHeader(data.subarray(at + 4, at + 4 + headerBytes)),
        payload: data.subarray(at + 8 + headerBytes, end),
      })
      at = end
    }
    this.#pending = data.slice(at)
    return frames
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
