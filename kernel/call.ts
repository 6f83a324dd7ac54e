import type { OriginMarkers } from '../protocol/envelope.ts'
import { coreFaults, type Fault } from '../protocol/fault.ts'
import type { Call, Peer } from './plugin.ts'

/** Who is calling, for the whole life of a connection. */
export interface Caller {
  readonly local: boolean
  peer(): Peer | undefined
}

/** Why a call in flight was given up; handlers that wait reject with it. */
export const clientGone = (): Fault => coreFaults.framing({ problem: 'the client closed the connection' })
export const shuttingDown = (): Fault => coreFaults.daemon_shutting_down({})

/** One request's call. Its signal is made when somebody asks for it: most handlers never wait. */
export class RequestCall implements Call {
  readonly version: number
  readonly requestId: string
  readonly origin: OriginMarkers | undefined
  readonly #caller: Caller
  #abort: AbortController | undefined
  #given: Fault | undefined

  constructor(caller: Caller, version: number, requestId: string, origin: OriginMarkers | undefined) {
    this.#caller = caller
    this.version = version
    this.requestId = requestId
    this.origin = origin
  }

  get local(): boolean {
    return this.#caller.local
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController()
      if (this.#given !== undefined) this.#abort.abort(this.#given)
    }
    return this.#abort.signal
  }

  /** The reason this call was given up for, undefined while it was not. */
  get givenUp(): Fault | undefined {
    return this.#given
  }

  peer(): Peer | undefined {
    return this.#caller.peer()
  }

  giveUp(reason: Fault): void {
    this.#given ??= reason
    this.#abort?.abort(reason)
  }
}
