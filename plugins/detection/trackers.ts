/**
 * What the agents of all sessions do: one tracker for each runtime that lives, its published evidence, and whoever waits
 * for it.
 * Invariants
 *  1. A revision is given once and grows, over all sessions of this daemon.
 *  2. Evidence kept for waiters is bounded per session.
 *  3. A session without a worker connection shows no activity.
 */
import { SyncHook } from 'tapable'
import type { Clock } from '../../kernel/clock.ts'
import { informing } from '../../kernel/hooks.ts'
import type { Log } from '../../kernel/log.ts'
import type { Scope } from '../../kernel/scope.ts'
import type { Processes } from '../../platform/processes.ts'
import type { RuntimeService } from '../packages/api.ts'
import type { ActivityEvidence, SessionService } from '../sessions/api.ts'
import type { AgentActivity, RuntimeIdentity, SessionInfo } from '../sessions/types.ts'
import type { ActivityChange } from './api.ts'
import type { Publication } from './decide.ts'
import type { Manifests } from './manifests.ts'
import { isSameRuntime, Tracker } from './tracker.ts'
import { ANY_APP } from './weigh.ts'

/** More changes than a terminal can show within the longest wait for input. */
const MAX_KEPT = 128

export type Left = 'ended' | 'replaced'

interface Waiter {
  readonly until: readonly AgentActivity[]
  readonly resolve: (evidence: ActivityEvidence) => void
  readonly left: (how: Left) => void
}

interface Tracked {
  readonly tracker: Tracker
  readonly scope: Scope
  /** Evidence of this runtime is newer. */
  readonly floor: bigint
  kept: ActivityEvidence[]
  current: ActivityEvidence | undefined
  readonly waiters: Set<Waiter>
}

export interface TrackersOptions {
  readonly sessions: SessionService
  readonly runtimes: RuntimeService
  readonly manifests: Manifests
  readonly facts: Processes
  readonly clock: Clock
  readonly log: Log
  readonly scope: Scope
  readonly epoch: string
  /** Publishes agent_state. */
  readonly event: (id: string, evidence: ActivityEvidence) => void
}

const isOver = ({ state }: SessionInfo): boolean => state !== 'running' && state !== 'starting'

export class Trackers {
  readonly hooks: { readonly changed: SyncHook<[ActivityChange]> }
  readonly #options: TrackersOptions
  readonly #tracked = new Map<string, Tracked>()
  #revision = 0n
  #open = false

  constructor(options: TrackersOptions) {
    this.#options = options
    this.hooks = Object.freeze({
      changed: informing(new SyncHook<[ActivityChange]>(['change']), 'changed', (failure) =>
        options.log.error({ err: failure }, 'a hook failed'),
      ),
    })
  }

  get revision(): bigint {
    return this.#revision
  }

  tracker(id: string): Tracker | undefined {
    return this.#tracked.get(id)?.tracker
  }

  current(id: string): ActivityEvidence | undefined {
    return this.#tracked.get(id)?.current
  }

