/** The methods: what is accepted, how it is listed, how it moves on, what retention takes. */
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { plainLine, plainText } from '../../plugins/notifications/text.ts'
import { keeps } from '../../plugins/notifications/policy.ts'
import { MAX_RECORDS } from '../../plugins/notifications/retention.ts'
import { desk, sessionInfo, type Desk } from './desk.ts'

const system = (d: Desk, more: Record<string, unknown> = {}) =>
  d.hook({
    kind: 'error',
    severity: 'error',
    dedupe_key: undefined,
    session_id: undefined,
    source: { provider: 'cron', provider_event: 'e', host_local_source_id: 'x' },
    ...more,
  })

describe('creation', () => {
  test('what is refused, and with which code', async () => {
    const d = await desk({ sessions: [sessionInfo(), sessionInfo({ id: 's-pi', agent_base: 'pi' })] })
    const cases: [Record<string, unknown>, string][] = [
      [{ kind: 'task_settled' }, 'bad_request'],
      [{ kind: 'nope' }, 'bad_request'],
      [{ severity: 'fatal' }, 'bad_request'],
      [{ session_id: 7 }, 'bad_request'],
      [{ title: undefined }, 'bad_request'],
      [{ source: { provider: '', provider_event: 'e', host_local_source_id: 'x' } }, 'bad_request'],
      [{ source: { provider: 'x'.repeat(257), provider_event: 'e', host_local_source_id: 'x' } }, 'bad_request'],
      [{ session_id: 'a\nb', dedupe_key: undefined }, 'invalid_notification_session_id'],
      [{ session_id: 'é'.repeat(257), dedupe_key: undefined }, 'invalid_notification_session_id'],
      [{ dedupe_key: 'attention:other' }, 'invalid_notification_dedupe_key'],
      [{ dedupe_key: `turn:${d.id}` }, 'invalid_notification_dedupe_key'],
      [{ kind: 'turn_completed' }, 'invalid_notification_dedupe_key'],
      [{ session_id: undefined }, 'invalid_notification_dedupe_key'],
      [{ dedupe_key: 'x'.repeat(513) }, 'invalid_notification_dedupe_key'],
      [{ metadata: { color: 'red' } }, 'invalid_notification_metadata'],
      [{ metadata: { reason: 'x'.repeat(513) } }, 'invalid_notification_metadata'],
      ...['token', 'api_key', 'API-KEY', 'my_secret', 'password', 'Authorization', 'cookie'].map(
        (key): [Record<string, unknown>, string] => [{ metadata: { [key]: 'v' } }, 'invalid_notification_metadata'],
      ),
      [{ kind: 'system', dedupe_key: undefined }, 'notification_kind_disabled'],
      [{ session_id: 's-pi', dedupe_key: 'attention:s-pi' }, 'hook_not_admitted'],
    ]
    for (const [params, code] of cases) {
      const failure = await d.hook(params).then(
        () => undefined,
        (it: unknown) => it as { code: string; message: string; recover?: string },
      )
      expect([params, failure?.code]).toEqual([params, code])
      if (code === 'invalid_notification_metadata') expect(failure?.message).not.toContain('"v"')
    }
    await d.pass(10_000)
    expect([await d.list(), d.settled]).toEqual([[], []])
  })

  test('FC-d94b: unknown fields of a hook are ignored, large ones too', async () => {
    const d = await desk()
    const { record } = await d.hook({ dedupe_key: undefined, extra: 'x'.repeat(200_000), nested: { a: [1] } })
    expect(record).not.toHaveProperty('extra')
    expect(await d.list()).toEqual([record])
  })

  test('a session that nobody has is named all the same; the context of one that is there is added', async () => {
    const d = await desk({ sessions: [sessionInfo({ project_id: 'p-1', active_agent_base: 'codex' })] })
    const { record: there } = await d.hook({ dedupe_key: undefined })
    expect(there).toMatchObject({ agent_kind: 'codex', project_id: 'p-1' })
    const { record: gone } = await d.hook({ session_id: 's-gone', dedupe_key: 'attention:s-gone' })
    await d.pass(5_000)
    expect((await d.list({ session_id: 's-gone' })).map((it) => it.id)).toEqual([gone.id])
    expect(d.settled).toMatchObject([{ counts: false }])
  })

  test('the same hook event twice, over worker and daemon, is one record', async () => {
    const d = await desk()
    const params = { kind: 'error', severity: 'error', dedupe_key: undefined, source_id: 'hook:claude:StopFailure:1' }
    const first = await d.hook(params)
    const second = await d.hook(params)
    expect([first.created, second.created, second.record.id]).toEqual([true, false, first.record.id])
    const outside = { source: { provider: 'cron', provider_event: 'e', host_local_source_id: 'x' } }
    expect((await d.hook({ ...params, ...outside })).created).toBe(true)
    expect((await d.hook({ ...params, ...outside })).created).toBe(true)
  })

  test('a provider without an entry gets the base policy', async () => {
    const d = await desk()
    const { policy } = await d.call('policy.get')
    expect(Object.keys(policy.providers)).toEqual(['claude', 'codex', 'hermes'])
    expect(keeps(policy, 'constructor', 'system')).toBe(false)
    const none = Object.fromEntries(Object.keys(policy.enabled).map((it) => [it, false]))
    await d.call('policy.set', { policy: { ...policy, providers: { claude: none } } })
    await expect(d.hook({ dedupe_key: undefined })).rejects.toMatchObject({ code: 'notification_kind_disabled' })
    await d.hook({
      dedupe_key: undefined,
      source: { provider: 'codex', provider_event: 'e', host_local_source_id: 'x' },
    })
  })
})

