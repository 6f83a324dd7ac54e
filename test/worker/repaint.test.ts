/** A repaint recreates the terminal: fed into a fresh one it gives the same cells, cursor, modes and buffers. */
import { expect, test } from 'vitest'
import { differences, reference, repaintOf } from './grid.ts'

/** `dirt`: what the receiving terminal went through before; a repaint works from any state. */
function check(input: string | Uint8Array, { columns = 40, rows = 10, dirt = '' } = {}): string {
  const live = reference(columns, rows)
  live.feed(input)
  const text = repaintOf(live)
  const fresh = reference(columns, rows)
  fresh.feed(text)
  expect(differences(fresh, live)).toEqual([])
  if (dirt !== '') {
    const dirty = reference(columns, rows)
    dirty.feed(dirt)
    dirty.feed(repaintOf(live, 0))
    expect(differences(dirty, live, 0)).toEqual([])
  }
  return text
}

const lines = (count: number, of: (n: number) => string): string =>
  Array.from({ length: count }, (_, n) => of(n)).join('')
const DIRT =
  '\x1b[?1049h\x1b[?6h\x1b[3;5r\x1b[?7l\x1b[4h\x1b(0\x0e\x1b[31;44mX\x1b[?2004h\x1b[?1003h\x1b[?1006h\x1b[>1u\x1b[>4;2m\x1b[?25l\x1b[5 q\x1b=\x1b[?1h\x1b]0;half'

const CASES: Record<string, string> = {
  nothing: '',
  'plain text': 'one\r\ntwo\r\nthree',
  scrollback: lines(60, (n) => `line ${n}\r\n`),
  'colours of every kind':
    '\x1b[31mred\x1b[1;91mbright\x1b[0;38;5;208mindexed\x1b[48;5;17mon blue\x1b[0;38;2;1;2;3;48;2;200;100;50mtrue\x1b[0m plain',
  attributes:
    '\x1b[1mb\x1b[0;2md\x1b[0;3mi\x1b[0;4mu\x1b[0;4:2mdd\x1b[0;4:3mcurl\x1b[0;4:4mdot\x1b[0;4:5mdash\x1b[0;58;5;9;4:3mcol\x1b[0;58;2;1;2;3;4mrgb\x1b[59mdef\x1b[0;5mbl\x1b[0;7mrev\x1b[0;8mhid\x1b[0;9mst\x1b[0;53mover\x1b[0m',
  'soft wrap': `${'x'.repeat(95)}\r\nnext`,
  'soft wrap with colours at the edge': `\x1b[41m${'y'.repeat(85)}\x1b[0m z\r\n${lines(14, (n) => `${n}\r\n`)}`,
  'wrapped into a coloured blank': `${'a'.repeat(40)}\x1b[44mb\x1b[K\x1b[0m`,
  'erased inside a wrapped line': `${'a'.repeat(70)}\x1b[1;38H\x1b[0K\x1b[2;1H\x1b[3P`,
  'wide glyphs': '日本語テキスト\r\n' + '界'.repeat(25),
  'a wide glyph that does not fit the edge': `${'a'.repeat(39)}界b`,
  'half of a wide glyph overwritten': '界界界\x1b[1;2Hx\x1b[1;5Hy',
  'emoji clusters': '👨\u200d👩\u200d👧|👍🏽|❤\ufe0f|1\ufe0f\u20e3|✅|e\u0301|🇨🇿|',
  'a cluster in the last column': `${'a'.repeat(38)}👩\u200d🔬bc`,
  'coloured erase': '\x1b[44m\x1b[2J\x1b[Hblue\x1b[0m\x1b[3;3Hx\x1b[4;1H\x1b[41m\x1b[K\x1b[0m',
  'alternate buffer': `${lines(20, (n) => `main ${n}\r\n`)}MAIN\x1b[?1049h\x1b[H\x1b[32mALT\x1b[5;5Hthere`,
  'alternate buffer by mode 47': 'main\x1b[?47h\x1b[3;3Halt',
  'saved cursors': '\x1b[31m\x1b[3;7H\x1b7\x1b[0m\x1b[5;1Hx\x1b[?1049h\x1b[4;4H\x1b[1m\x1b7\x1b[0m\x1b[HALT',
  'saved cursor in the normal buffer': 'abc\x1b[32m\x1b[2;9H\x1b7\x1b[0m\x1b[Hq',
  margins: `\x1b[3;7r\x1b[7;1H${lines(6, (n) => `in ${n}\r\n`)}\x1b[5;9H`,
  'margins and origin': '\x1b[3;7r\x1b[?6h\x1b[2;2Hinside',
  'cursor behind the last column': 'b'.repeat(40),
  'cursor behind a wide last column': `${'b'.repeat(38)}界`,
  'cursor waiting with colour': `\x1b[35m${'b'.repeat(40)}\x1b[36m`,
  'no autowrap': `\x1b[?7l${'n'.repeat(60)}`,
  'insert mode': 'abc\x1b[4h\x1b[1;2H',
  'line feed mode': '\x1b[20ha\nb',
  'line drawing': '\x1b(0lqqk\x1b(B \x1b)0\x0eqqq',
  'line drawing saved': '\x1b(0\x1b[2;2H\x1b7\x1b(B\x1b[1;1Hx',
  'mouse, paste, focus, keys': '\x1b[?1002h\x1b[?1006h\x1b[?2004h\x1b[?1004h\x1b[?1h\x1b=',
  'mouse any motion, pixels': '\x1b[?1003h\x1b[?1016h',
  'mouse urxvt': '\x1b[?1000h\x1b[?1015h\x1b[?1007h',
  'keyboard stack': '\x1b[>1u\x1b[>5u\x1b[=3;2u\x1b[>4;2m',
  'keyboard stacks of both screens': '\x1b[>1u\x1b[?1049h\x1b[>7u\x1b[>9u\x1b[<u',
  'cursor shape and visibility': '\x1b[5 q\x1b[?25l',
  'steady underline cursor': '\x1b[4 q',
  'tab stops': '\x1b[3g\x1b[1;5H\x1bH\x1b[1;21H\x1bH\x1b[H\tx\ty',
  title: '\x1b]2;a title\x07',
  'colours set by the program': '\x1b]4;1;rgb:11/22/33\x07\x1b]11;#102030\x07\x1b]12;red\x07',
  'reverse wrap, reverse video': '\x1b[?45h\x1b[?5h',
  'screen alignment': '\x1b#8',
  'deleted and inserted lines': `${lines(9, (n) => `row ${n}\r\n`)}\x1b[3;1H\x1b[2L\x1b[42m\x1b[6;1H\x1b[M\x1b[0m`,
  'a full reset': '\x1b[?1049h\x1b[31m\x1b[3;4r\x1bcafter',
  'protected cells': '\x1b[1"qkept\x1b[0"q\x1b[?2J',
}

