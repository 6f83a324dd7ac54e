import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Attached, type Wire } from '../harness/wire.ts'
import { refused } from '../harness/session.ts'
import { monotonicMs, until } from '../harness/wait.ts'
import { station } from './station.ts'

test('an attach stream paints the picture, carries keys, and ends with its client', async () => {
  const it = await station()
  const events = await it.events()
  const session = await it.program('/bin/sh', [
    '-c',
    'stty -echo; echo ready; while read line; do echo "got $line"; done',
  ])
  await session.untilScreen('ready')
  const client = await session.attach()
  await client.until('ready')
  client.write('one\r')
  await client.until('got one')
  const opened = await events.until('attach_opened')
  expect(opened.session_id).toBe(session.id)
  client.close()
  await events.until('attach_closed', (event) => event.stream_id === opened.stream_id)
  expect((await session.info()).state).toBe('running')
})

test('a stream reached directly at the worker is told the same way', async () => {
  const it = await station()
  const events = await it.events()
  const session = await it.program('/bin/cat', [])
  const client = await session.attach({ direct: true })
  client.write('hello\r')
  await client.until('hello')
  const { stream_id } = await events.until('attach_opened')
  expect(await it.call('session.detach', { stream_id })).toEqual({ detached: true })
  await until('the client is let go', () => client.ended)
  await events.until('attach_closed', (event) => event.stream_id === stream_id)
  expect(await it.call('session.detach', { stream_id })).toEqual({ detached: false })
})

test('a stream id is used once, and unknown ones are told apart', async () => {
  const it = await station()
  const session = await it.program('/bin/cat', [])
  const { stream_id } = await session.call('session.attach')
  const first = it.keep(await Attached.open(it.roots.socket, stream_id))
  first.write('x')
  await first.until('x')
  const again = it.keep(await Attached.open(it.roots.socket, stream_id))
  await again.until('attach_expired')
  const unknown = it.keep(await Attached.open(it.roots.socket, 'nothing'))
  await unknown.until('attach_not_found')
  expect(await it.call('session.detach', { stream_id: 'nothing' })).toEqual({ detached: false })
})

test('a client inside the session cannot attach to it, nor change it', async () => {
  const it = await station()
  const session = await it.program('/bin/cat', [])
  const { runtime } = await session.info()
  const error = await refused(
    session.call('session.attach', { origin_session_id: session.id, origin_worker_id: runtime.worker_id }),
  )
  expect(error.code).toBe('attach_self_feedback')
  const wire = await it.wire()
  const launchDaemon = it.kernel.kernel.daemonId
  const inside = { origin: { session: session.id, daemon: launchDaemon } }
  for (const [method, params] of [
    ['session.stop', session.id],
    ['session.remove', session.id],
    ['session.rename', { session_id: session.id, name: 'x' }],
    ['session.input', { session_id: session.id, text: 'x' }],
    ['session.resize', { session_id: session.id, cols: 90, rows: 30 }],
    ['session.set_metadata', { session_id: session.id, metadata: {} }],
  ] as const) {
    expect((await refused(wire.call(method, params, inside))).code, method).toBe('plugin_self_target_denied')
  }
  expect((await wire.call('session.inspect', session.id, inside)).id).toBe(session.id)
  await it.restart()
  // The program still carries the daemon id it was started under.
  expect((await refused((await it.wire()).call('session.stop', session.id, inside))).code).toBe(
    'plugin_self_target_denied',
  )
  const other = { origin: { session: session.id, daemon: 'd-other' } }
  expect(
    (await (await it.wire()).call('session.rename', { session_id: session.id, name: 'x' }, other)).session.name,
  ).toBe('x')
})

test('an attach to a session that ended is refused', async () => {
  const it = await station()
  const session = await it.sh('exit 0')
  await session.ended()
  expect((await refused(session.call('session.attach'))).code).toBe('session_not_running')
})

test('input arrives as one body and a separate submit key', async () => {
  const it = await station()
  const session = await it.program('/bin/sh', [
    '-c',
    'stty raw -echo; echo ready; dd bs=1 count=8 2>/dev/null | od -An -tx1; sleep 1000',
  ])
  await session.untilScreen('ready')
  expect(await session.call('session.input', { text: 'ab\ncdef' })).toEqual({ accepted: true })
  await session.untilScreen('61 62 0a 63 64 65 66 0d')
})

