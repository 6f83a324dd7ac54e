/** Output from its first byte to its last: ring, reads, exit order, screens. */
import { expect, test } from 'vitest'
import { bash, sh, startWorker, until } from './harness.ts'
import { reference } from './grid.ts'

test('FC-6f3a: the last bytes of a program that exits at once are kept, and its end is told after them', async () => {
  // The exit overtakes the last reads when the reader is busy: three floods keep it so.
  for (let round = 0; round < 8; round++) {
    const worker = await startWorker()
    await worker.initialize(sh('head -c 200000 /dev/zero | tr "\\0" x; printf END'))
    const busy = round % 2 === 0 ? Array.from({ length: 3 }, () => worker.snapshot().catch(() => undefined)) : []
    await worker.exited()
    const { next_offset } = await worker.inspect()
    expect(next_offset).toBe(200_003)
    const bytes = await worker.everything()
    expect(bytes.length).toBe(200_003)
    expect(bytes.subarray(0, 200_000).every((it) => it === 0x78)).toBe(true)
    expect(bytes.subarray(-3).toString()).toBe('END')
    await Promise.all(busy)
    worker.process.kill('SIGKILL')
  }
})

test('FC-4e67: what a program printed before anybody looked is there, with its exit', async () => {
  const worker = await startWorker()
  await worker.initialize(['/usr/bin/printf', 'early'])
  const { exit } = await worker.exited()
  expect(exit).toMatchObject({ code: 0, stopped_by_user: false, output_force_closed: false })
  expect((await worker.read(0)).bytes.toString()).toBe('early')
  expect((await worker.snapshot()).visible_lines[0]).toBe('early')
})

test('an exit by signal is told as the signal', async () => {
  const worker = await startWorker()
  await worker.initialize(sh('kill -KILL $$'))
  const { exit } = await worker.exited()
  expect(exit).toMatchObject({ signal: 9 })
  expect(exit).not.toHaveProperty('code')
})

test('FC-1d2c: a screen read right after a burst shows its end', async () => {
  const worker = await startWorker()
  await worker.initialize(sh('yes | head -c 12000000; printf SENTINEL; exec sleep 60'))
  await until('the tail has the sentinel', async () =>
    (await worker.read(-1, 100)).bytes.toString().endsWith('SENTINEL'),
  )
  const screen = await worker.snapshot()
  expect(screen.visible_lines.findLast((it) => it !== '')).toMatch(/SENTINEL$/)
  expect(screen.watermark).toBe((await worker.inspect()).next_offset)
})

test('FC-2c70: a reader behind the ring is told what is missing; offsets only grow', async () => {
  const worker = await startWorker()
  const spec = worker.spec([])
  await worker.initialize(
    sh('i=0; while [ $i -lt 30000 ]; do echo "line $i"; i=$((i+1)); done; read x; echo more; exec sleep 60'),
    { limits: { ...spec.limits, output_history_bytes: 65_536 } },
  )
  await worker.shows('line 29999')
  const { history_start_offset: start, next_offset: end } = await worker.inspect()
  expect(end - start).toBe(65_536)
  const first = await worker.read(0)
  expect(first.start).toMatchObject({
    start_offset: start,
    next_offset: end,
    history_start_offset: start,
    runtime_end_offset: end,
    has_more: false,
    gap: { missing_start: 0, missing_end: start },
  })
  expect(first.bytes.length).toBe(65_536)
  expect(first.bytes.toString().trimEnd().endsWith('line 29999')).toBe(true)
  const later = await worker.read(end - 1_000)
  expect(later.start.gap).toBeUndefined()
  expect(later.bytes.equals(first.bytes.subarray(-1_000))).toBe(true)
  const part = await worker.read(start, 100)
  expect(part.start).toMatchObject({ next_offset: start + 100, has_more: true })
  await worker.type('\r')
  await until('more output', async () => (await worker.inspect()).next_offset > end)
  expect((await worker.read(end)).start.start_offset).toBe(end)
})

