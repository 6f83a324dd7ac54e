/** Bounds of the socket server. Derived from one another so that the whole stays bounded, not each connection alone. */
import { MAX_LINE_BYTES } from '../../protocol/limits.ts'

export interface ServerLimits {
  /** Open connections. Over it, the oldest one that never sent a whole line makes room; if there is none, the new one is refused. */
  readonly maxConnections: number
  /** A connection that has not sent one whole line by then is closed, once more than half of maxConnections are open. */
  readonly firstLineMs: number
  /** Unread bytes of one connection behind a running request; reading stops above it (one read more may come). */
  readonly maxQueuedBytes: number
  /** Unread bytes over all connections; above it, the connections with the oldest unfinished lines are closed. */
  readonly maxPendingBytes: number
  readonly maxLineBytes: number
  /** Time a client has to take a response before it is given up. */
  readonly writeStallMs: number
  /** Answers clients have not taken, over all connections; above it no request starts, and clients are given up sooner. */
  readonly maxUnsentBytes: number
  /** Time a client has to take a response while there are more than maxUnsentBytes. */
  readonly crowdedStallMs: number
  /** After an error that ends a connection, its input is discarded this long so that the client can read the error. */
  readonly lingerMs: number
  /** How often a half-closed client with a request in flight is checked for having gone. */
  readonly goneProbeMs: number
}

export const SERVER_LIMITS: ServerLimits = {
  // Far above what people and agents open on one machine, far below usual descriptor limits.
  maxConnections: 1_024,
  firstLineMs: 10_000,
  // A few pipelined requests. Smaller would stop reading, and with it the notice of a disconnect, on ordinary use.
  maxQueuedBytes: 65_536,
  // 16 full lines at once; hostile clients cannot hold more than this and the slack of growing buffers.
  maxPendingBytes: 16 * MAX_LINE_BYTES,
  maxLineBytes: MAX_LINE_BYTES,
  writeStallMs: 30_000,
  // Beside what the kernel holds for each socket.
  maxUnsentBytes: 64 * MAX_LINE_BYTES,
  crowdedStallMs: 1_000,
  lingerMs: 1_000,
  goneProbeMs: 250,
}
