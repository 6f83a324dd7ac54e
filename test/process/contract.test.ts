/**
 * Every method a running daemon says it serves, driven with wrong types and unknown ids: the contract's typed error, at
 * once. The table below is complete by construction: a method without a line fails.
 */
import { ALL_BUT_SYSTEM } from '../harness/plugin-names.ts'
import { expect, test } from 'vitest'
import { refused } from '../harness/session.ts'
import { monotonicMs, within } from '../harness/wait.ts'
import { WireError, type Wire } from '../harness/wire.ts'
import { world } from '../harness/world.ts'

const AT_ONCE_MS = 1_000
const UNKNOWN = `s-${'0'.repeat(26)}`
const runtime = { worker_instance_id: 'w', runtime_generation: '1' }

const notice = {
  source: { provider: 'test', provider_event: 'e', host_local_source_id: 'x' },
  kind: 'error',
  severity: 'error',
  title: 't',
  body: 'b',
}

interface Line {
  /** First protocol version that has the method. */
  readonly since?: number
  /** Params no reading of the contract accepts. */
  readonly wrong: readonly unknown[]
  /** Well-formed params that name a session nobody has, and what is answered. */
  readonly unknown?: readonly (readonly [params: unknown, code: string])[]
  /** Parameterless methods of which the contract does not say that others are refused. */
  readonly lenient?: boolean
}

const notStrings = [null, 7, true, [], {}, { session_id: 1 }]
const bareId: Line = { wrong: [...notStrings, ''], unknown: [[UNKNOWN, 'session_not_found']] }
const keyed = (more: Record<string, unknown>, wrongMore: readonly Record<string, unknown>[]): Line => ({
  wrong: [
    null,
    7,
    'text',
    [],
    {},
    { ...more, session_id: 7 },
    { ...more, session_id: null },
    { ...more, session_id: '' },
    ...wrongMore.map((it) => ({ session_id: UNKNOWN, ...more, ...it })),
  ],
  unknown: [[{ session_id: UNKNOWN, ...more }, 'session_not_found']],
})
const noParams: Line = { wrong: [7, 'text', [], { a: 1 }, true], lenient: true }

const project = (more: Record<string, unknown>, wrong: Record<string, unknown> = { more: 1 }): Line => ({
  wrong: [null, 7, 'text', [], {}, { ...more, reference: 7 }, { reference: 'nobody', ...more, ...wrong }],
  unknown: [[{ reference: 'nobody', ...more }, 'project_not_found']],
})

