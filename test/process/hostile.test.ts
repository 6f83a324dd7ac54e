/** Input that means harm: endless lines, strange JSON, names that look like paths, text that looks like commands. */
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { carrying, pssBytes } from '../harness/processes.ts'
import { CHILD } from '../harness/roots.ts'
import { refused } from '../harness/session.ts'
import { monotonicMs, until } from '../harness/wait.ts'
import { Wire } from '../harness/wire.ts'
import { world, type World } from '../harness/world.ts'

const MIB = 1024 * 1024
const envelope = (method: string, params: unknown = null, id: unknown = 'x'): string =>
  JSON.stringify({ v: { minimum: 3, maximum: 4 }, id, method, params })

describe('FC-618d: a request line that never ends', () => {
  test('is closed at the limit; the daemon stays small and others are served', async () => {
    const w = await world()
    const other = await w.connect()
    const wire = await w.connect()
    const block = Buffer.alloc(MIB / 4, 'x')
    let sent = 0
    while (!wire.ended && sent < 1024 * MIB) {
      sent += block.length
      wire.socket.write(block)
      await until('the daemon takes the bytes or closes', () => wire.ended || wire.socket.writableLength === 0, {
        pollMs: 1,
      })
    }
    expect(wire.ended).toBe(true)
    expect(sent).toBeLessThan(16 * MIB)
    // If anything was said before the close, it was the typed error.
    for (const line of wire.lines) expect(line.err.code).toMatch(/^(framing|bad_request)$/)
    expect((await other.call('daemon.health')).status).toBe('ok')
    expect(pssBytes(w.daemon.pid)).toBeLessThan(150 * MIB)
  })

  test('a valid request of 10 MB is one too', async () => {
    const w = await world()
    const wire = await w.connect()
    wire.send(`${envelope('session.input', { session_id: 's-x', text: 'x'.repeat(10 * MIB) })}\n`)
    await until('the connection is closed', () => wire.ended)
    expect((await w.call('daemon.health')).status).toBe('ok')
  })

  test('a line of exactly the limit is served, one byte more is not', async () => {
    const w = await world()
    const wire = await w.connect()
    const padded = (bytes: number): string => {
      const bare = envelope('daemon.health', '')
      return envelope('daemon.health', ' '.repeat(bytes - bare.length))
    }
    // What it says about the odd params is not the point: it was read.
    expect((await wire.ask(padded(MIB))).id).toBe('x')
    wire.send(`${padded(MIB + 1)}\n`)
    await until('the connection is closed', () => wire.ended)
  })

  test('200 connections with a megabyte and no newline each', { timeout: 60_000 }, async () => {
    const w = await world()
    const other = await w.connect()
    const chunk = Buffer.alloc(1_000_000, '[')
    const wires = await Promise.all(Array.from({ length: 200 }, async () => await w.connect().catch(() => undefined)))
    for (const it of wires) it?.send(chunk)
    const start = monotonicMs()
    expect((await other.call('daemon.health')).status).toBe('ok')
    expect(monotonicMs() - start).toBeLessThan(5_000)
    await until(
      'what is going to be read is read',
      () => wires.every((it) => it === undefined || it.ended || it.socket.writableLength === 0),
      {
        deadlineMs: 20_000,
      },
    )
    expect(pssBytes(w.daemon.pid)).toBeLessThan(600 * MIB)
    for (const it of wires) it?.close()
    expect(await w.call('session.list')).toEqual([])
  })
})

