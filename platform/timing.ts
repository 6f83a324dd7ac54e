/** The part of the kernel's clock this layer needs; `Clock` of kernel/clock.ts has this shape. */
export interface Timing {
  /** Monotonic milliseconds. */
  monotonic(): number
  /** Runs `run` once after `ms`. */
  after(ms: number, run: () => void): Disposable
}

/**
 * Asks `holds` again and again, the pauses doubling from 1 to 50 ms. True once it holds, false after `deadlineMs`.
 * Rejects with the signal's reason when it aborts first, and with whatever `holds` throws.
 */
export async function pollUntil(
  timing: Timing,
  deadlineMs: number,
  holds: () => boolean | Promise<boolean>,
  signal?: AbortSignal,
): Promise<boolean> {
  const end = timing.monotonic() + deadlineMs
  for (let pauseMs = 1; !(await holds()); pauseMs = Math.min(pauseMs * 2, 50)) {
    const left = end - timing.monotonic()
    if (left <= 0) return false
    await delay(timing, Math.min(pauseMs, left), signal)
  }
  return true
}

/** Resolves after `ms`, rejects with the signal's reason when it aborts first. */
export function delay(timing: Timing, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason as Error)
    const timer = timing.after(ms, () => {
      signal?.removeEventListener('abort', abort)
      resolve()
    })
    const abort = (): void => {
      timer[Symbol.dispose]()
      reject(signal?.reason as Error)
    }
    signal?.addEventListener('abort', abort, { once: true })
  })
}

/**
 * As `work`, or what `late` answers or throws after `ms`. Rejects with the signal's reason when it aborts first. The work
 * itself goes on; of this nothing is left once it settles.
 */
export function within<T>(
  timing: Timing,
  ms: number,
  work: Promise<T>,
  late: () => T,
  signal?: AbortSignal,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const settle = (end: () => void): void => {
      timer[Symbol.dispose]()
      signal?.removeEventListener('abort', abort)
      end()
    }
    const abort = (): void => settle(() => reject(signal?.reason as Error))
    const timer = timing.after(ms, () =>
      settle(() => {
        try {
          resolve(late())
        } catch (failure) {
          reject(failure)
        }
      }),
    )
    work.then(
      (value) => settle(() => resolve(value)),
      (failure: unknown) => settle(() => reject(failure)),
    )
    if (signal?.aborted) abort()
    else signal?.addEventListener('abort', abort, { once: true })
  })
}
