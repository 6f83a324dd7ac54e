/** Who is told when something about a session may be different. */
import type { DetectionService } from '../detection/api.ts'
import type { SessionService } from '../sessions/api.ts'

/** Functions that look again, by the sessions they look at. */
export class Lookers {
  readonly #bySession = new Map<string, Set<() => void>>()

  /** Calls `look` at every `tell` of one of the sessions. Disposing the answer ends that. */
  add(sessionIds: readonly string[], look: () => void): Disposable {
    for (const id of sessionIds) {
      const found = this.#bySession.get(id) ?? new Set()
      this.#bySession.set(id, found.add(look))
    }
    return {
      [Symbol.dispose]: () => {
        for (const id of sessionIds) {
          const found = this.#bySession.get(id)
          found?.delete(look)
          if (found?.size === 0) this.#bySession.delete(id)
        }
      },
    }
  }

  tell(sessionId: string): void {
    for (const look of [...(this.#bySession.get(sessionId) ?? [])]) look()
  }
}

/** Wakes the calls of session.wait. Hooks cannot be un-tapped, so they are tapped once. */
export class Wakeups {
  readonly #sessions: SessionService
  readonly #lookers = new Lookers()

  constructor(sessions: SessionService, detection: DetectionService) {
    this.#sessions = sessions
    sessions.hooks.changed.tap('waits', (it) => this.#lookers.tell(it.id))
    sessions.hooks.removed.tap('waits', (it) => this.#lookers.tell(it.id))
    detection.hooks.changed.tap('waits', (it) => this.#lookers.tell(it.sessionId))
  }

  /** Calls `look` after every change of the session's fields, activity, terminal or worker. Throws session_not_found. */
  on(id: string, look: () => void): Disposable {
    const watch = this.#sessions.watch(id, look)
    const looker = this.#lookers.add([id], look)
    return {
      [Symbol.dispose]: () => {
        watch[Symbol.dispose]()
        looker[Symbol.dispose]()
      },
    }
  }
}

/**
 * Calls `look` now and at every wake-up until it answers something; `late` after `ms`. Rejects with what either throws,
 * or with the signal's reason. Nothing of it is left behind when it settles.
 */
export function until<T>(options: {
  readonly look: () => T | undefined
  readonly late: () => T
  readonly ms: number
  readonly after: (ms: number, run: () => void) => Disposable
  readonly wake: (look: () => void) => Disposable
  readonly signal: AbortSignal
}): Promise<T> {
  const { signal } = options
  return new Promise((resolve, reject) => {
    const held: Disposable[] = []
    let over = false
    const settle = (end: () => void): void => {
      if (over) return
      over = true
      for (const it of held) it[Symbol.dispose]()
      end()
    }
    const answer = (make: () => T | undefined): void => {
      try {
        const found = make()
        if (found !== undefined) settle(() => resolve(found))
      } catch (failure) {
        settle(() => reject(failure))
      }
    }
    const abort = (): void => settle(() => reject(signal.reason as Error))
    if (signal.aborted) return abort()
    signal.addEventListener('abort', abort, { once: true })
    held.push({ [Symbol.dispose]: () => signal.removeEventListener('abort', abort) })
    held.push(options.after(options.ms, () => answer(options.late)))
    held.push(options.wake(() => answer(options.look)))
    answer(options.look)
    // A look that answered before everything was registered has disposed of what was there by then.
    if (over) for (const it of held) it[Symbol.dispose]()
  })
}
