/** The worker's pure parts. */
import { expect, test } from 'vitest'
import { manualClock } from '../../kernel/clock.ts'
import { Scope } from '../../kernel/scope.ts'
import { directoryOf } from '../../worker/modes.ts'
import { planRead } from '../../worker/observe.ts'
import { ReplyFilter, replyKind } from '../../worker/replies.ts'
import { OutputRing } from '../../worker/ring.ts'
import { skippableTo } from '../../worker/skip.ts'
import { ScreenTerminal } from '../../worker/terminal.ts'
import { endsInQuery } from '../../worker/asking.ts'
import { createEmulator } from '../../worker/xterm.ts'
import { differences, reference, type Reference } from './grid.ts'

test('the ring keeps exactly the newest bytes, at any sizes', () => {
  let seed = 3
  const random = (below: number): number => ((seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0) >>> 8) % below
  const ring = new OutputRing(200_000)
  let all = Buffer.alloc(0)
  for (let round = 0; round < 300; round++) {
    const bytes = Buffer.from(Array.from({ length: random(round % 10 === 0 ? 90_000 : 3_000) }, () => random(256)))
    ring.append(bytes)
    all = Buffer.concat([all, bytes])
    expect(ring.end).toBe(all.length)
    expect(ring.start).toBe(Math.max(0, all.length - 200_000))
    const from = ring.start + random(ring.end - ring.start + 1)
    const to = from + random(5_000)
    expect(ring.copy(from, to).equals(all.subarray(from, Math.min(to, all.length)))).toBe(true)
    const view = ring.view(from, 70_000)
    expect(view.equals(all.subarray(from, from + view.length))).toBe(true)
    if (from < ring.end) expect(view.length).toBeGreaterThan(0)
  }
  expect(ring.view(ring.start - 1, 10)).toHaveLength(0)
  expect(ring.view(ring.end, 10)).toHaveLength(0)
})

test('bytes somebody still writes from are not overwritten', () => {
  const ring = new OutputRing(65_536)
  ring.append(Buffer.alloc(65_536, 1))
  const view = ring.view(0, 65_536)
  for (let round = 0; round < 8; round++) ring.append(Buffer.alloc(65_536, 2), 0)
  expect(view.every((it) => it === 1)).toBe(true)
})

test('a pattern is found across the ring’s blocks', () => {
  const ring = new OutputRing(1_000_000)
  const bytes = Buffer.alloc(300_000, 0x61)
  for (const at of [10, 65_534, 131_070, 250_000]) bytes.write('\x1b[?2026h', at, 'latin1')
  for (let at = 0; at < bytes.length; at += 4_095) ring.append(bytes.subarray(at, at + 4_095))
  const pattern = Buffer.from('\x1b[?2026h')
  expect(ring.lastIndexOf(pattern, 0, 300_000)).toBe(250_000)
  expect(ring.lastIndexOf(pattern, 0, 250_003)).toBe(131_070)
  expect(ring.lastIndexOf(pattern, 0, 131_071)).toBe(65_534)
  expect(ring.lastIndexOf(pattern, 65_535, 131_071)).toBe(-1)
  expect(ring.lastIndexOf(pattern, 0, 65_535)).toBe(10)
})

test('reads of the history', () => {
  const ring = { start: 100, end: 500 }
  expect(planRead(ring, { afterOffset: 0, maxBytes: 50 })).toEqual({
    start: 100,
    next: 150,
    gap: { missing_start: 0, missing_end: 100 },
  })
  expect(planRead(ring, { afterOffset: 200, maxBytes: 1_000 })).toEqual({ start: 200, next: 500 })
  expect(planRead(ring, { afterOffset: -1, maxBytes: 30 })).toEqual({ start: 470, next: 500 })
  expect(planRead(ring, { afterOffset: -1, maxBytes: 3_000 })).toEqual({ start: 100, next: 500 })
  expect(planRead(ring, { afterOffset: 900, maxBytes: 10 })).toEqual({ start: 500, next: 500 })
})

/** Both terminals get the same bytes; one skips what it may. */
function skipped(bytes: Buffer, before = ''): { bytes: number; differ: string[] } {
  const ring = new OutputRing(10_000_000)
  const whole = reference(40, 10, 50)
  const skipping: Reference = reference(40, 10, 50)
  const start = Buffer.from(before)
  ring.append(start)
  ring.append(bytes)
  whole.feed(start)
  skipping.feed(start)
  const to = skippableTo(skipping.emulator.core, ring, start.length, ring.end)
  if (to > start.length) skipping.emulator.core._inputHandler._utf8Decoder.clear()
  for (let at = start.length; at < ring.end; at += 65_536) whole.feed(ring.copy(at, at + 65_536))
  for (let at = to; at < ring.end; at += 65_536) skipping.feed(ring.copy(at, at + 65_536))
  return { bytes: to - start.length, differ: differences(skipping, whole) }
}
const plain = (line: (n: number) => string, lines = 20_000): Buffer =>
  Buffer.from(Array.from({ length: lines }, (_, n) => `${line(n)}\r\n`).join(''))