describe('FC-e4c6: strange JSON', () => {
  const RANGE = '"v":{"minimum":3,"maximum":4}'
  const cases: [string, string | Buffer, string][] = [
    ['nothing', '', 'bad_request'],
    ['blanks', '   ', 'bad_request'],
    ['200,000 opening brackets', '['.repeat(200_000), 'bad_request'],
    [
      'deep but closed',
      `{${RANGE},"id":"x","method":"session.list","params":${'['.repeat(50_000)}${']'.repeat(50_000)}}`,
      'bad_request',
    ],
    ['a batch', `[${envelope('daemon.health')}]`, 'bad_request'],
    ['a string', '"daemon.health"', 'bad_request'],
    ['null', 'null', 'bad_request'],
    ['a number', '1e999', 'bad_request'],
    ['no JSON', 'GET / HTTP/1.1', 'bad_request'],
    ['bytes that are no UTF-8', Buffer.from([0x7b, 0xff, 0xfe, 0x7d]), 'bad_request'],
    ['__proto__', '{"__proto__":{}}', 'bad_request'],
    [
      '__proto__ beside a good request',
      `{${RANGE},"id":"x","method":"daemon.health","__proto__":{"polluted":1}}`,
      'bad_request',
    ],
    ['an unknown key', `{${RANGE},"id":"x","method":"daemon.health","extra":1}`, 'bad_request'],
    ['a missing id', `{${RANGE},"method":"daemon.health"}`, 'bad_request'],
    ['an id that is an object', `{${RANGE},"id":{},"method":"daemon.health"}`, 'bad_request'],
    ['an id that is a number', `{${RANGE},"id":7,"method":"daemon.health"}`, 'bad_request'],
    ['an empty id', `{${RANGE},"id":"","method":"daemon.health"}`, 'bad_request'],
    ['an id of 129 bytes', `{${RANGE},"id":"${'x'.repeat(129)}","method":"daemon.health"}`, 'bad_request'],
    ['an id with a space', `{${RANGE},"id":"a b","method":"daemon.health"}`, 'bad_request'],
    ['a bare version', '{"v":4,"id":"x","method":"daemon.health"}', 'bad_request'],
    ['a version range upside down', '{"v":{"minimum":4,"maximum":3},"id":"x","method":"daemon.health"}', 'bad_request'],
    ['version zero', '{"v":{"minimum":0,"maximum":4},"id":"x","method":"daemon.health"}', 'bad_request'],
    [
      'version 2^53+1',
      '{"v":{"minimum":3,"maximum":9007199254740993},"id":"x","method":"daemon.health"}',
      'bad_request',
    ],
    ['version -0', '{"v":{"minimum":-0,"maximum":4},"id":"x","method":"daemon.health"}', 'bad_request'],
    ['no common version', '{"v":{"minimum":5,"maximum":9},"id":"x","method":"daemon.health"}', 'version_mismatch'],
    ['an unknown method', envelope('no.such.method'), 'method_not_found'],
    ['a reserved method', envelope('status'), 'method_not_found'],
    ['a method of Object', envelope('constructor'), 'method_not_found'],
    ['a method called __proto__', envelope('__proto__'), 'method_not_found'],
    ['an empty method', envelope(''), 'bad_request'],
    ['a method with a control character', envelope('a\u0007b'), 'bad_request'],
    ['half an origin', `{${RANGE},"id":"x","method":"daemon.health","origin_session_id":"s-1"}`, 'bad_request'],
    [
      'numbers that are none',
      `{${RANGE},"id":"x","method":"session.new","params":{"agent":"shell","cols":1e999,"rows":24}}`,
      'bad_request',
    ],
    [
      'a prototype as params',
      `{${RANGE},"id":"x","method":"session.inspect","params":{"__proto__":"s-1"}}`,
      'bad_request',
    ],
  ]

  test(
    'each gets the typed error, the connection stays usable, the daemon is unharmed',
    { timeout: 60_000 },
    async () => {
      const w = await world()
      for (const [what, line, code] of cases) {
        const wire = await Wire.open(w.roots.socket)
        const answer = await wire.ask(line, 5_000)
        expect([what, Object.keys(answer).sort(), answer.err?.class, answer.err?.code]).toEqual([
          what,
          ['err', 'id', 'v'],
          'daemon',
          code,
        ])
        expect([what, ['x', 'invalid-request'].includes(answer.id)]).toEqual([what, true])
        expect([what, (await wire.call('daemon.health')).status]).toEqual([what, 'ok'])
        wire.close()
      }
      expect(await w.call('session.list')).toEqual([])
      expect((await w.call('daemon.health')).polluted).toBeUndefined()
      expect(w.daemon.output).not.toMatch(/uncaught|unhandled/i)
    },
  )
})