test('a read waits for output, and no longer than asked', async () => {
  const worker = await startWorker()
  await worker.initialize(sh('stty -echo; printf ready; read x; printf answer; exec sleep 60'))
  await worker.shows('ready')
  const { next_offset } = await worker.inspect()
  const timed = await worker.read(next_offset, 1_000, 50)
  expect(timed.start.timed_out).toBe(true)
  const waiting = worker.read(next_offset, 1_000, 8_000)
  await worker.type('\r')
  const { start, bytes } = await waiting
  expect(start.timed_out).toBe(false)
  expect(bytes.length).toBeGreaterThan(0)
})

test('a follower gets raw bytes from its offset on, without gap or overlap', async () => {
  const worker = await startWorker()
  await worker.initialize(
    sh('stty -echo -opost; printf abcdef; read x; head -c 300000 /dev/urandom; printf "\\nEND"; exec sleep 60'),
  )
  await worker.shows('abcdef')
  const follower = await worker.frames('detector', 3)
  await until('the kept part', () => follower.output.length === 3)
  await worker.type('\n')
  await until('everything', () => follower.output.subarray(-4).toString() === '\nEND')
  const kept = await worker.everything()
  expect(follower.output.equals(kept.subarray(3))).toBe(true)
  const offsets = follower.frames.flatMap((it) => (it.header.kind === 'output' ? [it.header.offset] : []))
  expect(offsets).toEqual([...offsets].sort((a, b) => a - b))
  expect(follower.frames.every((it) => it.payload.length <= 65_536)).toBe(true)
})

test('FC-59b2: a read inside a synchronized frame gets the last complete one, after a bound the rest, marked', async () => {
  const worker = await startWorker()
  await worker.initialize(
    sh(
      "printf 'OLD'; read x; printf '\\033[?2026h\\033[2J\\033[HWORK'; read x; printf 'ING\\033[?2026l'; exec sleep 60",
    ),
  )
  await worker.shows('OLD')
  await worker.type('\r')
  const began = performance.now()
  const seen = new Set<string>()
  let open = false
  const marked = await until('the open frame is shown, marked', async () => {
    const screen = await worker.snapshot()
    if (screen.visible_lines.join('').includes('WORK')) return screen
    expect(screen.partial).toBe(false)
    open ||= screen.update_open === true
    seen.add(screen.visible_lines[0] ?? '')
    return undefined
  })
  expect(performance.now() - began).toBeGreaterThan(800)
  expect(open, 'the picture before says what is behind it').toBe(true)
  expect(marked.partial).toBe(true)
  expect(marked.update_open).toBeUndefined()
  expect([...seen].every((it) => it.startsWith('OLD'))).toBe(true)
  await worker.type('\r')
  const done = await worker.shows('WORK')
  await worker.screen('the frame is complete', (it) => !it.partial && it.visible_lines.join('').includes('ING'))
  expect(done.visible_lines[0]).toContain('WORK')
})

test('a frame that is painted in one go is shown at once', async () => {
  const worker = await startWorker()
  await worker.initialize(sh("printf '\\033[?2026hFRAME\\033[?2026l'; exec sleep 60"))
  const began = performance.now()
  const screen = await worker.shows('FRAME')
  expect(screen.partial).toBe(false)
  expect(performance.now() - began).toBeLessThan(900)
})

test('FC-994b: wrapped rows are flagged, trailing blanks cut, empty rows kept', async () => {
  const worker = await startWorker()
  await worker.initialize(
    sh(
      `printf '${'x'.repeat(200)}\\r\\ntrail   \\r\\n\\r\\n\\r\\n\\r\\na\\tb\\r\\n${'y'.repeat(79)}界z'; exec sleep 60`,
    ),
  )
  const screen = await worker.shows('界')
  expect(screen.visible_lines.slice(0, 10)).toEqual([
    'x'.repeat(80),
    'x'.repeat(80),
    'x'.repeat(40),
    'trail',
    '',
    '',
    '',
    'a       b',
    'y'.repeat(79),
    '界z',
  ])
  expect(screen.wrapped_rows).toEqual([1, 2, 9])
})

