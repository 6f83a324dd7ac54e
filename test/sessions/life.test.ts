import { expect, test } from 'vitest'
import { refused, Session } from '../harness/session.ts'
import { station } from './station.ts'

test('a session is created, listed, inspected, stopped and removed', async () => {
  const it = await station()
  const events = await it.events()
  const info = await it.create({ name: ' My session ', metadata: { a: '1' } })
  expect(info).toMatchObject({
    agent: 'shell',
    agent_base: 'shell',
    name: 'My session',
    metadata: { a: '1' },
    state: 'running',
    cols: 80,
    rows: 24,
    cwd: it.roots.work,
    cwd_source: 'launch',
    capabilities: { resume: false, fork: false },
    runtime: { state: 'live', runtime_generation: '1' },
  })
  expect(info.id).toMatch(/^s-[0-9A-HJKMNP-TV-Z]{26}$/)
  expect(await it.call('session.list')).toEqual([info])
  expect(await it.call('session.inspect', info.id)).toEqual(info)
  expect((await events.until('session_created')).session).toEqual(info)
  const session = new Session(it, info)
  expect(await session.stop()).toBe(true)
  expect(await session.stop()).toBe(false)
  const ended = await session.info()
  expect(ended).toMatchObject({ state: 'stopped', runtime: { state: 'terminal' } })
  expect(Date.parse(ended.updated_at)).toBeGreaterThan(Date.parse(info.updated_at))
  await events.until('session_stopped')
  expect(await session.remove()).toEqual({ removed: true, stopped: false, worktrees_removed: 0, worktrees_failed: 0 })
  await events.until('session_removed')
  expect(await it.call('session.list')).toEqual([])
  expect(it.traces()).toEqual([])
})

test('rename and metadata are durable, told, and refused at their limits without a change', async () => {
  const it = await station()
  const session = await it.child('idle')
  const events = await it.events()
  const renamed = await session.call('session.rename', { name: '  caf\u0065\u0301 ' })
  expect(renamed.session.name).toBe('café'.normalize('NFC'))
  expect((await events.until('session_updated')).session.name).toBe('café'.normalize('NFC'))
  for (const name of ['x'.repeat(129), 'a\u0007b', 'a\u009bb', 'a\nb']) {
    expect((await refused(session.call('session.rename', { name }))).code).toBe('bad_request')
  }
  const { session: described } = await session.call('session.set_metadata', { metadata: { a: '1', b: '2' } })
  expect(described.metadata).toEqual({ a: '1', b: '2' })
  expect((await session.call('session.set_metadata', { metadata: { a: null, c: 'x' } })).session.metadata).toEqual({
    b: '2',
    c: 'x',
  })
  for (const metadata of [
    { ['k'.repeat(65)]: 'v' },
    { k: 'v'.repeat(4_097) },
    Object.fromEntries(Array.from({ length: 33 }, (_, n) => [`k${n}`, 'v'])),
    Object.fromEntries(Array.from({ length: 8 }, (_, n) => [`k${n}`, 'v'.repeat(4_000)])),
    { '': 'v' },
  ]) {
    expect((await refused(session.call('session.set_metadata', { metadata }))).code).toBe('bad_request')
  }
  await it.restart()
  const kept = await session.info()
  expect(kept).toMatchObject({ name: 'café'.normalize('NFC'), metadata: { b: '2', c: 'x' } })
  expect((await session.call('session.rename', { name: null })).session.name).toBeUndefined()
  expect(
    (await session.call('session.set_metadata', { metadata: { b: null, c: null } })).session.metadata,
  ).toBeUndefined()
})

test('list filters combine', async () => {
  const it = await station()
  const a = await it.program('/bin/sleep', ['1000'], { metadata: { team: 'x', only: 'a' } })
  const b = await it.program('/bin/sh', ['-c', 'exit 3'], { metadata: { team: 'x' } })
  await b.ended()
  const ids = async (...filters: unknown[]): Promise<string[]> =>
    (await it.call('session.list', { filters })).map((found: { id: string }) => found.id)
  expect(await ids({ key: 'state', value: 'running' })).toEqual([a.id])
  expect(await ids({ key: 'state', value: 'failed' })).toEqual([b.id])
  expect(await ids({ key: 'metadata_eq', value: { key: 'team', value: 'x' } })).toEqual([a.id, b.id])
  expect(
    await ids({ key: 'metadata_eq', value: { key: 'team', value: 'x' } }, { key: 'metadata_has', value: 'only' }),
  ).toEqual([a.id])
  expect(await ids({ key: 'metadata_has', value: 'constructor' })).toEqual([])
  expect(await ids({ key: 'id', value: b.id })).toEqual([b.id])
  expect(await ids({ key: 'agent', value: 'shell' })).toEqual([a.id, b.id])
  expect(await ids({ key: 'project', value: 'none' })).toEqual([])
  expect(await ids()).toEqual([a.id, b.id])
  const first = await it.call('session.list', { limit: 1 })
  expect(first.map((found: { id: string }) => found.id)).toEqual([a.id])
  expect((await it.call('session.list', { limit: 5, after: a.id })).map((found: { id: string }) => found.id)).toEqual([
    b.id,
  ])
  expect(await it.call('session.list', { after: b.id })).toEqual([])
})