const table: Record<string, Line> = {
  'daemon.health': noParams,
  'daemon.capabilities': noParams,
  'daemon.doctor': { wrong: [7, 'text', [], {}, true] },
  'host.inspect': { wrong: [7, 'text', [], {}, true] },
  subscribe: noParams,
  'session.runtime_inventory': noParams,
  'session.new': {
    wrong: [
      null,
      7,
      'shell',
      [],
      {},
      { agent: 'shell' },
      { agent: 7, cols: 80, rows: 24 },
      { agent: 'shell', cols: '80', rows: 24 },
      { agent: 'shell', cols: 0, rows: 24 },
      { agent: 'shell', cols: 80, rows: 65_536 },
      { agent: 'shell', cols: 80.5, rows: 24 },
      { agent: 'shell', cols: 80, rows: 24, name: 7 },
      { agent: 'shell', cols: 80, rows: 24, cwd: [] },
      { agent: 'shell', cols: 80, rows: 24, metadata: { a: null } },
      { agent: 'shell', cols: 80, rows: 24, input: {} },
      { agent: 'shell', cols: 80, rows: 24, base_branch: 'b' },
      { agent: 'shell', cols: 80, rows: 24, project: 'p', repo: '/r' },
    ],
    unknown: [[{ agent: 'nobody-has-this', cols: 80, rows: 24 }, 'agent_profile_not_found']],
  },
  'session.list': {
    wrong: [
      7,
      'text',
      true,
      { filters: {} },
      { filters: [7] },
      { filters: [{ key: 'no-such-key', value: 'x' }] },
      { filters: [{ key: 'state', value: 'flying' }] },
      { filters: [{ key: 'activity', value: 7 }] },
    ],
  },
  'session.inspect': bareId,
  'session.stop': bareId,
  'session.remove': bareId,
  'session.remove_accepting_unconfirmed': bareId,
  'session.rename': keyed({ name: 'n' }, [{ name: 7 }, { name: {} }, { name: [] }]),
  'session.set_metadata': keyed({ metadata: {} }, [{ metadata: null }, { metadata: 'a' }, { metadata: { a: 1 } }]),
  'session.resize': keyed({ cols: 80, rows: 24 }, [
    { cols: -1 },
    { cols: 65_536 },
    { cols: 1.5 },
    { cols: '80' },
    { rows: null },
  ]),
  'session.attach': keyed({}, [
    { initial_dimensions: { cols: 0, rows: 24 } },
    { initial_dimensions: { cols: 80 } },
    { initial_dimensions: '80x24' },
    { origin_session_id: 7 },
  ]),
  'session.detach': { wrong: [null, 7, 'text', [], {}, { stream_id: 7 }, { stream_id: '' }] },
  'session.input': keyed({ text: 'x' }, [
    { text: 7 },
    { text: null },
    { text: 'x', wait: 7 },
    { text: 'x', wait: {} },
    { text: 'x', force: 'yes' },
    { text: 'x', paste: 1 },
    { text: 'x', wait: { timeout_ms: 10, until: ['flying'] } },
    { text: 'x', wait: { timeout_ms: 10, more: 1 } },
  ]),
  'session.screen': keyed({}, [{ more: 1 }]),
  'session.wait': keyed({ states: ['done'], timeout_ms: 5 }, [
    { states: [] },
    { states: ['flying'] },
    { activities: ['asleep'] },
    { timeout_ms: 0 },
    { timeout_ms: 'x' },
    { after_output_offset: '1' },
    { after_updated_at: 'yesterday' },
    { more: 1 },
  ]),
  'session.wait_turn': {
    wrong: [
      null,
      7,
      'text',
      [],
      {},
      { session_ids: [] },
      { session_ids: [7] },
      { session_ids: UNKNOWN },
      { session_ids: [UNKNOWN], kinds: [] },
      { session_ids: [UNKNOWN], kinds: ['started'] },
      { session_ids: [UNKNOWN], timeout_ms: 0 },
      { session_ids: [UNKNOWN], after: 7 },
    ],
    unknown: [[{ session_ids: [UNKNOWN] }, 'session_not_found']],
    since: 4,
  },
  'session.detection': keyed({}, [{ more: 1 }]),
  'session.explain': keyed({}, [{ more: 1 }]),
  'session.read': keyed({}, [
    { source: 'all' },
    { lines: 0 },
    { lines: 1_001 },
    { lines: '5' },
    { format: 'html' },
    { more: 1 },
  ]),
  'session.output': keyed({ max_bytes: 10 }, [
    { max_bytes: 0 },
    { max_bytes: -1 },
    { max_bytes: '10' },
    { after_offset: 7, runtime },
    { after_offset: '007', runtime },
    { after_offset: '-1', runtime },
    { after_offset: '18446744073709551616', runtime },
    { runtime: { worker_instance_id: 'w' } },
    { runtime: { ...runtime, more: 1 } },
    { wait_ms: 0, after_offset: '0', runtime },
    { more: 1 },
  ]),
  'session.diff': {
    wrong: [...notStrings, '', { session_id: 7 }, { session_id: '' }, { session_id: UNKNOWN, base: 7 }],
    unknown: [[{ session_id: UNKNOWN }, 'session_not_found']],
  },
  'worktree.list': { wrong: [7, 'text', true, { sizes: 'yes' }] },
  'worktree.remove': {
    wrong: [null, 7, 'text', [], {}, { path: 7 }, { path: '' }, { path: '/none', force: 'yes' }],
    unknown: [[{ path: '/no/such/tree' }, 'worktree_not_owned']],
  },
  'worktree.rescue.list': { wrong: [7, 'text', [], { a: 1 }, true] },
  'worktree.rescue.restore': {
    wrong: [null, 7, 'text', [], {}, { ref: 7 }, { ref: '' }, { ref: 'x', branch: 7 }],
    unknown: [[{ ref: 'refs/pohunek/rescue/none' }, 'rescue_not_found']],
  },
  'project.list': { wrong: [7, 'text', true, { filters: {} }, { filters: [{ key: 'no-such-key', value: 'x' }] }] },
  'project.add': {
    wrong: [null, 7, 'text', [], { path: 7 }, { name: 7 }, { more: 1 }],
    unknown: [[{ path: '/no/such/repository' }, 'not_a_git_repo']],
  },
  'project.show': project({}),
  'project.rename': project({ name: 'n' }),
  'project.remove': project({}, { prune_worktrees: 'yes' }),
  'project.prompt': project({ name: 'n' }),
  'project.action': project({ name: 'n' }),
  'project.actions': project({}),
  'session.policy.get': { wrong: [7, 'text', [], {}, true] },
  'session.policy.set': {
    wrong: [
      null,
      7,
      'text',
      [],
      {},
      { retention: null },
      { retention: 7 },
      { retention: { enabled: 'yes' } },
      { retention: { sweep_interval_secs: 59 } },
      { retention: { terminal_ttl_secs: 3_599 } },
      { retention: { lost_ttl_secs: '7200' } },
      { retention: { max_removals_per_sweep: -1 } },
      { retention: { more: 1 } },
      { retention: {}, more: 1 },
    ],
  },
  'session.retention.sweep': {
    wrong: [
      7,
      'text',
      [],
      {},
      true,
      { limit: 1 },
      { dry_run: 'yes' },
      { dry_run: true, limit: -1 },
      { dry_run: true, more: 1 },
    ],
  },
  'notification.create': {
    wrong: [
      null,
      7,
      'text',
      [],
      {},
      { ...notice, source: 7 },
      { ...notice, source: { provider: 'x' } },
      { ...notice, kind: 'task_settled' },
      { ...notice, severity: 'fatal' },
      { ...notice, title: 7 },
      { ...notice, body: null },
      { ...notice, metadata: [] },
      { ...notice, session_id: 7 },
    ],
  },
  'notification.list': {
    wrong: [
      7,
      'text',
      true,
      { status: 'gone' },
      { kind: 7 },
      { limit: 0 },
      { limit: -1 },
      { limit: '5' },
      { cursor: 7 },
    ],
  },
  'notification.update': {
    wrong: [null, 7, 'text', [], {}, { id: 'n-x' }, { id: 7, status: 'read' }, { id: 'n-x', status: 'gone' }],
    unknown: [[{ id: 'n-x', status: 'read' }, 'notification_not_found']],
  },
  'notification.delete': { wrong: [null, 7, 'text', [], {}, { id: 7 }, { id: '' }] },
  'notification.policy.get': { wrong: [7, 'text', [], {}, true] },
  'notification.policy.set': {
    wrong: [null, 7, 'text', [], {}, { policy: 7 }, { policy: {} }, { policy: {}, more: 1 }],
  },
  'notification.retention.prune': {
    wrong: [7, 'text', true, { dry_run: 'yes' }, { status: 'gone' }, { before: 7 }, { limit: 0 }],
  },
}

