/** Sessions, detection and notifications as doubles: waits sees only their doors, so a test can play any order of facts. */
import { randomUUID } from 'node:crypto'
import { AsyncSeriesHook, AsyncSeriesWaterfallHook, SyncHook } from 'tapable'
import type { Fake } from '../../kernel/index.ts'
import { Detection, type ActivityChange, type DetectionService } from '../../plugins/detection/api.ts'
import { Notifications, type NotificationService, type SettledReport } from '../../plugins/notifications/api.ts'
import { Sessions, type ActivityEvidence, type Progress, type SessionService } from '../../plugins/sessions/api.ts'
import { faults } from '../../plugins/sessions/faults.ts'
import { Waiters } from '../../plugins/sessions/observe.ts'
import type { Session } from '../../plugins/sessions/session.ts'
import type { AgentActivity, SessionInfo } from '../../plugins/sessions/types.ts'

const START = Date.parse('2026-01-01T00:00:00.000Z')

export class Double {
  readonly infos = new Map<string, SessionInfo>()
  readonly progress = new Map<string, Progress>()
  readonly #evidence = new Map<string, ActivityEvidence>()
  readonly #watchers = new Map<string, Set<() => void>>()
  readonly #waiters = new Waiters()
  readonly #counted = new Map<string, Session>()
  readonly hooks = {
    plan: new AsyncSeriesWaterfallHook<[never]>(['plan']),
    prepare: new AsyncSeriesHook<[never]>(['it']),
    leaving: new AsyncSeriesHook<[never]>(['it']),
    created: new SyncHook<[SessionInfo]>(['it']),
    removed: new SyncHook<[SessionInfo]>(['it']),
    changed: new SyncHook<[SessionInfo, SessionInfo]>(['now', 'before']),
    ended: new SyncHook<[SessionInfo]>(['it']),
  } as unknown as SessionService['hooks']
  readonly activityChanged = new SyncHook<[ActivityChange]>(['change'])
  readonly settled = new SyncHook<[SettledReport]>(['report'])
  #revision = 0n
  #updated = START

  /** A session that runs. */
  add(id: string): void {
    this.infos.set(id, {
      id,
      capabilities: { resume: false, fork: false },
      agent: 'stub',
      agent_base: 'stub',
      cwd: '/',
      pid: 1,
      runtime: { state: 'live', runtime_generation: '1', worker_instance_id: `w-${id}` },
      cols: 80,
      rows: 24,
      state: 'running',
      state_source: 'process',
      created_at: new Date(START).toISOString(),
      updated_at: new Date(START).toISOString(),
    })
    this.progress.set(id, { outputOffset: 0, watermark: 0, outputAtMs: undefined, outputAtMonotonicMs: undefined })
    this.#counted.set(id, { waiters: 0 } as Session)
  }

  change(id: string, fields: Partial<SessionInfo>): void {
    const before = this.infos.get(id) as SessionInfo
    const now = { ...before, ...fields, updated_at: new Date((this.#updated += 1_000)).toISOString() }
    this.infos.set(id, now)
    this.hooks.changed.call(now, before)
  }

  end(id: string, state: 'done' | 'failed' | 'stopped' = 'done'): void {
    this.change(id, { state })
    this.hooks.ended.call(this.infos.get(id) as SessionInfo)
  }

  remove(id: string): void {
    const info = this.infos.get(id) as SessionInfo
    this.infos.delete(id)
    this.hooks.removed.call(info)
  }

  /** The same activity again is an observation that is not fresh. */
  act(id: string, activity: AgentActivity): void {
    const before = this.infos.get(id)?.activity
    const now: ActivityEvidence = {
      activity,
      source: 'screen',
      runtime: { worker_instance_id: `w-${id}`, runtime_generation: '1' },
      epoch: 'd-1',
      revision: ++this.#revision,
    }
    this.#evidence.set(id, now)
    if (before !== activity) this.change(id, { activity })
    this.activityChanged.call({ sessionId: id, now, before, fresh: before !== activity })
  }

  print(id: string, bytes: number, atMs: number, atMonotonicMs = atMs): void {
    const { outputOffset } = this.progress.get(id) as Progress
    this.progress.set(id, {
      outputOffset: outputOffset + bytes,
      watermark: outputOffset + bytes,
      outputAtMs: atMs,
      outputAtMonotonicMs: atMonotonicMs,
    })
    for (const changed of [...(this.#watchers.get(id) ?? [])]) changed()
  }

  /** Resolves when whoever stores it has. */
  async report(sessionId: string, kind: SettledReport['kind'], counts = true, id?: string): Promise<void> {
    const stored: Promise<unknown>[] = []
    this.settled.call({
      id: id ?? randomUUID(),
      sessionId,
      kind,
      provider: 'pohunek',
      counts,
      until: (work) => void stored.push(work),
    })
    await Promise.all(stored)
  }

  /** Calls that watch a session now. */
  watching(id: string): number {
    return this.#watchers.get(id)?.size ?? 0
  }

  fakes(): Fake[] {
    const sessions = {
      hooks: this.hooks,
      get: (id: string) => this.infos.get(id),
      list: () => [...this.infos.values()],
      progress: (id: string) => this.progress.get(id),
      watch: (id: string, changed: () => void) => {
        if (!this.infos.has(id)) throw faults.session_not_found({ id })
        const found = this.#watchers.get(id) ?? new Set()
        this.#watchers.set(id, found.add(changed))
        return { [Symbol.dispose]: () => void found.delete(changed) }
      },
      waiter: (id?: string) => this.#waiters.enter(id === undefined ? undefined : this.#counted.get(id)),
    } as unknown as SessionService
    const detection: DetectionService = {
      hooks: { changed: this.activityChanged },
      current: (id) => this.#evidence.get(id),
      glance: () => undefined,
    }
    const notifications: NotificationService = {
      hooks: { settled: this.settled },
      debounceMs: () => 5_000,
      hasUnread: () => false,
    }
    return [
      { token: Sessions, service: sessions },
      { token: Detection, service: detection },
      { token: Notifications, service: notifications },
    ]
  }
}
