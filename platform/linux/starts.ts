import { firstOf } from '../signals.ts'

/** The starts a supervisor has in flight: closing gives them up and waits until none is left. */
export class Starts implements AsyncDisposable {
  readonly #closing = new AbortController()
  readonly #running = new Set<Promise<unknown>>()

  /**
   * Runs `start` under a signal that aborts with `signal` or when this closes. Rejects with the reason when either has
   * aborted already, and with what `start` throws.
   */
  async run<T>(signal: AbortSignal, start: (signal: AbortSignal) => Promise<T>): Promise<T> {
    using either = firstOf(signal, this.#closing.signal)
    either.signal.throwIfAborted()
    const running = start(either.signal)
    this.#running.add(running)
    try {
      return await running
    } finally {
      this.#running.delete(running)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error('the supervisor closed'))
    await Promise.allSettled(this.#running)
  }
}
