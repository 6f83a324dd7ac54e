/** Input: order, completeness, bounds, repetition. */
import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { sh, startWorker, until, type TestWorker } from './harness.ts'

const base64 = (text: string): string => Buffer.from(text).toString('base64')
const plan = (worker: TestWorker, write_id: string, fragments: [string, number][]) =>
  worker.control.request({
    type: 'write_plan',
    scope: worker.scope,
    plan: { write_id, fragments: fragments.map(([text, delay_after_ms]) => ({ bytes: base64(text), delay_after_ms })) },
  })

const RAW_ECHO = [
  '/usr/bin/env',
  'python3',
  '-u',
  '-c',
  "import os,tty,sys,time\ntty.setraw(0)\nos.write(1,b'READY\\r\\n')\nwhile True: os.write(1,os.read(0,65536))",
]

test('FC-da87: a large paste into a program that reads late is byte-exact and in order', async () => {
  const worker = await startWorker()
  const script =
    "import os,tty,time,hashlib\ntty.setraw(0)\nos.write(1,b'READY')\ntime.sleep(1.5)\nh=hashlib.sha256(); n=0; last=b''\nwhile n<1048577:\n b=os.read(0,65536); h.update(b[:1048576-n] if n<1048576 else b''); n+=len(b); last=b[-1:]\nos.write(1,('\\r\\n%s %s' % (h.hexdigest(), last.decode())).encode())\ntime.sleep(60)"
  await worker.initialize(['/usr/bin/env', 'python3', '-c', script])
  await worker.shows('READY')
  const text = Array.from(
    { length: 16_384 },
    (_, n) => createHash('md5').update(String(n)).digest('hex') + createHash('md5').update(`b${n}`).digest('hex'),
  ).join('')
  expect(text.length).toBe(1_048_576)
  const pieces = [0, 1, 2, 3].map((n) => plan(worker, `p${n}`, [[text.slice(n * 262_144, (n + 1) * 262_144), 0]]))
  const after = plan(worker, 'x', [['x', 0]])
  for (const [n, answer] of (await Promise.all(pieces)).entries())
    expect(answer['acknowledgement']).toEqual({ write_id: `p${n}`, bytes_written: 262_144 })
  await after
  const digest = createHash('sha256').update(text).digest('hex')
  await worker.screen('the digest', (it) => it.visible_lines.join('').includes(`${digest} x`))
})

test('a terminal that takes nothing for the bound ends the plan; the rest is not written', async () => {
  const worker = await startWorker()
  await worker.initialize(sh('stty raw -echo; printf READY; sleep 1.2; exec cat >/dev/null'), { input_stall_ms: 300 })
  await worker.shows('READY')
  const began = performance.now()
  await expect(plan(worker, 'big', [['y'.repeat(500_000), 0]])).rejects.toMatchObject({ code: 'input_stalled' })
  expect(performance.now() - began).toBeGreaterThan(250)
  // The same write again has the same end; another one works once the program reads.
  await expect(plan(worker, 'big', [['y'.repeat(500_000), 0]])).rejects.toMatchObject({ code: 'input_stalled' })
  await until('the program reads again', async () =>
    plan(worker, `after-${performance.now()}`, [['z', 0]]).then(
      () => true,
      () => false,
    ),
  )
})

test('private version 6 has no stall bound', async () => {
  const worker = await startWorker({ version: 6 })
  await worker.initialize(sh('stty raw -echo; printf READY; sleep 1; exec cat >/dev/null'), { input_stall_ms: 100 })
  await worker.shows('READY')
  expect((await plan(worker, 'big', [['y'.repeat(500_000), 0]]))['acknowledgement']).toEqual({
    write_id: 'big',
    bytes_written: 500_000,
  })
})

test('a repeated write id is written once; for other bytes it is refused; a new lease starts anew', async () => {
  const worker = await startWorker()
  await worker.initialize(RAW_ECHO)
  await worker.shows('READY')
  const [one, two] = await Promise.all([plan(worker, 'same', [['once ', 0]]), plan(worker, 'same', [['once ', 0]])])
  expect(one['acknowledgement']).toEqual(two['acknowledgement'])
  await plan(worker, 'same', [['once ', 0]])
  await expect(plan(worker, 'same', [['other', 0]])).rejects.toMatchObject({ code: 'invalid_request' })
  await plan(worker, 'end', [['END', 0]])
  await worker.screen('once only', (it) => it.visible_lines[1] === 'once END')
  worker.control.close()
  await until('a new lease', async () =>
    worker.lease().then(
      () => true,
      () => false,
    ),
  )
  await plan(worker, 'same', [[' again', 0]])
  await worker.shows('once END again')
})

