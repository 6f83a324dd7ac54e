import { describe, expect, test } from 'vitest'
import { render, renderError } from '../../cli/render.ts'
import { safeJson } from '../../cli/run.ts'
import { clip, padEnd, safeLine, safeStream, safeText, textWidth, wrap } from '../../cli/text.ts'
import { LIST_COLUMNS } from '../../plugins/sessions/views.ts'

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
    ['screen', [{ screen: [HOSTILE, ''] }]],
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
    ['žluťoučký kůň …', 15],
    ['Ω→═█', 4],
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

test('lines are wrapped at spaces, words stay whole', () => {
  expect(wrap('one two three', 7)).toEqual(['one two', 'three'])
  expect(wrap('漢字 漢字', 8)).toEqual(['漢字', '漢字'])
  expect(wrap('/a/very/long/path it', 4)).toEqual(['/a/very/long/path', 'it'])
  expect(wrap('', 4)).toEqual([''])
})

test('a screen on a terminal ends with its last row of text; a pipe gets all rows', () => {
  const block = [{ screen: ['', '$ ls', '', ' ', ''] }]
  expect(render(block, { columns: 80, color: false })).toBe('\n$ ls\n')
  expect(render(block, { columns: undefined, color: false })).toBe('\n$ ls\n\n \n\n')
  expect(render([{ screen: ['', ''] }], { columns: 80, color: false })).toBe('')
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
  test('a row no terminal of this width holds is told a line for each cell that says something', () => {
    const id = 's-01J00000000000000000000000'
    const table = {
      columns: ['ID', 'NAME', 'STATE', 'DETAIL'],
      rows: [
        [id, 'a', '-', 'w '.repeat(20).trim()],
        [id, '', 'ok', 'x'],
      ],
    }
    expect(render([{ table }], { columns: 34, color: false })).toBe(
      [`ID      ${id}`, 'NAME    a', `DETAIL  ${'w '.repeat(13).trim()}`, `        ${'w '.repeat(7).trim()}`, '']
        .concat([`ID      ${id}`, 'STATE   ok', 'DETAIL  x', ''])
        .join('\n'),
    )
    expect(render([{ table: { ...table, rows: [] } }], { columns: 10, color: false })).toContain('ID  NAME')
  })
  test('what fits is not cut, and the widest text gives way first', () => {
    const wide = render([{ table: { columns, rows } }], { columns: 64, color: false })
    expect(wide).toContain('/home/someone/with/a/long/path/to/a/project')
    const lines = render(
      [{ table: { columns: ['ID', 'NAME', 'CWD'], rows: [['s-1', 'n'.repeat(12), '/d'.repeat(30)]] } }],
      {
        columns: 40,
        color: false,
      },
    ).split('\n')
    expect(lines[1]).toBe(`s-1  ${'n'.repeat(12)}  …${'/d'.repeat(10)}`)
  })
  test('session list stays on one line each at 80 columns, with what matters whole', () => {
    const id = 's-01M8PV0S06PG6FEGXWE1YMXPXG'
    const row = [
      id,
      'a long display name',
      'shell',
      'managed',
      'running',
      '-',
      'process',
      '4194304',
      '200x50',
      '-',
      '-',
      '-',
    ]
    const table = { columns: LIST_COLUMNS, rows: [[...row, '/home/someone/projects/deep/below/frontend']] }
    for (const columns of [80, 100, 120]) {
      const [head = '', line = ''] = render([{ table }], { columns, color: false }).split('\n')
      expect(textWidth(line)).toBeLessThanOrEqual(columns)
      expect(textWidth(head)).toBeLessThanOrEqual(columns)
      expect(line).toContain(id)
      expect(line).toMatch(/a long disp.* shell .*running .*frontend$/)
      const names = head.split(/ +/)
      expect(names).toEqual(LIST_COLUMNS.filter((it) => names.includes(it)))
    }
    expect(render([{ table }], { columns: undefined, color: false }).split('\n')[0]?.split(/ +/)).toEqual([
      ...LIST_COLUMNS,
    ])
    expect(render([{ table: { ...table, rows: [] } }], { columns: 80, color: false }).length).toBeLessThanOrEqual(81)
  })
  test('values and details go on below themselves', () => {
    const text = render([{ fields: [['cwd', 'one two three four five six seven']] }], { columns: 30, color: false })
    expect(text).toBe('FIELD  VALUE\ncwd    one two three four five\n       six seven\n')
  })
  test('colour only when asked', () => {
    const block = [{ table: { columns: ['STATE'], rows: [['running']] } }]
    expect(render(block, { columns: 80, color: true })).toContain('\x1b[32mrunning')
    expect(render(block, { columns: 80, color: false })).toBe('STATE\nrunning\n')
  })
})
