/**
 * Watches the terminal of one runtime and publishes what its agent does; the effects around decide.ts.
 * Invariants
 *  1. One look at a time; output of any amount costs one look in LOOK_REST_MS at most.
 *  2. Without a pending decision there is no timer: a session that rests costs nothing.
 *  3. A look that ends after its runtime was left or replaced is thrown away.
 *  4. What cannot be seen any more is taken back at once.
 */
import type { Clock } from '../../kernel/clock.ts'
import type { Log } from '../../kernel/log.ts'
import type { Scope } from '../../kernel/scope.ts'
import type { Processes } from '../../platform/processes.ts'
import { messageOf } from '../../protocol/fault.ts'
import type { TerminalSnapshot } from '../../protocol/worker/messages.ts'
import type { SessionService } from '../sessions/api.ts'
import type { AgentActivity, RuntimeIdentity } from '../sessions/types.ts'
import { decide, NO_MEMORY, unseen, withAccepted, type Decision, type Memory, type Publication } from './decide.ts'
import { Foreground, type InFront } from './identity.ts'
import type { AgentManifest } from './manifests.ts'
import { readPicture } from './readings.ts'
import type { Sight } from './weigh.ts'

/** A burst of changes is looked at at its start and then this often. */
const LOOK_REST_MS = 80
/** What a plain shell tells its terminal is no agent's state that somebody waits for, and shells print a lot. */
const TITLES_REST_MS = 400
/** A worker that could not be asked is asked again after this, then after twice as long, and so on. */
const RETRY_MS = 1_000
const MAX_RETRY_MS = 60_000
/** Files of the manifest are looked at again at most this often, except for a caller who asks. */
const MANIFEST_MS = 1_000
/** Whoever reads what is shown has it checked this often at most. */
const GLANCE_MS = 500
const MAX_TRANSITIONS = 8

export interface TrackerOptions {
  readonly id: string
  readonly runtime: RuntimeIdentity
  readonly sessions: Pick<SessionService, 'snapshot' | 'watch' | 'runtime' | 'root'>
  readonly facts: Processes
  readonly clock: Clock
  readonly log: Log
  readonly scope: Scope
  /** Read again on every call. */
  readonly manifest: () => AgentManifest | undefined
  readonly reportApp: string | undefined
  readonly publish: (publication: Publication, runtime: RuntimeIdentity) => void
  /** The runtime may be gone: whoever owns this decides what becomes of it. */
  readonly left: () => void
}

export interface Look {
  readonly picture: TerminalSnapshot
  readonly sight: Sight
  readonly decision: Decision
  readonly manifest: AgentManifest
  readonly front: InFront
}

export interface Transition {
  /** Monotonic milliseconds. */
  readonly at: number
  readonly activity: AgentActivity | undefined
  readonly source: Publication['source']
  readonly rule: string | undefined
}

export class Tracker implements Disposable {
  readonly runtime: RuntimeIdentity
  readonly #options: TrackerOptions
  readonly #watch: Disposable
  #foreground: Foreground | undefined
  #memory: Memory = NO_MEMORY
  #manifest: AgentManifest | undefined
  #manifestAt = -Infinity
  #timer: Disposable | undefined
  #timerAt = Infinity
  #lookedAt = -Infinity
  #glancedAt = -Infinity
  #retryMs = RETRY_MS
  #running: Promise<Look | undefined> | undefined
  #queued: Promise<Look | undefined> | undefined
  #closed = false
  #away = false
  readonly #transitions: Transition[] = []

  constructor(options: TrackerOptions) {
    this.#options = options
    this.runtime = options.runtime
    this.#watch = options.sessions.watch(options.id, () => this.#changed())
    this.#wake(0)
  }

  get memory(): Memory {
    return this.#memory
  }
  get transitions(): readonly Transition[] {
    return this.#transitions
  }

