import type { Socket } from 'node:net'
import type { Peer } from '../../platform/peers.ts'

/** A connection that left NDJSON behind its first line. */
export interface RawStream {
  /** Paused. The taker owns it from the moment its handler resolves. */
  readonly socket: Socket
  /** Bytes that arrived behind the first line. */
  readonly head: Buffer
  readonly local: boolean
  peer(): Peer | undefined
}
