import type { Socket } from 'node:net'
import { encodeErr, INVALID_REQUEST_ID } from '../../protocol/envelope.ts'
import { coreFaults } from '../../protocol/fault.ts'
import { PROTOCOL_VERSION } from '../../protocol/version.ts'
import type { Clock } from '../clock.ts'
import type { Scope } from '../scope.ts'
import { Connection, type ConnectionOptions } from './connection.ts'
import { connectionFaults } from './faults.ts'
import { Unsent } from './unsent.ts'

export type Shared = Omit<
  ConnectionOptions,
  'socket' | 'scope' | 'local' | 'onPending' | 'onUnsent' | 'room' | 'onGone'
>

/** All connections of the daemon, and the bounds they share (server/limits.ts). */
export class Connections {
  readonly #shared: Shared
  readonly #clock: Clock
  readonly #scope: Scope
  readonly #open = new Set<Connection>()
  readonly #unsent: Unsent<Connection>
  #pendingBytes = 0
  #emptied: (() => void) | undefined

  constructor(shared: Shared, clock: Clock, scope: Scope) {
    this.#shared = shared
    this.#clock = clock
    this.#scope = scope
    const { maxUnsentBytes, crowdedStallMs } = shared.limits
    this.#unsent = new Unsent({ maxBytes: maxUnsentBytes, stallMs: crowdedStallMs, clock, scope })
  }

  get size(): number {
    return this.#open.size
  }

  /** Unread bytes held over all connections. */
  get pendingBytes(): number {
    return this.#pendingBytes
  }

  accept(socket: Socket, local: boolean): void {
    const { limits } = this.#shared
    if (this.#scope.closed || (this.#open.size >= limits.maxConnections && !this.#makeRoom())) {
      const fault = connectionFaults.connection_limit_reached({ max: limits.maxConnections })
      socket.on('error', () => undefined)
      socket.end(encodeErr(PROTOCOL_VERSION, INVALID_REQUEST_ID, fault.toBody()), () => socket.destroy())
      return
    }
    const scope = this.#scope.child('connection')
    const connection: Connection = new Connection(
      {
        ...this.#shared,
        socket,
        scope,
        local,
        onPending: (bytes) => this.#onPending(bytes),
        onUnsent: (of, bytes) => this.#unsent.set(of, bytes),
        room: () => this.#unsent.room(),
        onGone: (gone) => {
          this.#open.delete(gone)
          if (this.#open.size === 0) this.#emptied?.()
        },
      },
      () => this.#clock.monotonic(),
    )
    this.#open.add(connection)
    if (this.#open.size > limits.maxConnections / 2) {
      scope.after(limits.firstLineMs, 'first line', () => {
        if (connection.hasSpoken) return
        connection.fail(coreFaults.framing({ problem: `no complete line within ${limits.firstLineMs} ms` }))
      })
    }
  }

  /** Gives requests in flight `graceMs` to be answered, then lets every connection go. */
  async stop(graceMs: number): Promise<void> {
    for (const connection of [...this.#open]) connection.stop()
    if (await this.#untilEmpty(graceMs)) return
    for (const connection of [...this.#open]) connection.abandon()
    // Whoever still does not take its last line is not waited for.
    if (await this.#untilEmpty(graceMs)) return
    for (const connection of [...this.#open]) connection.destroy()
    await this.#untilEmpty(graceMs)
  }

  async #untilEmpty(withinMs: number): Promise<boolean> {
    if (this.#open.size === 0) return true
    return await new Promise<boolean>((resolve) => {
      const timer = this.#clock.after(withinMs, () => resolve(false))
      this.#emptied = () => {
        timer[Symbol.dispose]()
        resolve(true)
      }
    })
  }

  /** Over the cap: the oldest connection that never said a whole line goes. */
  #makeRoom(): boolean {
    for (const connection of this.#open) {
      if (connection.hasSpoken) continue
      connection.fail(coreFaults.framing({ problem: 'closed to make room: no complete line was sent' }))
      this.#open.delete(connection)
      return true
    }
    return false
  }

  #onPending(bytes: number): void {
    this.#pendingBytes += bytes
    while (this.#pendingBytes > this.#shared.limits.maxPendingBytes) {
      const oldest = this.#oldestUnfinished()
      if (oldest === undefined) return
      oldest.fail(
        coreFaults.framing({ problem: 'closed: too many bytes of unfinished lines are held; send whole lines' }),
      )
    }
  }

  #oldestUnfinished(): Connection | undefined {
    let oldest: Connection | undefined
    for (const connection of this.#open) {
      if (connection.unfinishedSinceMs === undefined) continue
      if (oldest?.unfinishedSinceMs === undefined || connection.unfinishedSinceMs < oldest.unfinishedSinceMs)
        oldest = connection
    }
    return oldest
  }
}