test('FC-44fc: a character cut by two reads is whole everywhere', async () => {
  const script =
    "import os,time\nfor head,tail in ((b'A\\xe2',b'\\x94\\x80B\\n'),(b'\\xf0',b'\\x9f\\x98\\x80|'),(b'\\xf0\\x9f',b'\\x98\\x80|'),(b'\\xf0\\x9f\\x98',b'\\x80|\\n')):\n os.write(1,head)\n time.sleep(.1)\n os.write(1,tail)\ntime.sleep(60)"
  const worker = await startWorker()
  await worker.initialize(['/usr/bin/env', 'python3', '-c', script])
  const client = await worker.attach(80, 24)
  const screen = await worker.screen('both lines', (it) => it.visible_lines[1] === '😀|😀|😀|')
  expect(screen.visible_lines[0]).toBe('A─B')
  const raw = (await worker.read(0)).bytes
  expect(raw.toString()).toBe('A─B\r\n😀|😀|😀|\r\n')
  await client.sees('😀|\r\n')
  const follower = reference(80, 24)
  for (const chunk of client.chunks) follower.feed(chunk)
  expect(client.text).not.toContain('\ufffd')
})

test('FC-44fc: a client that attaches inside a character gets it whole', async () => {
  const worker = await startWorker()
  await worker.initialize(sh("stty -echo; printf 'A\\360\\237'; read x; printf '\\230\\200END'; exec sleep 60"))
  await until('the first half', async () => (await worker.inspect()).next_offset === 3)
  const client = await worker.attach()
  await client.sees('\x1b[?2026l')
  await worker.type('\r')
  await client.sees('END')
  expect(client.text).toContain('😀')
})

test('FC-a643: a stream that ends inside a character ends normally, with one mark on the screen', async () => {
  const worker = await startWorker()
  await worker.initialize(sh("printf 'ok\\342\\224'"))
  await worker.exited()
  expect([...(await worker.everything())]).toEqual([0x6f, 0x6b, 0xe2, 0x94])
  for (let look = 0; look < 3; look++) expect((await worker.snapshot()).visible_lines[0]).toBe('ok\ufffd')
})

test('FC-9423: a flood of box drawing equals a terminal fed in one write', async () => {
  const worker = await startWorker()
  const script =
    "import sys\nfor i in range(400): print('\u250c'+'\u2500'*200+'\u2510')\nsys.stdout.write('\\x1b[5;201HX')\nsys.stdout.flush()\nsys.stdin.readline()"
  await worker.initialize(['/usr/bin/env', 'python3', '-c', script], { dimensions: { columns: 250, rows: 60 } })
  await worker.screen('the mark', (it) => it.visible_lines[4]?.[200] === 'X')
  const expected = reference(250, 60)
  expected.feed(await worker.everything())
  const screen = await worker.snapshot()
  expect(screen.visible_lines.join('')).not.toContain('\ufffd')
  const grid = expected.emulator.core._bufferService.buffers.active
  screen.visible_lines.forEach((line, row) => {
    const cells = grid.lines.get(grid.ybase + row)?._data ?? new Uint32Array(0)
    const text = Array.from({ length: 250 }, (_, column) =>
      String.fromCodePoint((cells[column * 3] ?? 0) & 0x1fffff || 32),
    ).join('')
    expect(line).toBe(text.trimEnd())
  })
})

test('FC-d1b4: one width for clusters, on the screen and in a repaint', async () => {
  const worker = await startWorker()
  await worker.initialize(
    bash("printf '👨\\u200d👩\\u200d👧|\\n👍🏽|\\n❤\\ufe0f|\\n1\\ufe0f\\u20e3|\\n✅|\\n'; exec sleep 60"),
  )
  await worker.shows('✅')
  const columnsOf = (feed: string | Buffer): number[] => {
    const terminal = reference(80, 24)
    terminal.feed(feed)
    const grid = terminal.emulator.core._bufferService.buffers.active
    return [0, 1, 2, 3, 4].map((row) =>
      Array.from({ length: 10 }, (_, column) => (grid.lines.get(row)?._data[column * 3] ?? 0) & 0x1fffff).indexOf(0x7c),
    )
  }
  const client = await worker.attach(80, 24)
  await client.sees('✅')
  await client.sees('\x1b[?2026l')
  expect(columnsOf(client.bytes)).toEqual([2, 2, 2, 2, 2])
  expect(columnsOf((await worker.read(0)).bytes)).toEqual([2, 2, 2, 2, 2])
})
