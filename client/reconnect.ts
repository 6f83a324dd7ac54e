/**
 * What outlives a daemon. Streams and waits have a durable place (an output offset, a turn cursor, the inbox itself): when
 * the daemon goes they wait for the next one, for as long as the bounds say, and go on from there. Nobody here starts a
 * daemon: it may have been stopped on purpose.
 */
import type { Caller } from './caller.ts'
import { monotonicMs, pause } from './clock.ts'
import { ClientError } from './errors.ts'

/** Bounds of an interruption; the fields of attach.conf (contract/environment.md §2). */
export interface Reconnect {
  /** Bound of one interruption, milliseconds; 0 turns reconnecting off. */
  readonly windowMs: number
  /** Least time between two attempts. */
  readonly intervalMs: number
  /** Attempts that reached a daemon and did not bring back what was lost. */
  readonly maxAttempts: number
}

export const RECONNECT: Reconnect = { windowMs: 20_000, intervalMs: 500, maxAttempts: 3 }

/** What was back for so long starts the count of attempts anew. */
const STABLE_MS = 5_000
/** A restart takes less; what takes longer is told. */
const LONG_MS = 2_000

export interface LastingOptions {
  readonly signal?: AbortSignal | undefined
  /** Bounds of one interruption; `false` ends with the daemon. Default: 20 s, a try every 500 ms, 3 that fail. */
  readonly reconnect?: Partial<Reconnect> | false | undefined
  /** Told once of each interruption that takes longer than a restart. */
  readonly onAway?: ((failure: ClientError) => void) | undefined
}

/** One interruption so far. */
export interface Interruption {
  readonly sinceMs: number
  readonly attempts: number
}

/** Pure. Milliseconds until the next attempt, or that there is none. */
export function nextAttempt(bounds: Reconnect, now: Interruption): number | 'give_up' {
  if (now.sinceMs >= bounds.windowMs || now.attempts >= bounds.maxAttempts) return 'give_up'
  return bounds.intervalMs
}

interface Away {
  /** From the beginning of the interruption on. */
  readonly limitMs?: number | undefined
  readonly signal?: AbortSignal | undefined
  /** Called once when it takes longer than a restart. */
  readonly onLong?: (() => void) | undefined
}

/** The interruptions of one stream or wait, one after the other. */
export class Interruptions {
  readonly #bounds: Reconnect
  #startMs = 0
  #attempts = 0
  #backMs: number | undefined

  constructor(bounds: Reconnect) {
    this.#bounds = bounds
  }

  /** At least one is over. */
  get any(): boolean {
    return this.#backMs !== undefined
  }

  /** It was lost; how long it had been there decides whether this is the old trouble or a new one. */
  begin(): void {
    const now = monotonicMs()
    if (this.#backMs === undefined || now - this.#backMs >= STABLE_MS) this.#attempts = 0
    this.#startMs = now
  }

  /** Pauses and tries until `reach` answers true; false when the bounds are over or the signal aborted. */
  async daemonBack(reach: () => Promise<boolean>, { limitMs = Infinity, signal, onLong }: Away = {}): Promise<boolean> {
    const bounds = { ...this.#bounds, windowMs: Math.min(this.#bounds.windowMs, limitMs) }
    let told = false
    for (;;) {
      const sinceMs = monotonicMs() - this.#startMs
      const wait = nextAttempt(bounds, { sinceMs, attempts: this.#attempts })
      if (wait === 'give_up') return false
      if (!told && sinceMs >= LONG_MS) {
        told = true
        onLong?.()
      }
      await pause(Math.min(wait, bounds.windowMs - sinceMs), signal)
      if (signal?.aborted === true) return false
      if (await reach()) {
        this.#attempts++
        this.#backMs = monotonicMs()
        return true
      }
    }
  }
}

/** A daemon that came back may not have reached every worker yet. */
const NOT_YET = 'session_runtime_reconnecting'

/** Pure. The daemon went, is about to, or is not there. */
export const isGone = (failure: unknown): failure is ClientError =>
  failure instanceof ClientError && ['framing', 'daemon_shutting_down', 'daemon_unreachable'].includes(failure.code)

/** How one stream or wait of a client outlives its daemons. */
export class Lasting {
  readonly #client: Pick<Caller, 'call'>
  readonly #options: LastingOptions
  readonly #interruptions: Interruptions
  #answered = false

  constructor(client: Pick<Caller, 'call'>, options: LastingOptions) {
    this.#client = client
    this.#options = options
    const { reconnect } = options
    this.#interruptions = new Interruptions(
      reconnect === false ? { ...RECONNECT, windowMs: 0 } : { ...RECONNECT, ...reconnect },
    )
  }

  /** Runs `act` until a daemon answered it. `left`: how long the whole may still wait. Throws as `act` and `back` do. */
  async run<T>(
    act: () => Promise<T>,
    { left, place }: { left?: (() => number) | undefined; place?: (() => string) | undefined } = {},
  ): Promise<T> {
    for (;;) {
      try {
        const answer = await act()
        this.#answered = true
        return answer
      } catch (failure) {
        await this.back(failure, { limitMs: left?.(), place })
      }
    }
  }

  /**
   * Resolves once a daemon answers after `failure`. Throws `failure` when it is no loss of the daemon or the signal
   * aborted, and the last failure when the daemon stays away: with `place`, where to go on from.
   */
  async back(
    failure: unknown,
    { limitMs, place }: { limitMs?: number | undefined; place?: (() => string) | undefined } = {},
  ): Promise<void> {
    const { signal, onAway } = this.#options
    if (signal?.aborted === true || !this.#isLoss(failure)) throw failure
    let last: ClientError = failure
    const reach = async (): Promise<boolean> => {
      try {
        await this.#client.call('daemon.health', null, { signal })
        return true
      } catch (problem) {
        if (!(problem instanceof ClientError)) throw problem
        last = problem
        return false
      }
    }
    this.#interruptions.begin()
    const isBack = await this.#interruptions.daemonBack(reach, { limitMs, signal, onLong: () => onAway?.(last) })
    if (isBack) return
    throw place === undefined ? last : new ClientError({ ...last.toBody(), recover: place() }, last)
  }

  /** Where no daemon answered yet there is nothing to go on with. */
  #isLoss(failure: unknown): failure is ClientError {
    const back = this.#interruptions.any
    if (isGone(failure)) return failure.code !== 'daemon_unreachable' || this.#answered || back
    return failure instanceof ClientError && failure.code === NOT_YET && back
  }
}
