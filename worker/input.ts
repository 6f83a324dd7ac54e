/**
 * The one writer of the terminal's input.
 * Invariants
 *  1. Bytes of one plan, and bytes of one attach stream, keep their order; a fragment is never interleaved.
 *  2. A write_id is written once per lease: a repetition gets the first one's outcome.
 *  3. A terminal that takes no byte for the stall bound ends the plan with `input_stalled`, also one that waits behind
 *     other input; the rest is not written.
 *  4. Typing waits behind a plan that pauses between fragments for TYPING_WAIT_MS at most, then goes in between.
 *  5. Queued bytes are bounded; who exceeds them waits or is refused.
 */
import type { Clock } from '../kernel/clock.ts'
import type { WritePlan } from '../protocol/worker/messages.ts'
import { WorkerFailure } from './failure.ts'

/** Long enough for "paste, pause, Enter" (150 ms) to stay together, short enough for Ctrl-C to be felt. */
const TYPING_WAIT_MS = 1_000
/** Typing queued by all clients before their sockets are not read any more. */
const MAX_TYPING_BYTES = 262_144
/** Replies to a program that asks and does not read; what comes behind them is dropped. */
const MAX_REPLY_BYTES = 65_536
const MAX_PLAN_BYTES = 4_194_304
/** Waits between two tries while the terminal takes nothing: a reader that lives empties 4 KB in well under 1 ms. */
const RETRY_MS = 1
const MAX_RETRY_MS = 20
const IMMEDIATE_TRIES = 8

interface Job {
  /** What is written one after another; delays in between. */
  fragments: { bytes: Buffer; delayAfterMs: number }[]
  plan?: {
    id: string
    since: number
    stallMs: number | undefined
    done: (written: number) => void
    failed: (failure: WorkerFailure) => void
  }
  written: number
}

export interface InputWriter {
  /** Number of bytes taken now; 0 when full. Throws WorkerFailure once the terminal is gone. */
  write(bytes: Uint8Array): number
}

export class InputQueue {
  readonly #writer: InputWriter
  readonly #onKeys: () => void
  readonly #clock: Clock
  readonly #plans: Job[] = []
  readonly #typing: Job[] = []
  readonly #outcomes = new Map<string, { digest: string; outcome: Promise<number> }>()
  readonly #maxOutcomes: number
  #typingBytes = 0
  #planBytes = 0
  #current: { job: Job; at: number } | undefined
  /** While a plan pauses: when it goes on, and when typing need not wait any longer. */
  #pausedPlan: { job: Job; typingFrom: number } | undefined
  #retries = 0
  #stalledSince: number | undefined
  #timer: Disposable | undefined
  #typingTimer: Disposable | undefined
  #immediate = false
  #ended: WorkerFailure | undefined
  #onRoom: (() => void)[] = []

  /** `onKeys` hears of input somebody sent: not of replies to queries, mouse and focus reports or cursor keys. */
  constructor(options: { writer: InputWriter; clock: Clock; maxOutcomes: number; onKeys?: () => void }) {
    this.#writer = options.writer
    this.#onKeys = options.onKeys ?? (() => {})
    this.#clock = options.clock
    this.#maxOutcomes = Math.max(1, options.maxOutcomes)
  }

  /** A new lease: its write ids are its own. */
  forgetOutcomes(): void {
    this.#outcomes.clear()
  }

