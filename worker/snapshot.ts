/** The visible screen as data for a screen read. Pure over the emulator's state. */
import type { TerminalSnapshot } from '../protocol/worker/messages.ts'
import type { StickyModes } from './modes.ts'
import { CODEPOINT, COMBINED, isEmpty, type Core, type Line } from './xterm.ts'

const ONE_WIDE = 1 << 22
const SPACE = 0x20
/** In the third word of a cell. */
const DIM = 0x8000000

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
  const under = underCursor(active.lines.get(active.ybase + active.y), Math.min(active.x, core.cols - 1))
  return {
    dimensions: { columns: core.cols, rows: core.rows },
    cursor: { column: Math.min(active.x, core.cols - 1), row: active.y, visible: !core.coreService.isCursorHidden },
    alternate_screen: active === alt,
    ...(under === undefined ? {} : { under_cursor: under }),
    ...(modes.title === '' ? {} : { title: modes.title.replace(/[\x00-\x1f\x7f-\x9f]/g, '') }),
    ...(modes.progress === undefined ? {} : { progress: modes.progress }),
    visible_lines: lines,
    wrapped_rows: wrapped,
    bracketed_paste: core.coreService.decPrivateModes.bracketedPasteMode,
    partial: core.coreService.decPrivateModes.synchronizedOutput,
  }
}

function underCursor(line: Line | undefined, column: number): TerminalSnapshot['under_cursor'] {
  const content = line?._data[column * 3] ?? 0
  const code = content & CODEPOINT
  if ((content & COMBINED) === 0 && (code === 0 || code === SPACE)) return undefined
  return ((line?._data[column * 3 + 2] ?? 0) & DIM) === 0 ? 'plain' : 'dim'
}

/**
 * Text of one row. Trailing blanks are cut, except in a row that goes on below: there they are part of the line, all
 * but the empty cell a wide glyph leaves at the edge when it did not fit.
 */
function lineText(line: Line, columns: number, continues: boolean): string {
  const last = continues && isEmpty(line._data[(columns - 1) * 3] ?? 0) ? columns - 1 : columns
  return plainText(line, last, continues) ?? anyText(line, last, continues)
}

let bytes = Buffer.allocUnsafeSlow(512)

/** A row of one-column characters below U+0100, as most are: one string instead of one a cell. */
function plainText(line: Line, columns: number, continues: boolean): string | undefined {
  if (columns > bytes.length) bytes = Buffer.allocUnsafeSlow(columns)
  const cells = line._data
  let end = 0
  for (let column = 0; column < columns; column++) {
    // Anything else than such a character has a bit above the lowest eight left.
    const byte = (cells[column * 3] ?? 0) ^ ONE_WIDE
    if (byte > 0xff) return undefined
    bytes[column] = byte === 0 ? SPACE : byte
    if (byte !== 0 && byte !== SPACE) end = column + 1
  }
  return bytes.toString('latin1', 0, continues ? columns : end)
}

function anyText(line: Line, columns: number, continues: boolean): string {
  const cells = line._data
  let text = ''
  let blanks = ''
  for (let column = 0; column < columns;) {
    const content = cells[column * 3] ?? 0
    const code = content & CODEPOINT
    if ((content & COMBINED) !== 0) {
      text += blanks + (line._combined[column] ?? ' ')
      blanks = ''
    } else if (code === 0 || code === SPACE) blanks += ' '
    else {
      text += blanks + String.fromCodePoint(code)
      blanks = ''
    }
    column += Math.max(1, content >>> 22)
  }
  return continues ? text + blanks : text
}