test('input that cannot be sent is refused before a byte is written', async () => {
  const it = await station()
  const session = await it.program('/bin/cat', [])
  expect((await refused(session.call('session.input', { text: 'x'.repeat(262_145) }))).code).toBe(
    'session_input_rejected',
  )
  expect((await refused(session.call('session.input', { text: 'x', wait: { timeout_ms: 100 } }))).code).toBe(
    'session_input_wait_unsupported',
  )
  expect((await refused(session.call('session.input', { text: 'x', wait: { timeout_ms: 9_000 } }))).code).toBe(
    'session_input_invalid_wait',
  )
  expect((await session.output()).bytes.length).toBe(0)
  await session.stop()
  expect((await refused(session.call('session.input', { text: 'x' }))).code).toBe('session_not_running')
})

test('a program that stops reading gets session_input_stalled, and typing in another session goes on', async () => {
  const it = await station({ input: { writeStallTimeoutMs: 300 } })
  const stuck = await it.program('/bin/sh', ['-c', 'stty raw -echo; echo ready; sleep 1000'])
  const other = await it.program('/bin/cat', [])
  await stuck.untilScreen('ready')
  const one = await it.connect()
  const stalled = refused(one.call('session.input', { session_id: stuck.id, text: 'x'.repeat(200_000) }))
  await other.input('still here')
  await other.untilScreen('still here')
  expect((await stalled).code).toBe('session_input_stalled')
})

test('FC-7278, FC-b14e: a paste cannot end its own frame', async () => {
  const it = await station()
  const session = await it.program('/bin/sh', ['-c', "stty raw -echo; printf '\\033[?2004hready'; cat -v"], {}, [
    '[input_rules]',
    'bracketed_paste = true',
  ])
  await session.untilScreen('ready')
  await session.input('safe\u001b[201~\rtouch PWNED\r\u009b201~x\u001b[20\u001b[201~1~y\u001b[200~')
  const screen = await session.untilScreen('^[[201~^M')
  expect(screen.replaceAll('\n', '')).toContain('ready^[[200~safe^Mtouch PWNED^Mxy^[[201~^M')
  expect(existsSync(join(it.roots.work, 'PWNED'))).toBe(false)
})

test('a program that never asked for paste framing gets none', async () => {
  const it = await station()
  const session = await it.program('/bin/sh', ['-c', 'stty raw -echo; printf ready; cat -v'], {}, [
    '[input_rules]',
    'bracketed_paste = true',
  ])
  await session.untilScreen('ready')
  await session.input('plain')
  expect(await session.untilScreen('plain^M')).not.toContain('200~')
})

test('the first prompt is delivered once the program is ready', async () => {
  const it = await station()
  const wire = await it.connect()
  it.profile('late', [
    'base = "shell"',
    'program = "/bin/sh"',
    'args = ["-c", "stty -echo; sleep 0.3; printf \'> \'; read a; echo got $a; sleep 1000"]',
  ])
  const info = await wire.call('session.new', {
    agent: 'late',
    cols: 80,
    rows: 24,
    cwd: it.roots.work,
    input: 'hello',
    accept_startup_grace: true,
  })
  expect(info.applied_input).toBe(true)
  await until('the prompt was read', async () =>
    (await it.call('session.read', { session_id: info.id })).text.includes('got hello'),
  )
})

test('a silent program gets its first prompt after the short bound, and one that ends rolls the session back', async () => {
  const it = await station()
  const before = monotonicMs()
  it.profile('silent', ['base = "shell"', 'program = "/bin/cat"'])
  const info = await it.create({ agent: 'silent', input: 'hello' })
  expect(monotonicMs() - before).toBeLessThan(4_000)
  await until('the prompt was read', async () =>
    (await it.call('session.read', { session_id: info.id })).text.includes('hello'),
  )
  await it.call('session.remove', info.id)
  it.profile('gone', ['base = "shell"', 'program = "/bin/true"'])
  expect((await refused(it.create({ agent: 'gone', input: 'hello' }))).code).toBe('session_not_running')
  expect(await it.call('session.list')).toEqual([])
  expect(it.traces()).toEqual([])
})

test('FC-2c70: an offset that left the ring is answered with a gap', async () => {
  const it = await station({ workers: { outputHistoryBytes: 65_536 } })
  const session = await it.sh('i=0; while [ $i -lt 30000 ]; do echo "line $i"; i=$((i+1)); done; echo DONE; sleep 1000')
  await session.untilScreen('DONE', 20_000)
  const runtime = await session.identity()
  const answer = await session.call('session.output', { runtime, after_offset: '0', max_bytes: 783_240 })
  expect(Number(answer.gap.end_offset)).toBe(Number(answer.history_start_offset))
  expect(answer.gap.start_offset).toBe('0')
  expect(answer.start_offset).toBe(answer.history_start_offset)
  expect(Buffer.from(answer.data_base64, 'base64').length).toBe(
    Number(answer.next_offset) - Number(answer.start_offset),
  )
  const tail = await session.call('session.output', { max_bytes: 20 })
  expect(Buffer.from(tail.data_base64, 'base64').toString()).toMatch(/DONE\r\n$/)
  expect(tail.has_more).toBe(false)
})

