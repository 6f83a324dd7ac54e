/** What survives a daemon: records, held reports, the policy; and logs that are damaged or from a later release. */
import { appendFileSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { privateRoot } from '../harness/kernel.ts'
import { desk, sessionInfo } from './desk.ts'

const WINDOW_MS = 5_000

test('a held report is held again for a whole window after a restart, and told once', async () => {
  const first = await desk()
  const { record } = await first.hook()
  await first.pass(WINDOW_MS - 1)
  await first.stop()
  expect(first.settled).toEqual([])
  const second = await desk({ root: first.root })
  await second.pass(WINDOW_MS - 1)
  expect(await second.list()).toEqual([])
  await second.pass(1)
  expect(await second.list()).toEqual([record])
  expect(second.settled).toHaveLength(1)
  await second.stop()
  const third = await desk({ root: first.root })
  await third.pass(WINDOW_MS * 2)
  expect([await third.list(), third.settled]).toEqual([[record], []])
})

test('a report dropped by work is gone after a restart, the turn behind it is not', async () => {
  const first = await desk()
  await first.hook()
  first.see('working')
  await first.pass(2_000)
  first.see('idle')
  await first.quiet()
  await first.stop()
  const second = await desk({ root: first.root })
  await second.pass(WINDOW_MS)
  expect(second.settled.map((it) => it.kind)).toEqual(['turn_completed'])
  expect(await second.list()).toEqual([])
})

test('held reports of sessions that work, are over or are gone are dropped at the start', async () => {
  const cases = [{ activity: 'working' as const }, { sessions: [sessionInfo({ state: 'stopped' })] }, { sessions: [] }]
  for (const more of cases) {
    const first = await desk()
    await first.hook()
    await first.stop()
    const second = await desk({ root: first.root, ...more })
    await second.pass(WINDOW_MS * 2)
    expect([await second.list(), second.settled]).toEqual([[], []])
    await second.stop()
    const third = await desk({ root: first.root })
    await third.pass(WINDOW_MS * 2)
    expect(await third.list()).toEqual([])
  }
})

test('a turn that ended while no daemon ran is told once it is seen, one that had ended before is not', async () => {
  for (const [activity, turns] of [
    ['working', 1],
    ['blocked', 1],
    ['idle', 0],
  ] as const) {
    const d = await desk({ sessions: [sessionInfo({ activity })] })
    d.see('idle')
    await d.pass(WINDOW_MS)
    expect([activity, d.settled.length]).toEqual([activity, turns])
  }
})

test('FC-be3f: a dialog that is still there after a restart is still one item', async () => {
  const first = await desk()
  first.see('blocked')
  await first.hook()
  await first.pass(WINDOW_MS)
  const before = await first.list()
  await first.stop()
  const second = await desk({ root: first.root })
  second.see('blocked')
  await second.hook()
  await second.pass(WINDOW_MS * 30)
  expect(await second.list()).toEqual(before)
  expect(second.told('notification_created')).toEqual([])
})

test.each(['read', 'acknowledged', 'archived', 'deleted', 'forgotten', 'no record', 'heard'])(
  'a question that was told and still stands is not told again by any later daemon: %s',
  async (how) => {
    const first = await desk()
    if (how === 'no record') {
      const { policy } = await first.call('policy.get')
      await first.call('policy.set', { policy: { ...policy, enabled: { ...policy.enabled, agent_blocked: false } } })
    }
    first.see('blocked')
    if (how === 'heard') await first.hook()
    await first.pass(WINDOW_MS)
    expect(first.settled).toHaveLength(1)
    const [item] = await first.list()
    if (how === 'deleted' || how === 'forgotten') await first.call('delete', { id: item.id })
    else if (how !== 'no record')
      await first.call('update', { id: item.id, status: how === 'heard' ? 'archived' : how })
    if (how === 'forgotten') await first.call('retention.prune', { status: 'deleted' })
    const before = await first.list()
    await first.stop()
    for (let time = 0; time < 2; time++) {
      const later = await desk({ root: first.root })
      later.see('blocked')
      await later.pass(WINDOW_MS * 2)
      later.see(undefined)
      later.see('blocked')
      await later.pass(WINDOW_MS * 2)
      expect([await later.list(), later.settled]).toEqual([before, []])
      await later.stop()
    }
    // Work is its end: the next question is another one, also for the daemon after.
    const answered = await desk({ root: first.root })
    answered.see('blocked')
    answered.see('working')
    await answered.pass(2_000)
    await answered.stop()
    const last = await desk({ root: first.root })
    last.see('blocked')
    await last.pass(WINDOW_MS)
    expect(last.settled).toHaveLength(1)
  },
)

test('the mark of a session goes with it', async () => {
  for (const more of [{ sessions: [] }, { sessions: [sessionInfo({ state: 'stopped' })] }, undefined]) {
    const first = await desk()
    const { policy } = await first.call('policy.get')
    await first.call('policy.set', { policy: { ...policy, enabled: { ...policy.enabled, agent_blocked: false } } })
    first.see('blocked')
    await first.pass(WINDOW_MS)
    expect(first.file('pending.jsonl')).toContain('"kind":"told"')
    if (more === undefined) first.change({ state: 'stopped' })
    await first.stop()
    const second = await desk({ root: first.root, ...more })
    await second.quiet()
    await second.stop()
    const third = await desk({ root: first.root })
    third.see('blocked')
    await third.pass(WINDOW_MS)
    expect(third.settled).toHaveLength(1)
    await third.stop()
  }
})

test('a turn that was told is not told again because its activity was stored late', async () => {
  const first = await desk()
  first.see('working')
  await first.pass(2_000)
  first.see('idle')
  await first.pass(WINDOW_MS)
  expect(first.settled).toHaveLength(1)
  await first.stop()
  const second = await desk({ root: first.root, sessions: [sessionInfo({ activity: 'working' })] })
  second.see('idle')
  await second.pass(WINDOW_MS)
  expect(second.settled).toEqual([])
  second.see('working')
  await second.quiet()
  await second.stop()
  const third = await desk({ root: first.root, sessions: [sessionInfo({ activity: 'working' })] })
  third.see('idle')
  await third.pass(WINDOW_MS)
  expect(third.settled).toHaveLength(1)
})

test('a daemon that died between telling and recording tells under the same id', async () => {
  const first = await desk()
  const { record } = await first.hook()
  const pending = first.file('pending.jsonl')
  const inbox = first.file('notifications.jsonl')
  await first.pass(WINDOW_MS)
  await first.stop()
  const directory = join(first.root, 'data/pohunek/notifications')
  writeFileSync(join(directory, 'pending.jsonl'), pending)
  writeFileSync(join(directory, 'notifications.jsonl'), inbox)
  const second = await desk({ root: first.root })
  await second.pass(WINDOW_MS)
  expect([first.ids, second.ids]).toEqual([[record.id], [record.id]])
})

test('a stored line whose id or time is none is set aside', async () => {
  const first = await desk()
  const { record } = await first.hook({ dedupe_key: undefined })
  await first.stop()
  const directory = join(first.root, 'data/pohunek/notifications')
  const bad = [
    { ...record, id: 'zz' },
    { ...record, id: 'n-81BX5ZZKBKACTAV9WEVGEMMVRZ' },
    { ...record, id: `${record.id.slice(0, -1)}0`, created_at: 'yesterday' },
  ]
  for (const it of bad) {
    const line = { schema_version: 1, kind: 'notification', key: it.id, record: it }
    appendFileSync(join(directory, 'notifications.jsonl'), `${JSON.stringify(line)}\n`)
  }
  const held = { id: 'n-1', session_id: first.id, moment: 'turn', provider: 'claude', reported: 'turn_completed' }
  const line = { schema_version: 1, kind: 'held', key: 'n-1', ...held, counts: true }
  appendFileSync(join(directory, 'pending.jsonl'), `${JSON.stringify(line)}\n`)
  const second = await desk({ root: first.root })
  await second.pass(WINDOW_MS)
  expect([await second.list(), second.settled]).toEqual([[record], []])
  expect(readFileSync(join(directory, 'notifications.jsonl.quarantine'), 'utf8')).toContain('"zz"')
  expect(readFileSync(join(directory, 'pending.jsonl.quarantine'), 'utf8')).toContain('"n-1"')
})

test('a dialog seen again while its report is held is still one item', async () => {
  const first = await desk()
  first.see('blocked')
  await first.quiet()
  await first.stop()
  const second = await desk({ root: first.root })
  second.see('blocked')
  await second.pass(WINDOW_MS)
  expect(await second.list()).toHaveLength(1)
  expect(second.settled).toHaveLength(1)
})

test('the policy is private, replaced whole and read again', async () => {
  const first = await desk()
  const { policy } = await first.call('policy.get')
  await first.call('policy.set', { policy: { ...policy, attention_debounce_secs: 9 } })
  const path = join(first.root, 'data/pohunek/notifications/policy.json')
  expect(statSync(path).mode & 0o777).toBe(0o600)
  expect(statSync(join(path, '..')).mode & 0o777).toBe(0o700)
  expect(statSync(join(path, '../notifications.jsonl')).mode & 0o777).toBe(0o600)
  await first.stop()
  const second = await desk({ root: first.root })
  expect((await second.call('policy.get')).policy.attention_debounce_secs).toBe(9)
  expect(second.service.debounceMs()).toBe(9_000)
})

test('a policy that cannot be used leaves the defaults in force, is told and not touched', async () => {
  for (const [spoil, problem] of [
    [(path: string) => writeFileSync(path, '{"enabled":{}}'), /policy\.enabled/],
    [(path: string) => writeFileSync(path, 'not JSON'), /JSON/],
    [(path: string) => symlinkSync('/dev/null', path), /symbolic link/],
  ] as const) {
    const root = privateRoot()
    const path = join(root, 'data/pohunek/notifications/policy.json')
    mkdirSync(join(path, '..'), { recursive: true, mode: 0o700 })
    spoil(path)
    const d = await desk({ root })
    expect((await d.call('policy.get')).policy.attention_debounce_secs).toBe(5)
    const { checks } = await d.kernel.running.kernel.diagnostics.run()
    const check = checks.find((it) => it.name === 'notification_policy')
    expect(check).toMatchObject({ status: 'warn', detail: expect.stringMatching(problem) })
    expect(check?.detail).toContain('policy.json')
    await d.stop()
  }
})

test('damaged lines are set aside and told; the rest is there', async () => {
  const first = await desk()
  const { record } = await first.hook({ dedupe_key: undefined })
  await first.stop()
  const path = join(first.root, 'data/pohunek/notifications/notifications.jsonl')
  appendFileSync(path, '{"schema_version":1,"kind":"notification","key":"n-1","record":{}}\nnot json\n{"torn')
  const second = await desk({ root: first.root })
  expect(await second.list()).toEqual([record])
  expect(readFileSync(`${path}.quarantine`, 'utf8')).toContain('not json')
  const { checks } = await second.kernel.running.kernel.diagnostics.run()
  expect(checks.find((it) => it.name === 'notification_store')).toMatchObject({ status: 'warn' })
})

test('logs of a later release are refused and left as they are', async () => {
  const root = privateRoot()
  const path = join(root, 'data/pohunek/notifications/notifications.jsonl')
  mkdirSync(join(path, '..'), { recursive: true, mode: 0o700 })
  const text = '{"schema_version":2,"kind":"notification","key":"n-1","more":1}\n'
  writeFileSync(path, text, { mode: 0o600 })
  await expect(desk({ root })).rejects.toMatchObject({ code: 'store_schema_newer' })
  expect(readFileSync(path, 'utf8')).toBe(text)
})

test('the action log is compacted once the threshold of the policy is reached', async () => {
  const d = await desk()
  const { policy } = await d.call('policy.get')
  await d.call('policy.set', { policy: { ...policy, retention: { ...policy.retention, compaction_min_actions: 5 } } })
  const { record } = await d.hook({ dedupe_key: undefined })
  for (let at = 0; at < 12; at++) {
    const { record: other } = await d.hook({ dedupe_key: undefined, source_id: `s${at}` })
    await d.call('delete', { id: other.id })
  }
  await d.call('retention.prune', { status: 'deleted' })
  await expect
    .poll(() => d.file('notifications.jsonl').trim().split('\n').length, { timeout: 10_000 })
    .toBeLessThanOrEqual(6)
  expect(await d.list()).toEqual([record])
  await d.stop()
  const again = await desk({ root: d.root })
  expect(await again.list()).toEqual([record])
})

test('a turn that failed is one error, over restarts too, and its end is told to waits once', async () => {
  const first = await desk()
  first.see('working')
  first.see('idle', { failedAt: 1_234.5 })
  await first.pass(WINDOW_MS)
  const [error, ...others] = await first.list()
  expect(error).toMatchObject({ kind: 'error', severity: 'error', status: 'unread', session_id: first.id })
  expect(others).toEqual([])
  expect(first.settled.map((it) => it.kind)).toEqual(['turn_completed'])
  await first.stop()
  // The store may be behind: the work is what it knows of.
  const second = await desk({ root: first.root, sessions: [sessionInfo({ activity: 'working' })] })
  second.see('idle', { failedAt: 1_234.5 })
  await second.pass(WINDOW_MS)
  expect(await second.list()).toEqual([error])
  second.see('working')
  await second.pass(WINDOW_MS)
  second.see('idle', { failedAt: 9_999 })
  await second.pass(WINDOW_MS)
  expect((await second.list()).map((it) => [it.kind, it.status])).toEqual([
    ['error', 'unread'],
    ['error', 'unread'],
  ])
})

test('a turn that failed before the daemon died is told by the next one, and not twice', async () => {
  const first = await desk()
  first.see('working')
  first.see('idle', { failedAt: 1_234.5 })
  await first.quiet()
  await first.stop() // within the window of its end
  const second = await desk({ root: first.root, sessions: [sessionInfo({ activity: 'working' })] })
  second.see('idle', { failedAt: 1_234.5 })
  await second.pass(2 * WINDOW_MS)
  expect((await second.list()).map((it) => it.kind)).toEqual(['error'])
  expect(second.settled.map((it) => it.kind)).toEqual(['turn_completed'])
})

test('where the policy keeps no errors, a failed turn is an end of a turn without a record', async () => {
  const first = await desk()
  const { policy } = await first.call('policy.get')
  await first.call('policy.set', {
    policy: { ...policy, enabled: { ...policy.enabled, error: false, turn_completed: true } },
  })
  first.see('working')
  first.see('idle', { failedAt: 1 })
  await first.pass(WINDOW_MS)
  expect(await first.list()).toEqual([])
  expect(first.settled.map((it) => it.kind)).toEqual(['turn_completed'])
})

test('a question asked while no daemon ran is another one than the one answered before; the same one is not', async () => {
  const first = await desk()
  first.see('blocked', { askedAt: 1_000 })
  await first.pass(WINDOW_MS)
  const [item] = await first.list()
  await first.stop()
  const second = await desk({ root: first.root })
  second.see('blocked', { askedAt: 1_000 })
  await second.pass(WINDOW_MS)
  expect([await second.list(), second.settled]).toEqual([[item], []])
  await second.stop()
  const third = await desk({ root: first.root })
  third.see('blocked', { askedAt: 2_000 })
  await third.pass(WINDOW_MS)
  // Made in the same millisecond of a clock that stands still: which comes first is nobody's promise.
  expect((await third.list()).map((it) => it.status).sort()).toEqual(['acknowledged', 'unread'])
  expect(third.settled.map((it) => it.kind)).toEqual(['agent_blocked'])
  await third.stop()
  const fourth = await desk({ root: first.root })
  fourth.see('blocked', { askedAt: 2_000 })
  await fourth.pass(WINDOW_MS)
  expect([(await fourth.list()).length, fourth.settled]).toEqual([2, []])
})
