/** Retention over a real kernel: which sessions go, which are held and why, and what a sweep tells. */
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SyncHook } from 'tapable'
import { expect, test } from 'vitest'
import type { Fake } from '../../kernel/index.ts'
import { Notifications } from '../../plugins/notifications/api.ts'
import retention from '../../plugins/retention/plugin.ts'
import { Sessions } from '../../plugins/sessions/api.ts'
import { faults } from '../../plugins/sessions/faults.ts'
import type { SessionInfo } from '../../plugins/sessions/types.ts'
import { Worktrees, type Hold } from '../../plugins/worktrees/api.ts'
import { testKernel, type TestKernelOptions } from '../harness/kernel.ts'

const HOUR = 3_600
const DAY = 24 * HOUR
const NOW = 1_700_000_000_000

interface Odd {
  state?: SessionInfo['state']
  runtime?: NonNullable<SessionInfo['runtime']>['state']
  metadata?: Record<string, string>
  external?: boolean
  unread?: boolean
  tree?: Hold | 'clean'
  /** What session.remove does with it. */
  removal?: 'fails' | 'leaves its tree'
}

/** Doors of the other plugins, over a list of sessions by id, age in seconds and what is odd about them. */
function doors(list: Record<string, [ageSecs: number, odd?: Odd]>) {
  const sessions = new Map(
    Object.entries(list).map(([id, [ageSecs, odd = {}]]): [string, SessionInfo] => [
      id,
      {
        id,
        capabilities: { resume: false, fork: false },
        agent: 'shell',
        agent_base: 'shell',
        cwd: '/',
        pid: 1,
        cols: 80,
        rows: 24,
        state: odd.state ?? 'done',
        state_source: 'process',
        runtime: { state: odd.runtime ?? 'terminal', runtime_generation: '1' },
        ...(odd.metadata === undefined ? {} : { metadata: odd.metadata }),
        ...(odd.external === true ? { external: true } : {}),
        created_at: new Date(NOW - 400 * DAY * 1_000).toISOString(),
        updated_at: new Date(NOW - ageSecs * 1_000).toISOString(),
      },
    ]),
  )
  const removed: string[] = []
  let inspected = 0
  const oddOf = (id: string): Odd => list[id]?.[1] ?? {}
  const remove = (id: string): Promise<unknown> => {
    const { removal, tree } = oddOf(id)
    if (removal === 'fails')
      return Promise.reject(faults.runtime_supervision_ambiguous({ id, problem: 'a process may be alive' }))
    removed.push(id)
    sessions.delete(id)
    const failed = removal === 'leaves its tree'
    return Promise.resolve({
      removed: true,
      stopped: false,
      worktrees_removed: tree !== undefined && !failed ? 1 : 0,
      worktrees_failed: failed ? 1 : 0,
    })
  }
  const fakes: Fake[] = [
    {
      token: Sessions,
      service: { list: () => [...sessions.values()], get: (id: string) => sessions.get(id), remove },
    },
    {
      token: Notifications,
      service: { hooks: { settled: new SyncHook(['it']) }, hasUnread: (id: string) => oddOf(id).unread === true },
    },
    {
      token: Worktrees,
      service: {
        boundTo: (id: string) => (oddOf(id).tree === undefined ? undefined : `/trees/${id}`),
        hold: (id: string) => {
          inspected++
          const { tree } = oddOf(id)
          return Promise.resolve(tree === 'clean' ? undefined : tree)
        },
      },
    },
  ]
  return { fakes, sessions, removed, inspected: () => inspected }
}

interface Swept {
  examined: number
  eligible: number
  held: number
  removed: number
  failed: number
  worktrees_cleaned: number
  worktrees_failed: number
  sessions: { session_id: string; reason: string; removed: boolean; hold?: string; age_secs: number }[]
}

async function keeper(list: Record<string, [number, Odd?]>, options: TestKernelOptions = {}) {
  const it = doors(list)
  const kernel = await testKernel([retention], it.fakes, options)
  const sweep = (params: unknown = { dry_run: false }): Promise<Swept> =>
    kernel.call('session.retention.sweep', params) as Promise<Swept>
  const set = (policy: Record<string, unknown>): Promise<unknown> =>
    kernel.call('session.policy.set', { retention: policy })
  return { ...it, ...kernel, sweep, set }
}

