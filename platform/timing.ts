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
