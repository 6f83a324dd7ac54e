/** Applies the time-to-live of the policy at start and then every sweep interval. */
import type { Clock } from '../../kernel/clock.ts'
import type { Log } from '../../kernel/log.ts'
import type { Scope } from '../../kernel/scope.ts'
import type { Inbox } from './inbox.ts'
import type { PolicyFile } from './policy.ts'
import { isExpired } from './retention.ts'
import type { Work } from './work.ts'

export class Sweeper {
  readonly #inbox: Inbox
  readonly #policy: PolicyFile
  readonly #clock: Clock
  readonly #scope: Scope
  readonly #log: Log
  readonly #work: Work
  #timer: Disposable | undefined
  #lastAt = 0

  constructor(inbox: Inbox, policy: PolicyFile, clock: Clock, scope: Scope, log: Log, work: Work) {
    this.#inbox = inbox
    this.#policy = policy
    this.#clock = clock
    this.#scope = scope
    this.#log = log
    this.#work = work
  }

  start(): void {
    this.#lastAt = this.#clock.monotonic()
    this.#work.run('old notifications could not be deleted', this.#sweep())
    this.arm()
  }

  /** Again after the policy changed. */
  arm(): void {
    this.#timer?.[Symbol.dispose]()
    const dueIn = this.#lastAt + this.#policy.now.retention.sweep_interval_secs * 1_000 - this.#clock.monotonic()
    // The longest timers fire early: what is not due is awaited again.
    this.#timer = this.#scope.after(Math.max(0, dueIn), 'sweep', () =>
      this.#clock.monotonic() < this.#lastAt + this.#policy.now.retention.sweep_interval_secs * 1_000
        ? this.arm()
        : this.start(),
    )
  }

  async #sweep(): Promise<void> {
    const { retention } = this.#policy.now
    const now = this.#clock.now()
    const expired = [...this.#inbox.values()].filter((it) => isExpired(it, retention, now))
    await this.#inbox.delete(expired)
    await this.#inbox.forgetOld()
    if (expired.length > 0) this.#log.info({ deleted: expired.length }, 'old notifications are deleted')
  }
}
