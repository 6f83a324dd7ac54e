/** Timers of client programs: unlike the daemon's they keep the process alive, since a client waits for nothing else. */

/** Runs `run` once after `ms`. */
export function after(ms: number, run: () => void): Disposable {
  // eslint-disable-next-line no-restricted-globals -- a client may not import the kernel's clock; this is the only place
  const timer = setTimeout(run, ms)
  return { [Symbol.dispose]: () => clearTimeout(timer) }
}

/** Resolves after `ms`, earlier when the signal aborts. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const end = (): void => {
      timer[Symbol.dispose]()
      signal?.removeEventListener('abort', end)
      resolve()
    }
    const timer = after(ms, end)
    signal?.addEventListener('abort', end, { once: true })
  })
}

/** Monotonic milliseconds. `performance` would load a module that a short command does not need. */
export function monotonicMs(): number {
  const [seconds, nanoseconds] = process.hrtime()
  return seconds * 1000 + nanoseconds / 1_000_000
}
