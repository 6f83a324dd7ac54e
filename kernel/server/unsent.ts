/** Answers that clients have not taken yet, over all connections (server/limits.ts). */
import type { Clock } from '../clock.ts'
import type { Scope } from '../scope.ts'

export interface UnsentOptions {
  readonly maxBytes: number
  /** Above maxBytes, whoever took nothing for so long is given up, the oldest first. */
  readonly stallMs: number
  readonly clock: Pick<Clock, 'monotonic'>
  readonly scope: Scope
}

/** Owned by the connections of one server; its timer belongs to their scope. */
export class Unsent<T extends { destroy(): void }> {
  readonly #options: UnsentOptions
  /** In the order in which they began to wait. */
  readonly #held = new Map<T, { bytes: number; sinceMs: number }>()
  #bytes = 0
  #timer: Disposable | undefined
  #waiting: (() => void)[] = []

  constructor(options: UnsentOptions) {
    this.#options = options
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Bytes `of` has not taken; 0 when it took all or is gone. */
  set(of: T, bytes: number): void {
    this.#bytes += bytes - (this.#held.get(of)?.bytes ?? 0)
    this.#held.delete(of)
    if (bytes > 0) this.#held.set(of, { bytes, sinceMs: this.#options.clock.monotonic() })
    if (this.#isCrowded) this.#watch()
    else for (const go of this.#waiting.splice(0)) go()
  }

  /** Resolves when there is room; undefined when there is now. */
  room(): Promise<void> | undefined {
    return this.#isCrowded ? new Promise((resolve) => this.#waiting.push(resolve)) : undefined
  }

  get #isCrowded(): boolean {
    return this.#bytes > this.#options.maxBytes
  }

  #watch(): void {
    const { scope, stallMs } = this.#options
    const [oldest] = this.#held.values()
    if (this.#timer !== undefined || oldest === undefined || scope.closed) return
    const leftMs = oldest.sinceMs + stallMs - this.#options.clock.monotonic()
    this.#timer = scope.after(Math.max(leftMs, 1), 'unread answers', () => {
      this.#timer = undefined
      this.#relieve()
      if (this.#isCrowded) this.#watch()
    })
  }

  #relieve(): void {
    const { clock, stallMs } = this.#options
    for (const [it, { sinceMs }] of [...this.#held]) {
      if (!this.#isCrowded || clock.monotonic() - sinceMs < stallMs) return
      it.destroy()
      this.set(it, 0)
    }
  }
}
