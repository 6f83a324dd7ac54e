/** One moment of a session is told once, whoever reports it, and only when it still holds after its window. */
import { describe, expect, test } from 'vitest'
import { MAX_HELD } from '../../plugins/notifications/windows.ts'
import { desk, sessionInfo } from './desk.ts'

const WINDOW_MS = 5_000

describe('the window', () => {
  test('a report is held: created, not listed, no event; then it is there', async () => {
    const d = await desk()
    const { created, record } = await d.hook()
    expect([created, record.status, record.agent_kind]).toEqual([true, 'unread', 'claude'])
    expect(await d.list()).toEqual([])
    await d.pass(WINDOW_MS - 1)
    expect([await d.list(), d.told('notification_created'), d.settled]).toEqual([[], [], []])
    await d.pass(1)
    expect(await d.list()).toEqual([record])
    expect(d.told('notification_created').map((it) => it.payload)).toEqual([{ record }])
    expect(d.settled).toEqual([{ sessionId: d.id, kind: 'approval_required', provider: 'claude', counts: true }])
  })

  test('work inside the window takes it back and nothing is ever told', async () => {
    const d = await desk()
    d.see('blocked')
    await d.hook()
    await d.pass(2_000)
    d.see('working')
    await d.pass(WINDOW_MS * 3)
    expect([await d.list(), d.events, d.settled]).toEqual([[], [], []])
    expect(d.service.hasUnread(d.id)).toBe(false)
  })

  test('the end of the session inside the window takes it back', async () => {
    const d = await desk()
    await d.hook()
    await d.stopHook().catch(() => undefined)
    d.change({ state: 'stopped' })
    await d.pass(WINDOW_MS * 3)
    expect([await d.list(), d.settled]).toEqual([[], []])
  })

  test('a report for a session that is over already is not kept', async () => {
    const d = await desk({ sessions: [sessionInfo({ state: 'done' })] })
    await d.hook()
    await d.pass(WINDOW_MS)
    expect([await d.list(), d.settled]).toEqual([[], []])
  })

  test('a policy that is set counts for what is held: from when it came, not before now', async () => {
    const d = await desk({ sessions: [sessionInfo(), sessionInfo({ id: 's-2' })] })
    const { policy } = await d.call('policy.get')
    const set = (secs: number) => d.call('policy.set', { policy: { ...policy, attention_debounce_secs: secs } })
    await set(4_294_967_295)
    await d.hook()
    await d.pass(10_000)
    await set(12)
    await d.pass(1_999)
    expect(d.settled).toEqual([])
    await d.pass(1)
    expect(d.settled).toHaveLength(1)
    await d.hook({ session_id: 's-2', dedupe_key: 'attention:s-2' })
    await d.pass(5_000)
    await set(20)
    await set(20)
    await d.pass(14_999)
    expect(d.settled).toHaveLength(1)
    await d.pass(1)
    expect(d.settled).toHaveLength(2)
  })

  test('no window at all: at once', async () => {
    const d = await desk()
    const { policy } = await d.call('policy.get')
    await d.call('policy.set', { policy: { ...policy, attention_debounce_secs: 0 } })
    expect(d.service.debounceMs()).toBe(0)
    const { created, record } = await d.hook()
    expect([created, await d.list()]).toEqual([true, [record]])
    expect(d.settled).toHaveLength(1)
  })

  test('FC-cb0c: a false blip of work resolves nothing, an answer does', async () => {
    const d = await desk()
    d.see('blocked')
    await d.pass(WINDOW_MS)
    const [item] = await d.list()
    d.see('working')
    await d.pass(200)
    d.see('blocked')
    await d.pass(60_000)
    expect(await d.list()).toEqual([item])
    expect(d.settled).toHaveLength(1)
    d.see('working')
    await d.pass(1_000)
    expect(await d.list()).toMatchObject([{ id: item.id, status: 'acknowledged' }])
    expect(d.told('notification_updated')).toHaveLength(1)
  })

  test('a blip at the very end of the window delays it, and does not lose it', async () => {
    const d = await desk()
    d.see('blocked')
    await d.pass(WINDOW_MS - 100)
    d.see('working')
    await d.pass(200)
    expect(await d.list()).toEqual([])
    d.see('blocked')
    await d.pass(2_000)
    expect(await d.list()).toMatchObject([{ kind: 'agent_blocked', status: 'unread' }])
  })
})

