/**
 * What one run of the fuzzer does, as data that can be printed, shrunk and played again: connections, and what each
 * sends. Strings may name what is known only when the plan is played: see NAMES.
 */

/** Replaced in every request: ids of the session under fire and of the lone worker's lease. */
export const NAMES = [
  '@victim',
  '@instance',
  '@generation',
  '@stream',
  '@token',
  '@lease',
  '@session',
  '@worker',
  '@runtime',
] as const
export type Names = Readonly<Partial<Record<(typeof NAMES)[number], string>>>

/** A wrong byte somewhere; `at` is a share of the length, so that it survives shrinking of what it damages. */
export interface Edit {
  readonly op: 'flip' | 'insert' | 'delete' | 'double' | 'cut'
  readonly at: number
  readonly byte: number
}

export type Piece =
  | { readonly kind: 'json'; readonly value: unknown; readonly edits: readonly Edit[]; readonly end: boolean }
  | { readonly kind: 'bytes'; readonly base64: string }
  /** `count` times one byte; the sizes around a bound are found with it. */
  | { readonly kind: 'fill'; readonly byte: number; readonly count: number; readonly end: boolean }
  | { readonly kind: 'deep'; readonly open: '[' | '{"a":'; readonly depth: number; readonly closed: boolean }
  /** A valid request whose line has exactly so many bytes, newline excluded. */
  | { readonly kind: 'sized'; readonly value: Readonly<Record<string, unknown>>; readonly bytes: number }
  /** The same line many times in one write. */
  | { readonly kind: 'burst'; readonly value: unknown; readonly times: number }
  /** A frame of a data stream; the told lengths may be lies. */
  | {
      readonly kind: 'frame'
      readonly header: unknown
      readonly payload: string
      readonly headerLie: number
      readonly payloadLie: number
    }

export interface Connection {
  /**
   * daemon: the public socket; worker: the socket of the worker under fire, without a lease; leased: the lone worker's,
   * as its controller; attach and direct: behind a valid attach line, through the daemon and at the worker.
   */
  readonly to: 'daemon' | 'worker' | 'leased' | 'attach' | 'direct'
  readonly pieces: readonly Piece[]
  /** Bytes of one write; connections of a plan take turns. */
  readonly chunk: number
  /** Whether answers are read while it writes. */
  readonly reads: boolean
  /** answered: a last good request must be answered or the connection closed; close: half-closed; reset: gone at once. */
  readonly end: 'answered' | 'close' | 'reset'
}

export type Plan = readonly Connection[]

const deepest = (open: string, depth: number, closed: boolean): string =>
  open.repeat(depth) + (closed ? `1${(open === '[' ? ']' : '}').repeat(depth)}` : '')

const named = (value: unknown, names: Names): string =>
  JSON.stringify(value).replace(/@[a-z]+/g, (name) => names[name as keyof Names] ?? name)

/** The bytes of a piece. Pure. */
export function render(piece: Piece, names: Names): Buffer {
  switch (piece.kind) {
    case 'json':
      return Buffer.concat([edited(Buffer.from(named(piece.value, names)), piece.edits), lineEnd(piece.end)])
    case 'bytes':
      return Buffer.from(piece.base64, 'base64')
    case 'fill':
      return Buffer.concat([Buffer.alloc(piece.count, piece.byte), lineEnd(piece.end)])
    case 'deep':
      return Buffer.from(`${deepest(piece.open, piece.depth, piece.closed)}\n`)
    case 'sized': {
      const short = named(piece.value, names)
      const padding = Math.max(0, piece.bytes - Buffer.byteLength(short))
      return Buffer.from(`${short}${' '.repeat(padding)}\n`)
    }
    case 'burst':
      return Buffer.from(`${named(piece.value, names)}\n`.repeat(piece.times))
    case 'frame': {
      const header = Buffer.from(named(piece.header, names))
      const payload = Buffer.from(piece.payload, 'base64')
      const lengths = Buffer.alloc(8)
      lengths.writeUInt32BE((header.length + piece.headerLie) >>> 0, 0)
      lengths.writeUInt32BE((payload.length + piece.payloadLie) >>> 0, 4)
      return Buffer.concat([lengths.subarray(0, 4), header, lengths.subarray(4), payload])
    }
  }
}

const lineEnd = (end: boolean): Buffer => Buffer.from(end ? '\n' : '')

function edited(bytes: Buffer, edits: readonly Edit[]): Buffer {
  let now = bytes
  for (const { op, at, byte } of edits) {
    const place = Math.min(now.length, Math.floor(at * (now.length + 1)))
    const [head, tail] = [now.subarray(0, place), now.subarray(place)]
    if (op === 'flip') now = Buffer.concat([head, Buffer.from([(tail[0] ?? 0) ^ (byte | 1)]), tail.subarray(1)])
    else if (op === 'insert') now = Buffer.concat([head, Buffer.from([byte]), tail])
    else if (op === 'delete') now = Buffer.concat([head, tail.subarray(1 + (byte % 8))])
    else if (op === 'double') now = Buffer.concat([now, now])
    else now = head
  }
  return now
}
