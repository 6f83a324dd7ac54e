/** Regions of a picture and their previews. */
import { expect, test } from 'vitest'
import { parseManifest } from '../../plugins/detection/manifest.ts'
import { detectionBytes, MAX_DETECTION_BYTES, previewsOf } from '../../plugins/detection/previews.ts'
import { parseRegion, REGION_KINDS, regionText, spellRegion, type Picture } from '../../plugins/detection/regions.ts'
import { manualClock } from '../../kernel/clock.ts'
import { Scope } from '../../kernel/scope.ts'
import { OutputRing } from '../../worker/ring.ts'
import { ScreenTerminal } from '../../worker/terminal.ts'

const LINE = '─'.repeat(20)
const picture = (...visible_lines: string[]): Picture => ({ visible_lines, wrapped_rows: [] })
const text = (spelled: string, on: Picture): string => {
  const region = parseRegion(spelled)
  if (region === undefined) throw new Error(spelled)
  expect(spellRegion(region)).toBe(spelled)
  return regionText(region, on)
}

const boxed = picture('answer', '✻ Brewed for 2s', '', LINE, '❯ typed', '  more', LINE, '  ? for shortcuts', '')

test('what a program tells its terminal', () => {
  const on = { ...picture('x'), title: '⠋ task', progress: '4;3' }
  expect(text('osc_title', on)).toBe('⠋ task')
  expect(text('osc_progress', on)).toBe('4;3')
  expect(text('osc_title', picture('x'))).toBe('')
  expect(text('osc_progress', picture('x'))).toBe('')
})

test('rows counted from an edge', () => {
  expect(text('whole_recent', boxed)).toBe(boxed.visible_lines.join('\n'))
  expect(text('bottom_lines(2)', boxed)).toBe('  ? for shortcuts\n')
  expect(text('bottom_lines(99)', boxed)).toBe(boxed.visible_lines.join('\n'))
  expect(text('bottom_non_empty_lines(2)', boxed)).toBe(`${LINE}\n  ? for shortcuts`)
  expect(text('top_non_empty_lines(3)', boxed)).toBe(`answer\n✻ Brewed for 2s\n${LINE}`)
  expect(text('bottom_non_empty_lines(3)', picture('', ' ', ''))).toBe('')
})

test('around the prompt box', () => {
  expect(text('prompt_box_body', boxed)).toBe('❯ typed\n  more')
  expect(text('last_non_empty_above_prompt_box', boxed)).toBe('✻ Brewed for 2s')
  expect(text('after_last_horizontal_rule', boxed)).toBe('  ? for shortcuts\n')
  expect(text('after_last_prompt_marker', boxed)).toBe(`  more\n${LINE}\n  ? for shortcuts\n`)
  // The two lowest rules are the box; what was drawn earlier is not.
  const twice = picture(LINE, '❯ old', LINE, 'answer', LINE, '❯', LINE)
  expect(text('prompt_box_body', twice)).toBe('❯')
  expect(text('last_non_empty_above_prompt_box', twice)).toBe('answer')
  expect(text('last_non_empty_above_prompt_box', picture(LINE, '❯', LINE))).toBe('')
})

test('no complete box: nothing is in it or above it; what follows a rule that scrolled out is all there is', () => {
  const open = picture('answer', LINE, 'Proceed?', ' ❯ 1. Yes', '   2. No')
  expect(text('prompt_box_body', open)).toBe('')
  expect(text('last_non_empty_above_prompt_box', open)).toBe('')
  expect(text('after_last_horizontal_rule', open)).toBe('Proceed?\n ❯ 1. Yes\n   2. No')
  const none = picture('Proceed?', '1. Yes')
  expect(text('after_last_horizontal_rule', none)).toBe('Proceed?\n1. Yes')
  expect(text('after_last_prompt_marker', none)).toBe('Proceed?\n1. Yes')
})

test.each([
  [LINE, true],
  [`  ╭${LINE}╮`, true],
  ['━━━━━━━━━━', true],
  ['▔▔▔▔▔▔▔▔▔▔▔▔ ctrl+y to paste deleted text ▔', true],
  ['── ⠋ Working ───────────────', true],
  ['╌╌╌╌╌╌╌╌╌╌╌╌', false],
  ['----------', false],
  ['│ a ───────── b │', false],
  ['see ─────────', false],
  ['──────', false],
])('%s is a horizontal rule: %s', (row, is) => {
  expect(text('after_last_horizontal_rule', picture('a', row, 'b'))).toBe(is ? 'b' : `a\n${row}\nb`)
})