describe('FC-3f8a, FC-39e0: text', () => {
  test.each([
    ['\u001b]0;a\u0007b', 'b'],
    ['a\u001b[2Jb\u009b31mc', 'abc'],
    ['x\u001b]9;y\u001b\\z', 'xz'],
    ['a\u202eb\u2066c', 'abc'],
    ['a\u0000\u0007\u007f\u0085b', 'a b'],
    ['one\r\ntwo\nthree', 'one two three'],
    ['tab\there', 'tab here'],
    ['lone \ud800 half', 'lone \ufffd half'],
    ['\u001b]52;c;aGk=\u0007\u001b]8;;http://x\u0007link\u001b]8;;\u0007', 'link'],
  ])('%j becomes %j', (given, plain) => {
    expect(plainLine(given, 160)).toBe(plain)
  })

  test('whatever it is, what is kept is bounded and drives nothing', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 400 }), fc.integer({ min: 1, max: 160 }), (text, max) => {
        const kept = plainText(`\u001b]0;${text}\u001b[${text}`, max)
        expect([...kept].length).toBeLessThanOrEqual(max)
        expect(kept).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/)
        expect(plainLine(text, max)).not.toContain('\n')
      }),
    )
  })

  test('a body of 100 KB is cut, a title is one line, and both are told so', async () => {
    const d = await desk()
    const { record } = await system(d, { title: `a\n${'é'.repeat(300)}`, body: 'x'.repeat(100_000) })
    expect([...record.title]).toHaveLength(160)
    expect(record.title).toMatch(/^a é+…$/)
    expect(record.body).toHaveLength(4_096)
    expect(record.body.endsWith('…')).toBe(true)
    expect((await system(d, { title: '\u001b[0m' })).record.title).toBe('error')
  })
})

describe('list', () => {
  test('newest first, in pages that go on behind records that come and go', async () => {
    const d = await desk()
    const ids: string[] = []
    for (let at = 0; at < 7; at++) {
      ids.unshift((await system(d, { title: `t${at}` })).record.id)
      d.kernel.clock.advance(1_000)
    }
    const first = await d.call('list', { limit: 3 })
    expect(first.notifications.map((it: { id: string }) => it.id)).toEqual(ids.slice(0, 3))
    await system(d, { title: 'newer' })
    await d.call('delete', { id: first.next_cursor })
    const rest = await d.call('list', { limit: 4, cursor: first.next_cursor })
    expect(rest.notifications.map((it: { id: string }) => it.id)).toEqual(ids.slice(3))
    expect(rest).not.toHaveProperty('next_cursor')
  })

  test('filters', async () => {
    const d = await desk()
    const { record: old } = await system(d)
    d.kernel.clock.advance(10_000)
    const { record: hook } = await d.hook({ dedupe_key: undefined })
    const ids = async (filter: Record<string, unknown>) => (await d.list(filter)).map((it) => it.id)
    expect(await ids({ kind: 'error' })).toEqual([old.id])
    expect(await ids({ severity: 'action_required' })).toEqual([hook.id])
    expect(await ids({ provider: 'cron' })).toEqual([old.id])
    expect(await ids({ session_id: d.id })).toEqual([hook.id])
    expect(await ids({ created_after: old.created_at })).toEqual([hook.id])
    expect(await ids({ created_before: hook.created_at })).toEqual([old.id])
    await d.call('update', { id: old.id, status: 'read' })
    expect(await ids({ status: 'unread' })).toEqual([hook.id])
    await d.call('delete', { id: old.id })
    expect([await ids({}), await ids({ status: 'deleted' })]).toEqual([[hook.id], [old.id]])
  })

  test('bad times, cursors and limits are refused by name', async () => {
    const d = await desk()
    for (const [filter, code] of [
      [{ created_after: 'yesterday' }, 'invalid_notification_timestamp'],
      [{ created_before: '2026-13-01T00:00:00Z' }, 'invalid_notification_timestamp'],
      [{ cursor: '' }, 'invalid_notification_cursor'],
      [{ cursor: 'n-nope' }, 'invalid_notification_cursor'],
      [{ cursor: `n-8${'Z'.repeat(25)}` }, 'invalid_notification_cursor'],
      [{ limit: 0 }, 'bad_request'],
      [{ status: 'gone' }, 'bad_request'],
    ] as const)
      await expect(d.call('list', filter)).rejects.toMatchObject({ code })
  })

  test('a page never outgrows one line', async () => {
    const d = await desk()
    const body = 'é'.repeat(4_096)
    for (let at = 0; at < 140; at++) await system(d, { body })
    let cursor: string | undefined
    let found = 0
    do {
      const page = await d.call('list', cursor === undefined ? null : { cursor })
      expect(Buffer.byteLength(JSON.stringify(page))).toBeLessThan(1_048_418)
      found += page.notifications.length
      cursor = page.next_cursor
    } while (cursor !== undefined)
    expect(found).toBe(140)
  })
})

