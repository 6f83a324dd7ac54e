/** One-use tokens that turn a new connection into a data stream. */
import type { Clock } from '../kernel/clock.ts'
import { DATA_TOKEN_TTL_MS } from '../protocol/worker/frames.ts'
import { randomHex } from './random.ts'

const MAX_TOKENS = 128

export type Grant =
  | {
      mode: 'attach' | 'detector'
      streamId: string
      afterOffset: number
      size?: { columns: number; rows: number }
      historyRows: number
    }
  | { mode: 'observation'; streamId: string; afterOffset: number; maxBytes: number; waitMs: number }

export class Tokens {
  readonly #clock: Clock
  readonly #grants = new Map<string, { grant: Grant; until: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** `undefined` when too many wait to be used. */
  issue(grant: Grant): { token: string; expiresAtMs: number } | undefined {
    const now = this.#clock.monotonic()
    for (const [token, it] of this.#grants) if (it.until <= now) this.#grants.delete(token)
    if (this.#grants.size >= MAX_TOKENS) return undefined
    const token = randomHex(16)
    this.#grants.set(token, { grant, until: now + DATA_TOKEN_TTL_MS })
    return { token, expiresAtMs: this.#clock.now() + DATA_TOKEN_TTL_MS }
  }

  /** Answers the grant once; unknown, used and expired tokens are the same to the caller. */
  redeem(token: string): Grant | undefined {
    const found = this.#grants.get(token)
    this.#grants.delete(token)
    return found !== undefined && found.until > this.#clock.monotonic() ? found.grant : undefined
  }

  /** A lease ended: what it opened and did not use is worth nothing. */
  clear(): void {
    this.#grants.clear()
  }
}