  /** Resolves with the bytes written. Rejects with input_stalled, invalid_request or invalid_state. */
  plan(plan: WritePlan, stallMs: number | undefined): Promise<number> {
    const digest = digestOf(plan)
    const known = this.#outcomes.get(plan.write_id)
    if (known !== undefined) {
      if (known.digest === digest) return known.outcome // 2
      return Promise.reject(new WorkerFailure('invalid_request', `write ${plan.write_id} was used for other bytes`))
    }
    const fragments = plan.fragments.map((it) => ({
      bytes: Buffer.from(it.bytes, 'base64'),
      delayAfterMs: it.delay_after_ms,
    }))
    const bytes = fragments.reduce((sum, it) => sum + it.bytes.length, 0)
    if (this.#ended !== undefined) return Promise.reject(this.#ended)
    if (this.#planBytes + bytes > MAX_PLAN_BYTES) {
      return Promise.reject(
        new WorkerFailure('invalid_request', `over ${MAX_PLAN_BYTES} bytes wait to be written`, true),
      ) // 5
    }
    const outcome = new Promise<number>((done, failed) => {
      this.#plans.push({
        fragments,
        written: 0,
        plan: { id: plan.write_id, since: this.#clock.monotonic(), stallMs, done, failed },
      })
    })
    outcome.catch(() => {}) // the repetition of a write may never come; its first asker gets the failure
    this.#planBytes += bytes
    this.#onKeys()
    this.#outcomes.set(plan.write_id, { digest, outcome })
    if (this.#outcomes.size > this.#maxOutcomes) {
      const oldest = this.#outcomes.keys().next().value
      if (oldest !== undefined) this.#outcomes.delete(oldest)
    }
    this.#work()
    return outcome
  }