  /** Before what is shown of one session, or of all, is read by somebody. */
  glance(id?: string): void {
    if (id !== undefined) return this.tracker(id)?.glance()
    for (const { tracker } of [...this.#tracked.values()]) tracker.glance()
  }

  /** What a store says about an earlier time is no observation. 3 */
  forgetStored(): void {
    for (const it of this.#options.sessions.list())
      if (it.activity !== undefined) this.#options.sessions.show(it.id, { activity: undefined }, 'quiet')
  }

  /** From now on terminals are looked at: a daemon that starts first finds its workers. */
  open(): void {
    this.#open = true
    for (const { id } of this.#options.sessions.list()) this.consider(id)
  }

  /** Looks at what is true of a session now and tracks its runtime, or stops. Cheap: called for every change. */
  consider(id: string): void {
    const { sessions } = this.#options
    const info = sessions.get(id)
    const tracked = this.#tracked.get(id)
    if (!this.#open || this.#options.scope.closed) return
    if (info === undefined || isOver(info)) return this.#drop(id, 'ended')
    const runtime = sessions.runtime(id)
    if (runtime === undefined) return tracked?.tracker.leave()
    if (tracked === undefined) return this.#track(info, runtime)
    if (!isSameRuntime(tracked.tracker.runtime, runtime)) {
      this.#drop(id, 'replaced')
      if (!this.#tracked.has(id)) this.#track(info, runtime) // taking back what was shown comes here again
    } else tracked.tracker.resume()
  }

  /**
   * First evidence behind `boundary` for one of `until`: kept or to come. `left` is called instead when its runtime is
   * gone. Disposing stops the wait.
   */
  wait(id: string, boundary: bigint, waiter: Waiter): Disposable {
    const nothing = { [Symbol.dispose]: () => undefined }
    const tracked = this.#tracked.get(id)
    if (tracked === undefined || boundary < tracked.floor) {
      waiter.left(tracked === undefined ? 'ended' : 'replaced')
      return nothing
    }
    const found = tracked.kept.find((it) => it.revision > boundary && waiter.until.includes(it.activity))
    if (found !== undefined) {
      waiter.resolve(found)
      return nothing
    }
    tracked.waiters.add(waiter)
    return { [Symbol.dispose]: () => void tracked.waiters.delete(waiter) }
  }

  #track({ id, agent, agent_base }: SessionInfo, runtime: RuntimeIdentity): void {
    const { sessions, runtimes, manifests, facts, clock, log } = this.#options
    const scope = this.#options.scope.child(id)
    const tracker: Tracker = new Tracker({
      id,
      runtime,
      sessions,
      facts,
      clock,
      log,
      scope,
      manifest: () => manifests.of(agent, agent_base),
      reportApp: agent_base === 'shell' ? ANY_APP : runtimes.get(agent_base)?.descriptor.reports?.osc7501App,
      publish: (publication, of) => this.#publish(id, tracked, publication, of),
      left: () => this.consider(id),
    })
    scope.own('tracker', tracker)
    const tracked: Tracked = {
      tracker,
      scope,
      floor: this.#revision,
      kept: [],
      current: undefined,
      waiters: new Set(),
    }
    this.#tracked.set(id, tracked)
  }

  #drop(id: string, how: Left): void {
    const tracked = this.#tracked.get(id)
    if (tracked === undefined) return
    this.#tracked.delete(id)
    tracked.tracker[Symbol.dispose]()
    if (how === 'replaced') this.#revision++ // boundaries taken before are behind the new runtime's floor
    for (const it of [...tracked.waiters]) it.left(how)
    void tracked.scope.close()
  }

  #publish(id: string, tracked: Tracked, publication: Publication, runtime: RuntimeIdentity): void {
    const { activity, source, fresh, why, unproven, answered, askedAt, failedAt } = publication
    const before = tracked.current?.activity
    const now: ActivityEvidence | undefined =
      activity === undefined
        ? undefined
        : { activity, source, runtime, epoch: this.#options.epoch, revision: ++this.#revision }
    tracked.current = now
    if (now !== undefined) {
      tracked.kept.push(now)
      if (tracked.kept.length > MAX_KEPT) tracked.kept.shift() // 2
    }
    this.#options.sessions.show(
      id,
      { activity, state_source: activity === undefined ? 'process' : source },
      activity === undefined ? undefined : 'quiet',
    )
    this.hooks.changed.call({
      sessionId: id,
      now,
      before,
      fresh,
      ...(why === undefined ? {} : { why }),
      ...(unproven ? { unproven } : {}),
      ...(answered ? { answered } : {}),
      ...(askedAt === undefined ? {} : { askedAt }),
      ...(failedAt === undefined ? {} : { failedAt }),
    })
    if (now === undefined) return
    this.#options.event(id, now)
    for (const it of [...tracked.waiters]) {
      if (!it.until.includes(now.activity)) continue
      tracked.waiters.delete(it)
      it.resolve(now)
    }
  }
}