test('skipped text cannot be told from parsed text', () => {
  for (const [text, before] of [
    [plain((n) => `line ${n} of a plain text`)],
    [plain((n) => `${'wide 日本語 '.repeat(5)}${n}`, 6_000)],
    [plain((n) => `tabs\tand\bback ${'x'.repeat(n % 90)}`)],
    [plain((n) => `coloured before ${n}`), '\x1b[31;44m\x1b[5;5Hstart'],
    [plain((n) => `inserting a line of some length ${n}`), '\x1b[4h\x1b[3;1H'],
    [plain((n) => `no wrap ${'y'.repeat(n % 90)}`), '\x1b[?7l'],
    [Buffer.concat([plain((n) => `then a line of some length ${n}`), Buffer.from('\x1b[32mcolour\x1b[2;2H')])],
    [plain((n) => `half a character before ${n}`), 'x'],
  ] as [Buffer, string?][]) {
    const { bytes, differ } = skipped(text, before)
    expect(bytes).toBeGreaterThan(text.length / 2)
    expect(differ).toEqual([])
  }
})

test('what could matter is never skipped', () => {
  const text = plain((n) => `line ${n} of a plain text`)
  expect(skipped(text, '\x1b[?1049h').bytes).toBe(0)
  expect(skipped(text, '\x1b[2;5r').bytes).toBe(0)
  expect(skipped(text, '\x1b]0;unfinished').bytes).toBe(0)
  expect(skipped(Buffer.concat([Buffer.from('\x1b[1m'), text])).bytes).toBe(0)
  expect(skipped(Buffer.concat([Buffer.from('\x0e'), text])).bytes).toBe(0)
  expect(skipped(Buffer.concat([Buffer.from('\u009b31m'), text])).bytes).toBe(0)
  expect(skipped(Buffer.from('no line feed at all '.repeat(30_000))).bytes).toBe(0)
  expect(skipped(Buffer.from('bare line feeds\n'.repeat(30_000))).bytes).toBe(0)
  expect(skipped(plain((n) => `l${n}`, 100)).bytes).toBe(0)
})

/** A terminal whose time is told. */
function terminal(): {
  clock: ReturnType<typeof manualClock>
  ring: OutputRing
  print: (text: string | Uint8Array) => void
  it: ScreenTerminal
  text: () => string
} {
  const clock = manualClock()
  const ring = new OutputRing(1_000_000)
  const it = new ScreenTerminal({
    columns: 20,
    rows: 3,
    ring,
    clock,
    scope: new Scope('test', clock),
    hooks: {
      asked: () => {},
      answer: () => {},
      foregroundGroup: () => undefined,
      cwdReported: () => {},
      changed: () => {},
      hold: () => {},
      parseFailed: (failure) => {
        throw failure
      },
    },
  })
  const print = (text: string | Uint8Array): void => {
    const bytes = Buffer.from(text as string)
    ring.append(bytes)
    it.outputArrived(bytes)
  }
  return { clock, ring, print, it, text: () => (it.settleNow(), it.snapshot().visible_lines.join('|')) }
}

test('a synchronized update is shown when it ends, or when it lasts', () => {
  const { clock, print, it, text } = terminal()
  print('old\x1b[?2026h\x1b[Hnew')
  expect(text()).toBe('old||')
  clock.advance(900)
  expect(text()).toBe('old||')
  print(' more\x1b[?2026l')
  expect(text()).toBe('new more||')
  print('\x1b[?2026h\x1b[HNEXT')
  expect(text()).toBe('new more||')
  clock.advance(1_001)
  expect(text()).toBe('NEXTmore||')
  expect(it.snapshot().partial).toBe(true)
  // A second one right behind the first holds the picture between the two.
  print('\x1b[?2026l done\x1b[?2026h\x1b[2J')
  expect(text()).toBe('NEXT done||')
  expect(it.snapshot().partial).toBe(false)
})

