import { describe, expect, test } from 'vitest'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { Client, ClientError, connect } from '../../client/index.ts'
import { isDedicated } from '../../client/methods.ts'
import { fromV3, paramsForV3 } from '../../client/v3.ts'
import { rest } from '../../client/waits.ts'
import sessions from '../../plugins/sessions/contract.ts'
import system from '../../plugins/system/contract.ts'
import { downgradeResult } from '../../protocol/window/v3.ts'
import { until } from '../harness/wait.ts'
import { world, type World } from '../harness/world.ts'

async function client(it: World): Promise<Client> {
  return it.keep(await connect({ env: it.roots.env() }))
}

async function failure(act: Promise<unknown>): Promise<ClientError> {
  try {
    await act
  } catch (problem) {
    if (problem instanceof ClientError) return problem
    throw problem
  }
  throw new Error('it did not fail')
}

test('call, with types from the contracts', async () => {
  const it = await world()
  const pohunek = await client(it)
  const made = await pohunek.call('session.new', { agent: 'shell', cols: 80, rows: 24, name: 'typed' })
  const listed = await pohunek.call('session.list', { filters: [{ key: 'id', value: made.id }] })
  expect(listed.map((one) => one.name)).toEqual(['typed'])
  expect(pohunek.version).toBe(4)
  // @ts-expect-error: cols and rows are missing
  expect((await failure(pohunek.call('session.new', { agent: 'shell' }))).code).toBe('bad_request')
  expect(await failure(pohunek.call('session.inspect', 's-none'))).toMatchObject({
    class: 'runtime',
    code: 'session_not_found',
    msg: expect.any(String),
    recover: expect.any(String),
  })
})

test('attach as a stream: output, input, resize, detach', async () => {
  const it = await world()
  const session = await it.sh('echo ready; while read x; do echo "got $x"; done')
  for (const direct of [true, false]) {
    const pohunek = await client(it)
    const stream = await pohunek.attach(session.id, { cols: 80, rows: 24, direct })
    let text = ''
    stream.on('data', (chunk: Buffer) => (text += chunk.toString()))
    await until('the picture', () => text.includes('ready'), { show: () => text })
    stream.write(`${String(direct)}\r`)
    await until('the echo', () => text.includes(`got ${String(direct)}`), { show: () => text })
    await stream.resize(101, 31)
    expect((await session.info()).cols).toBe(101)
    await stream.detach()
    await until('it is closed', () => stream.destroyed)
  }
  expect((await failure((await client(it)).attach('s-none'))).code).toBe('session_not_found')
})

test('followOutput reads everything to the end', async () => {
  const it = await world()
  const session = await it.sh('i=0; while [ $i -lt 300 ]; do echo "line $i"; i=$((i+1)); done; sleep 0.3; echo last')
  const parts: Buffer[] = []
  for await (const bytes of (await client(it)).followOutput(session.id)) parts.push(bytes)
  const lines = Buffer.concat(parts).toString().split('\r\n')
  expect(lines).toHaveLength(302)
  expect(lines[300]).toBe('last')
})

test('subscribe, and leaving the loop ends it', async () => {
  const it = await world()
  const pohunek = await client(it)
  const stop = new AbortController()
  const seen: string[] = []
  const reading = (async () => {
    for await (const event of pohunek.subscribe({ signal: stop.signal })) {
      seen.push(event.event)
      if (event.event === 'session_removed') break
    }
  })()
  await until('an event', async () => {
    if (seen.includes('session_created')) return true
    await it.sh('exit 0')
    return false
  })
  const session = await it.sh('exit 0')
  await session.remove()
  await reading
  expect(seen).toContain('session_removed')
  const second = (async () => {
    for await (const event of pohunek.subscribe({ signal: stop.signal })) seen.push(event.event)
  })()
  stop.abort()
  await second
})

test('a client goes on with the next daemon', async () => {
  const it = await world()
  const pohunek = await client(it)
  const session = await it.sh('sleep 60')
  await it.crash()
  await until(
    'it answers again',
    async () => (await pohunek.call('session.inspect', session.id)).runtime?.state === 'live',
  )
})

