import { describe, expect, test } from 'vitest'
import { KeyReader } from '../../cli/attach/keys.ts'

/** Feeds the writes and answers what came out: text passed on, and keys in angle brackets. */
function feed(...writes: string[]): { out: string; held: number | undefined } {
  const reader = new KeyReader()
  const out = writes
    .flatMap((write) => reader.push(Buffer.from(write, 'latin1')))
    .map((it) => ('key' in it ? `<${it.key}>` : Buffer.from(it.pass).toString('latin1')))
  return { out: out.join(''), held: reader.holdMs }
}

function check(writes: string[], out: string): void {
  expect(feed(...writes)).toEqual({ out, held: undefined })
}

const DETACH = [
  '\x1d',
  '\x1b[93;5u',
  '\x1b[93;133u',
  '\x1b[93;69u',
  '\x1b[93;197u',
  '\x1b[93;5:1u',
  '\x1b[93:125;5u',
  '\x1b[93::93;5;93u',
  '\x1b[27;5;93~',
  '\x1b[27;133;93~',
]
const MENU = ['\x1c', '\x1b[92;5u', '\x1b[92;133u', '\x1b[27;5;92~', '\x1b[92;5:1u']

describe('FC-903c: our keys are seen in every encoding', () => {
  test.each(DETACH)('%j detaches, once', (bytes) => check([`a${bytes}b`], 'a<detach>b'))
  test.each(MENU)('%j opens the menu, once', (bytes) => check([`a${bytes}b`], 'a<menu>b'))

  test.each([...DETACH, ...MENU])('%j split over two writes at every place', (bytes) => {
    const key = DETACH.includes(bytes) ? '<detach>' : '<menu>'
    for (let at = 1; at < bytes.length; at++) check([`x${bytes.slice(0, at)}`, `${bytes.slice(at)}y`], `x${key}y`)
  })

  test.each([...DETACH, ...MENU])('%j one byte at a time', (bytes) => {
    check([...bytes], DETACH.includes(bytes) ? '<detach>' : '<menu>')
  })

  test.each([...DETACH, ...MENU].filter((it) => it.length > 1))('%j whose escape was already passed on', (bytes) => {
    const reader = new KeyReader()
    expect([...reader.push(Buffer.from('\x1b')), ...reader.flush()]).toEqual([{ pass: Buffer.from('\x1b') }])
    expect(reader.push(Buffer.from(bytes.slice(1)))).toEqual([{ key: DETACH.includes(bytes) ? 'detach' : 'menu' }])
  })

  test('a release does not trigger; it passes when its press did', () => {
    check(['\x1b[93;5:3u'], '\x1b[93;5:3u')
    check(['[93;5u', 'a[93;5u'], '[93;5ua[93;5u')
    check(['\x1b[92;5:1u\x1b[92;5:3u', 'z'], '<menu>z')
    check(['\x1b[92;5:1u', '\x1b[92;5:2u\x1b[92;5:2u', '\x1b[92;5:3u', '\x1b[92;5:3u'], '<menu>\x1b[92;5:3u')
  })
})

describe('FC-5e76: every other byte passes as it is', () => {
  test.each([
    '\x03\x1a\x11\x13\x16\x04\x00\x7f',
    '\x1b[A\x1bOA\x1b[1;5C\x1b[15~\x1b[27~\x1b[27u',
    '\x1b[93u\x1b[93;1u\x1b[93;6u\x1b[93;7u\x1b[27;6;93~\x1b[27;5;94~',
    '\x1b[9;5u\x1b[933;5u\x1b[9393;5u\x1b[193;5u',
    '\x1b]11;rgb:0000/0000/0000\x1b\\\x1b[200~text\x1b[201~',
    '\xff\xfe\x80\xc3\xa9',
    '\x1b[<0;93;5M\x1b[<0;93;5m\x1b[M !!',
    `\x1b[93;${'5'.repeat(200)}u`,
  ])('%j', (bytes) => check([bytes], bytes))

  test('split anywhere, nothing is lost once the hold ran out', () => {
    const bytes = '\x1b[1;5C\x1b\x1b[9\x1b[27;\x1b[93;5X\x1b[Aé'
    for (let at = 0; at <= bytes.length; at++) {
      const reader = new KeyReader()
      const events = [bytes.slice(0, at), bytes.slice(at)].flatMap((it) => reader.push(Buffer.from(it, 'latin1')))
      events.push(...reader.flush())
      expect(events.map((it) => ('key' in it ? '<key>' : Buffer.from(it.pass).toString('latin1'))).join('')).toBe(bytes)
    }
  })

  test('a lone escape is held shortly, a started sequence longer, other sequences not at all', () => {
    const escape = feed('\x1b')
    const sequence = feed('\x1b[9')
    expect(escape.out).toBe('')
    expect(escape.held).toBeLessThanOrEqual(50)
    expect(sequence.held).toBeGreaterThan(escape.held as number)
    expect(feed('\x1b[').held).toBe(sequence.held)
    expect(feed('\x1b[1').held).toBeUndefined()
    expect(feed('\x1b]').held).toBeUndefined()
  })
})