test('a row is told as it stands: plain, coloured, wide, combined, wrapped', () => {
  for (const [printed, row] of [
    ['plain  text  ', 'plain  text'],
    ['caf\u00e9 \u00ff\u0100  ', 'caf\u00e9 \u00ff\u0100'],
    ['\x1b[7m  inverse  \x1b[0m', '  inverse'],
    ['a\x1b[5Cb', 'a     b'],
    ['\u65e5\u672c x \u{1f469}\u200d\u{1f52c}!', '\u65e5\u672c x \u{1f469}\u200d\u{1f52c}!'],
    ['e\u0301 o\u0308 ', 'e\u0301 o\u0308'],
    // A line that goes on keeps its blanks, but not the cell a wide glyph did not fit into.
    [`${'ab '.repeat(6)}  tail`, 'ab ab ab ab ab ab   |tail'],
    [`${'x'.repeat(19)}\u65e5`, `${'x'.repeat(19)}|\u65e5`],
    [`${'\u65e5'.repeat(9)}a\u65e5`, `${'\u65e5'.repeat(9)}a|\u65e5`],
    [`${'\u2500'.repeat(17)}   end`, `${'\u2500'.repeat(17)}   |end`],
  ] as const) {
    const { print, text } = terminal()
    print(printed)
    expect(text().replace(/\|+$/, ''), JSON.stringify(printed)).toBe(row)
  }
})

test('a kept picture goes with everything that changes it', () => {
  const { print, it } = terminal()
  const fresh = (): void => {
    it.settleNow()
    expect(JSON.parse(it.snapshotJson())).toEqual(it.snapshot())
  }
  for (const text of [
    'one',
    ' two\r\n',
    '\x1b]0;title\x07',
    '\x1b[?25l',
    '\x1b[?1049h',
    '\x1b[2;2H',
    '\x1b[?1049l\xe6',
  ]) {
    print(text)
    fresh()
  }
  it.resize(10, 3)
  fresh()
  it.endOfOutput()
  fresh()
  print('x'.repeat(600_000))
  fresh()
})

test('a character is whole wherever a read cuts it', () => {
  const text = '› a • b … “c” – 日本 é 😀 \u0800 \ud7ff end'
  const whole = terminal()
  whole.print(text)
  expect(whole.text()).toContain('› a • b')
  const bytes = Buffer.from(text)
  for (let size = 1; size <= 5; size++) {
    const cut = terminal()
    for (let at = 0; at < bytes.length; at += size) {
      cut.print(bytes.subarray(at, at + size))
      cut.it.settleNow()
    }
    expect(cut.text(), `cut every ${size} bytes`).toBe(whole.text())
  }
  const broken = terminal()
  for (const piece of [[0xe2], [0x80], [0x41], [0xe2, 0x80], [0xe2, 0x80, 0xa2], [0xf0, 0x9f], [0x42]]) {
    broken.print(Buffer.from(piece))
    broken.it.settleNow()
  }
  expect(broken.text()).toBe('A•B||')
})

test('an emulator made before its size is known is like one made for it', () => {
  const clock = manualClock()
  const ring = new OutputRing(1_000_000)
  const hooks = {
    asked: () => {},
    answer: () => {},
    foregroundGroup: () => undefined,
    cwdReported: () => {},
    changed: () => {},
    hold: () => {},
    parseFailed: () => {},
  }
  for (const [columns, rows] of [
    [80, 24],
    [200, 50],
    [20, 3],
  ] as const) {
    const bytes = Buffer.from(`${'0123456789'.repeat(70)}\r\n\tT\x1b[${rows};${columns}Hx\x1b[3;5H`)
    ring.append(bytes)
    const [made, own] = [createEmulator(80, 24, 1_000), undefined].map((emulator) => {
      const it = new ScreenTerminal({ columns, rows, ring, clock, scope: new Scope('test', clock), hooks, emulator })
      it.parseAll()
      return { snapshot: it.snapshot(), picture: it.picture(1_000) }
    })
    expect(made).toEqual(own)
  }
})

test('a picture that begins inside a sequence or a character goes on at its start', () => {
  for (const [whole, part] of [
    ['abc', '\x1b[3'],
    ['abc', '\x1b]0;ti'],
    ['abc', '\x1bP$q'],
    ['abc', '\x1b'],
    ['abc', ''],
  ] as const) {
    const { print, it } = terminal()
    print(whole + part)
    it.parseAll()
    expect(it.picture(0).offset, JSON.stringify(part)).toBe(whole.length)
  }
  const { ring, it } = terminal()
  ring.append(Buffer.from([0x61, 0xf0, 0x9f, 0x98]))
  it.parseAll()
  expect(it.picture(0).offset).toBe(1)
})

