import { systemClock, type Clock } from './clock.ts'

type Release = () => unknown

/**
 * Owner of everything that must be undone: listeners, timers, sockets, child processes, child scopes.
 * Invariants
 *  1. Released exactly once, newest first.
 *  2. One failing release never skips the others; all failures surface together.
 *  3. `signal` aborts before the first release runs, so work in flight stops before its resources go.
 *  4. Nothing outlives its scope: a resource offered after close is released on the spot, and that is a fault.
 */
export class Scope implements AsyncDisposable {
  readonly label: string
  readonly #clock: Clock
  readonly #abort = new AbortController()
  readonly #held = new Map<symbol, { label: string; release: Release }>()
  #closing: Promise<void> | undefined

  constructor(label: string, clock: Clock = systemClock) {
    this.label = label
    this.#clock = clock
  }

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  get closed(): boolean {
    return this.#closing !== undefined
  }

  /** Labels of what is held now, newest last; for tests and `doctor`. */
  get live(): readonly string[] {
    return [...this.#held.values()].map((it) => `${this.label}/${it.label}`)
  }

  own<T extends Disposable | AsyncDisposable>(label: string, it: T): T {
    this.defer(label, () => (Symbol.asyncDispose in it ? it[Symbol.asyncDispose]() : it[Symbol.dispose]()))
    return it
  }

  /** Runs `release` at close; disposing the answer runs it now instead. */
  defer(label: string, release: Release): Disposable {
    if (this.#closing) {
      void release() // 4
      throw new Error(`${this.label} is closed; ${label} was released at once`)
    }
    const key = Symbol(label)
    this.#held.set(key, { label, release })
    return {
      [Symbol.dispose]: () => {
        if (this.#held.delete(key)) void release() // 1
      },
    }
  }

  /** A shorter life inside this one; closing it early leaves no trace here. */
  child(label: string): Scope {
    const child = new Scope(`${this.label}/${label}`, this.#clock)
    const key = Symbol(label)
    if (this.#closing) throw new Error(`${this.label} is closed; no child ${label}`)
    this.#held.set(key, { label, release: () => child.close() })
    child.#onClosed = () => void this.#held.delete(key)
    return child
  }
  #onClosed: (() => void) | undefined

  /** The only way to get a timer. `run` is not called after the scope closed. */
  after(ms: number, label: string, run: () => void): Disposable {
    const key = Symbol(label)
    if (this.#closing) throw new Error(`${this.label} is closed; no timer ${label}`)
    const timer = this.#clock.after(ms, () => {
      this.#held.delete(key)
      run()
    })
    const cancel = (): void => {
      this.#held.delete(key)
      timer[Symbol.dispose]()
    }
    this.#held.set(key, { label, release: cancel })
    return { [Symbol.dispose]: cancel }
  }

  close(): Promise<void> {
    if (this.#closing === undefined) {
      let start = (): void => undefined
      // Known as closing before the first release runs: what that calls back must not start a second one (1).
      this.#closing = new Promise((resolve, reject) => {
        start = () => void this.#release().then(resolve, reject)
      })
      start()
    }
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #release(): Promise<void> {
    this.#abort.abort(new Error(`${this.label} closed`)) // 3
    const failures: unknown[] = []
    for (const { release } of [...this.#held.values()].reverse()) {
      try {
        await release()
      } catch (failure) {
        failures.push(failure) // 2
      }
    }
    this.#held.clear()
    this.#onClosed?.()
    if (failures.length > 0) throw new AggregateError(failures, `${this.label}: ${failures.length} releases failed`)
  }
}
