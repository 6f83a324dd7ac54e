/**
 * The session's output history: the newest `capacity` bytes, addressed by offsets that only grow (first byte is 0).
 * Invariants
 *  1. `end - start <= capacity`, and every offset in [start, end) is readable.
 *  2. Memory follows the content: blocks are allocated when bytes arrive, not up front.
 *  3. A block handed out by `view` and still needed (`pin`) is never overwritten; it is replaced instead.
 */
const BLOCK_BYTES = 65_536
/** A new session rarely prints more than a screen: the first block grows from here. */
const FIRST_BLOCK_BYTES = 8_192
/** Below this the terminal and the clients, which read from the ring, could not keep up with one burst of reads. */
const MIN_CAPACITY_BYTES = 65_536

export class OutputRing {
  readonly capacity: number
  readonly #blocks: Buffer[] = []
  /** Offset of the first byte of `#blocks[0]`. */
  #base = 0
  #start = 0
  #end = 0

  constructor(capacity: number) {
    this.capacity = Math.max(MIN_CAPACITY_BYTES, capacity)
  }

  /** First offset still kept. */
  get start(): number {
    return this.#start
  }
  /** Offset of the next byte. */
  get end(): number {
    return this.#end
  }

  /** Copies `bytes` in. `pinnedFrom`: lowest offset some writer still points into (3); Infinity when none does. */
  append(bytes: Uint8Array, pinnedFrom = Infinity): void {
    let taken = 0
    while (taken < bytes.length) {
      const within = (this.#end - this.#base) % BLOCK_BYTES
      const index = Math.floor((this.#end - this.#base) / BLOCK_BYTES)
      const block = this.#blockFor(index, within, bytes.length - taken, pinnedFrom)
      const room = Math.min(BLOCK_BYTES - within, bytes.length - taken)
      block.set(taken === 0 && room === bytes.length ? bytes : bytes.subarray(taken, taken + room), within)
      taken += room
      this.#end += room
    }
    if (this.#end - this.#start > this.capacity) this.#start = this.#end - this.capacity
  }

  #blockFor(index: number, within: number, wanted: number, pinnedFrom: number): Buffer {
    const block = this.#blocks[index]
    if (block !== undefined && (block.length === BLOCK_BYTES || within + wanted <= block.length)) return block
    if (block !== undefined) {
      // Only the very first block is ever short.
      const grown = Buffer.allocUnsafeSlow(Math.min(BLOCK_BYTES, Math.max(within + wanted, block.length * 4)))
      block.copy(grown, 0, 0, within)
      return (this.#blocks[index] = grown)
    }
    const oldest = this.#blocks[0]
    let fresh: Buffer | undefined
    // Give the oldest block up once the whole of it is out of reach.
    if (oldest !== undefined && this.#base + BLOCK_BYTES <= this.#end - this.capacity) {
      this.#blocks.shift()
      this.#base += BLOCK_BYTES
      if (pinnedFrom >= this.#base && oldest.length === BLOCK_BYTES) fresh = oldest // 3
    }
    fresh ??= Buffer.allocUnsafeSlow(
      this.#base === 0 && index === 0 ? Math.min(BLOCK_BYTES, Math.max(FIRST_BLOCK_BYTES, wanted)) : BLOCK_BYTES,
    )
    this.#blocks.push(fresh)
    return fresh
  }

  /** Bytes from `offset` without a copy: as many as lie together, at most `max`. Empty when there are none. */
  view(offset: number, max: number): Buffer {
    if (offset < this.#start || offset >= this.#end) return Buffer.alloc(0)
    const at = offset - this.#base
    const block = this.#blocks[Math.floor(at / BLOCK_BYTES)]
    if (block === undefined) return Buffer.alloc(0)
    const within = at % BLOCK_BYTES
    return block.subarray(within, within + Math.min(max, BLOCK_BYTES - within, this.#end - offset))
  }

  /** Bytes right before `to` without a copy: as many as lie together, not before `from`. Empty when there are none. */
  viewBack(from: number, to: number): Buffer {
    const within = (to - 1 - this.#base) % BLOCK_BYTES
    const low = Math.max(from, to - 1 - within)
    return this.view(low, to - low)
  }

  /** A copy of [from, to), cut to what is kept. */
  copy(from: number, to: number): Buffer {
    const first = Math.max(from, this.#start)
    const last = Math.min(to, this.#end)
    const out = Buffer.allocUnsafeSlow(Math.max(0, last - first))
    for (let at = first; at < last;) {
      const part = this.view(at, last - at)
      part.copy(out, at - first)
      at += part.length
    }
    return out
  }

  /** Offset of the last occurrence of `pattern` that lies wholly in [from, to), or -1. */
  lastIndexOf(pattern: Uint8Array, from: number, to: number): number {
    const overlap = pattern.length - 1
    let high = Math.min(to, this.#end)
    const floor = Math.max(from, this.#start)
    while (high > floor) {
      // One block at a time, from behind; the overlap finds a pattern that lies across two blocks.
      const blockStart = this.#base + Math.floor((high - 1 - this.#base) / BLOCK_BYTES) * BLOCK_BYTES
      const low = Math.max(floor, blockStart)
      const reach = Math.min(high + overlap, Math.min(to, this.#end))
      const part = reach > blockStart + BLOCK_BYTES ? this.copy(low, reach) : this.view(low, reach - low)
      const at = part.lastIndexOf(pattern)
      if (at !== -1) return low + at
      high = low
    }
    return -1
  }
}
