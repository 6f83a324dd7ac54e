import { describe, expect, test } from 'vitest'
import { LineSplitter, LineTooLong } from '../../protocol/lines.ts'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const text = (line: Uint8Array): string => new TextDecoder().decode(line)

function split(chunks: Iterable<Uint8Array>, max = 100): { lines: string[]; rest: string; failed: boolean } {
  const splitter = new LineSplitter(max)
  const lines: Uint8Array[] = []
  let failed = false
  try {
    for (const chunk of chunks) {
      splitter.push(chunk)
      for (let line = splitter.next(); line !== undefined; line = splitter.next()) lines.push(line)
    }
  } catch (failure) {
    failed = failure instanceof LineTooLong
  }
  // Read only now: later chunks must not have changed what was handed out.
  return { lines: lines.map(text), rest: text(splitter.rest()), failed }
}

describe('cuts the same lines however the bytes arrive', () => {
  const whole = 'a\n\nžluť\nlonger line here\nb\nrest'
  const expected = { lines: ['a', '', 'žluť', 'longer line here', 'b'], rest: 'rest', failed: false }
  test.each([1, 2, 3, 5, 7, 16, 100])('in pieces of %i bytes', (size) => {
    const all = bytes(whole)
    expect(
      split(Array.from({ length: Math.ceil(all.length / size) }, (_, n) => all.slice(n * size, (n + 1) * size))),
    ).toEqual(expected)
  })
})

test.each([
  ['of the bound', 'x'.repeat(10) + '\n', false],
  ['one over it', 'x'.repeat(11) + '\n', true],
  ['unfinished at the bound', 'x'.repeat(10), false],
  ['unfinished over it', 'x'.repeat(11), true],
])('a line %s', (_, input, failed) => {
  expect(split([bytes(input)], 10).failed).toBe(failed)
  expect(split([...input].map(bytes), 10).failed).toBe(failed)
})

test('lines before one that is too long are handed out', () => {
  expect(split([bytes('a\nb\n' + 'x'.repeat(11))], 10).lines).toEqual(['a', 'b'])
})

test('a line in a million pieces is not copied a million times', () => {
  const splitter = new LineSplitter(2_000_000)
  const piece = bytes('x')
  const started = process.cpuUsage().user
  for (let n = 0; n < 1_000_000; n++) {
    splitter.push(piece)
    splitter.next()
  }
  splitter.push(bytes('\n'))
  expect(splitter.next()).toHaveLength(1_000_000)
  // Quadratic copying would move 500 GB and take minutes.
  expect((process.cpuUsage().user - started) / 1_000).toBeLessThan(5_000)
})
