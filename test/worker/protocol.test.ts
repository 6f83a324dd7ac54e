/** The private protocol: negotiation, lease, lines, scopes, tokens. */
import * as fs from 'node:fs'
import * as net from 'node:net'
import { expect, test } from 'vitest'
import { encodeFrameHead, FrameDecoder } from '../../protocol/worker/frames.ts'
import { CAPABILITIES } from '../../protocol/worker/messages.ts'
import { ControlClient, FrameClient, RawClient, sh, startBareWorker, startWorker, until } from './harness.ts'

const negotiate = (control: ControlClient, minimum = 6, maximum = 7, daemon = 'd-x') =>
  control.request({ type: 'negotiate', daemon_instance_id: daemon, minimum_version: minimum, maximum_version: maximum })

test('negotiation answers who the worker is and the highest common version', async () => {
  const worker = await startWorker()
  const control = await ControlClient.connect(worker.socketPath)
  const answer = await negotiate(control, 1, 99)
  expect(answer).toMatchObject({
    type: 'negotiated',
    selected_version: 7,
    supported_range: { minimum: 6, maximum: 7 },
    session_id: worker.sessionId,
    worker_id: worker.workerId,
    worker_process: { pid: worker.process.pid, start_identity: expect.stringMatching(/^\d+$/) as unknown },
    phase: 'uninitialized',
    capabilities: [...CAPABILITIES],
  })
  expect(answer).not.toHaveProperty('runtime_id')
  expect((await negotiate(control, 6, 6))['selected_version']).toBe(6)
  await expect(negotiate(control, 1, 5)).rejects.toMatchObject({ code: 'worker_protocol_incompatible' })
  await expect(negotiate(control, 8, 9)).rejects.toMatchObject({ code: 'worker_protocol_incompatible' })
  control.close()
})

test('the lease belongs to one open connection', async () => {
  const worker = await startWorker()
  const other = await ControlClient.connect(worker.socketPath)
  const { challenge } = await negotiate(other)
  const acquire = (it: unknown) =>
    other.request({
      type: 'acquire_controller',
      daemon_instance_id: 'd-x',
      challenge: it,
      requested_capabilities: ['raw_attach', 'unheard_of'],
    })
  await expect(acquire(challenge)).rejects.toMatchObject({ code: 'controller_busy' })
  await expect(acquire('wrong')).rejects.toMatchObject({ code: 'identity_mismatch' })
  await expect(other.request({ type: 'inspect', lease_id: worker.leaseId })).rejects.toMatchObject({
    code: 'identity_mismatch',
  })
  await worker.initialize(sh('exec sleep 60'))
  await expect(other.request({ type: 'terminal_snapshot', scope: worker.scope })).rejects.toMatchObject({
    code: 'identity_mismatch',
  })
  await worker.control.request({ type: 'release_controller', lease_id: worker.leaseId })
  await expect(worker.inspect()).rejects.toMatchObject({ code: 'identity_mismatch' })
  const acquired = await acquire(challenge)
  expect(acquired['capabilities']).toEqual(['raw_attach'])
  expect(acquired['lease_id']).not.toBe(worker.leaseId)
  other.close()
})

test('scopes that name another session, worker or runtime are refused', async () => {
  const worker = await startWorker()
  await expect(worker.snapshot()).rejects.toMatchObject({ code: 'invalid_request' })
  await worker.initialize(sh('exec sleep 60'))
  for (const key of ['session_id', 'worker_id', 'runtime_id']) {
    const scope = { ...worker.scope, [key]: 'other' }
    await expect(worker.control.request({ type: 'terminal_snapshot', scope })).rejects.toMatchObject({
      code: 'identity_mismatch',
    })
  }
})

test('requests are pipelined and answered by id; one that waits holds up none', async () => {
  const worker = await startWorker()
  await worker.initialize(sh('exec sleep 60'))
  const order: string[] = []
  const slow = worker.control
    .request({
      type: 'write_plan',
      scope: worker.scope,
      plan: {
        write_id: 'slow',
        fragments: [
          { bytes: 'YQ==', delay_after_ms: 300 },
          { bytes: 'Yg==', delay_after_ms: 0 },
        ],
      },
    })
    .then(() => order.push('slow'))
  const quick = Array.from({ length: 50 }, () => worker.inspect().then(() => order.push('quick')))
  await Promise.all([...quick, slow])
  expect(order).toHaveLength(51)
  expect(order.at(-1)).toBe('slow')
})

