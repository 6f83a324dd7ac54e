/** What reaches a program's terminal, and what is refused before a byte of it does. */
import { spawn } from 'node:child_process'
import { describe, expect, test } from 'vitest'
import { COMPOSER, QUESTION, shows, theatre, WORKING } from '../detection/theatre.ts'
import { bin } from '../harness/roots.ts'
import { until } from '../harness/wait.ts'
import { refused } from '../harness/session.ts'
import { station } from './station.ts'

const PASTE_ON = '\x1b[?2004h'
const THREE_LINES = 'one\n\nthree'

describe('several lines', () => {
  test('FC-6c48: a program that takes pastes gets one message with its line breaks', async () => {
    const it = await theatre()
    const session = await it.agent(undefined, undefined, ['[input_rules]', 'bracketed_paste = true'])
    await session.stub.write(PASTE_ON, COMPOSER)
    await session.untilScreen('an answer')
    expect(await session.call('session.input', { text: THREE_LINES })).toEqual({ accepted: true })
    await until('it arrived', () => session.stub.typed.endsWith('\r'))
    expect(session.stub.typed).toBe(`\x1b[200~${THREE_LINES}\x1b[201~\r`)
  })

  test('FC-6c48: one that does not gets them as they are, unless the caller demands a paste', async () => {
    const it = await theatre()
    const session = await it.agent()
    await session.stub.write(COMPOSER)
    const no = await refused(session.call('session.input', { text: THREE_LINES, paste: true }))
    expect(no).toMatchObject({ code: 'session_input_rejected' })
    expect(session.stub.typed).toBe('')
    await session.call('session.input', { text: THREE_LINES })
    await until('it arrived', () => session.stub.typed.endsWith('\r'))
    expect(session.stub.typed).toBe(`${THREE_LINES}\r`)
  })

  test('FC-6db4: Enter is never part of the paste burst', async () => {
    const it = await theatre()
    const session = await it.agent(undefined, undefined, [
      '[input_rules]',
      'bracketed_paste = true',
      'submit_delay_ms = 150',
    ])
    await session.stub.write(PASTE_ON, COMPOSER)
    await session.untilScreen('an answer')
    const text = 'x'.repeat(17_000)
    for (let round = 1; round <= 5; round++) {
      const before = session.stub.heard.length
      await session.call('session.input', { text })
      await until('Enter arrived', () => session.stub.heard.at(-1)?.typed === '\r')
      const reads = session.stub.heard.slice(before).map((one) => String(one.typed))
      expect(reads.join('')).toBe(`\x1b[200~${text}\x1b[201~\r`)
    }
  })
})

describe('FC-30b8: a terminal in line mode', () => {
  test('gets no line it would cut; the caller may insist', async () => {
    const it = await station()
    const session = await it.program('/bin/cat', [])
    const line = 'a'.repeat(5_000)
    const no = await refused(session.call('session.input', { text: line }))
    expect(no).toMatchObject({ code: 'session_input_rejected' })
    expect(no.body.msg).toMatch(/5000 bytes.*4095/)
    expect((await session.output()).bytes.length).toBe(0)
    await session.call('session.input', { text: 'b'.repeat(4_000) })
    await session.untilScreen('bbbb')
    expect(await session.call('session.input', { text: line, force: true })).toEqual({ accepted: true })
  })

  test('a program that reads keys takes it whole', async () => {
    const it = await theatre()
    const session = await it.agent()
    const line = 'a'.repeat(9_000)
    await session.stub.write(COMPOSER)
    await session.call('session.input', { text: line })
    await until('it arrived', () => session.stub.typed.endsWith('\r'))
    expect(session.stub.typed).toBe(`${line}\r`)
  })
})

