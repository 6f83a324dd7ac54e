import { setMaxListeners } from 'node:events'

/**
 * Aborts as the first of `signals` does, until it is disposed of. AbortSignal.any leaves something behind in a
 * long-lived signal for each use: a daemon would grow with every start of a worker.
 */
export function firstOf(...signals: readonly AbortSignal[]): Disposable & { readonly signal: AbortSignal } {
  const own = new AbortController()
  const ends = signals.map((signal) => {
    const abort = (): void => own.abort(signal.reason)
    if (signal.aborted) abort()
    setMaxListeners(0, signal) // many uses at once are no leak
    signal.addEventListener('abort', abort, { once: true })
    return () => signal.removeEventListener('abort', abort)
  })
  return {
    signal: own.signal,
    [Symbol.dispose]: () => {
      for (const end of ends) end()
    },
  }
}

/** As `work`, but no longer than until the signal aborts: then rejects with its reason. The work itself goes on. */
export function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason as Error)
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}