describe('status', () => {
  test('only forward; each step has its time', async () => {
    const d = await desk()
    const allowed: Record<string, string[]> = {
      unread: ['read', 'acknowledged', 'archived', 'deleted'],
      read: ['acknowledged', 'archived', 'deleted'],
      acknowledged: ['archived', 'deleted'],
      archived: ['deleted'],
      deleted: [],
    }
    for (const from of Object.keys(allowed)) {
      for (const to of Object.keys(allowed)) {
        const { record } = await system(d)
        if (from !== 'unread') await d.call('update', { id: record.id, status: from })
        const moving = d.call('update', { id: record.id, status: to })
        if (allowed[from]?.includes(to) === true) expect((await moving).record.status).toBe(to)
        else
          await expect(moving).rejects.toMatchObject({
            code: 'invalid_notification_transition',
            recover: expect.stringContaining(allowed[from]?.[0] ?? 'nothing'),
          })
      }
    }
    const { record } = await system(d)
    d.kernel.clock.advance(5)
    const { record: read } = await d.call('update', { id: record.id, status: 'read' })
    expect(Date.parse(read.read_at) - Date.parse(record.created_at)).toBe(5)
    await expect(d.call('update', { id: 'n-x', status: 'read' })).rejects.toMatchObject({
      code: 'notification_not_found',
    })
    expect(await d.call('delete', { id: record.id })).toEqual({ id: record.id, deleted: true })
    expect(await d.call('delete', { id: record.id })).toEqual({ id: record.id, deleted: false })
    expect(await d.call('delete', { id: 'n-x' })).toEqual({ id: 'n-x', deleted: false })
    expect(d.told('notification_deleted').at(-1)?.payload).toEqual({ notification_id: record.id })
  })
})

