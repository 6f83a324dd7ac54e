/**
 * The event bus: one publisher side, many subscriptions. Events tell that something happened; they never drive control
 * flow inside the daemon: a plugin that needs another calls its service or taps its hook.
 */
export interface WireEvent {
  readonly event: string
  readonly payload: Readonly<Record<string, unknown>>
  /** First protocol version that knows the event; older subscribers are not sent it. */
  readonly since: number
}

export interface EventBus {
  publish(event: WireEvent): void
  /** Calls `take` for each event published from now on, synchronously and in order. */
  subscribe(take: (event: WireEvent) => void): Disposable
}

/** `report` hears about a subscriber that threw; the others still get the event. */
export function eventBus(report: (failure: unknown, event: WireEvent) => void): EventBus {
  const takers = new Set<(event: WireEvent) => void>()
  return {
    publish(event) {
      for (const take of [...takers]) {
        try {
          take(event)
        } catch (failure) {
          report(failure, event)
        }
      }
    },
    subscribe(take) {
      takers.add(take)
      return { [Symbol.dispose]: () => void takers.delete(take) }
    },
  }
}
