/** NDJSON framing, shared by the daemon, the workers and the clients. */
import { MAX_LINE_BYTES } from './limits.ts'

const NEWLINE = 10
const EMPTY = new Uint8Array(0)
// Smallest buffer allocated for a line that arrives in pieces; doubles from there.
const FIRST_BUFFER_BYTES = 4_096

/** The line being read is over the bound; nothing behind it can be framed any more. */
export class LineTooLong extends Error {
  readonly maxBytes: number
  constructor(maxBytes: number) {
    super(`a line is longer than ${maxBytes} bytes`)
    this.name = 'LineTooLong'
    this.maxBytes = maxBytes
  }
}

/**
 * Cuts a byte stream into lines without their newline.
 * Invariants
 *  1. A byte is copied a bounded number of times on average, whatever the sizes of the chunks.
 *  2. A line handed out is never overwritten: buffers grow by replacement and are not reused.
 *  3. Held memory is at most twice the unread bytes (and the first buffer); many tiny chunks do not cost more.
 *  4. `next` reads each byte once when it looks for a newline.
 */
export class LineSplitter {
  readonly #maxBytes: number
  #buffer: Uint8Array = EMPTY
  #start = 0
  #end = 0
  #scanned = 0

  constructor(maxBytes: number = MAX_LINE_BYTES) {
    this.#maxBytes = maxBytes
  }

  /** Bytes taken in and not handed out. */
  get pendingBytes(): number {
    return this.#end - this.#start
  }

  push(chunk: Uint8Array): void {
    if (chunk.length === 0) return
    if (this.#start === this.#end) {
      this.#buffer = chunk
      this.#start = this.#scanned = 0
      this.#end = chunk.length
      return
    }
    const held = this.pendingBytes
    if (this.#end + chunk.length > this.#buffer.length) {
      const grown = new Uint8Array(Math.max(FIRST_BUFFER_BYTES, 2 * held, held + chunk.length)) // 1, 2
      grown.set(this.#buffer.subarray(this.#start, this.#end))
      this.#scanned -= this.#start
      this.#buffer = grown
      this.#start = 0
      this.#end = held
    }
    this.#buffer.set(chunk, this.#end)
    this.#end += chunk.length
  }

  /** The next complete line, undefined until one is there. Throws LineTooLong. */
  next(): Uint8Array | undefined {
    const found = this.#buffer.subarray(0, this.#end).indexOf(NEWLINE, this.#scanned) // 4
    const length = (found === -1 ? this.#end : found) - this.#start
    if (length > this.#maxBytes) throw new LineTooLong(this.#maxBytes)
    if (found === -1) {
      this.#scanned = this.#end
      return undefined
    }
    const line = this.#buffer.subarray(this.#start, found)
    this.#start = this.#scanned = found + 1
    if (this.#start === this.#end) this.#clear()
    return line
  }

  /** Everything not handed out; the splitter is empty afterwards. */
  rest(): Uint8Array {
    const rest = this.#buffer.subarray(this.#start, this.#end)
    this.#clear()
    return rest
  }

  #clear(): void {
    this.#buffer = EMPTY
    this.#start = this.#end = this.#scanned = 0
  }
}
