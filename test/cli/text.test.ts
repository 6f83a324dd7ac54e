import { describe, expect, test } from 'vitest'
import { render, renderError } from '../../cli/render.ts'
import { safeJson } from '../../cli/run.ts'
import { clip, padEnd, safeLine, safeStream, safeText, textWidth } from '../../cli/text.ts'

const HARMFUL = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/
const HOSTILE = 'x\x1b[2J\x1b]52;c;AAAA\x07\x9b31m\u0085\u202eend\r\t\x7f'

describe('FC-39e0: untrusted text cannot drive the terminal', () => {
  test('it is escaped and readable', () => {
    expect(safeText('x\x1b[2J')).toBe('x\\x1b[2J')
    expect(safeText('\x9b31m')).toBe('\\x9b31m')
    expect(safeLine('a\nb')).toBe('a\\x0ab')
    expect(safeText('\u202e')).toBe('\\u202e')
    expect(safeStream('a\r\nb\tc\rd')).toBe('a\nb    c\\x0dd')
  })
  test.each([
    ['line', [{ line: HOSTILE }]],
    ['table', [{ table: { columns: ['A'], rows: [[HOSTILE]] } }]],
    ['fields', [{ fields: [['name', HOSTILE]] }]],
    ['stream', [{ stream: HOSTILE }]],
  ] as const)('%s', (_, blocks) => {
    expect(render(blocks, { columns: 80, color: false })).not.toMatch(HARMFUL)
  })
  test('errors and JSON', () => {
    expect(renderError({ msg: HOSTILE, recover: HOSTILE })).not.toMatch(HARMFUL)
    const json = safeJson({ name: HOSTILE }, 2)
    expect(json).not.toMatch(HARMFUL)
    expect(JSON.parse(json)).toEqual({ name: HOSTILE })
  })
})

describe('width', () => {
  test.each([
    ['abc', 3],
    ['漢字', 4],
    ['é', 1],
    ['e\u0301', 1],
    ['👩‍👩‍👧', 2],
    ['🇨🇿', 2],
    ['❤️', 2],
    ['ﾊﾝｶｸ', 4],
    ['', 0],
  ])('%s is %i columns', (text, columns) => expect(textWidth(text)).toBe(columns))
  test('cut and padded to columns', () => {
    expect(clip('漢字漢字', 5)).toBe('漢字…')
    expect(clip('/a/long/path', 6, 'end')).toBe('…/path')
    expect(textWidth(padEnd('漢', 5))).toBe(5)
  })
})

describe('tables', () => {
  const columns = ['ID', 'NAME', 'ACTIVITY', 'CWD']
  const rows = [
    ['s-1', '漢字', '-', '/home/someone/with/a/long/path/to/a/project'],
    ['s-22', 'plain', '-', '/'],
  ]
  test('columns line up with wide characters', () => {
    const lines = render([{ table: { columns, rows } }], { columns: undefined, color: false })
      .trimEnd()
      .split('\n')
    expect(lines[0]).toBe('ID    NAME   ACTIVITY  CWD')
    expect(lines[1]).toBe('s-1   漢字   -         /home/someone/with/a/long/path/to/a/project')
    expect(lines[2]).toBe('s-22  plain  -         /')
  })
  test('a narrow terminal cuts paths at their beginning, then leaves out columns that say nothing', () => {
    const lines = render([{ table: { columns, rows } }], { columns: 30, color: false })
      .trimEnd()
      .split('\n')
    for (const line of lines) expect(textWidth(line)).toBeLessThanOrEqual(30)
    expect(lines[0]).not.toContain('ACTIVITY')
    expect(lines[1]).toContain('a/project')
    expect(lines[1]).toContain('s-1')
  })
  test('colour only when asked', () => {
    const block = [{ table: { columns: ['STATE'], rows: [['running']] } }]
    expect(render(block, { columns: 80, color: true })).toContain('\x1b[32mrunning')
    expect(render(block, { columns: 80, color: false })).toBe('STATE\nrunning\n')
  })
})