test('what is over its time goes, oldest first; the longer time of lost sessions counts for them', async () => {
  const it = await keeper({
    young: [29 * DAY],
    old: [31 * DAY],
    oldest: [50 * DAY, { state: 'failed' }],
    'lost-young': [89 * DAY, { state: 'failed', runtime: 'lost' }],
    'lost-old': [91 * DAY, { state: 'failed', runtime: 'lost' }],
  })
  const dry = await it.sweep({ dry_run: true })
  expect(dry).toMatchObject({ examined: 5, eligible: 3, held: 0, removed: 0 })
  expect(dry.sessions.map((one) => [one.session_id, one.reason, one.removed])).toEqual([
    ['lost-old', 'lost', false],
    ['oldest', 'terminal', false],
    ['old', 'terminal', false],
  ])
  expect(it.removed).toEqual([])
  expect(await it.sweep()).toMatchObject({ examined: 5, eligible: 3, removed: 3 })
  expect(it.removed).toEqual(['lost-old', 'oldest', 'old'])
})

test.each<[string, Odd]>([
  ['runs', { state: 'running', runtime: 'live' }],
  ['starts', { state: 'starting', runtime: 'starting' }],
  ['cannot be reached', { state: 'running', runtime: 'reconnecting' }],
  ['is in conflict', { state: 'running', runtime: 'conflict' }],
  ['has an incompatible worker', { state: 'done', runtime: 'incompatible' }],
  ['is external', { external: true }],
  ['says that it ended while it is not known to', { state: 'running', runtime: 'terminal' }],
])('a session that %s is never a candidate, however old', async (_, odd) => {
  const it = await keeper({ s: [4_000 * DAY, odd] })
  expect(await it.sweep()).toMatchObject({ examined: 1, eligible: 0, held: 0, sessions: [] })
  expect(it.removed).toEqual([])
})

test('FC-ef90: an unread notice, a pin and unsaved work hold a session; the dry run says why', async () => {
  const it = await keeper({
    plain: [40 * DAY],
    unread: [40 * DAY, { unread: true }],
    pinned: [40 * DAY, { metadata: { pin: 'yes' } }],
    unpinned: [40 * DAY, { metadata: { pin: '' } }],
    dirty: [40 * DAY, { tree: 'worktree_uncommitted' }],
    new: [40 * DAY, { tree: 'worktree_untracked' }],
    ahead: [40 * DAY, { tree: 'worktree_unpushed' }],
    odd: [40 * DAY, { tree: 'worktree_unknown' }],
    clean: [40 * DAY, { tree: 'clean' }],
    alive: [40 * DAY, { removal: 'fails' }],
  })
  const holds = (swept: Swept): Record<string, string | undefined> =>
    Object.fromEntries(swept.sessions.map((one) => [one.session_id, one.hold]))
  const expected = {
    plain: undefined,
    unread: 'notification_unread',
    pinned: 'pinned',
    unpinned: undefined,
    dirty: 'worktree_uncommitted',
    new: 'worktree_untracked',
    ahead: 'worktree_unpushed',
    odd: 'worktree_unknown',
    clean: undefined,
    alive: undefined,
  }
  expect(holds(await it.sweep({ dry_run: true }))).toEqual(expected)
  expect(await it.sweep()).toMatchObject({
    eligible: 4,
    held: 6,
    removed: 3,
    failed: 1,
    worktrees_cleaned: 1,
    worktrees_failed: 0,
  })
  expect([...it.removed].sort()).toEqual(['clean', 'plain', 'unpinned'])
})

test('counters are exact: a tree that is left is not cleaned', async () => {
  const it = await keeper({ a: [40 * DAY, { tree: 'clean', removal: 'leaves its tree' }], b: [40 * DAY] })
  expect(await it.sweep()).toMatchObject({ removed: 2, worktrees_cleaned: 0, worktrees_failed: 1, failed: 0 })
})

test('the cap of the policy and a lower limit bound a sweep; the next one goes on', async () => {
  const it = await keeper(Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`s${at}`, [40 * DAY + at]])))
  expect(await it.sweep({ dry_run: true })).toMatchObject({ eligible: 25 })
  expect(await it.sweep({ dry_run: false, limit: 2 })).toMatchObject({ eligible: 2, removed: 2 })
  expect(it.removed).toEqual(['s29', 's28'])
  expect(await it.sweep({ dry_run: false, limit: 1_000 })).toMatchObject({ removed: 25 })
  expect(await it.sweep()).toMatchObject({ removed: 3 })
})

test('at most 64 checkouts are looked at; the rest is held as unknown and comes next time', async () => {
  const trees = Array.from({ length: 70 }, (_, at): [string, [number, Odd]] => [
    `s${at}`,
    [40 * DAY + at, { tree: 'worktree_uncommitted' }],
  ])
  const it = await keeper({ ...Object.fromEntries(trees), plain: [40 * DAY] })
  const swept = await it.sweep()
  expect(it.inspected()).toBe(64)
  expect(swept).toMatchObject({ held: 70, removed: 1 })
  const waiting = (it: Swept): string[] =>
    it.sessions.filter((one) => one.hold === 'worktree_unknown').map((one) => one.session_id)
  expect(waiting(swept)).toEqual(['s5', 's4', 's3', 's2', 's1', 's0'])
  // What a dry run looks into is what the sweep behind it looks into, and the oldest ones do not hide the rest for ever.
  const next = await it.sweep({ dry_run: true })
  expect(waiting(next)).toEqual(['s11', 's10', 's9', 's8', 's7', 's6'])
  expect(waiting(await it.sweep())).toEqual(waiting(next))
})