const KINDS: [string, string | undefined, boolean?][] = [
  ['\x1b[?62;22c', 'da1'],
  ['\x1b[>0;276;0c', 'da2'],
  ['\x1b[12;40R', 'cpr', false],
  ['\x1b[1;5R', 'cpr', true],
  ['\x1b[?1;5R', 'xcpr'],
  ['\x1b[0n', 'dsr'],
  ['\x1b[?2026;2$y', 'mode:?2026'],
  ['\x1b[4;2$y', 'mode:4'],
  ['\x1b[?5u', 'kitty'],
  ['\x1b[8;24;80t', 'window:8'],
  ['\x1b]11;rgb:0/0/0\x07', 'osc:11'],
  ['\x1b]4;12;rgb:0/0/0\x1b\\', 'osc:4;12'],
  ['\x1bP>|xterm\x1b\\', 'xtversion'],
  ['\x1bP1$r0m\x1b\\', 'setting'],
  ['\x1bP0+r\x1b\\', 'termcap'],
  ['\x1b[?997;1n', 'scheme', true],
  ['\x1b[A', undefined],
  ['\x1b[97;5u', undefined],
  ['\x1b[200~', undefined],
  ['\x1b[<0;1;1M', undefined],
  ['\x1b[I', undefined],
  ['\x1b[3~', undefined],
  ['\x1b[1;5P', undefined],
  ['\x1b]9;x\x07', undefined],
]
for (const [sequence, kind, mayBeKey] of KINDS) {
  test(`reply or key: ${JSON.stringify(sequence)}`, () => {
    expect(replyKind(sequence)?.kind).toBe(kind)
    if (mayBeKey !== undefined) expect(replyKind(sequence)?.mayBeKey).toBe(mayBeKey)
  })
}

test('an unfinished sequence is held for a moment only, and a lone ESC only while a reply is due', () => {
  const clock = manualClock()
  let expects = false
  let typed = ''
  const filter = new ReplyFilter(
    { expects: () => expects, admit: () => false, typed: (bytes) => (typed += bytes.toString('latin1')) },
    clock,
  )
  filter.push(Buffer.from('\x1b'))
  expect(typed).toBe('\x1b')
  filter.push(Buffer.from('[A'))
  expect(typed).toBe('\x1b[A')
  expects = true
  filter.push(Buffer.from('\x1b'))
  expect(typed).toBe('\x1b[A')
  clock.advance(31)
  expect(typed).toBe('\x1b[A\x1b')
  filter.push(Buffer.from('\x1b]'))
  clock.advance(31)
  expect(typed).toBe('\x1b[A\x1b\x1b]')
  filter.push(Buffer.from('x\x1b]11;rgb:'))
  clock.advance(100)
  filter.push(Buffer.from('1/2/3\x07y'))
  expect(typed).toBe('\x1b[A\x1b\x1b]xy')
  filter.push(Buffer.from('\x1b[200~\x1b[?6'))
  filter.push(Buffer.from('2c\x1b[201~z'))
  expect(typed.endsWith('\x1b[200~\x1b[?62c\x1b[201~z')).toBe(true)
})

test('queries at the end of a read are seen, colours are not queries', () => {
  for (const query of [
    '\x1b[c',
    '\x1b[>c',
    '\x1b[6n',
    '\x1b]11;?\x07',
    '\x1b]4;1;?\x07',
    '\x1b[?2026$p',
    '\x1b[>q',
    '\x1b[?u',
    '\x1bP$qm\x1b\\',
    '\x1bP+q544e\x1b\\',
    '\x1b[18t',
    '\x1b[?4m',
  ]) {
    expect(endsInQuery(Buffer.from(`text ${query}`, 'latin1')), JSON.stringify(query)).toBe(true)
  }
  for (const other of [
    'plain',
    '\x1b[31mred?',
    '\x1b[H\x1b[2J',
    '\x1b]0;title?\x07',
    '\x1b[22;0;0t',
    '\x1b[u',
    '\x1b[?25h',
    'c n q',
  ]) {
    expect(endsInQuery(Buffer.from(other, 'latin1')), JSON.stringify(other)).toBe(false)
  }
})

test('directories a program reports', () => {
  expect(directoryOf('file://host/tmp/a%20b')).toBe('/tmp/a b')
  expect(directoryOf('/tmp/x')).toBe('/tmp/x')
  for (const none of ['', 'relative', 'file://host', 'http://host/x', 'file:///a%', 'file:///a%0ab'])
    expect(directoryOf(none)).toBeUndefined()
})
