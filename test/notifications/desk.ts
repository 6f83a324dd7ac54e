/** The notifications plugin in a kernel of its own: sessions and detection are doubles, time moves when told. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { SyncHook } from 'tapable'
import { fake, type DaemonConfig } from '../../kernel/index.ts'
import { informing } from '../../kernel/hooks.ts'
import { Detection, type ActivityChange } from '../../plugins/detection/api.ts'
import { Notifications, type NotificationService, type SettledReport } from '../../plugins/notifications/api.ts'
import notifications from '../../plugins/notifications/plugin.ts'
import { Sessions, type ActivityEvidence, type SessionService } from '../../plugins/sessions/api.ts'
import type { AgentActivity, SessionInfo } from '../../plugins/sessions/types.ts'
import { definePlugin, type Bootable, type WireEvent } from '../../kernel/index.ts'
import { contract } from '../../protocol/contract.ts'
import { privateRoot, testConfig, testKernel, type TestKernel } from '../harness/kernel.ts'

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- answers of the wire, as in harness/wire.ts
export type Answer = any

const ID = 's-01HZZZZZZZZZZZZZZZZZZZZZZZ'

export function sessionInfo(more: Partial<SessionInfo> = {}): SessionInfo {
  return {
    id: ID,
    capabilities: { resume: false, fork: false },
    agent: 'claude',
    agent_base: 'claude',
    cwd: '/',
    pid: 1,
    cols: 80,
    rows: 24,
    state: 'running',
    state_source: 'process',
    created_at: '2026-01-01T00:00:00Z',
    updated_at: '2026-01-01T00:00:00Z',
    ...more,
  }
}

/** What tests compare of a settled report. */
export type Told = Omit<SettledReport, 'id' | 'until'>

export interface DeskOptions {
  readonly root?: string
  readonly sessions?: readonly SessionInfo[]
  readonly activity?: AgentActivity
  readonly notify?: Partial<DaemonConfig['notify']>
  readonly allowErrors?: boolean
  readonly env?: Readonly<Record<string, string | undefined>>
}

export class Desk {
  readonly root: string
  readonly kernel: TestKernel
  readonly settled: Told[]
  /** Of the settled reports. */
  readonly ids: string[]
  readonly events: WireEvent[]
  readonly service: NotificationService
  readonly sessions: Map<string, SessionInfo>
  readonly #hooks: SessionService['hooks']
  readonly #changed: SyncHook<[ActivityChange]>
  readonly #last = new Map<string, AgentActivity>()
  #revision = 0n

  constructor(it: {
    root: string
    kernel: TestKernel
    settled: Told[]
    ids: string[]
    events: WireEvent[]
    service: NotificationService
    sessions: Map<string, SessionInfo>
    hooks: SessionService['hooks']
    changed: SyncHook<[ActivityChange]>
  }) {
    this.root = it.root
    this.kernel = it.kernel
    this.settled = it.settled
    this.ids = it.ids
    this.events = it.events
    this.service = it.service
    this.sessions = it.sessions
    this.#hooks = it.hooks
    this.#changed = it.changed
  }

  get id(): string {
    return ID
  }

  call(method: string, params: unknown = null): Promise<Answer> {
    return this.kernel.call(`notification.${method}`, params)
  }

  /** A hook's report, by default the approval prompt of Claude. */
  hook(more: Record<string, unknown> = {}): Promise<Answer> {
    return this.call('create', {
      source: { provider: 'claude', provider_event: 'Notification', host_local_source_id: 'h' },
      kind: 'approval_required',
      severity: 'action_required',
      title: 'Claude needs your permission',
      body: 'Bash: make',
      session_id: ID,
      dedupe_key: `attention:${ID}`,
      ...more,
    })
  }
  stopHook(more: Record<string, unknown> = {}): Promise<Answer> {
    return this.hook({
      kind: 'turn_completed',
      severity: 'info',
      title: 'done',
      dedupe_key: `turn:${ID}`,
      source: { provider: 'claude', provider_event: 'Stop', host_local_source_id: 'h' },
      ...more,
    })
  }