test('a waiting read answers with what comes, or with its timeout, and gives its place back', async () => {
  const it = await station()
  const session = await it.program('/bin/cat', [])
  const runtime = await session.identity()
  const waiting = await it.connect()
  const call = { session_id: session.id, runtime, after_offset: '0', max_bytes: 1_000, wait_ms: 8_000 }
  const answer = waiting.call('session.output', call)
  await session.input('now')
  expect(Buffer.from((await answer).data_base64, 'base64').toString()).toContain('now')
  await session.untilOutput('now\r\nnow\r\n')
  const quiet = await session.output()
  const timed = await waiting.call('session.output', { ...call, after_offset: String(quiet.next), wait_ms: 50 })
  expect(timed).toMatchObject({ timed_out: true, data_base64: '', has_more: false })
  const places = await Promise.all(Array.from({ length: 8 }, () => it.connect()))
  // A probe may take the last place for a moment: who was refused asks again.
  const hold = (wire: Wire): Promise<unknown> =>
    wire
      .call('session.output', { ...call, after_offset: String(quiet.next) })
      .catch((failure: { code?: string }) => (failure.code === 'session_waiter_limit_reached' ? hold(wire) : undefined))
  const held = places.map(hold)
  await until(
    'all places are taken',
    async () =>
      (await refused(session.call('session.output', { ...call, after_offset: String(quiet.next), wait_ms: 1 })))
        .code === 'session_waiter_limit_reached',
  )
  places[0]?.close()
  await until('a closed connection gives its place back', async () => {
    const free = await session.call('session.output', { ...call, after_offset: String(quiet.next), wait_ms: 1 })
    return free.timed_out
  })
  await session.stop()
  await Promise.all(held)
})

test('observation refuses what its contract excludes', async () => {
  const it = await station()
  const session = await it.program('/bin/cat', [])
  const runtime = await session.identity()
  const code = async (params: Record<string, unknown>): Promise<string> =>
    (await refused(session.call('session.output', params))).code
  expect(await code({ max_bytes: 783_241 })).toBe('session_output_limit_exceeded')
  expect(await code({ max_bytes: 0 })).toBe('bad_request')
  expect(await code({ max_bytes: 1, after_offset: '0' })).toBe('bad_request')
  expect(await code({ max_bytes: 1, wait_ms: 5 })).toBe('bad_request')
  expect(await code({ max_bytes: 1, runtime, after_offset: '01' })).toBe('bad_request')
  expect(await code({ max_bytes: 1, runtime, after_offset: '0', wait_ms: 8_001 })).toBe('session_wait_limit_exceeded')
  expect(await code({ max_bytes: 1, runtime: { ...runtime, worker_instance_id: 'other' } })).toBe(
    'session_runtime_changed',
  )
  expect(await code({ max_bytes: 1, runtime, after_offset: '99999' })).toBe('bad_request')
  expect((await refused(session.call('session.read', { format: 'ansi' }))).code).toBe('session_read_ansi_unavailable')
  expect((await refused(session.call('session.read', { lines: 1_001 }))).code).toBe('bad_request')
  expect((await refused(it.call('session.screen', { session_id: 's-none' }))).code).toBe('session_not_found')
  await session.call('session.resize', { cols: 600, rows: 24 })
  expect((await refused(session.call('session.screen'))).code).toBe('session_output_limit_exceeded')
})

test('FC-994b: read joins soft-wrapped rows when asked, keeps empty rows, and cuts to the newest', async () => {
  const it = await station()
  const session = await it.sh(`printf '%0200d\\n\\nafter  \\n\\n\\nend'; sleep 1000`)
  await session.untilScreen('end')
  const rows = (await session.call('session.read')).text.split('\n')
  expect(rows.map((row: string) => row.length)).toEqual([80, 80, 40, 0, 5, 0, 0, 3])
  const joined = await session.call('session.read', { source: 'recent_unwrapped' })
  expect(joined.text.split('\n').map((row: string) => row.length)).toEqual([200, 0, 5, 0, 0, 3])
  expect(joined.source_used).toBe('visible')
  expect(await session.call('session.read', { lines: 2 })).toMatchObject({
    text: '\nend',
    truncated: true,
    lines_requested: 2,
  })
})