test('FC-dd53: a clock set forward or back makes nothing older', async () => {
  const it = await keeper({ s: [29 * DAY], future: [-10 * DAY] })
  it.clock.shiftWall(10 * DAY * 1_000)
  expect(await it.sweep()).toMatchObject({ eligible: 0 })
  it.clock.shiftWall(-30 * DAY * 1_000)
  const swept = await it.sweep()
  expect(swept).toMatchObject({ eligible: 0 })
  it.clock.shiftWall(20 * DAY * 1_000)
  it.clock.advance(2 * DAY * 1_000)
  expect(await it.sweep()).toMatchObject({ removed: 1 })
})

test('what came alive between the look and the removal stays', async () => {
  const it = await keeper({ a: [41 * DAY], b: [40 * DAY] })
  const { sessions } = it
  const b = sessions.get('b')
  const original = sessions.get.bind(sessions)
  sessions.get = (id: string) => {
    if (id === 'b' && b !== undefined)
      return { ...b, state: 'running', runtime: { state: 'live', runtime_generation: '2' } }
    return original(id)
  }
  expect(await it.sweep()).toMatchObject({ removed: 1 })
  expect(it.removed).toEqual(['a'])
})

test('automatic sweeps are off by default; switched on they come with the interval, and a new policy counts', async () => {
  const it = await keeper({ a: [40 * DAY], b: [29 * DAY] })
  expect(await it.call('session.policy.get')).toEqual({
    retention: {
      enabled: false,
      sweep_interval_secs: 21_600,
      terminal_ttl_secs: 30 * DAY,
      lost_ttl_secs: 90 * DAY,
      max_removals_per_sweep: 25,
    },
  })
  it.clock.advance(7 * HOUR * 1_000)
  await settle()
  expect(it.removed).toEqual([])
  await it.set({ enabled: true, sweep_interval_secs: 60 })
  it.clock.advance(60_000)
  await settle()
  expect(it.removed).toEqual(['a'])
  await it.set({ enabled: true, sweep_interval_secs: 60, terminal_ttl_secs: 29 * DAY })
  it.clock.advance(60_000)
  await settle()
  expect(it.removed).toEqual(['a', 'b'])
  await it.set({ enabled: false })
  expect(it.running.scope.live.filter((one) => one.includes('sweep'))).toEqual([])
})

test('the policy is private, survives a restart, and a damaged one leaves the defaults in force and says so', async () => {
  const first = await keeper({})
  await first.set({ enabled: true, lost_ttl_secs: 7_200 })
  const file = join(first.root, 'data/pohunek/session-policy.json')
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ enabled: true, lost_ttl_secs: 7_200 })
  await first.running[Symbol.asyncDispose]()
  const second = await keeper({}, { root: first.root })
  expect(await second.call('session.policy.get')).toMatchObject({ retention: { lost_ttl_secs: 7_200 } })
  await second.running[Symbol.asyncDispose]()
  writeFileSync(file, '{"enabled":true,"sweep_interval_secs":1}')
  const third = await keeper({}, { root: first.root })
  expect(await third.call('session.policy.get')).toMatchObject({ retention: { enabled: false } })
  const checks = await third.running.kernel.diagnostics.run()
  expect(checks.checks.find((one) => one.name === 'session_policy')).toMatchObject({
    status: 'warn',
    detail: expect.stringContaining('sweep_interval_secs') as string,
  })
})

test.each([
  ['session.policy.get', {}],
  ['session.policy.set', {}],
  ['session.policy.set', { retention: { sweep_interval_secs: 59 } }],
  ['session.policy.set', { retention: { terminal_ttl_secs: 3_599 } }],
  ['session.policy.set', { retention: { lost_ttl_secs: -1 } }],
  ['session.policy.set', { retention: { max_removals_per_sweep: 4_294_967_296 } }],
  ['session.policy.set', { retention: { enabled: 'yes' } }],
  ['session.policy.set', { retention: { keep: true } }],
  ['session.retention.sweep', { limit: 1 }],
  ['session.retention.sweep', { dry_run: true, limit: -1 }],
  ['session.retention.sweep', { dry_run: true, all: true }],
])('%s %j is bad_request', async (method, params) => {
  const it = await keeper({})
  await expect(it.call(method, params)).rejects.toMatchObject({ code: 'bad_request' })
})

async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
}
