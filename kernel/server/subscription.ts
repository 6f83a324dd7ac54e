import type { Socket } from 'node:net'
import { encodeEvent } from '../../protocol/envelope.ts'
import { SUBSCRIBER_QUEUE_BYTES } from '../../protocol/limits.ts'
import { downgradeEvent, V3 } from '../../protocol/window/v3.ts'
import type { EventBus, WireEvent } from '../events.ts'
import type { Log } from '../log.ts'

/** Ours: how many events this subscriber lost since the last one it was sent. Not an event of any plugin. */
export const GAP_EVENT = { name: 'subscription_gap', since: 4 } as const

export interface SubscriptionOptions {
  readonly socket: Socket
  readonly version: number
  readonly events: EventBus
  readonly log: Log
  /** Unsent bytes above which events are dropped. */
  readonly maxQueuedBytes?: number
}

/**
 * Feeds one subscriber. A slow one loses events instead of holding memory: over the bound everything is dropped until
 * the socket drained, then one gap event says how many, before any later event.
 */
export function feed({
  socket,
  version,
  events,
  log,
  maxQueuedBytes = SUBSCRIBER_QUEUE_BYTES,
}: SubscriptionOptions): Disposable {
  let dropped = 0
  const reportGap = (): void => {
    if (dropped === 0) return
    if (version >= GAP_EVENT.since) socket.write(encodeEvent(version, GAP_EVENT.name, { dropped }))
    dropped = 0
  }
  const taken = events.subscribe((event) => {
    const line = eventLine(event, version)
    if (line === undefined || !socket.writable) return
    if (line instanceof Error) log.error({ event: event.event, err: line }, 'an event could not be encoded')
    if (line instanceof Error || dropped > 0 || socket.writableLength + line.length > maxQueuedBytes) {
      dropped++
      if (socket.writableLength === 0) reportGap()
    } else socket.write(line)
  })
  socket.on('drain', reportGap)
  return {
    [Symbol.dispose]() {
      taken[Symbol.dispose]()
      socket.off('drain', reportGap)
    },
  }
}

// One encoding for all subscribers of a version.
const encoded = new WeakMap<WireEvent, Map<number, string | Error>>()

/** The line of an event for one version; undefined when that version is not sent it. */
function eventLine(event: WireEvent, version: number): string | Error | undefined {
  if (event.since > version) return undefined
  let lines = encoded.get(event)
  if (lines === undefined) {
    lines = new Map<number, string | Error>()
    encoded.set(event, lines)
  }
  let line = lines.get(version)
  if (line === undefined) {
    line = encodeFor(event, version)
    lines.set(version, line)
  }
  return line
}

function encodeFor({ event, payload }: WireEvent, version: number): string | Error {
  try {
    return encodeEvent(version, event, version === V3 ? downgradeEvent(event, payload) : payload)
  } catch (failure) {
    return failure instanceof Error ? failure : new Error(String(failure))
  }
}
