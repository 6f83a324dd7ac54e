/** contract/protocol.md §2 and §3, from tables: what a line is answered with, byte by byte, on a real socket. */
import { describe, expect, test } from 'vitest'
import { testKernel } from '../harness/kernel.ts'
import type { Json, RawClient } from '../harness/ndjson.ts'
import { demo } from '../kernel/fixtures.ts'

const V = { minimum: 3, maximum: 4 }
const request = (change: Json = {}): Json => ({ v: V, id: 'r-1', method: 'demo.echo', ...change })
const without = (key: string): Json => Object.fromEntries(Object.entries(request()).filter(([held]) => held !== key))

async function client(): Promise<RawClient> {
  const { serve } = await testKernel([demo().bootable], [], { allowErrors: true })
  return await (await serve()).connect()
}

/** Exactly `{v,id,err:{class,code,msg,recover?}}`. */
function isError(answer: Json, id: string, code: string, v = 4): void {
  expect(Object.keys(answer)).toEqual(['v', 'id', 'err'])
  const err = answer.err as Json
  expect({ v: answer.v, id: answer.id, class: err.class, code: err.code }).toEqual({ v, id, class: 'daemon', code })
  expect(['class', 'code', 'msg', 'recover']).toEqual(expect.arrayContaining(Object.keys(err)))
  expect(typeof err.msg).toBe('string')
}

describe('lines that are no request', () => {
  const broken: [string, string | Uint8Array, string][] = [
    ['a blank line', '', 'invalid-request'],
    ['spaces', '   ', 'invalid-request'],
    ['a carriage return', '\r', 'invalid-request'],
    ['no JSON', 'hello', 'invalid-request'],
    ['half an object', '{"v":', 'invalid-request'],
    ['two values', '{} {}', 'invalid-request'],
    ['a byte order mark', `\ufeff${JSON.stringify(request())}`, 'invalid-request'],
    ['invalid UTF-8', Buffer.from('{"id":"\xff"}', 'latin1'), 'invalid-request'],
    ['a lone surrogate byte sequence', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]), 'invalid-request'],
    ['null', 'null', 'invalid-request'],
    ['a number', '12', 'invalid-request'],
    ['a string', '"x"', 'invalid-request'],
    ['a batch', JSON.stringify([request()]), 'invalid-request'],
    ['an empty object', '{}', 'invalid-request'],
    ['an unterminated array of 200,000 brackets', '['.repeat(200_000), 'invalid-request'],
    ['a valid array of 200,000 brackets', '['.repeat(200_000) + ']'.repeat(200_000), 'invalid-request'],
    [
      'a deep object in params',
      JSON.stringify(request()).slice(0, -1) + `,"params":${'{"a":'.repeat(70)}1${'}'.repeat(71)}`,
      'invalid-request',
    ],
  ]
  test.each(broken)('FC-e4c6: %s', async (_, line, id) => {
    const raw = await client()
    raw.send(line)
    raw.send('\n')
    isError(await raw.json(), id, 'bad_request')
    expect(await raw.ask('demo.echo', 1)).toEqual({ v: 4, id: 't-demo.echo', ok: 1 }) // the connection stays open
  })
})