for (const [name, input] of Object.entries(CASES)) test(name, () => void check(input, { dirt: DIRT }))

test('a mixture of everything, hundreds of times', () => {
  let seed = 7
  const random = (below: number): number => ((seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0) >>> 8) % below
  const pick = <T>(from: readonly T[]): T => from[random(from.length)] as T
  const parts: (() => string)[] = [
    () => pick(['a', 'word ', 'longer text ', '界', '日本', '👍🏽', 'e\u0301', '❤\ufe0f', '─', 'x'.repeat(random(90))]),
    () => pick(['\r\n', '\n', '\r', '\t', '\b', '\x1bM', '\x1bD', '\x1bE']),
    () => `\x1b[${random(12)};${random(45)}H`,
    () =>
      `\x1b[${pick(['0', '1', '4', '7', '31', '44', '100', '38;5;99', '48;2;9;8;7', '4:3', '58;5;3', '22', '24', '39', '49'])}m`,
    () => `\x1b[${random(4)}${pick(['J', 'K', 'X', 'P', '@', 'L', 'M', 'S', 'T', 'A', 'B', 'C', 'D'])}`,
    () => pick(['\x1b7', '\x1b8', '\x1b[s', '\x1b[u', '\x1b(0', '\x1b(B', '\x0e', '\x0f', '\x1b)0']),
    () => `\x1b[?${pick([1, 6, 7, 25, 45, 47, 66, 1000, 1002, 1003, 1004, 1006, 1047, 1049, 2004])}${pick(['h', 'l'])}`,
    () => `\x1b[${1 + random(5)};${5 + random(6)}r`,
    () => pick(['\x1b[4h', '\x1b[4l', '\x1b[>1u', '\x1b[<u', '\x1b[>4;1m', '\x1b[3 q', '\x1b[!p', '\x1b[r']),
  ]
  for (let round = 0; round < 500; round++) {
    const start = seed
    let input = ''
    for (let n = 5 + random(60); n > 0; n--) input += pick(parts)()
    const live = reference(40, 10, 30)
    live.feed(input)
    const fresh = reference(40, 10, 30)
    fresh.feed(repaintOf(live))
    const found = differences(fresh, live)
    expect(found, `seed ${start}: ${JSON.stringify(input)}`).toEqual([])
  }
})

test('FC-496c: a repaint holds no query and no clipboard write', () => {
  const text = check(
    '\x1b[6n\x1b[c\x1b[>c\x1b[>q\x1b]11;?\x07\x1b[?2026$p\x1b[?u\x1bP$qm\x1b\\\x1b]52;c;aGk=\x07text\x1b]2;6n\x07',
  )

  expect(text).not.toMatch(
    /\x1b\[[>=?]?[\d;]*[cn]|\$p|\x1b\[>[\d;]*q|\x1b\]\d+;[^\x07\x1b]*\?|\x1b\[\?u|\x1bP|\x1b\]52/,
  )
})

test('text of a program cannot leave the title of a repaint', () => {
  const live = reference(40, 10)
  live.modes.title = 'a\x1b]52;c;aGk=\x07b\x9cc'

  expect(repaintOf(live)).not.toMatch(/\x07|\x9c|\x1b\]52/)
})

test('rows that were wrapped flow again on a wider terminal', () => {
  const live = reference(20, 6)
  live.feed(`${'0123456789'.repeat(5)}\r\nshort`)
  const wide = reference(60, 6)
  wide.feed(repaintOf(live))
  const grid = wide.emulator.core._bufferService.buffers.normal
  const row = (n: number): string =>
    Array.from(grid.lines.get(grid.ybase + n)?._data ?? [])
      .filter((_, at) => at % 3 === 0)
      .map((it) => String.fromCodePoint(it & 0x1fffff || 32))
      .join('')
      .trimEnd()
  expect(row(0)).toBe('0123456789'.repeat(5))
  expect(row(1)).toBe('short')
})