describe('FC-94ef: names do not become paths', () => {
  const outside = (w: World): string[] =>
    (['runtime', 'state', 'data', 'cache', 'config'] as const)
      .flatMap((root) => w.files(root))
      .filter((it) => /evil|passwd|\.\.(\/|$)/.test(it))

  test('every name is refused or only shown', async () => {
    const w = await world()
    const agent = w.profile('/bin/cat')
    const names = ['../evil', 'a/b', '.', '..', '-rf', '../../../../tmp/evil', 'é', 'e\u0301', 'x'.repeat(128)]
    for (const name of names) {
      const session = await w.agent(agent, { name })
      // One spelling of each character is kept.
      expect((await session.info()).name).toBe(name.normalize('NFC'))
      expect(outside(w)).toEqual([])
      await session.remove()
    }
    for (const name of ['a\u0000b', 'a\nb', 'x'.repeat(300), '\u001b[2J', '\u009b2J']) {
      expect([name, (await refused(w.agent(agent, { name }))).code]).toEqual([name, 'bad_request'])
    }
    const trimmed = await w.agent(agent, { name: '   ' })
    expect((await trimmed.info()).name).toBeUndefined()
  })

  test('two Unicode spellings of one name do not shadow each other silently', async () => {
    const w = await world()
    const composed = await w.child(['lines_in'], { name: 'caf\u00e9' })
    const decomposed = await w.child(['lines_in'], { name: 'cafe\u0301' })
    for (const [name, id] of [
      ['caf\u00e9', composed.id],
      ['cafe\u0301', decomposed.id],
    ] as const) {
      const { code, stdout } = await w.cli(['session', 'inspect', name, '--json'])
      const answer = JSON.parse(stdout)
      if (code === 0) expect(answer.ok.id).toBe(id)
      else expect(answer.err.code).toBe('ambiguous_session_name')
    }
  })

  test.each([
    '../../etc/passwd',
    '..',
    '.',
    '/',
    's-../../evil',
    'ext-1',
    '%2e%2e',
    's-' + '0'.repeat(26),
    'x'.repeat(128),
  ])('an id that is none: %s', async (id) => {
    const w = await world()
    for (const method of [
      'session.inspect',
      'session.stop',
      'session.remove',
      'session.remove_accepting_unconfirmed',
    ]) {
      expect([method, (await refused(w.call(method, id))).code]).toEqual([method, 'session_not_found'])
    }
    for (const method of ['session.screen', 'session.read', 'session.rename', 'session.attach']) {
      expect([method, (await refused(w.call(method, { session_id: id }))).code]).toEqual([method, 'session_not_found'])
    }
    expect(outside(w)).toEqual([])
  })
})

describe('FC-39e0: text of others is not printed raw', () => {
  const RAW = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/

  test('titles, metadata, directories and error messages', async () => {
    const w = await world()
    const hostile = '\x1b]0;T\x1b]52;c;ZXZpbA==\x07\x1b]8;;http://evil\x07x\x1b[2J\x07'
    const cwd = join(w.roots.work, 'dir\x1b[2J\u009b31m')
    mkdirSync(cwd)
    const session = await w.child(['print', Buffer.from(hostile).toString('hex')], {
      cwd,
      metadata: { key: 'v\x1b[2J\u009b1m' },
    })
    await session.untilScreen('ready')
    const runs = [
      ['session', 'list'],
      ['session', 'inspect', session.id],
      ['session', 'screen', session.id],
      ['session', 'read', session.id],
      ['session', 'inspect', 'no\x1b[2Jsuch\u009b31m'],
      ['session', 'new', '--agent', 'no\x1b[2Jsuch'],
      ['session', 'new', '--agent', 'shell', '--cwd', join(w.roots.base, 'gone\x1b[2J')],
      ['no\x1b[2Jsuch-command'],
    ]
    for (const args of runs) {
      const { stdout, stderr } = await w.cli(args)
      expect([args, RAW.exec(stdout), RAW.exec(stderr)]).toEqual([args, null, null])
    }
    for (const args of [
      ['session', 'list', '--json'],
      ['session', 'inspect', session.id, '--json'],
      ['session', 'screen', session.id, '--json'],
    ]) {
      const { code, stdout } = await w.cli(args)
      expect(code).toBe(0)
      expect(/[\u0000-\u0009\u000b-\u001f]/.exec(stdout)).toBeNull()
      JSON.parse(stdout)
    }
  })
})