test.each([
  ['exit 0', 'done', 0],
  ['exit 7', 'failed', 7],
  ['kill -TERM $$', 'failed', 143],
  ['kill -KILL $$', 'failed', 137],
])('the end of `%s` is told as %s', async (script, state, code) => {
  const it = await station()
  const events = await it.events()
  const session = await it.sh(script)
  expect(await session.ended()).toMatchObject({
    state,
    exit_code: code,
    runtime: { state: 'terminal' },
    state_source: 'process',
  })
  expect((await events.until('session_updated', (event) => event.session.state === state)).session.exit_code).toBe(code)
  expect(events.of('session_stopped')).toEqual([])
})

test('FC-4e67: output written before anybody looked is kept after the end', async () => {
  const it = await station()
  const session = await it.program('/usr/bin/printf', ['early'])
  await session.ended()
  expect((await session.output()).bytes.toString()).toBe('early')
  expect(await session.screen()).toContain('early')
  expect(await session.call('session.read', {})).toMatchObject({
    text: 'early',
    source_used: 'visible',
    truncated: false,
  })
})

test('FC-e0e3: two stops at once end the program once, and both know how it ended', async () => {
  const it = await station()
  const session = await it.program('/bin/sh', ['-c', 'trap "" HUP TERM; echo ready; while :; do sleep 1; done'])
  await session.untilScreen('ready')
  const [one, two] = await Promise.all([it.connect(), it.connect()])
  const answers = await Promise.all([one.call('session.stop', session.id), two.call('session.stop', session.id)])
  expect(answers.map((answer) => answer.stopped).sort()).toEqual([false, true])
  expect(await session.info()).toMatchObject({ state: 'stopped', exit_code: 137 })
})

test('removing a live session stops it first, and a second removal finds nothing', async () => {
  const it = await station()
  const session = await it.child('idle')
  await session.untilScreen('ready')
  expect(await session.remove()).toMatchObject({ removed: true, stopped: true })
  expect(it.traces()).toEqual([])
  expect((await refused(session.remove())).code).toBe('session_not_found')
  expect((await refused(session.info())).code).toBe('session_not_found')
})

test('the size is applied before the program starts, and a resize reaches it', async () => {
  const it = await station()
  const events = await it.events()
  const session = await it.program(
    '/bin/sh',
    ['-c', 'stty size; trap "stty size" WINCH; while :; do sleep 0.05; done'],
    { cols: 120, rows: 40 },
  )
  await session.untilScreen('40 120')
  const { session: info } = await session.call('session.resize', { cols: 100, rows: 30 })
  expect(info).toMatchObject({ cols: 100, rows: 30 })
  await session.untilScreen('30 100')
  expect((await events.until('session_updated', (event) => event.session.cols === 100)).session.rows).toBe(30)
  for (const size of [
    { cols: 0, rows: 24 },
    { cols: 80, rows: 0 },
    { cols: 65_535, rows: 65_535 },
    { cols: 70_000, rows: 24 },
    { cols: -1, rows: 24 },
    { cols: 80.5, rows: 24 },
    { cols: '80', rows: 24 },
  ]) {
    expect((await refused(session.call('session.resize', size))).code).toBe('bad_request')
  }
  await session.stop()
  expect((await refused(session.call('session.resize', { cols: 80, rows: 24 }))).code).toBe('session_not_running')
})

test('a directory told with OSC 7 becomes the shown one', async () => {
  const it = await station()
  const events = await it.events()
  const session = await it.sh(`read go; printf '\\033]7;file://%s/tmp\\007' "$(hostname)"; sleep 1000`)
  await session.input('')
  expect((await events.until('session_updated', (event) => event.session.cwd_source === 'osc7')).session.cwd).toBe(
    '/tmp',
  )
  await it.restart()
  expect(await session.info()).toMatchObject({ cwd: '/tmp', cwd_source: 'osc7' })
})