  /** The worker was found again. */
  resume(): void {
    if (!this.#away) return
    this.#away = false
    this.#wake(0)
  }

  /** Input reached the terminal. */
  accepted(): void {
    this.#memory = withAccepted(this.#memory, this.#options.clock.monotonic())
    this.#wake(0)
  }

  /** The worker cannot be asked any more. 4 */
  leave(): void {
    if (this.#closed) return
    this.#away = true
    this.#rest()
    this.#foreground = undefined
    this.#takeBack()
  }

  /**
   * A look that begins after this call. Undefined for an agent without a manifest, or when the runtime was left
   * meanwhile. Rejects when the terminal cannot be read.
   */
  look(): Promise<Look | undefined> {
    if (this.#running === undefined) return this.#start(true)
    return (this.#queued ??= this.#running
      .catch(() => undefined) // told to whoever asked for that look
      .then(() => {
        this.#queued = undefined
        return this.look()
      }))
  }

  /**
   * Before somebody reads what is shown: an agent that ended without a word behind a program that says nothing either
   * rests no more. Costs two reads of /proc; 2 holds for who is not asked about.
   */
  glance(): void {
    const { shown } = this.#memory
    const manifest = this.#manifest
    if (this.#closed || this.#away || shown === undefined || manifest === undefined || manifest.titlesOnly) return
    const now = this.#options.clock.monotonic()
    if (now - Math.max(this.#lookedAt, this.#glancedAt) < GLANCE_MS) return
    this.#glancedAt = now
    if (this.#inFront(manifest, now, false).identity !== 'other') return
    if (shown.activity === 'idle') this.#takeBack()
    this.#wake(0)
  }

  /** The manifest as its file is now. */
  manifest(): AgentManifest | undefined {
    this.#manifestAt = this.#options.clock.monotonic()
    return (this.#manifest = this.#options.manifest())
  }

  [Symbol.dispose](): void {
    if (this.#closed) return
    // A daemon that stops takes nothing back: the next one looks for itself.
    if (!this.#options.scope.closed) this.leave()
    this.#closed = true
    this.#watch[Symbol.dispose]()
  }

  #takeBack(): void {
    const { memory, publish } = unseen(this.#memory)
    this.#memory = memory
    for (const it of publish) this.#tell(it)
  }

  #changed(): void {
    if (!this.#isCurrent()) this.#options.left()
    else this.#wake(0)
  }

  /** A look in `ms`, not before the rest after the last one; an earlier one that is due anyway serves. */
  #wake(ms: number): void {
    if (this.#closed || this.#options.scope.closed) return
    const now = this.#options.clock.monotonic()
    const restMs = this.#manifest?.titlesOnly === true ? TITLES_REST_MS : LOOK_REST_MS
    const at = Math.max(now + ms, this.#lookedAt + restMs)
    if (at >= this.#timerAt) return
    this.#timer?.[Symbol.dispose]()
    this.#timerAt = at
    if (at <= now && this.#running === undefined) return this.#due()
    this.#timer = this.#options.scope.after(Math.max(0, at - now), 'look', () => this.#due())
  }

  #due(): void {
    this.#rest()
    if (this.#running !== undefined) {
      // 1: what changed meanwhile is in the next look.
      this.#running.then(
        () => this.#wake(0),
        () => this.#wake(0),
      )
      return
    }
    this.#start(false).catch((failure: unknown) => {
      if (this.#closed || !this.#isCurrent()) return
      this.#options.log.debug({ session_id: this.#options.id, problem: messageOf(failure) }, 'a look failed')
      this.#wake(this.#retryMs)
      this.#retryMs = Math.min(2 * this.#retryMs, MAX_RETRY_MS)
    })
  }

  #rest(): void {
    this.#timer?.[Symbol.dispose]()
    this.#timer = undefined
    this.#timerAt = Infinity
  }

  #start(asked: boolean): Promise<Look | undefined> {
    const running = this.#look(asked).finally(() => {
      if (this.#running === running) this.#running = undefined
    })
    return (this.#running = running)
  }

  async #look(asked: boolean): Promise<Look | undefined> {
    const { clock, id, sessions } = this.#options
    const startedAt = clock.monotonic()
    this.#lookedAt = startedAt
    if (asked || startedAt - this.#manifestAt >= MANIFEST_MS) this.manifest()
    const manifest = this.#manifest
    if (manifest === undefined) return undefined
    const picture = await sessions.snapshot(id)
    if (this.#closed || !this.#isCurrent()) return undefined // 3
    this.#retryMs = RETRY_MS
    const now = clock.monotonic()
    const front = this.#inFront(manifest, now, picture.evidence?.report !== undefined)
    const sight: Sight = {
      now,
      watermark: picture.watermark,
      partial: picture.partial,
      told: `${picture.title ?? ''}\0${picture.progress ?? ''}`,
      readings: readPicture(manifest.manifest, picture),
      identity: front.identity,
      group: front.group,
      evidence: picture.evidence,
      reportApp: this.#options.reportApp,
    }
    const decision = decide(this.#memory, sight)
    this.#memory = decision.memory
    if (decision.verdict.state !== undefined) this.#foreground?.confirm()
    for (const it of decision.publish) this.#tell(it)
    if (decision.againMs !== undefined) this.#wake(decision.againMs)
    return { picture, sight, decision, manifest, front }
  }

  /** Who is in front. In a plain shell that matters for a report only: whoever made it may be gone. */
  #inFront({ manifest, titlesOnly }: AgentManifest, now: number, hasReport: boolean): InFront {
    const root = this.#options.sessions.root(this.#options.id)
    if (titlesOnly) {
      const group = hasReport && root !== undefined ? this.#options.facts.foregroundGroup(root.pid) : undefined
      return { identity: 'agent', group, why: 'a shell: only what programs tell the terminal counts' }
    }
    if (root === undefined) return { identity: 'unknown', group: undefined, why: 'its root process is not known' }
    this.#foreground ??= new Foreground(this.#options.facts, root, this.runtime.worker_instance_id)
    return this.#foreground.look(manifest.process, now)
  }

  #tell(publication: Publication): void {
    this.#transitions.push({
      at: this.#options.clock.monotonic(),
      activity: publication.activity,
      source: publication.source,
      rule: publication.activity === undefined ? undefined : this.#memory.shown?.rule?.id,
    })
    if (this.#transitions.length > MAX_TRANSITIONS) this.#transitions.shift()
    this.#options.publish(publication, this.runtime)
  }

  #isCurrent(): boolean {
    const now = this.#options.sessions.runtime(this.#options.id)
    return now !== undefined && isSameRuntime(now, this.runtime)
  }
}

export const isSameRuntime = (a: RuntimeIdentity, b: RuntimeIdentity): boolean =>
  a.worker_instance_id === b.worker_instance_id && a.runtime_generation === b.runtime_generation