describe('FC-a0b7: secrets stay where they belong', () => {
  const SECRET = 'hunter2-7c1f55'
  const PROMPT = 'prompt-3e9a41'

  test('no argument list, no state, no log, no listing holds them', async () => {
    const w = await world({ config: '[log]\nlevel = "debug"\n' })
    const agent = w.profile(process.execPath, [CHILD, 'lines_in'], { env: { API_TOKEN: SECRET } })
    const session = await w.agent(agent, { input: PROMPT })
    await session.untilScreen(`got:${PROMPT}`)
    await session.input(`${PROMPT}-more`)
    await session.untilScreen(`got:${PROMPT}-more`)

    for (const it of carrying(w.roots.base)) {
      expect(it.argv.join(' ')).not.toContain(SECRET)
      expect(it.argv.join(' ')).not.toContain(PROMPT)
    }
    // The worker is told through its socket, not through its environment.
    expect(readFileSync(`/proc/${session.worker().pid}/environ`, 'latin1')).not.toContain(SECRET)
    expect(readFileSync(`/proc/${session.pid}/environ`, 'latin1')).toContain(SECRET)
    const listings = JSON.stringify([await w.call('session.list'), await session.info(), await w.call('daemon.doctor')])
    expect(listings).not.toContain(SECRET)
    expect(listings).not.toContain(PROMPT)
    await session.stop()
    await w.daemon.stop()
    for (const root of ['state', 'data', 'cache', 'runtime'] as const) {
      for (const path of w.files(root).filter((it) => !it.endsWith('/') && !it.endsWith('.sock'))) {
        const text = readFileSync(join(w.roots[root], path), 'latin1')
        expect([path, text.includes(SECRET), text.includes(PROMPT)]).toEqual([path, false, false])
      }
    }
    expect(w.daemon.output).not.toContain(SECRET)
    expect(w.daemon.output).not.toContain(PROMPT)
    await w.start()
  })
})

describe('FC-7278, FC-b14e: pasted text does not break out of its frame', () => {
  const payloads: [string, string][] = [
    ['the paste-end marker', 'echo safe\x1b[201~\rtouch PWNED\r'],
    ['the single-byte introducer as a character', 'echo safe\u009b201~\rtouch PWNED\r'],
    ['markers one inside the other', 'echo safe\x1b[20\x1b[201~1~\rtouch PWNED\r'],
    ['a paste start inside', 'echo safe\x1b[200~\x1b[201~\rtouch PWNED\r'],
  ]

  test.each(payloads)('%s', async (_, text) => {
    const w = await world()
    const session = await w.agent(
      w.profile(process.execPath, [CHILD, 'paste'], { inputRules: { bracketed_paste: true } }),
    )
    await session.untilScreen('ready')
    const attached = await session.attach()
    await session.input(text)
    attached.write('Q')
    await session.ended()
    const output = (await session.output()).bytes.toString()
    const said = (what: string): string =>
      [...output.matchAll(new RegExp(`${what}:(".*?(?<!\\\\)")\r`, 'g'))]
        .map((it) => JSON.parse(it[1] as string) as string)
        .join('')
    // Nothing but the submit key reached the program outside the frame.
    expect(said('keys').replaceAll('\r', '')).toBe('Q')
    const pasted = said('paste')
    expect(pasted).toContain('echo safe')
    expect(pasted).toContain('touch PWNED')
    expect(pasted).not.toContain('201~\x1b')
    expect(pasted).not.toMatch(/(\x1b\[|\u009b|\u00c2\u009b)20[01]~/)
  })
})