test('what is held is bounded: the oldest report ends its window early', { timeout: 30_000 }, async () => {
  const d = await desk()
  const create = (at: number) => d.hook({ session_id: `s-${at}`, dedupe_key: `attention:s-${at}` })
  for (let at = 0; at < MAX_HELD; at++) await create(at)
  expect(await d.list()).toEqual([])
  await create(MAX_HELD)
  await d.quiet()
  expect((await d.list()).map((it) => it.session_id)).toEqual(['s-0'])
  await d.pass(WINDOW_MS)
  expect(await d.list({ limit: 10_000 })).toHaveLength(MAX_HELD + 1)
})

describe('one moment, one record', () => {
  test('FC-be3f, FC-6596: a hook beside the projector is one item with the content of the hook', async () => {
    const d = await desk()
    d.see('blocked', { why: 'Allow make?' })
    await d.pass(1_000)
    const told = await d.hook()
    expect(told.created).toBe(false)
    d.see('blocked', { fresh: true, before: undefined })
    await d.pass(WINDOW_MS)
    expect(await d.list()).toMatchObject([
      { id: told.record.id, kind: 'approval_required', title: 'Claude needs your permission' },
    ])
    expect(d.settled).toEqual([{ sessionId: d.id, kind: 'approval_required', provider: 'claude', counts: true }])
    expect(d.told('notification_created')).toHaveLength(1)
  })

  test('the projector after a hook changes nothing', async () => {
    const d = await desk()
    const { record } = await d.hook()
    d.see('blocked')
    await d.pass(WINDOW_MS)
    expect(await d.list()).toEqual([record])
    expect(d.settled).toHaveLength(1)
  })

  test('a hook upgrades the record of the projector in place; a later projector report is suppressed', async () => {
    const d = await desk()
    d.see('blocked')
    await d.pass(WINDOW_MS)
    const [first] = await d.list()
    expect(first).toMatchObject({
      kind: 'agent_blocked',
      source: { provider: 'pohunek', provider_event: 'agent_state' },
    })
    expect(first).toMatchObject({ severity: 'action_required', metadata: { reason: 'blocked' } })
    const { created, record } = await d.hook()
    expect([created, record.id, record.source.provider]).toEqual([false, first.id, 'claude'])
    expect(d.told('notification_updated').map((it) => it.payload)).toEqual([{ record }])
    d.see(undefined)
    d.see('blocked')
    await d.pass(WINDOW_MS)
    expect(await d.list()).toEqual([record])
    expect(d.settled).toHaveLength(1)
  })

  test('a held hook report outranks an outside one, whoever came first', async () => {
    const outside = { source: { provider: 'cron', provider_event: 'e', host_local_source_id: 'x' }, title: 'outside' }
    for (const first of ['outside', 'hook']) {
      const d = await desk()
      if (first === 'outside') await d.hook(outside)
      const told = await d.hook()
      if (first === 'hook') await d.hook(outside)
      await d.pass(WINDOW_MS)
      expect(await d.list()).toMatchObject([{ title: 'Claude needs your permission' }])
      expect([first, told.created]).toEqual([first, first === 'hook'])
      expect(d.settled).toMatchObject([{ provider: 'claude', counts: true }])
    }
  })

  test('an outside report alone does not count for waits, the projector beside it does', async () => {
    const d = await desk()
    await d.hook({ source: { provider: 'cron', provider_event: 'e', host_local_source_id: 'x' } })
    await d.pass(WINDOW_MS)
    expect(d.settled).toMatchObject([{ provider: 'cron', counts: false }])
  })

  test('somebody who calls himself the projector is not believed', async () => {
    const d = await desk()
    await d.hook({ source: { provider: 'pohunek', provider_event: 'e', host_local_source_id: 'x' } })
    await d.pass(WINDOW_MS)
    expect(d.settled).toMatchObject([{ counts: false }])
  })

  test('an acknowledged item of a question that is still there is not raised again', async () => {
    const d = await desk()
    d.see('blocked')
    await d.pass(WINDOW_MS)
    const [item] = await d.list()
    await d.call('update', { id: item.id, status: 'acknowledged' })
    await d.hook()
    d.see(undefined)
    d.see('blocked')
    await d.pass(WINDOW_MS)
    expect(await d.list()).toHaveLength(1)
    expect(d.settled).toHaveLength(1)
  })

  test('the next question inside the dedupe window is another moment', async () => {
    const d = await desk()
    d.see('blocked')
    await d.pass(WINDOW_MS)
    d.see('working')
    await d.pass(2_000)
    d.see('blocked')
    await d.pass(WINDOW_MS)
    expect((await d.list()).map((it) => it.status)).toEqual(['unread', 'acknowledged'])
    expect(d.settled).toHaveLength(2)
  })

  test('an answer quicker than detection sees is another moment too', async () => {
    const d = await desk()
    d.see('blocked')
    await d.pass(WINDOW_MS)
    d.see('blocked', { fresh: false })
    await d.pass(WINDOW_MS)
    expect((await d.list()).map((it) => it.status)).toEqual(['unread', 'acknowledged'])
  })

  test('FC-9b28: a late hook does not bring back what was answered, once', async () => {
    const d = await desk()
    d.see('working')
    d.see('blocked')
    await d.pass(WINDOW_MS)
    d.see('working')
    await d.pass(4_000)
    await d.hook()
    await d.pass(60_000)
    expect((await d.list()).map((it) => it.status)).toEqual(['acknowledged'])
    expect(d.settled).toHaveLength(1)
    // A dialog that detection does not recognise: only the hook knows of it.
    await d.hook({ source_id: 'hook:claude:Notification:2' })
    await d.pass(WINDOW_MS)
    expect((await d.list()).map((it) => it.status)).toEqual(['unread', 'acknowledged'])
  })

  test('a hook ahead of its dialog is not taken for work before it', async () => {
    const d = await desk()
    d.see('idle')
    d.see('working')
    await d.pass(300)
    await d.hook()
    await d.pass(300)
    d.see('blocked')
    await d.pass(WINDOW_MS)
    expect(await d.list()).toMatchObject([{ kind: 'approval_required', status: 'unread' }])
    expect(d.settled).toHaveLength(1)
  })
})

