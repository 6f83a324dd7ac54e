/** The visible screen as data for a screen read. Pure over the emulator's state. */
import type { TerminalSnapshot } from '../protocol/worker/messages.ts'
import type { StickyModes } from './modes.ts'
import { isEmpty, type Core, type Line } from './xterm.ts'

const COMBINED = 0x200000
const CODEPOINT = 0x1fffff

export function visibleScreen(core: Core, modes: StickyModes): Omit<TerminalSnapshot, 'watermark'> {
  const { active, alt } = core._bufferService.buffers
  const lines: string[] = []
  const wrapped: number[] = []
  for (let row = 0; row < core.rows; row++) {
    const line = active.lines.get(active.ybase + row)
    const next = row + 1 < core.rows ? active.lines.get(active.ybase + row + 1) : undefined
    lines.push(line === undefined ? '' : lineText(line, core.cols, next?.isWrapped === true))
    if (line?.isWrapped && row > 0) wrapped.push(row)
  }
  return {
    dimensions: { columns: core.cols, rows: core.rows },
    cursor: { column: Math.min(active.x, core.cols - 1), row: active.y, visible: !core.coreService.isCursorHidden },
    alternate_screen: active === alt,

    ...(modes.title === '' ? {} : { title: modes.title.replace(/[\x00-\x1f\x7f-\x9f]/g, '') }),
    ...(modes.progress === undefined ? {} : { progress: modes.progress }),
    visible_lines: lines,
    wrapped_rows: wrapped,
    bracketed_paste: core.coreService.decPrivateModes.bracketedPasteMode,
    partial: core.coreService.decPrivateModes.synchronizedOutput,
  }
}

/**
 * Text of one row. Trailing blanks are cut, except in a row that goes on below: there they are part of the line, all
 * but the empty cell a wide glyph leaves at the edge when it did not fit.
 */
export function lineText(line: Line, columns: number, continues: boolean): string {
  let text = ''
  for (let column = 0; column < columns;) {
    const content = line._data[column * 3] ?? 0
    const width = Math.max(1, content >>> 22)
    if (isEmpty(content)) {
      if (!(continues && column === columns - 1)) text += ' '
    } else if ((content & COMBINED) !== 0) text += line._combined[column] ?? ' '
    else text += (content & CODEPOINT) === 0 ? ' ' : String.fromCodePoint(content & CODEPOINT)
    column += width
  }
  return continues ? text : text.replace(/ +$/, '')
}