describe('request keys', () => {
  const refused: [string, string, string][] = [
    ['no v', JSON.stringify(without('v')), 'r-1'],
    ['a bare integer v', JSON.stringify(request({ v: 4 })), 'r-1'],
    ['v without maximum', JSON.stringify(request({ v: { minimum: 3 } })), 'r-1'],
    ['an unknown key in v', JSON.stringify(request({ v: { ...V, x: 1 } })), 'r-1'],
    ['zero in v', JSON.stringify(request({ v: { minimum: 0, maximum: 4 } })), 'r-1'],
    ['a fraction in v', JSON.stringify(request({ v: { minimum: 3.5, maximum: 4 } })), 'r-1'],
    ['a string in v', JSON.stringify(request({ v: { minimum: '3', maximum: 4 } })), 'r-1'],
    ['2^32 in v', JSON.stringify(request({ v: { minimum: 3, maximum: 4_294_967_296 } })), 'r-1'],
    ['1e999 in v', '{"v":{"minimum":3,"maximum":1e999},"id":"r-1","method":"demo.echo"}', 'r-1'],
    ['-0 in v', '{"v":{"minimum":-0,"maximum":4},"id":"r-1","method":"demo.echo"}', 'r-1'],
    ['minimum above maximum', JSON.stringify(request({ v: { minimum: 4, maximum: 3 } })), 'r-1'],
    ['an array v', JSON.stringify(request({ v: [3, 4] })), 'r-1'],
    ['no id', JSON.stringify(without('id')), 'invalid-request'],
    ['an object id', JSON.stringify(request({ id: { a: 1 } })), 'invalid-request'],
    ['a number id', JSON.stringify(request({ id: 7 })), 'invalid-request'],
    ['an empty id', JSON.stringify(request({ id: '' })), 'invalid-request'],
    ['an id of 129 bytes', JSON.stringify(request({ id: 'a'.repeat(129) })), 'invalid-request'],
    ['an id with a space', JSON.stringify(request({ id: 'a b' })), 'invalid-request'],
    ['an id with a slash', JSON.stringify(request({ id: 'a/b' })), 'invalid-request'],
    ['an id with a newline', JSON.stringify(request({ id: 'a\n' })), 'invalid-request'],
    ['an id with an umlaut', JSON.stringify(request({ id: 'ä' })), 'invalid-request'],
    ['no method', JSON.stringify(without('method')), 'r-1'],
    ['an empty method', JSON.stringify(request({ method: '' })), 'r-1'],
    ['a method with a control character', JSON.stringify(request({ method: 'a\u0007' })), 'r-1'],
    ['a method with a C1 character', JSON.stringify(request({ method: 'a\u0085' })), 'r-1'],
    ['a number method', JSON.stringify(request({ method: 1 })), 'r-1'],
    ['an unknown key', JSON.stringify(request({ extra: 1 })), 'r-1'],
    [
      'a __proto__ key',
      '{"__proto__":{"polluted":1},"v":{"minimum":3,"maximum":4},"id":"r-1","method":"demo.echo"}',
      'r-1',
    ],
    ['one origin key', JSON.stringify(request({ origin_session_id: 's-1' })), 'r-1'],
    ['the other origin key', JSON.stringify(request({ origin_daemon_id: 'd-1' })), 'r-1'],
    ['a null origin', JSON.stringify(request({ origin_session_id: null, origin_daemon_id: null })), 'r-1'],
    ['a bad origin', JSON.stringify(request({ origin_session_id: 's 1', origin_daemon_id: 'd-1' })), 'r-1'],
    ['a long origin', JSON.stringify(request({ origin_session_id: 's'.repeat(129), origin_daemon_id: 'd-1' })), 'r-1'],
  ]
  test.each(refused)('FC-e4c6: %s is bad_request', async (_, line, id) => {
    const raw = await client()
    raw.send(`${line}\n`)
    isError(await raw.json(), id, 'bad_request')
    expect(({} as Json).polluted).toBeUndefined()
    expect((await raw.ask('demo.echo')).ok).toBeNull()
  })

  const accepted: [string, string, unknown][] = [
    ['absent params are null', JSON.stringify(request()), null],
    ['null params', JSON.stringify(request({ params: null })), null],
    ['an id of 128 bytes', JSON.stringify(request({ id: 'Az0._:-'.padEnd(128, 'x') })), null],
    [
      'the last of two equal keys',
      '{"v":{"minimum":3,"maximum":4},"id":"r-0","id":"r-1","method":"demo.echo","params":1,"params":2}',
      2,
    ],
    [
      'a __proto__ key inside free params',
      '{"v":{"minimum":3,"maximum":4},"id":"r-1","method":"demo.echo","params":{"a":2}}',
      { a: 2 },
    ],
    [
      'a number over 2^53',
      '{"v":{"minimum":3,"maximum":4},"id":"r-1","method":"demo.echo","params":9007199254740993}',
      9_007_199_254_740_992,
    ],
    ['white space around', `  ${JSON.stringify(request({ params: 1 }))} \r`, 1],
    ['64 levels', JSON.stringify(request()).slice(0, -1) + `,"params":${'['.repeat(63)}${']'.repeat(63)}}`, undefined],
    ['brackets in a string', JSON.stringify(request({ params: '[{'.repeat(200) })), '[{'.repeat(200)],
  ]
  test.each(accepted)('%s', async (_, line, ok) => {
    const raw = await client()
    raw.send(`${line}\n`)
    const answer = await raw.json()
    expect(Object.keys(answer)).toEqual(['v', 'id', 'ok'])
    if (ok !== undefined) expect(answer.ok).toEqual(ok)
  })

  test('origin markers reach the handler', async () => {
    const raw = await client()
    const answer = await raw.ask('demo.who', null, { origin_session_id: 's-1', origin_daemon_id: 'd-1' })
    expect(answer.ok).toMatchObject({
      origin: { sessionId: 's-1', daemonId: 'd-1' },
      local: true,
      uid: process.geteuid?.(),
      pid: process.pid,
    })
  })
})

