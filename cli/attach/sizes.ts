/** Tells a session the terminal's size: at most one request at a time, the last size wins. */
import { after } from '../../client/clock.ts'
import type { Size } from './terminal.ts'

/** A size that could not be told (the daemon is away) is tried again. */
const RETRY_MS = 1_000

export class SizeTeller implements Disposable {
  readonly #tell: (size: Size) => Promise<unknown>
  #wanted: Size | undefined
  #busy = false
  #closed = false
  #retry: Disposable | undefined

  constructor(tell: (size: Size) => Promise<unknown>) {
    this.#tell = tell
  }

  set(size: Size): void {
    this.#wanted = size
    if (!this.#busy) void this.#run()
  }

  [Symbol.dispose](): void {
    this.#closed = true
    this.#retry?.[Symbol.dispose]()
  }

  async #run(): Promise<void> {
    this.#busy = true
    while (this.#wanted !== undefined && !this.#closed) {
      const size = this.#wanted
      try {
        await this.#tell(size)
        if (this.#wanted === size) this.#wanted = undefined
      } catch {
        await new Promise<void>((resolve) => (this.#retry = after(RETRY_MS, resolve)))
      }
    }
    this.#busy = false
  }
}