test('remembered writes are bounded', async () => {
  const worker = await startWorker()
  const { limits } = worker.spec([])
  await worker.initialize(RAW_ECHO, { limits: { ...limits, write_dedup_entries: 2 } })
  await worker.shows('READY')
  for (const id of ['a', 'b', 'c', 'a']) await plan(worker, id, [[id, 0]])
  await worker.screen('a was forgotten', (it) => it.visible_lines[1] === 'abca')
})

test('fragments keep their pauses and their order', async () => {
  const worker = await startWorker()
  await worker.initialize(RAW_ECHO)
  await worker.shows('READY')
  const began = performance.now()
  const first = plan(worker, 'p1', [
    ['one ', 150],
    ['two ', 150],
    ['three ', 0],
  ])
  const second = plan(worker, 'p2', [['four', 0]])
  await Promise.all([first, second])
  expect(performance.now() - began).toBeGreaterThan(290)
  await worker.screen('all in order', (it) => it.visible_lines[1] === 'one two three four')
})

test('typing keeps its order and is not held up by a plan that pauses long', async () => {
  const worker = await startWorker()
  await worker.initialize(RAW_ECHO)
  await worker.shows('READY')
  const client = await worker.attach(80, 24)
  await client.sees('\x1b[?2026l')
  const long = plan(worker, 'long', [
    ['[', 4_000],
    [']', 0],
  ])
  await worker.screen('the plan began', (it) => it.visible_lines[1] === '[')
  const began = performance.now()
  for (const letter of 'abcdefgh') client.type(letter)
  await worker.screen('typing passed', (it) => it.visible_lines[1] === '[abcdefgh')
  const took = performance.now() - began
  expect(took).toBeGreaterThan(700)
  expect(took).toBeLessThan(3_000)
  await long
  await worker.screen('the plan went on', (it) => it.visible_lines[1] === '[abcdefgh]')
})

test('a short plan and typing do not mix', async () => {
  const worker = await startWorker()
  await worker.initialize(RAW_ECHO)
  await worker.shows('READY')
  const client = await worker.attach(80, 24)
  await client.sees('\x1b[?2026l')
  const short = plan(worker, 'short', [
    ['body', 200],
    ['!', 0],
  ])
  await worker.screen('the plan began', (it) => it.visible_lines[1] === 'body')
  client.type('typed')
  await short
  await worker.screen('typing came after', (it) => it.visible_lines[1] === 'body!typed')
})

test('a client that types without end is held back, not buffered', async () => {
  const worker = await startWorker()
  await worker.initialize(sh('stty raw -echo; printf READY; exec sleep 60'))
  await worker.shows('READY')
  const client = await worker.attach(80, 24)
  await client.sees('\x1b[?2026l')
  let written = 0
  const chunk = Buffer.alloc(65_536, 0x61)
  while (written < 40_000_000 && client.socket.writableLength < 4_000_000) {
    client.socket.write(chunk)
    written += chunk.length
    await new Promise(setImmediate)
  }
  expect(written).toBeLessThan(20_000_000)
  await worker.inspect()
})

test('input that is no base64, over its bounds, or for an ended program is refused', async () => {
  const worker = await startWorker()
  await worker.initialize(sh('read x; exit 0'))
  const raw = (fragments: unknown) =>
    worker.control.request({ type: 'write_plan', scope: worker.scope, plan: { write_id: 'r', fragments } })
  await expect(raw([{ bytes: '###', delay_after_ms: 0 }])).rejects.toMatchObject({ code: 'invalid_request' })
  await expect(raw([])).rejects.toMatchObject({ code: 'invalid_request' })
  await expect(raw([{ bytes: '', delay_after_ms: 60_001 }])).rejects.toMatchObject({ code: 'invalid_request' })
  await expect(raw(Array.from({ length: 65 }, () => ({ bytes: '', delay_after_ms: 0 })))).rejects.toMatchObject({
    code: 'invalid_request',
  })
  await worker.type('\r')
  await worker.exited()
  await expect(worker.type('late')).rejects.toMatchObject({ code: 'invalid_state' })
})
