/** Bounded reads of the output history over a data connection of their own (mode `observation`). */
import type { Socket } from 'node:net'
import type { Clock } from '../kernel/clock.ts'
import { encodeFrameHead, FRAME_PAYLOAD_BYTES, type FrameHeader } from '../protocol/worker/frames.ts'
import type { OutputRing } from './ring.ts'

export interface Reading {
  afterOffset: number
  maxBytes: number
  waitMs: number
}

/** Pure. What a read of [ring.start, ring.end) answers. */
export function planRead(
  ring: { start: number; end: number },
  reading: { afterOffset: number; maxBytes: number },
): { start: number; next: number; gap?: { missing_start: number; missing_end: number } } {
  const { afterOffset, maxBytes } = reading
  if (afterOffset === -1) {
    const start = Math.max(ring.start, ring.end - maxBytes)
    return { start, next: ring.end }
  }
  const start = Math.min(Math.max(afterOffset, ring.start), ring.end)
  return {
    start,
    next: Math.min(ring.end, start + maxBytes),
    ...(start > afterOffset && { gap: { missing_start: afterOffset, missing_end: start } }),
  }
}

/** Readers that wait for output; woken by every read of the terminal and by its end. */
export class OutputWaiters {
  readonly #clock: Clock
  readonly #waiting = new Set<() => void>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  wake(): void {
    if (this.#waiting.size === 0) return
    for (const run of [...this.#waiting]) run()
  }

  /** Resolves true once `ready` holds, false after `waitMs` or when `signal` aborts. Looks first. */
  until(ready: () => boolean, waitMs: number, signal: AbortSignal): Promise<boolean> {
    if (ready()) return Promise.resolve(true)
    return new Promise((resolve) => {
      const done = (met: boolean): void => {
        timer[Symbol.dispose]()
        this.#waiting.delete(look)
        signal.removeEventListener('abort', abort)
        resolve(met)
      }
      const look = (): void => {
        if (ready()) done(true)
      }
      const abort = (): void => done(false)
      const timer = this.#clock.after(waitMs, () => done(false))
      signal.addEventListener('abort', abort, { once: true })
      this.#waiting.add(look)
    })
  }
}

/** Answers one read on `socket` and ends it. */
export async function serveReading(
  socket: Socket,
  reading: Reading,
  it: {
    ring: OutputRing
    waiters: OutputWaiters
    ended: () => boolean
    common: { version: number; stream_id: string; runtime_id: string }
  },
): Promise<void> {
  const { ring, common } = it
  const gone = new AbortController()
  socket.on('close', () => gone.abort())
  const after = reading.afterOffset
  const waits = after >= 0 && reading.waitMs > 0
  const met = waits ? await it.waiters.until(() => ring.end > after || it.ended(), reading.waitMs, gone.signal) : true
  if (gone.signal.aborted) return
  const plan = planRead(ring, reading)
  const frame = (header: Record<string, unknown>, payload: Uint8Array = new Uint8Array(0)): void => {
    socket.write(encodeFrameHead({ ...common, ...header } as FrameHeader, payload.length))
    if (payload.length > 0) socket.write(payload)
  }
  frame({
    kind: 'observation_start',
    history_start_offset: ring.start,
    start_offset: plan.start,
    next_offset: plan.next,
    runtime_end_offset: ring.end,
    ...(plan.gap && { gap: plan.gap }),
    has_more: plan.next < ring.end,
    timed_out: !met,
  })
  for (let at = plan.start; at < plan.next; at += FRAME_PAYLOAD_BYTES) {
    // A copy: the reader may be slow and the ring goes on.
    frame({ kind: 'replay', offset: at }, ring.copy(at, Math.min(plan.next, at + FRAME_PAYLOAD_BYTES)))
  }
  frame({ kind: 'close', reason: 'observation_complete' })
  socket.end()
}