describe('turns', () => {
  test('the end of seen work is told after the window; the default policy keeps no record', async () => {
    const d = await desk()
    d.see('working')
    await d.pass(10_000)
    d.see('idle')
    await d.pass(WINDOW_MS)
    expect(d.settled).toEqual([{ sessionId: d.id, kind: 'turn_completed', provider: 'pohunek', counts: true }])
    expect([await d.list({}), await d.list({ status: 'deleted' })]).toEqual([[], []])
  })

  test('idle without work before it is no turn', async () => {
    const d = await desk()
    d.see('idle')
    d.see(undefined)
    d.see('idle')
    await d.pass(WINDOW_MS)
    expect(d.settled).toEqual([])
  })

  test('work again inside the window: one turn at its end, also a short one', async () => {
    const d = await desk()
    d.see('working')
    await d.pass(3_000)
    d.see('idle')
    await d.pass(2_000)
    d.see('working')
    await d.pass(200)
    d.see('idle')
    await d.pass(WINDOW_MS)
    expect(d.settled).toHaveLength(1)
  })

  test('a turn too quick to be seen is told', async () => {
    const d = await desk()
    d.see('idle')
    d.see('idle', { fresh: false })
    await d.pass(WINDOW_MS)
    expect(d.settled).toMatchObject([{ kind: 'turn_completed' }])
  })

  test('a hook of a disabled kind is refused and still told to waits, once with the projector', async () => {
    const d = await desk()
    d.see('working')
    await d.pass(3_000)
    await expect(d.stopHook()).rejects.toMatchObject({ code: 'notification_kind_disabled' })
    await d.pass(300)
    d.see('idle')
    await d.pass(WINDOW_MS)
    expect(d.settled).toEqual([{ sessionId: d.id, kind: 'turn_completed', provider: 'claude', counts: true }])
    await d.pass(60_000)
    expect(await d.list()).toEqual([])
  })

  test('a stop that is still held while the session works is dropped', async () => {
    const d = await desk()
    d.see('working')
    await d.pass(3_000)
    await d.stopHook().catch(() => undefined)
    await d.pass(WINDOW_MS)
    expect(d.settled).toEqual([])
  })

  test('a late hook after the settled turn is not another turn; the one after it is', async () => {
    const d = await keepingTurns()
    d.see('working')
    await d.pass(3_000)
    d.see('idle')
    await d.pass(WINDOW_MS + 3_000)
    const { record } = await d.stopHook({ source_id: 'hook:claude:Stop:1' })
    await d.stopHook({ source_id: 'hook:claude:Stop:1' })
    await d.pass(WINDOW_MS)
    expect(d.settled).toHaveLength(1)
    expect(await d.list()).toMatchObject([{ source: { provider: 'claude' }, status: 'unread', id: record.id }])
    await d.stopHook({ source_id: 'hook:claude:Stop:2' })
    await d.pass(WINDOW_MS)
    expect(d.settled).toHaveLength(2)
    const [newest, older] = await d.list()
    expect(older).toMatchObject({ status: 'acknowledged', superseded_by: newest.id })
  })

  test('an attention takes the unread turn of its session along, a later turn hides behind it', async () => {
    const d = await keepingTurns()
    await d.stopHook()
    await d.pass(WINDOW_MS)
    d.see('blocked')
    await d.pass(WINDOW_MS)
    const [attention, turn] = await d.list()
    expect([attention.kind, attention.status]).toEqual(['agent_blocked', 'unread'])
    expect(turn).toMatchObject({ kind: 'turn_completed', status: 'acknowledged', superseded_by: attention.id })
    await d.stopHook({ source_id: 'other' })
    await d.pass(WINDOW_MS)
    const [later] = await d.list({ kind: 'turn_completed' })
    expect(later).toMatchObject({ status: 'acknowledged', superseded_by: attention.id })
  })

  async function keepingTurns() {
    const d = await desk()
    const { policy } = await d.call('policy.get')
    const all = { ...policy.enabled, turn_completed: true }
    await d.call('policy.set', { policy: { ...policy, providers: { claude: all } } })
    return d
  }
})

