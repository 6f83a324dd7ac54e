export { delay } from '../platform/timing.ts'

/** Time as a dependency. `setTimeout` and `setInterval` are used nowhere else. */
export interface Clock {
  /** Wall time, milliseconds since the epoch: for stamps people read, never for deadlines. */
  now(): number
  /**
   * Monotonic milliseconds: for deadlines and ages; a suspended machine or a set clock does not move it back. Processes
   * of one boot share it, so a worker's stamps can be compared with the daemon's.
   */
  monotonic(): number
  /** Runs `run` once after `ms`. Does not keep the process alive. */
  after(ms: number, run: () => void): Disposable
}

// Longest delay setTimeout takes; a longer one would fire at once.
const MAX_DELAY_MS = 2_147_483_647

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => {
    const [seconds, nanoseconds] = process.hrtime()
    return seconds * 1_000 + nanoseconds / 1e6
  },
  after(ms, run) {
    const timer = setTimeout(run, Math.min(Math.max(0, ms), MAX_DELAY_MS))
    timer.unref()
    return { [Symbol.dispose]: () => clearTimeout(timer) }
  },
}

export interface ManualClock extends Clock {
  /** Moves time and runs what became due, in order. */
  advance(ms: number): void
  /** Shifts wall time alone, as an administrator or a suspended machine does. */
  shiftWall(ms: number): void
}

/** A clock that moves when told, for tests. */
export function manualClock(start = 1_700_000_000_000): ManualClock {
  let elapsed = 0
  let shift = 0
  let order = 0
  const due = new Map<number, { at: number; run: () => void }>()
  return {
    now: () => start + elapsed + shift,
    monotonic: () => elapsed,
    after(ms, run) {
      const id = order++
      due.set(id, { at: elapsed + ms, run })
      return { [Symbol.dispose]: () => void due.delete(id) }
    },
    advance(ms) {
      const until = elapsed + ms
      for (;;) {
        const next = [...due].filter(([, it]) => it.at <= until).sort((a, b) => a[1].at - b[1].at || a[0] - b[0])[0]
        if (next === undefined) break
        due.delete(next[0])
        elapsed = Math.max(elapsed, next[1].at)
        next[1].run()
      }
      elapsed = until
    },
    shiftWall(ms) {
      shift += ms
    },
  }
}