/** The error of one call and how long it took; undefined when it was answered. */
async function outcome(
  wire: Wire,
  method: string,
  params: unknown,
): Promise<{ code: string | undefined; class: string | undefined; ms: number }> {
  const start = monotonicMs()
  const error = await within(`${method} answers`, wire.call(method, params), 5_000).then(
    () => undefined,
    (problem: unknown) => {
      if (problem instanceof WireError) return problem
      throw problem
    },
  )
  return { code: error?.code, class: error?.body.class, ms: monotonicMs() - start }
}

test('every served method has a line here, and every line is served', async () => {
  const w = await world()
  const served = ((await w.call('daemon.capabilities')).methods as { name: string }[]).map((it) => it.name)
  expect(Object.keys(table).sort()).toEqual([...served].sort())
})

test(
  'wrong types are bad_request at once; parameterless methods answer or refuse, never fail otherwise',
  { timeout: 60_000 },
  async () => {
    const w = await world()
    for (const [method, { wrong, lenient }] of Object.entries(table)) {
      for (const params of wrong) {
        const wire = await w.connect()
        const { code, class: kind, ms } = await outcome(wire, method, params)
        if (!(lenient === true && code === undefined)) {
          expect([method, params, kind, code]).toEqual([method, params, 'daemon', 'bad_request'])
        }
        expect([method, params, ms < AT_ONCE_MS]).toEqual([method, params, true])
        wire.close()
      }
    }
    expect(await w.call('session.list')).toEqual([])
  },
)