describe('what outlives a daemon, for programs', () => {
  test('a wait goes on with the next daemon; without reconnecting it ends with its own', async () => {
    const it = await world()
    const pohunek = await client(it)
    const session = await it.sh('read x')
    const now = { session_ids: [session.id], timeout_ms: 1 }
    const { cursor } = await pohunek.waitFor('session.wait_turn', now)
    const behind = { session_ids: [session.id], after: cursor, timeout_ms: 60_000 }
    const wait = pohunek.waitFor('session.wait_turn', behind)
    const alone = failure(pohunek.waitFor('session.wait_turn', behind, { reconnect: false }))
    // Both are on their way: their connections were dialled before this one was answered.
    await pohunek.call('daemon.health', null)
    await it.crash()
    expect((await alone).code).toBe('framing')
    await session.stop()
    expect((await wait).event).toMatchObject({ session_id: session.id, kind: 'exited' })
  })

  test('where no daemon answered yet the failure comes at once; an abort ends a wait for one', async () => {
    const it = await world()
    const pohunek = await client(it)
    const session = await it.sh('sleep 60')
    const stop = new AbortController()
    const away: string[] = []
    const reading = (async () => {
      const options = { signal: stop.signal, onAway: (it: ClientError) => void away.push(it.code) }
      for await (const bytes of pohunek.followOutput(session.id, options)) expect(bytes.length).toBe(0)
    })()
    await pohunek.call('daemon.health', null)
    await it.daemon.kill()
    const fresh = new Client({ env: it.roots.env() })
    expect(
      (await failure(fresh.waitFor('session.wait', { session_id: session.id, states: ['done'], timeout_ms: 8_000 })))
        .code,
    ).toBe('daemon_unreachable')
    await until('it is told that it takes long', () => away.length > 0)
    stop.abort()
    await reading
    expect(away).toEqual(['daemon_unreachable'])
    await it.start()
  })
})

test.each([
  [{ timeout_ms: 1_000 }, 300.5, { timeout_ms: 700 }],
  [{ wait_ms: 1_000, after_offset: '7' }, 2_000, { wait_ms: 1, after_offset: '7' }],
  [{ after: 'x' }, 5_000, { after: 'x' }],
])('what is left of %j after %d ms', (request, elapsedMs, left) => expect(rest(request, elapsedMs)).toEqual(left))

/** A server that answers lines by script: only what a real daemon never does is tested with it. */
async function scripted(it: World, answer: (line: Record<string, unknown>, socket: Socket) => void): Promise<string> {
  const path = join(it.roots.runtime, 'scripted.sock')
  const server = createServer((socket) => {
    let text = ''
    socket.on('error', () => undefined)
    socket.on('data', (chunk) => {
      text += chunk.toString()
      for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n')) {
        answer(JSON.parse(text.slice(0, at)) as Record<string, unknown>, socket)
        text = text.slice(at + 1)
      }
    })
    it.keep({ close: () => socket.destroy() })
  })
  it.keep({ close: () => server.close() })
  await new Promise<void>((resolve) => server.listen(path, resolve))
  return path
}