  /** Queues the terminal's own reply to a query, whole or not at all (5). */
  replied(bytes: Buffer): void {
    if (this.#typingBytes + bytes.length <= MAX_REPLY_BYTES) this.#queueTyping(bytes)
  }

  /** Queues typing of a client. True while there is room for more. */
  typed(bytes: Buffer): boolean {
    if (holdsKeys(bytes)) this.#onKeys()
    return this.#queueTyping(bytes)
  }

  #queueTyping(bytes: Buffer): boolean {
    if (this.#ended !== undefined || bytes.length === 0) return true
    this.#typing.push({ fragments: [{ bytes, delayAfterMs: 0 }], written: 0 })
    this.#typingBytes += bytes.length
    this.#work()
    return this.#typingBytes < MAX_TYPING_BYTES
  }

  /** Runs once there is room for typing again. */
  whenRoom(run: () => void): void {
    if (this.#typingBytes < MAX_TYPING_BYTES) run()
    else this.#onRoom.push(run)
  }

  /** The terminal is gone: what waits is refused, nothing is written any more. */
  end(failure: WorkerFailure): void {
    if (this.#ended !== undefined) return
    this.#ended = failure
    this.#timer?.[Symbol.dispose]()
    this.#typingTimer?.[Symbol.dispose]()
    const jobs = [this.#current?.job, this.#pausedPlan?.job, ...this.#plans]
    this.#current = this.#pausedPlan = undefined
    this.#plans.length = this.#typing.length = 0
    this.#typingBytes = this.#planBytes = 0
    for (const job of jobs) job?.plan?.failed(failure)
    this.#roomAgain()
  }

  #work(): void {
    if (this.#timer !== undefined || this.#immediate || this.#ended !== undefined) return
    for (;;) {
      this.#current ??= this.#next()
      if (this.#current === undefined) return
      if (!this.#advance(this.#current)) return
    }
  }

  /** A pausing plan keeps its place before other plans; typing passes it after a while (4). */
  #next(): { job: Job; at: number } | undefined {
    const paused = this.#pausedPlan
    if (paused !== undefined) {
      const typing = this.#typing[0]
      if (typing === undefined) return undefined
      const wait = paused.typingFrom - this.#clock.monotonic()
      if (wait > 0) {
        this.#typingTimer ??= this.#clock.after(wait, () => {
          this.#typingTimer = undefined
          this.#work()
        })
        return undefined
      }
      this.#typing.shift()
      return { job: typing, at: 0 }
    }
    const job = this.#typing.shift() ?? this.#plans.shift()
    return job === undefined ? undefined : { job, at: 0 }
  }

  /** Writes on. False when it must wait for the terminal or a pause. */
  #advance(current: { job: Job; at: number }): boolean {
    const { job } = current
    const fragment = job.fragments[0]
    if (fragment === undefined) {
      this.#current = undefined
      job.plan?.done(job.written)
      return true
    }
    if (current.at < fragment.bytes.length) {
      let taken: number
      try {
        taken = this.#writer.write(current.at === 0 ? fragment.bytes : fragment.bytes.subarray(current.at))
      } catch (failure) {
        this.end(
          failure instanceof WorkerFailure
            ? failure
            : new WorkerFailure('runtime_fault', 'the terminal does not take input'),
        )
        return false
      }
      if (taken === 0) return this.#stalled(job, current)
      this.#retries = 0
      this.#stalledSince = undefined
      current.at += taken
      job.written += taken
      if (job.plan === undefined) {
        this.#typingBytes -= taken
        this.#roomAgain()
      } else this.#planBytes -= taken
      return true
    }
    job.fragments.shift()
    current.at = 0
    if (fragment.delayAfterMs === 0) return true
    this.#current = undefined
    this.#pausedPlan = { job, typingFrom: this.#clock.monotonic() + TYPING_WAIT_MS }
    this.#clock.after(fragment.delayAfterMs, () => this.#resume(job))
    return true
  }

  #resume(job: Job): void {
    if (this.#ended !== undefined || this.#pausedPlan?.job !== job) return
    if (this.#current !== undefined) {
      // Typing is being written: the plan goes on right behind this fragment (1).
      this.#pausedPlan.typingFrom = Infinity
      this.#plans.unshift(job)
      this.#pausedPlan = undefined
      return
    }
    this.#pausedPlan = undefined
    this.#typingTimer?.[Symbol.dispose]()
    this.#typingTimer = undefined
    this.#current = { job, at: 0 }
    this.#work()
  }

  /** (3). Tries again soon while the reader may be alive, ever more rarely while it is not. */
  #stalled(job: Job, current: { at: number }): boolean {
    const now = this.#clock.monotonic()
    const since = (this.#stalledSince ??= now)
    for (const waiting of this.#plans.filter((it) => overdue(it, since, now))) {
      this.#plans.splice(this.#plans.indexOf(waiting), 1)
      this.#giveUp(waiting, 0)
    }
    if (overdue(job, since, now)) {
      this.#current = undefined
      this.#stalledSince = undefined
      this.#retries = 0
      this.#giveUp(job, current.at)
      return true
    }
    const tries = this.#retries++
    const again = (): void => {
      this.#timer = undefined
      this.#immediate = false
      this.#work()
    }
    if (tries < IMMEDIATE_TRIES) {
      this.#immediate = true
      setImmediate(again)
    } else this.#timer = this.#clock.after(Math.min(MAX_RETRY_MS, RETRY_MS + (tries - IMMEDIATE_TRIES) / 10), again)
    return false
  }

  #giveUp(job: Job, at: number): void {
    const rest = job.fragments.reduce((sum, it) => sum + it.bytes.length, 0) - at
    this.#planBytes -= rest
    job.plan?.failed(
      new WorkerFailure(
        'input_stalled',
        `the program read no input for ${job.plan.stallMs} ms; ${job.written} bytes were written, ${rest} were not`,
      ),
    )
  }

  #roomAgain(): void {
    if (this.#onRoom.length === 0 || this.#typingBytes >= MAX_TYPING_BYTES / 2) return
    const waiting = this.#onRoom
    this.#onRoom = []
    for (const run of waiting) run()
  }
}

/** Pure. Has the terminal taken nothing since `stalledSince` for as long as the plan of this job may wait? */
function overdue({ plan }: Job, stalledSince: number, now: number): boolean {
  return plan?.stallMs !== undefined && now - Math.max(stalledSince, plan.since) >= plan.stallMs
}

/** Tells two plans under one id apart without keeping their bytes. */
function digestOf(plan: WritePlan): string {
  let hash = 0x811c9dc5
  let length = 0
  for (const fragment of plan.fragments) {
    for (let at = 0; at < fragment.bytes.length; at++)
      hash = Math.imul(hash ^ fragment.bytes.charCodeAt(at), 0x01000193)
    hash = Math.imul(hash ^ fragment.delay_after_ms, 0x01000193)
    length += fragment.bytes.length
  }
  return `${plan.fragments.length}:${length}:${hash >>> 0}`
}

/** Mouse reports, focus reports and cursor keys: nothing that answers a question. */
const REPORTS = /\x1b(?:\[(?:M[\s\S]{3}|[0-9;?<>=]*[A-Za-z~])|O[A-Z])/g

/** Pure. Looks at the beginning only: a paste has keys in it. */
function holdsKeys(bytes: Buffer): boolean {
  return bytes.subarray(0, 256).toString('latin1').replace(REPORTS, '') !== ''
}