describe('retention', () => {
  const DAY_MS = 86_400_000

  test('each kind of record has its time, counted from the last thing that happened; what waits never goes', async () => {
    const d = await desk()
    const make = async (title: string, severity: string, status?: string) => {
      const { record } = await system(d, { title, severity })
      if (status !== undefined) await d.call('update', { id: record.id, status })
    }
    await make('info', 'info')
    await make('warning', 'warning')
    await make('open attention', 'action_required')
    await make('read error', 'error', 'read')
    await make('acked attention', 'action_required', 'acknowledged')
    await make('acked error', 'error', 'acknowledged')
    await make('archived', 'info', 'archived')
    const titles = async (): Promise<string[]> => (await d.list()).map((it) => it.title as string).sort()
    const after = async (days: number): Promise<string[]> => {
      await d.pass(days * DAY_MS)
      return await titles()
    }
    expect((await titles()).length).toBe(7)
    expect(await after(3.5)).not.toContain('info')
    expect(await titles()).toContain('acked attention')
    expect(await after(4)).not.toContain('acked attention')
    expect(await titles()).toContain('warning')
    expect(await after(7)).not.toContain('warning')
    expect(await after(16)).toEqual(['archived', 'open attention', 'read error'])
    expect(await after(61)).toEqual(['open attention', 'read error'])
    expect(await d.list({ status: 'deleted' })).toEqual([]) // forgotten after a day
    expect(d.told('notification_deleted')).toHaveLength(5)
  })

  test('prune: a dry run names, status and time select, unresolved ones need their status', async () => {
    const d = await desk()
    const { record: open } = await system(d)
    const { record: info } = await system(d, { severity: 'info' })
    d.kernel.clock.advance(1_000)
    const before = new Date(d.kernel.clock.now()).toISOString()
    const { record: newer } = await system(d, { severity: 'info' })
    expect(await d.call('retention.prune', null)).toEqual({ dry_run: false, pruned: [] })
    expect(await d.call('retention.prune', { dry_run: true, before })).toEqual({ dry_run: true, pruned: [info.id] })
    expect(await d.list()).toHaveLength(3)
    expect((await d.call('retention.prune', { before })).pruned).toEqual([info.id])
    expect((await d.call('retention.prune', { status: 'unread', limit: 1 })).pruned).toEqual([open.id])
    expect((await d.list()).map((it) => it.id)).toEqual([newer.id])
    expect((await d.call('retention.prune', { status: 'deleted' })).pruned.sort()).toEqual([open.id, info.id].sort())
    expect(await d.list({ status: 'deleted' })).toEqual([])
    await expect(d.call('retention.prune', { before: 'x' })).rejects.toMatchObject({
      code: 'invalid_notification_timestamp',
    })
  })

  test('a full inbox gives up what is resolved, oldest first', { timeout: 60_000 }, async () => {
    const d = await desk()
    const { record: open } = await system(d)
    const { record: acked } = await system(d)
    await d.call('update', { id: acked.id, status: 'acknowledged' })
    for (let at = 0; at < MAX_RECORDS; at += 500) {
      await Promise.all(Array.from({ length: 500 }, () => system(d, { severity: 'info', title: 'flood' })))
    }
    await d.quiet()
    const { notifications: first } = await d.call('list', { limit: 4_000_000_000 })
    expect(first.length).toBeGreaterThan(0)
    expect((await d.list({ status: 'deleted' })).map((it) => it.id)).toContain(acked.id)
    expect((await d.list({ kind: 'error', severity: 'error' })).map((it) => it.id)).toEqual([open.id])
    expect(d.kernel.log.some((it) => it.message.startsWith('the inbox is full'))).toBe(true)
  })

  test('policy: zero is refused, unknown keys too', async () => {
    const d = await desk()
    const { policy } = await d.call('policy.get')
    for (const key of Object.keys(policy.retention)) {
      const bad = { ...policy, retention: { ...policy.retention, [key]: 0 } }
      await expect(d.call('policy.set', { policy: bad })).rejects.toMatchObject({ code: 'invalid_notification_policy' })
    }
    for (const bad of [
      { ...policy, more: 1 },
      { ...policy, enabled: { ...policy.enabled, more: true } },
      { ...policy, enabled: {} },
      { ...policy, attention_debounce_secs: -1 },
    ])
      await expect(d.call('policy.set', { policy: bad })).rejects.toMatchObject({ code: 'bad_request' })
    await expect(d.call('policy.get', {})).rejects.toMatchObject({ code: 'bad_request' })
    const { providers: _none, ...bare } = policy
    expect((await d.call('policy.set', { policy: { ...bare, providers: {} } })).policy).not.toHaveProperty('providers')
  })
})

test('a clock before 1970 or after the last time an id can hold: records are created all the same', async () => {
  const d = await desk()
  d.kernel.clock.shiftWall(-2_000_000_000_000)
  const early = await d.hook({ dedupe_key: undefined })
  expect(early.record.created_at).toBe('1970-01-01T00:00:00.001Z')
  await d.call('update', { id: early.record.id, status: 'read' })
  d.kernel.clock.shiftWall(2 ** 49)
  const { record } = await d.hook({ dedupe_key: undefined, source_id: 'late' })
  expect((await d.list()).map((it) => it.id)).toEqual([record.id, early.record.id])
})

test('what nobody sees is no part of a title; the joints of an emoji are', async () => {
  const d = await desk()
  const title = async (text: string): Promise<string> =>
    (await d.hook({ dedupe_key: undefined, source_id: text, title: text })).record.title
  expect(await title('a\u200bb\u200cc\u200dd\u2060e\ufefff\u{e0041}\u{e007f}g\u00adh\u{e0100}')).toBe('abcdefgh')
  expect(await title('\u200b\u{e0041}')).toBe('approval required')
  expect(await title('👩‍💻 and 👩🏽‍🚀 and ❤️‍🔥')).toBe('👩‍💻 and 👩🏽‍🚀 and ❤️‍🔥')
})

test('a day that does not exist is no time to list from', async () => {
  const d = await desk()
  await expect(d.list({ created_after: '2026-02-31T00:00:00Z' })).rejects.toMatchObject({
    code: 'invalid_notification_timestamp',
  })
  expect(await d.list({ created_after: '2024-02-29T00:00:00Z' })).toEqual([])
})
