/**
 * Writes that must not be lost because the disk refused them: tried again until it takes them, or the daemon ends.
 * A later write of the same key takes the place of an earlier one, which is not tried again.
 */
import type { Log } from '../../kernel/log.ts'
import type { Scope } from '../../kernel/scope.ts'
import { messageOf } from '../../protocol/fault.ts'

/** Pause between two tries. */
export const RETRY_MS = 2_000
/** Refused writes kept at once; over it the oldest is given up. */
const MAX_KEPT = 4_096

interface Kept {
  readonly write: () => Promise<unknown>
  refused: boolean
}

export class Retries {
  readonly #log: Log
  readonly #scope: Scope
  /** Oldest first. */
  readonly #writes = new Map<string, Kept>()
  #timer: Disposable | undefined
  #running: Promise<void> | undefined

  constructor(log: Log, scope: Scope) {
    this.#log = log
    this.#scope = scope
  }

  /** Refused writes that wait. */
  get size(): number {
    return [...this.#writes.values()].filter((it) => it.refused).length
  }

  /** Writes now, or as soon as the disk takes it. True when it is durable now. Never rejects. */
  async write(key: string, write: () => Promise<unknown>): Promise<boolean> {
    const mine: Kept = { write, refused: false }
    this.#writes.delete(key)
    this.#writes.set(key, mine)
    try {
      await write()
      if (this.#writes.get(key) === mine) this.#writes.delete(key)
      return true
    } catch (failure) {
      if (this.#writes.get(key) === mine) {
        mine.refused = true
        this.#log.error({ key, problem: messageOf(failure) }, 'could not be stored; it is kept and tried again')
        this.#bound()
        this.#arm()
      }
      return false
    }
  }

  /** One more try of everything, as before the daemon ends. */
  async flush(): Promise<void> {
    await this.#running
    await this.#again()
  }

  #arm(): void {
    if (this.#timer !== undefined || this.#scope.closed) return
    this.#timer = this.#scope.after(RETRY_MS, 'retry', () => {
      this.#timer = undefined
      this.#running = this.#again().finally(() => {
        this.#running = undefined
        if (this.size > 0) this.#arm()
      })
    })
  }

  async #again(): Promise<void> {
    for (const [key, kept] of [...this.#writes]) {
      if (!kept.refused || this.#writes.get(key) !== kept) continue
      try {
        await kept.write()
      } catch {
        return // the disk is as it was; the log of the store says so
      }
      if (this.#writes.get(key) === kept) this.#writes.delete(key)
    }
  }

  #bound(): void {
    if (this.size <= MAX_KEPT) return
    const oldest = [...this.#writes].find(([, it]) => it.refused)?.[0]
    if (oldest === undefined) return
    this.#writes.delete(oldest)
    this.#log.error({ key: oldest }, 'too much waits for the disk; the oldest is given up')
  }
}