describe('a paste that the program stopped reading', () => {
  test('is closed before anything else is written', async () => {
    const it = await theatre({ input: { writeStallTimeoutMs: 1_000 } })
    const session = await it.agent(undefined, undefined, ['[input_rules]', 'bracketed_paste = true'])
    const { stub } = session
    await stub.write(PASTE_ON, COMPOSER)
    await session.untilScreen('an answer')
    process.kill(session.pid, 'SIGSTOP')
    const no = await refused(session.call('session.input', { text: 'A'.repeat(60_000) }))
    process.kill(session.pid, 'SIGCONT')
    expect(no.code).toBe('session_input_stalled')
    expect(no.body.msg).toMatch(/part of the text may stand/)
    await session.call('session.input', { text: 'next' })
    await until('it arrived', () => stub.typed.endsWith('\r'))
    expect(stub.typed).toMatch(/^\x1b\[200~A+\x1b\[201~\x1b\[200~next\x1b\[201~\r$/)
    await session.call('session.input', { text: 'last' })
    await until('it arrived', () => stub.typed.endsWith('last\x1b[201~\r'))
    expect(stub.typed.match(/\x1b\[201~/g)).toHaveLength(3)
  })

  test('is left to a program that takes none any more', async () => {
    const it = await theatre({ input: { writeStallTimeoutMs: 1_000 } })
    const session = await it.agent(undefined, undefined, ['[input_rules]', 'bracketed_paste = true'])
    const { stub } = session
    await stub.write(PASTE_ON, COMPOSER)
    await session.untilScreen('an answer')
    process.kill(session.pid, 'SIGSTOP')
    await refused(session.call('session.input', { text: 'A'.repeat(60_000) }))
    process.kill(session.pid, 'SIGCONT')
    await stub.write('\x1b[?2004l')
    await session.call('session.input', { text: 'next' })
    await until('it arrived', () => stub.typed.endsWith('\r'))
    expect(stub.typed).toMatch(/^\x1b\[200~A+next\r$/)
  })
})

describe('a worker that does not answer', () => {
  test('costs a caller its own deadline at most, and others a bounded time; nothing is written later', async () => {
    const it = await theatre({ input_rules: 'composer = "required"' })
    const session = await it.agent()
    await session.stub.write(COMPOSER)
    await shows(session, 'idle')
    const worker = session.worker().pid
    process.kill(worker, 'SIGSTOP')
    try {
      const from = performance.now()
      const waiting = refused(session.call('session.input', { text: 'A', wait: { timeout_ms: 500 } })).then((no) => ({
        code: no.code,
        ms: performance.now() - from,
      }))
      const wire = it.station.keep(await it.station.connect())
      const plain = refused(wire.call('session.input', { session_id: session.id, text: 'B' }, { deadlineMs: 60_000 }))
      const { code, ms } = await waiting
      expect(code).toBe('session_input_timeout')
      expect(ms).toBeLessThan(2_500)
      expect((await plain).code).toBe('session_runtime_reconnecting')
    } finally {
      process.kill(worker, 'SIGCONT')
    }
    await until('it is looked at again', async () => (await session.info()).activity === 'idle')
    await session.call('session.input', { text: 'C' })
    await until('it arrived', () => session.stub.typed.endsWith('\r'))
    expect(session.stub.typed).toBe('C\r')
  })
})

describe('the first prompt', () => {
  test('whose key would answer a question takes its session back', async () => {
    const it = await theatre({ input_rules: 'composer = "required"\nready = "screen_idle"' })
    const creating = refused(
      it.agent(undefined, undefined, ['[input_rules]', 'submit_delay_ms = 400'], 'stub', {
        input: 'first',
        accept_startup_grace: true,
      }),
    )
    const stub = await until('the agent runs', () => it.arrived[0])
    await stub.write(COMPOSER)
    await until('the text arrived', () => stub.typed === 'first', { pollMs: 1 })
    await stub.write(QUESTION)
    expect((await creating).code).toBe('session_input_not_ready')
    expect(stub.typed).toBe('first')
  })
})

describe('waited input', () => {
  test('of a runtime that pauses before Enter is refused before a byte', async () => {
    const it = await theatre()
    const session = await it.agent(undefined, undefined, ['[input_rules]', 'submit_delay_ms = 5'])
    await session.stub.write(COMPOSER)
    await shows(session, 'idle')
    const no = await refused(session.call('session.input', { text: 'x', wait: { timeout_ms: 1_000 } }))
    expect(no).toMatchObject({ code: 'session_input_wait_unsupported' })
    expect(session.stub.typed).toBe('')
  })

  test('a wait that cannot be is refused before a byte, whatever else would be wrong', async () => {
    const it = await theatre()
    const session = await it.agent()
    await session.stub.write(COMPOSER)
    await shows(session, 'idle')
    for (const wait of [
      { timeout_ms: 0 },
      { timeout_ms: 8_001 },
      { timeout_ms: 1.5 },
      { timeout_ms: 100, until: [] },
    ]) {
      const no = await refused(session.call('session.input', { text: 'x', wait }))
      expect([wait, no.code]).toEqual([wait, 'session_input_invalid_wait'])
    }
    expect(session.stub.typed).toBe('')
  })

  test('time spent behind another input counts, and nothing is written for a call that ran out of it', async () => {
    const it = await theatre({ input: { writeStallTimeoutMs: 1_500 } })
    const slow = await it.station.sh('stty raw -echo; echo ready; sleep 1000')
    await slow.untilScreen('ready')
    const first = refused(slow.call('session.input', { text: 'x'.repeat(200_000) }))
    const wire = it.station.keep(await it.station.connect())
    const late = await refused(
      wire.call('session.input', { session_id: slow.id, text: 'late', wait: { timeout_ms: 200 } }),
    )
    expect(late.code).toBe('session_input_timeout')
    expect((await first).code).toBe('session_input_stalled')
  })

  test('a caller that leaves gives its place back; the ninth wait is refused', async () => {
    const it = await theatre()
    const session = await it.agent()
    await session.stub.write(COMPOSER)
    await shows(session, 'idle')
    const wires = await Promise.all(Array.from({ length: 8 }, () => it.station.connect()))
    const held = wires.map((wire) =>
      wire
        .call('session.input', {
          session_id: session.id,
          text: 'w',
          wait: { until: ['working'], timeout_ms: 8_000 },
        })
        .catch(() => undefined),
    )
    await until('all were written', () => session.stub.typed === 'w\r'.repeat(8))
    const ninth = { text: 'n', wait: { until: ['working'], timeout_ms: 5_000 } }
    expect((await refused(session.call('session.input', ninth))).code).toBe('session_waiter_limit_reached')
    wires[0]?.close()
    const again = until('a place is free', async () =>
      session.call('session.input', ninth).catch((problem: { code?: string }) => {
        if (problem.code !== 'session_waiter_limit_reached') throw problem
        return undefined
      }),
    )
    await until('it was written', () => session.stub.typed.endsWith('n\r'))
    await session.stub.write(WORKING)
    expect(await again).toMatchObject({ activity: 'working' })
    await Promise.all(held)
    for (const wire of wires) wire.close()
  })

  test('the CLI says that the outcome is unknown when it is interrupted', async () => {
    const it = await theatre()
    const session = await it.agent()
    await session.stub.write(COMPOSER)
    await shows(session, 'idle')
    const args = ['session', 'input', session.id, 'go', '--until', 'working', '--timeout', '8000', '--json']
    const child = spawn(bin('pohunek'), args, { env: it.station.roots.env(), stdio: ['ignore', 'pipe', 'inherit'] })
    let out = ''
    child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
    const closed = new Promise<number | null>((resolve) => child.once('close', resolve))
    await until('it arrived', () => session.stub.typed === 'go\r')
    child.kill('SIGINT')
    expect(await closed).toBe(1)
    expect(JSON.parse(out)).toMatchObject({ err: { class: 'runtime', code: 'session_input_interrupted' } })
    expect(JSON.parse(out).err).not.toHaveProperty('recover')
  })

  test('the CLI waits for what it is told', async () => {
    const it = await theatre()
    const session = await it.agent()
    await session.stub.write(COMPOSER)
    await shows(session, 'idle')
    await session.stub.order('submit', [WORKING, 200, QUESTION])
    const child = spawn(bin('pohunek'), ['session', 'input', session.id, 'go', '--until', 'blocked'], {
      env: it.station.roots.env(),
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let out = ''
    child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
    expect(await new Promise((resolve) => child.once('close', resolve))).toBe(0)
    expect(out).toBe(`session ${session.id}: input accepted (blocked)\n`)
  })
})