test.each([
  ['❯ x', true],
  ['› ', true],
  ['  > x', true],
  ['│ > x   │', true],
  ['❯', true],
  ['❯x', false],
  ['a ❯ b', false],
  ['>> x', false],
])('%j is a prompt marker: %s', (row, is) => {
  expect(text('after_last_prompt_marker', picture('a', row, 'b'))).toBe(is ? 'b' : `a\n${row}\nb`)
})

test('a region is spelled in one way; there is no other', () => {
  for (const bad of [
    '',
    'whole',
    'whole_recent(3)',
    'bottom_lines',
    'bottom_lines()',
    'bottom_lines(0)',
    'bottom_lines(08)',
  ])
    expect(parseRegion(bad), bad).toBeUndefined()
  for (const bad of [
    'bottom_lines( 8)',
    'bottom_lines(-1)',
    'bottom_lines(65536)',
    ' osc_title',
    'OSC_TITLE',
    'bottom_lines(8) ',
  ])
    expect(parseRegion(bad), bad).toBeUndefined()
  expect(parseRegion('bottom_lines(65535)')).toEqual({ kind: 'bottom_lines', count: 65_535 })
})

/** What the session's own terminal makes of bytes. */
function shown(columns: number, rows: number, bytes: string): Picture {
  const ring = new OutputRing(1_000_000)
  const clock = manualClock()
  const nothing = (): void => {}
  const it = new ScreenTerminal({
    columns,
    rows,
    ring,
    clock,
    scope: new Scope('test', clock),
    hooks: {
      asked: nothing,
      answer: nothing,
      foregroundGroup: () => undefined,
      cwdReported: nothing,
      changed: nothing,
      hold: nothing,
      parseFailed: (failure) => {
        throw failure as Error
      },
    },
  })
  ring.append(Buffer.from(bytes))
  it.outputArrived(Buffer.from(bytes))
  it.settleNow()
  return it.snapshot()
}

test('a line the program did not break is one line, at any width; rows are counted as they stand', () => {
  const on = shown(10, 6, 'Do you want to proceed?\r\n1. Yes\r\n')
  expect(on.visible_lines.slice(0, 4)).toEqual(['Do you wan', 't to proce', 'ed?', '1. Yes'])
  expect(text('whole_recent', on)).toBe('Do you want to proceed?\n1. Yes\n\n')
  expect(text('top_non_empty_lines(2)', on)).toBe('Do you want to proce')
  expect(text('bottom_non_empty_lines(2)', on)).toBe('ed?\n1. Yes')
})

test('a wide glyph stands once, and one that did not fit leaves no gap in its line', () => {
  const on = shown(5, 6, '日本語日本\r\nok\r\n')
  expect(on.visible_lines.slice(0, 3)).toEqual(['日本', '語日', '本'])
  expect(text('top_non_empty_lines(3)', on)).toBe('日本語日本')
})

test('previews: each region once, in the order of the file, spelled with its count', () => {
  const rule = (id: string, region: string): string =>
    `[[rules]]\nid = "${id}"\nstate = "idle"\npriority = 1\nregion = "${region}"\ncontains = "x"\n`
  const manifest = parseManifest(
    [
      rule('a', 'prompt_box_body'),
      rule('b', 'bottom_lines(8)'),
      rule('c', 'osc_title'),
      rule('d', 'prompt_box_body'),
      rule('e', 'bottom_lines(2)'),
    ].join(''),
    'x',
  )
  expect(previewsOf(manifest, { ...boxed, title: 'T' })).toEqual([
    { kind: 'prompt_box_body', region: 'prompt_box_body', text: '❯ typed\n  more' },
    { kind: 'bottom_lines', region: 'bottom_lines(8)', text: boxed.visible_lines.slice(1).join('\n') },
    { kind: 'osc_title', region: 'osc_title', text: 'T' },
    { kind: 'bottom_lines', region: 'bottom_lines(2)', text: '  ? for shortcuts\n' },
  ])
  expect(REGION_KINDS).toHaveLength(10)
  const big = { previews: previewsOf(manifest, picture('é'.repeat(MAX_DETECTION_BYTES))) }
  expect(detectionBytes(big)).toBeGreaterThan(MAX_DETECTION_BYTES)
})