test('a wrong field fails its request, an unknown operation its connection, and neither the worker', async () => {
  const worker = await startWorker()
  await expect(worker.control.request({ type: 'inspect' })).rejects.toMatchObject({ code: 'invalid_request' })
  await expect(worker.control.request({ type: 'inspect', lease_id: 7 })).rejects.toMatchObject({
    code: 'invalid_request',
  })
  await worker.inspect()
  const other = await ControlClient.connect(worker.socketPath)
  await expect(other.request({ type: 'reboot' })).rejects.toMatchObject({ code: 'invalid_request' })
  await until('the connection is closed', () => other.closed)
  await worker.inspect()
})

const BAD_LINES: Record<string, string> = {
  'no JSON': 'hello\n',
  'a list': '[1,2]\n',
  'a number': '5\n',
  null: 'null\n',
  'deep nesting': `${'['.repeat(200_000)}\n`,
  'a line without end': 'x'.repeat(1_100_000),
}
for (const [name, line] of Object.entries(BAD_LINES)) {
  test(`a bad line (${name}) ends its connection with an error`, async () => {
    const worker = await startWorker()
    const other = await ControlClient.connect(worker.socketPath)
    other.socket.write(line)
    await until('the connection is closed', () => other.closed)
    expect(other.lines).toMatchObject([{ type: 'error', error: { code: 'invalid_request' } }])
    await worker.inspect()
  })
}

test('only requests with a payload may be long', async () => {
  const worker = await startWorker()
  await worker.initialize(sh('stty raw -echo; exec cat >/dev/null'))
  await expect(
    worker.control.request({ type: 'inspect', lease_id: worker.leaseId, padding: 'x'.repeat(70_000) }),
  ).rejects.toMatchObject({ code: 'invalid_request' })
  expect(await worker.type('y'.repeat(300_000))).toBe(300_000)
})

test('prototypes and odd request ids do no harm', async () => {
  const worker = await startWorker()
  const other = await ControlClient.connect(worker.socketPath)
  other.socket.write('{"__proto__":{"type":"inspect"},"request_id":{"a":1},"type":"inspect"}\n')
  await until('an error', () => other.lines.length === 1)
  expect(other.lines[0]).toMatchObject({ request_id: '', type: 'error', error: { code: 'invalid_request' } })
  other.close()
})

test('hook reports are answered as not taken', async () => {
  const worker = await startWorker()
  for (const type of [
    'identity_report',
    'identity_release',
    'subagent_start',
    'subagent_stop',
    'subagent_snapshot',
    'notification_create',
  ]) {
    const hook = await ControlClient.connect(worker.socketPath)
    hook.socket.write(`${JSON.stringify({ type, runtime_id: 'x' })}\n`)
    await until('an answer', () => hook.lines.length === 1)
    expect(hook.lines).toEqual([{ ok: false, launch_identity_accepted: false }])
    hook.close()
  }
})

test('a token opens one stream once, of its kind', async () => {
  const worker = await startWorker()
  await worker.initialize(sh('exec sleep 60'))
  const { token, streamId } = await worker.token('attach')
  const first = await RawClient.open(worker.socketPath, token, streamId)
  await first.sees('\x1b[?2026l')
  const again = await RawClient.open(worker.socketPath, token, streamId)
  await until('it is refused', () => again.closed)
  expect(JSON.parse(again.text)).toMatchObject({ type: 'error', error: { code: 'invalid_data_token' } })
  const detector = await worker.token('detector')
  const raw = await RawClient.open(worker.socketPath, detector.token, detector.streamId)
  await until('it is refused', () => raw.closed)
  const other = await worker.token('attach')
  const wrong = await FrameClient.open(worker.socketPath, {
    version: 7,
    stream_id: 'another',
    runtime_id: worker.runtimeId,
    kind: 'open',
    token: other.token,
    mode: 'attach',
    after_offset: 0,
  })
  expect((await wrong.frame('error')).header).toMatchObject({ error: { code: 'invalid_data_token' } })
  await until('it is closed', () => wrong.closed)
})

test('tokens die with their lease', async () => {
  const worker = await startWorker()
  await worker.initialize(sh('exec sleep 60'))
  const { token, streamId } = await worker.token('attach')
  worker.control.close()
  await until('a new lease', async () =>
    worker.lease().then(
      () => true,
      () => false,
    ),
  )
  const client = await RawClient.open(worker.socketPath, token, streamId)
  await until('it is refused', () => client.closed)
  expect(client.text).toContain('invalid_data_token')
})

