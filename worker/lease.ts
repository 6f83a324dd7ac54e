/**
 * Who controls the worker.
 * Invariants
 *  1. At most one lease; it ends with its connection or by release, never by somebody else's request.
 *  2. Events go to the lease holder only, numbered from 1 per lease.
 */
import type { Capability, WorkerEvent } from '../protocol/worker/messages.ts'
import { randomHex } from './random.ts'

type EventBody = WorkerEvent extends infer E ? (E extends unknown ? Omit<E, 'event_sequence'> : never) : never

export interface Lease {
  readonly id: string
  readonly daemonId: string
  readonly version: number
  readonly capabilities: readonly Capability[]
  readonly holder: object
}

export class Leases {
  #current: Lease | undefined
  #send: ((message: object) => void) | undefined
  #sequence = 0

  get current(): Lease | undefined {
    return this.#current
  }

  /** Answers undefined while another connection holds the lease. */
  acquire(
    holder: object,
    terms: { daemonId: string; version: number; capabilities: readonly Capability[] },
    send: (message: object) => void,
  ): Lease | undefined {
    if (this.#current !== undefined && this.#current.holder !== holder) return undefined // 1
    this.#current = { id: randomHex(16), holder, ...terms }
    this.#send = send
    this.#sequence = 0
    return this.#current
  }

  /** True when `holder` had the lease. */
  release(holder: object): boolean {
    if (this.#current?.holder !== holder) return false
    this.#current = undefined
    this.#send = undefined
    return true
  }

  tell(event: EventBody): void {
    this.#send?.({ event_sequence: ++this.#sequence, ...event })
  }

  /** For events only a daemon that knows them gets. */
  tellCapable(capability: Capability, event: EventBody): void {
    if (this.#current?.capabilities.includes(capability)) this.tell(event)
  }
}