test('unknown ids get their code at once, on both protocol versions', async () => {
  const w = await world()
  for (const v of [
    { minimum: 4, maximum: 4 },
    { minimum: 3, maximum: 3 },
  ]) {
    const wire = await w.connect()
    for (const [method, { unknown = [], since = 3 }] of Object.entries(table)) {
      for (const [params, known] of unknown) {
        const code = v.maximum < since ? 'method_not_found' : known
        const start = monotonicMs()
        const error = await refused(wire.call(method, params, { v }))
        const kind = v.maximum < since ? 'daemon' : 'runtime'
        expect([method, v.maximum, error.code, error.body.class]).toEqual([method, v.maximum, code, kind])
        expect(monotonicMs() - start).toBeLessThan(AT_ONCE_MS)
      }
    }
    wire.close()
  }
  expect(await w.call('session.detach', { stream_id: 'a-unknown' })).toEqual({ detached: false })
})

test('every typed error carries exactly the contract keys and a code this daemon lists', async () => {
  const w = await world()
  const listed = new Map(
    ((await w.call('daemon.capabilities')).error_codes as { code: string; class: string }[]).map((it) => [
      it.code,
      it.class,
    ]),
  )
  for (const [method, { wrong, unknown = [] }] of Object.entries(table)) {
    for (const params of [...wrong.slice(0, 3), ...unknown.map(([it]) => it)]) {
      const wire = await w.connect()
      const answer = await wire.call(method, params).catch((problem: unknown) => problem)
      wire.close()
      if (!(answer instanceof WireError)) continue
      const { body } = answer
      expect(
        Object.keys(body)
          .filter((it) => it !== 'recover')
          .sort(),
      ).toEqual(['class', 'code', 'msg'])
      expect([body.code, listed.get(body.code)]).toEqual([body.code, body.class])
      expect(body.msg).toMatch(/\S/)
      expect(body.msg.length).toBeLessThan(1_000)
    }
  }
})

test('a live session: wrong params leave it alone', async () => {
  const w = await world()
  const session = await w.child(['lines_in'])
  await session.untilScreen('ready')
  const before = await session.info()
  const own = [{ cols: 0 }, { rows: 0 }].map(
    (it) => ['session.resize', { session_id: UNKNOWN, cols: 80, rows: 24, ...it }] as const,
  )
  const all = Object.entries(table).flatMap(([method, { wrong }]) => wrong.map((params) => [method, params] as const))
  for (const [method, params] of [...all, ...own]) {
    if (method === 'subscribe' || method === 'session.new' || table[method]?.lenient === true) continue
    const named =
      typeof params === 'object' && params !== null && 'session_id' in params && params.session_id === UNKNOWN
    const error = await refused(w.call(method, named ? { ...params, session_id: session.id } : params))
    expect([method, params, error.code]).toEqual([method, params, 'bad_request'])
  }
  expect(await session.info()).toEqual(before)
  await session.input('untouched')
  await session.untilScreen('got:untouched')
})

test('a daemon run without the sessions plugin answers method_not_found for all of it', async () => {
  const w = await world({ args: ['--without', ALL_BUT_SYSTEM], end: 'kill' })
  const served = ((await w.call('daemon.capabilities')).methods as { name: string }[]).map((it) => it.name)
  expect(served.filter((it) => it.startsWith('session.'))).toEqual([])
  for (const [method, { unknown = [], wrong }] of Object.entries(table).filter(([it]) => it.startsWith('session.'))) {
    expect([method, (await refused(w.call(method, unknown[0]?.[0] ?? wrong[0]))).code]).toEqual([
      method,
      'method_not_found',
    ])
  }
  const { code, stdout } = await w.cli(['session', 'list', '--json'])
  expect(code).toBe(1)
  expect(JSON.parse(stdout).err.code).toBe('method_not_found')
  await w.daemon.stop()
})