describe('daemons that misbehave or are older', () => {
  test('no answer, a broken one, the wrong one', async () => {
    const it = await world({ daemon: false })
    let say: string | undefined
    const socketPath = await scripted(it, (line, socket) => {
      if (say !== undefined) socket.write(say.replace('ID', String(line.id)))
    })
    const call = (): Promise<ClientError> =>
      failure(new Client({ socketPath, env: {}, requestTimeoutMs: 100 }).call('daemon.health', null))
    expect(await call()).toMatchObject({ class: 'transport', code: 'request_timeout' })
    for (const broken of [
      'nonsense\n',
      '[]\n',
      '{"v":4,"id":"other","ok":{}}\n',
      '{"v":"4","id":"ID","ok":{}}\n',
      '{"v":4,"id":"ID"}\n',
      '{"v":4,"id":"ID","err":{"code":1}}\n',
    ]) {
      say = broken
      expect((await call()).code).toBe('invalid_protocol_envelope')
    }
    say = '{"v":4,"id":"ID","ok":{"status":"ok"}}\n'
    expect(await new Client({ socketPath, env: {} }).call('daemon.health', null)).toEqual({ status: 'ok' })
  })

  test('the first request offers the window, later ones are pinned, ids and origin are sent', async () => {
    const it = await world({ daemon: false })
    const lines: Record<string, unknown>[] = []
    const socketPath = await scripted(it, (line, socket) => {
      lines.push(line)
      socket.write(`${JSON.stringify({ v: 4, id: line.id, ok: [] })}\n`)
    })
    const pohunek = new Client({ socketPath, env: { POHUNEK_SESSION_ID: 's-1', POHUNEK_DAEMON_ID: 'd-1' } })
    await pohunek.call('session.list', null)
    await pohunek.call('session.list', null)
    pohunek.close()
    expect(lines).toEqual([
      {
        v: { minimum: 3, maximum: 4 },
        id: 'sdk-session.list-1',
        method: 'session.list',
        params: null,
        origin_session_id: 's-1',
        origin_daemon_id: 'd-1',
      },
      {
        v: { minimum: 4, maximum: 4 },
        id: 'sdk-session.list-2',
        method: 'session.list',
        params: null,
        origin_session_id: 's-1',
        origin_daemon_id: 'd-1',
      },
    ])
  })

  test('a protocol 3 daemon: shapes are translated, what it lacks is refused before it is sent', async () => {
    const it = await world({ daemon: false })
    const asked: unknown[] = []
    const socketPath = await scripted(it, (line, socket) => {
      asked.push([line.method, line.params])
      socket.write(
        `${JSON.stringify({ v: 3, id: line.id, ok: line.method === 'session.output' ? { runtime_id: 'r-1', data_base64: '' } : { status: 'ok' } })}\n`,
      )
    })
    const pohunek = new Client({ socketPath, env: {} })
    const answer = await pohunek.call('session.output', {
      session_id: 's',
      max_bytes: 1,
      runtime: { worker_instance_id: 'r-1', runtime_generation: '1' },
    })
    expect(answer.worker_instance_id).toBe('r-1')
    expect(asked).toEqual([
      ['daemon.health', null],
      ['session.output', { session_id: 's', max_bytes: 1, runtime: { runtime_id: 'r-1', runtime_generation: '1' } }],
    ])
    expect((await failure(pohunek.call('session.list', { filters: [{ key: 'metadata_has', value: 'k' }] }))).code).toBe(
      'daemon_protocol_too_old',
    )
    pohunek.close()
  })

  test('the client’s v3 tables agree with the daemon’s', () => {
    for (const method of ['package.list', 'session.wait_turn'])
      expect(() => paramsForV3(method, null)).toThrow(/needs protocol 4/)
    const runtime = { state: 'live', runtime_generation: '1', worker_instance_id: 'r-1' }
    const info = { id: 's-1', metadata: { runtime_id: 'mine' }, runtime }
    for (const [method, result] of [
      ['session.inspect', info],
      ['session.list', [info]],
      ['session.rename', { session: info }],
      ['session.screen', { worker_instance_id: 'r' }],
      ['session.runtime_inventory', { entries: [{ worker_instance_id: 'r' }] }],
    ] as const) {
      expect(fromV3(downgradeResult(method, result))).toEqual(result)
    }
  })

  test('calls that wait get connections of their own, exactly as the contracts say', () => {
    const shapes = [null, {}, { wait_ms: 5 }, { wait: { timeout_ms: 5 } }, 's-1']
    for (const [method, spec] of Object.entries({ ...sessions.methods, ...system.methods })) {
      const dedicated = (spec as { dedicated?: (params: unknown) => boolean }).dedicated
      for (const params of shapes)
        expect([method, params, isDedicated(method, params)]).toEqual([method, params, dedicated?.(params) ?? false])
    }
  })
})

test('without a daemon the failure says what to do, and one is started where that is asked for', async () => {
  const it = await world({ daemon: false })
  expect(await failure(connect({ env: it.roots.env() }))).toMatchObject({
    class: 'daemon',
    code: 'daemon_unreachable',
    recover: 'pohunek daemon start --detach, or connect({ start: true })',
  })
  expect(it.running('daemon')).toEqual([])
  const pohunek = it.keep(await connect({ env: it.roots.env(), start: true }))
  expect((await pohunek.call('daemon.health', null)).status).toBe('ok')
  expect(it.running('daemon')).toHaveLength(1)
  // One that cannot start tells its own words.
  const broken = await world({ daemon: false, end: 'kill', config: 'nonsense = [\n' })
  const refused = await failure(connect({ env: broken.roots.env(), start: true }))
  expect(refused.code).toBe('daemon_spawn_failed')
  expect(refused.msg).toContain('config.toml')
})