describe('version negotiation', () => {
  const selections: [number, number, number | undefined][] = [
    [3, 4, 4],
    [3, 3, 3],
    [4, 4, 4],
    [1, 3, 3],
    [4, 4_294_967_295, 4],
    [1, 2, undefined],
    [5, 9, undefined],
  ]
  test.each(selections)('%i..=%i selects %s', async (minimum, maximum, selected) => {
    const raw = await client()
    const answer = await raw.ask('demo.nothing', null, { v: { minimum, maximum } })
    if (selected !== undefined) return expect(answer).toEqual({ v: selected, id: 't-demo.nothing', ok: null })
    isError(answer, 't-demo.nothing', 'version_mismatch')
    const { msg } = answer.err as { msg: string }
    expect(msg).toContain(`${minimum}..=${maximum}`)
    expect(msg).toContain('3..=4')
    expect((await raw.ask('demo.nothing')).ok).toBeNull() // nothing was frozen, the connection is usable
  })

  test('the first negotiated response freezes the version', async () => {
    const raw = await client()
    raw.send('nonsense\n')
    isError(await raw.json(), 'invalid-request', 'bad_request', 4)
    expect((await raw.ask('demo.nothing', null, { v: { minimum: 3, maximum: 3 } })).v).toBe(3)
    raw.send('nonsense\n')
    isError(await raw.json(), 'invalid-request', 'bad_request', 3)
    const other = await raw.ask('demo.nothing', null, { v: { minimum: 4, maximum: 4 } })
    isError(other, 't-demo.nothing', 'version_mismatch', 3)
    expect((other.err as { msg: string }).msg).toContain('3..=3')
    expect((await raw.ask('demo.nothing', null, { v: { minimum: 3, maximum: 3 } })).v).toBe(3)
  })

  test('a negotiated error freezes it too', async () => {
    const raw = await client()
    isError(await raw.ask('no.such', null, { v: { minimum: 3, maximum: 3 } }), 't-no.such', 'method_not_found', 3)
    isError(
      await raw.ask('demo.nothing', null, { v: { minimum: 4, maximum: 4 } }),
      't-demo.nothing',
      'version_mismatch',
      3,
    )
  })

  test('a whole window is accepted on a frozen connection', async () => {
    const raw = await client()
    await raw.ask('demo.nothing', null, { v: { minimum: 3, maximum: 3 } })
    expect((await raw.ask('demo.nothing', null, { v: V })).v).toBe(3)
  })
})

describe('errors of methods', () => {
  test.each([['no.such'], ['status'], ['task.run'], ['__proto__'], ['constructor'], ['toString']])(
    '%s is method_not_found',
    async (method) => {
      const raw = await client()
      const answer = await raw.ask('demo.nothing', null, { method })
      isError(answer, 't-demo.nothing', 'method_not_found')
      expect(Object.keys(answer.err as Json)).toEqual(['class', 'code', 'msg'])
    },
  )

  test('a method newer than the connection does not exist on it', async () => {
    const raw = await client()
    isError(await raw.ask('demo.newer', null, { v: { minimum: 3, maximum: 3 } }), 't-demo.newer', 'method_not_found', 3)
    const second = await client()
    expect((await second.ask('demo.newer')).ok).toBe('new')
  })

  test('a typed fault keeps class, code, message and hint', async () => {
    const raw = await client()
    expect(await raw.ask('demo.fails', 'listed')).toEqual({
      v: 4,
      id: 't-demo.fails',
      err: { class: 'runtime', code: 'demo_refused', msg: 'refused: told to', recover: 'ask nicely' },
    })
  })

  const badParams: [unknown, string][] = [
    [null, 'params: expected Object'],
    [{}, 'params.text: missing'],
    [{ text: 7 }, 'params.text: expected string'],
    [{ text: 'a', size: 10 }, 'params.size: must be <=9'],
    [{ text: 'a', size: 1.5 }, 'params.size: invalid integer'],
    [{ text: 'a', other: 1 }, 'params.other: unknown key'],
  ]
  test.each(badParams)('params %j: %s', async (params, msg) => {
    const raw = await client()
    const answer = await raw.ask('demo.strict', params)
    isError(answer, 't-demo.strict', 'bad_request')
    expect((answer.err as { msg: string }).msg).toBe(msg)
  })

  test('a value is never quoted back', async () => {
    const raw = await client()
    expect(JSON.stringify(await raw.ask('demo.strict', { text: ['hunter2'] }))).not.toContain('hunter2')
    expect(JSON.stringify(await raw.ask('demo.fails', 'hunter2'))).not.toContain('hunter2')
  })

  test('params where none are taken', async () => {
    const raw = await client()
    isError(await raw.ask('demo.nothing', {}), 't-demo.nothing', 'bad_request')
  })

  test('a bug is internal_error with an incident, its text only in the log', async () => {
    const { serve, log } = await testKernel([demo().bootable], [], { allowErrors: true })
    const raw = await (await serve()).connect()
    const answer = await raw.ask('demo.fails', 'error')
    isError(answer, 't-demo.fails', 'internal_error')
    expect(JSON.stringify(answer)).not.toContain('secret detail')
    const incident = /i-[0-9a-f]+/.exec((answer.err as { msg: string }).msg)?.[0]
    const entry = log.find((it) => it.fields.incident === incident)
    expect((entry?.fields.err as Error).message).toBe('secret detail')
    expect((await raw.ask('demo.nothing')).ok).toBeNull()
  })

  test('a hostile method name does not blow the answer up', async () => {
    const raw = await client()
    raw.sendJson(request({ method: 'x'.repeat(900_000) }))
    const line = await raw.line()
    expect(line.length).toBeLessThan(10_000)
    isError(JSON.parse(line) as Json, 'r-1', 'method_not_found')
  })
})
