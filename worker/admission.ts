/** What all connections to one worker may take together. */

/** A controller, its attached clients and readers stay far below; a flood beyond is closed unread. */
const MAX_CONNECTIONS = 128
/** Lines still without an end, of all connections together; four of the longest. */
const MAX_UNFINISHED_BYTES = 4_194_304

export class Admission {
  #connections = 0
  #unfinishedBytes = 0

  /** False when there are too many. Every true one is paid back with `left`. */
  enter(): boolean {
    if (this.#connections >= MAX_CONNECTIONS) return false
    this.#connections++
    return true
  }

  left(): void {
    this.#connections--
  }

  /** False, and nothing is taken, when too many bytes wait for the end of their line. */
  hold(bytes: number): boolean {
    if (this.#unfinishedBytes + bytes > MAX_UNFINISHED_BYTES) return false
    this.#unfinishedBytes += bytes
    return true
  }

  release(bytes: number): void {
    this.#unfinishedBytes -= bytes
  }
}
