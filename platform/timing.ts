/** The part of the kernel's clock this layer needs; `Clock` of kernel/clock.ts has this shape. */
export interface Timing {
  /** Monotonic milliseconds. */
  monotonic(): number
  /** Runs `run` once after `ms`. */
  after(ms: number, run: () => void): Disposable
}

/** Asks `holds` again and again, the pauses doubling from 1 to 50 ms. True once it holds, false after `deadlineMs`. */
export async function pollUntil(timing: Timing, deadlineMs: number, holds: () => boolean): Promise<boolean> {
  const end = timing.monotonic() + deadlineMs
  for (let pauseMs = 1; !holds(); pauseMs = Math.min(pauseMs * 2, 50)) {
    const left = end - timing.monotonic()
    if (left <= 0) return false
    await new Promise<void>((resolve) => timing.after(Math.min(pauseMs, left), resolve))
  }
  return true
}