  /** What detection publishes. */
  see(activity: AgentActivity | undefined, more: Partial<ActivityChange> = {}, sessionId = ID): void {
    const before = this.#last.get(sessionId)
    const now: ActivityEvidence | undefined =
      activity === undefined
        ? undefined
        : {
            activity,
            source: 'screen',
            runtime: { worker_instance_id: 'w', runtime_generation: '1' },
            epoch: 'd-1',
            revision: (this.#revision += 1n),
          }
    this.#changed.call({ sessionId, now, before, fresh: before !== activity, ...more })
    if (activity === undefined) this.#last.delete(sessionId)
    else this.#last.set(sessionId, activity)
  }

  /** The session's record changes, as its end does. */
  change(fields: Partial<SessionInfo>, sessionId = ID): void {
    const before = this.sessions.get(sessionId) as SessionInfo
    const now = { ...before, ...fields }
    this.sessions.set(sessionId, now)
    this.#hooks.changed.call(now, before)
  }
  removeSession(sessionId = ID): void {
    const info = this.sessions.get(sessionId) as SessionInfo
    this.sessions.delete(sessionId)
    this.#hooks.removed.call(info)
  }

  /** Lets time pass, then everything that began reach the disk. */
  async pass(ms: number): Promise<void> {
    await this.quiet()
    this.kernel.clock.advance(ms)
    await this.quiet()
  }

  /** Waits for everything that began, as a daemon that stops does. */
  async quiet(): Promise<void> {
    await this.kernel.running.kernel.lifecycle.drain.promise()
  }

  file(name: string): string {
    try {
      return readFileSync(join(this.root, 'data/pohunek/notifications', name), 'utf8')
    } catch {
      return ''
    }
  }

  async list(filter: Record<string, unknown> = {}): Promise<Answer[]> {
    return (await this.call('list', filter)).notifications
  }
  told(event: string): WireEvent[] {
    return this.events.filter((it) => it.event === event)
  }
  async stop(): Promise<void> {
    await this.kernel.running[Symbol.asyncDispose]()
  }
}

export async function desk(options: DeskOptions = {}): Promise<Desk> {
  const root = options.root ?? privateRoot()
  const sessions = new Map((options.sessions ?? [sessionInfo()]).map((it) => [it.id, it]))
  const inform = <A extends unknown[]>(hook: SyncHook<A>, name: string): SyncHook<A> =>
    informing(hook, name, (failure) => {
      throw failure
    })
  const hooks = {
    changed: inform(new SyncHook<[SessionInfo, SessionInfo]>(['now', 'before']), 'changed'),
    removed: inform(new SyncHook<[SessionInfo]>(['session']), 'removed'),
  } as unknown as SessionService['hooks']
  const changed = inform(new SyncHook<[ActivityChange]>(['change']), 'changed')
  const settled: Told[] = []
  const ids: string[] = []
  const events: WireEvent[] = []
  let service: NotificationService | undefined
  const listener: Bootable = definePlugin({
    contract: contract({ name: 'listener', methods: {}, events: {} }),
    needs: { inbox: Notifications },
    setup({ needs }) {
      service = needs.inbox
      needs.inbox.hooks.settled.tap('listener', ({ sessionId, kind, provider, counts, id }) => {
        settled.push({ sessionId, kind, provider, counts })
        ids.push(id)
      })
      return { methods: {} }
    },
  })
  const current = (): ActivityEvidence | undefined =>
    options.activity === undefined
      ? undefined
      : {
          activity: options.activity,
          source: 'screen',
          runtime: { worker_instance_id: 'w', runtime_generation: '1' },
          epoch: 'd',
          revision: 1n,
        }
  const kernel = await testKernel(
    [notifications, listener],
    [
      fake(Sessions, {
        hooks,
        get: (id: string) => sessions.get(id),
        list: () => [...sessions.values()],
      } as unknown as SessionService),
      fake(Detection, { hooks: { changed }, current, glance: () => undefined }),
    ],
    {
      root,
      config: { ...testConfig, notify: { ...testConfig.notify, ...options.notify } },
      onEvent: (event) => void events.push(event),
      allowErrors: options.allowErrors ?? false,
      ...(options.env === undefined ? {} : { env: options.env }),
    },
  )
  return new Desk({
    root,
    kernel,
    settled,
    ids,
    events,
    service: service as NotificationService,
    sessions,
    hooks,
    changed,
  })
}