test('attached clients outlive the lease they were opened under', async () => {
  const worker = await startWorker()
  await worker.initialize(sh('exec cat'))
  const client = await worker.attach(80, 24)
  await client.sees('\x1b[?2026l')
  worker.control.close()
  client.type('still here\r')
  await client.sees('still here')
})

test('undecodable frames end their connection only', async () => {
  const worker = await startWorker()
  await worker.initialize(sh('exec sleep 60'))
  for (const bytes of [
    Buffer.from([0, 0xff, 0xff, 0xff]),
    Buffer.concat([Buffer.from([0, 0, 0, 3]), Buffer.from('{x}'), Buffer.alloc(4)]),
  ]) {
    const socket = net.connect(worker.socketPath)
    const decoder = new FrameDecoder()
    const kinds: string[] = []
    socket.on('data', (it: Buffer) => kinds.push(...decoder.push(it).map((frame) => frame.header.kind)))
    socket.on('error', () => {})
    const closed = new Promise((resolve) => socket.on('close', resolve))
    socket.write(bytes)
    await closed
    expect(kinds).toEqual(['error'])
  }
  const socket = net.connect(worker.socketPath)
  socket.on('error', () => {})
  socket.resume()
  const closed = new Promise((resolve) => socket.on('close', resolve))
  socket.write(encodeFrameHead({ version: 7, stream_id: 's', runtime_id: 'r', kind: 'input', write_id: 'x' }, 0))
  await closed
  await worker.inspect()
})

test('an uninitialized worker ends with its controller', async () => {
  const worker = await startWorker()
  worker.control.close()
  await worker.gone()
  expect(worker.exitCode).toBe(0)
  expect(fs.existsSync(worker.socketPath)).toBe(false)
  expect(worker.journal()).toMatchObject({ phase: 'never_initialized' })
})

test('an uninitialized worker waits 10 s for a controller, no longer', async () => {
  const worker = await startBareWorker()
  const began = performance.now()
  await worker.gone()
  const took = performance.now() - began
  expect(took).toBeGreaterThan(8_000)
  expect(took).toBeLessThan(15_000)
})

test('an initialized one outlives it, and the next daemon finds the same runtime', async () => {
  const worker = await startWorker()
  await worker.initialize(sh('exec sleep 60'))
  const { runtimeId, leaseId } = worker
  worker.control.close()
  await until('a new lease', async () =>
    worker.lease({ daemonId: 'd-2', version: 6 }).then(
      () => true,
      () => false,
    ),
  )
  expect(worker.runtimeId).toBe(runtimeId)
  expect(worker.leaseId).not.toBe(leaseId)
  expect(await worker.inspect()).toMatchObject({
    phase: 'running',
    runtime_id: runtimeId,
    generation: '1',
    subagents: [],
    launch_daemon_id: 'd-test',
  })
})

test('events are numbered per lease and rare', async () => {
  const worker = await startWorker()
  await worker.initialize(sh('i=0; while [ $i -lt 3000 ]; do echo "line $i"; i=$((i+1)); done; exec sleep 60'))
  await worker.shows('line 2999')
  await until('output events', () => worker.control.events.some((it) => it.type === 'output_advanced'))
  expect(worker.control.events[0]).toMatchObject({ event_sequence: 1, type: 'runtime_started' })
  expect(worker.control.events.map((it) => it['event_sequence'])).toEqual(worker.control.events.map((_, n) => n + 1))
  const { next_offset } = await worker.inspect()
  await until('the last one says where the output is', () =>
    worker.control.events.some((it) => it.type === 'output_advanced' && it['next_offset'] === next_offset),
  )
  expect(worker.control.events.filter((it) => it.type === 'output_advanced').length).toBeLessThan(30)
})

test('a directory the program reports is told', async () => {
  const worker = await startWorker()
  await worker.initialize(sh("printf '\\033]7;file://host/tmp/a%%20b\\a'; exec sleep 60"))
  expect(await worker.control.event('cwd_reported')).toMatchObject({ cwd: '/tmp/a b' })
  expect((await worker.inspect()).reported_cwd).toBe('/tmp/a b')
})

test('the socket is private', async () => {
  const worker = await startWorker()
  expect(fs.statSync(worker.socketPath).mode & 0o777).toBe(0o600)
  expect(fs.statSync(worker.socketPath.replace(/\/control\.sock$/, '')).mode & 0o777).toBe(0o700)
  expect(fs.readdirSync(worker.socketPath.replace(/\/control\.sock$/, ''))).toEqual(['control.sock'])
})
