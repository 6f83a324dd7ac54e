/** Work nobody waits for: its failure is logged, and a daemon that stops lets it finish. */
import type { Log } from '../../kernel/log.ts'

export class Work {
  readonly #log: Log
  readonly #running = new Set<Promise<void>>()

  constructor(log: Log) {
    this.#log = log
  }

  /** `failed` is what the log says when it rejects. */
  run(failed: string, work: Promise<unknown>, facts: Readonly<Record<string, unknown>> = {}): void {
    const done: Promise<void> = work
      .then(
        () => undefined,
        (failure: unknown) => this.#log.error({ ...facts, err: failure }, failed),
      )
      .finally(() => this.#running.delete(done))
    this.#running.add(done)
  }

  /** Resolves when nothing runs any more, what comes of running work included. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running)
  }
}
