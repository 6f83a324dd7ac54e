/** Keeps the heap of a process that lives for days near what it holds. */
import { performance, PerformanceObserver } from 'node:perf_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Clock } from '../kernel/clock.ts'

/** So long after the last collection V8 needed, the process rests. */
const REST_MS = 5_000
/** Collections, most of them of new objects, that leave enough behind to be worth one of everything, some 10 ms. */
const WORTH = 4

/**
 * Call it after the load: V8 flags set before it make V8 refuse the code cache, and on a command line they cost Node its
 * own one.
 */
export function keepHeapSmall(): void {
  // New objects keep the space they start with; by default a burst makes it 16 MB, twice, for good.
  setFlagsFromString('--semi-space-growth-factor=1')
  // Old ones are collected when they are a fifth more than after the last time; by default twice to four times as many.
  setFlagsFromString('--heap-growing-percent=20')
}

/** `collectAtRest` for the life of this process. */
export function collectWhenResting(clock: Clock): void {
  collectAtRest({ clock, restMs: REST_MS, worth: WORTH, collect: collectAll })
}

export interface RestOptions {
  readonly clock: Clock
  readonly restMs: number
  readonly worth: number
  /** Collects everything, synchronously. */
  readonly collect: () => void
}

/**
 * Calls `collect` once when V8 collected `worth` times or more since then, and not for `restMs`: what work left behind
 * would stay as long as nobody works. A process that rests has no timer.
 */
export function collectAtRest({ clock, restMs, worth, collect }: RestOptions): Disposable {
  let since = 0
  let lastAt = 0
  let collectedAt = 0
  let timer: Disposable | undefined
  const look = (): void => {
    timer = undefined
    const left = lastAt + restMs - clock.monotonic()
    if (left > 0) timer = clock.after(left, look)
    else if (since >= worth) {
      collect()
      since = 0
      collectedAt = performance.now()
    }
  }
  const observer = new PerformanceObserver((list) => {
    // Told late: those of our own collection must not be taken for work.
    const seen = list.getEntries().filter((it) => it.startTime > collectedAt).length
    if (seen === 0) return
    since += seen
    lastAt = clock.monotonic()
    timer ??= clock.after(restMs, look)
  })
  observer.observe({ entryTypes: ['gc'] })
  return {
    [Symbol.dispose]: () => {
      observer.disconnect()
      timer?.[Symbol.dispose]()
    },
  }
}

/**
 * The function is there in a context made under the flag; a context that stays would cost more than it is worth. What is
 * left is moved together: pages that hold little are not given back otherwise.
 */
function collectAll(): void {
  setFlagsFromString('--expose-gc')
  setFlagsFromString('--compact-on-every-full-gc')
  ;(runInNewContext('gc') as () => void)()
  setFlagsFromString('--no-compact-on-every-full-gc')
}