describe('what resolves itself', () => {
  test('idle alone does not, work and the end do; errors wait for their owner', async () => {
    const d = await desk()
    d.see('blocked')
    await d.pass(WINDOW_MS)
    d.see('idle')
    await d.pass(60_000)
    expect(await d.list()).toMatchObject([{ status: 'unread' }])
    d.change({ state: 'failed', exit_code: 3 })
    await d.pass(0)
    expect(await d.list()).toMatchObject([
      { kind: 'error', severity: 'error', status: 'unread', metadata: { reason: 'exit_code=3' } },
      { kind: 'agent_blocked', status: 'acknowledged' },
    ])
    d.removeSession()
    await d.pass(0)
    expect((await d.list({ status: 'unread' })).map((it) => it.kind)).toEqual(['error'])
  })

  test('a finished session is told when the policy says so; a stop never', async () => {
    const d = await desk({ sessions: [sessionInfo(), sessionInfo({ id: 's-2' })] })
    const { policy } = await d.call('policy.get')
    await d.call('policy.set', { policy: { ...policy, enabled: { ...policy.enabled, session_finished: true } } })
    d.change({ state: 'done', exit_code: 0 })
    d.change({ state: 'stopped' }, 's-2')
    await d.pass(0)
    expect(await d.list()).toMatchObject([
      { kind: 'session_finished', severity: 'success', session_id: d.id, metadata: { summary: 'session_finished' } },
    ])
  })

  test('FC-ef90: a session with an unread or held item says so', async () => {
    const d = await desk()
    expect(d.service.hasUnread(d.id)).toBe(false)
    await d.hook()
    expect(d.service.hasUnread(d.id)).toBe(true)
    await d.pass(WINDOW_MS)
    expect(d.service.hasUnread(d.id)).toBe(true)
    const [item] = await d.list()
    await d.call('update', { id: item.id, status: 'read' })
    expect(d.service.hasUnread(d.id)).toBe(false)
  })
})
