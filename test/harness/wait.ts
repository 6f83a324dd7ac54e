/** Waiting for a fact with a deadline: the only kind of waiting tests do. */
import { delay, systemClock } from '../../kernel/clock.ts'

export const DEADLINE_MS = 10_000
const POLL_MS = 10

export interface WaitOptions {
  readonly deadlineMs?: number
  readonly pollMs?: number
  /** Printed when the deadline passes: the screen, a log, a list of processes. */
  readonly show?: () => unknown
}

/**
 * Asks `probe` until it answers something other than undefined, null or false, and answers that. A throwing probe counts
 * as "not yet"; its last error is the cause when the deadline passes.
 */
export async function until<T>(
  what: string,
  probe: () => T | Promise<T>,
  options: WaitOptions = {},
): Promise<Exclude<T, undefined | null | false>> {
  const deadlineMs = options.deadlineMs ?? DEADLINE_MS
  const end = systemClock.monotonic() + deadlineMs
  let failure: unknown
  for (;;) {
    try {
      const answer = await probe()
      failure = undefined
      if (answer !== undefined && answer !== null && answer !== false)
        return answer as Exclude<T, undefined | null | false>
    } catch (problem) {
      failure = problem
    }
    if (systemClock.monotonic() >= end) break
    await delay(systemClock, options.pollMs ?? POLL_MS)
  }
  const shown = options.show?.()
  const detail = shown === undefined ? '' : `\n${typeof shown === 'string' ? shown : JSON.stringify(shown, null, 2)}`
  const last = failure instanceof Error ? `; last failure: ${failure.message}` : ''
  throw new Error(`not within ${deadlineMs} ms: ${what}${last}${detail}`, { cause: failure })
}

/** Rejects when `promise` is not settled within the deadline. */
export async function within<T>(
  what: string,
  promise: Promise<T>,
  deadlineMs = DEADLINE_MS,
  show?: () => string | undefined,
): Promise<T> {
  let timer: Disposable | undefined
  const late = new Promise<never>((_, reject) => {
    timer = systemClock.after(deadlineMs, () => {
      const shown = show?.()
      reject(new Error(`not within ${deadlineMs} ms: ${what}${shown === undefined ? '' : `\n${shown}`}`))
    })
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    timer?.[Symbol.dispose]()
  }
}

/** Observes for `ms` that `holds` never becomes false: for "nothing happens" claims, which have no fact to wait for. */
export async function stays(what: string, ms: number, holds: () => boolean | Promise<boolean>): Promise<void> {
  const end = systemClock.monotonic() + ms
  while (systemClock.monotonic() < end) {
    if (!(await holds())) throw new Error(`did not hold for ${ms} ms: ${what}`)
    await delay(systemClock, 25)
  }
}

export const monotonicMs = (): number => systemClock.monotonic()
export const pause = (ms: number): Promise<void> => delay(systemClock, ms)
