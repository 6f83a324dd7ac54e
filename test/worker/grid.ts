/** Two terminals compared cell by cell. */
import { createEmulator, isEmpty, type Core, type Emulator, type Grid } from '../../worker/xterm.ts'
import { StickyModes } from '../../worker/modes.ts'
import { repaint } from '../../worker/repaint.ts'

export interface Reference {
  emulator: Emulator
  modes: StickyModes
  feed(bytes: Uint8Array | string): void
}

/** A terminal of the same kind as the worker's, fed in one go. */
export function reference(columns: number, rows: number, scrollback = 1_000): Reference {
  const emulator = createEmulator(columns, rows, scrollback)
  const buffers = emulator.core._bufferService.buffers
  const modes = new StickyModes(emulator.parser, {
    alternateActive: () => buffers.active === buffers.alt,
    cwdReported: () => {},
  })
  emulator.onTitleChange((title) => (modes.title = title.slice(0, 4_096)))
  return {
    emulator,
    modes,
    feed: (bytes) => emulator.core._inputHandler.parse(typeof bytes === 'string' ? Buffer.from(bytes) : bytes),
  }
}

export const repaintOf = (it: Reference, historyRows = 1_000): string =>
  repaint(it.emulator.core, it.modes, { historyRows })

const EXTENDED = 0x10000000
const COLOR = 0x3ffffff

/** A palette colour keeps leftovers of an earlier true colour in bits that mean nothing. */
const color = (value: number): number => {
  const mode = value & 0x3000000
  return mode === 0 ? 0 : mode === 0x3000000 ? value & COLOR : mode | (value & 0xff)
}
const plain = (value: number): string => (((value & ~COLOR) | color(value)) >>> 0).toString(16)

/** What can be seen of a cell; an empty cell is a blank of its background. */
function cell(grid: Grid, row: number, column: number): string {
  const line = grid.lines.get(row)
  if (line === undefined) return 'no line'
  const content = line._data[column * 3] ?? 0
  const fg = line._data[column * 3 + 1] ?? 0
  const bg = line._data[column * 3 + 2] ?? 0
  const width = content >>> 22
  const text =
    (content & 0x200000) !== 0
      ? line._combined[column]
      : (content & 0x1fffff) === 0
        ? ''
        : String.fromCodePoint(content & 0x1fffff)
  if (isEmpty(content)) return `blank bg=${color(bg).toString(16)}`
  if (width === 0) return 'second half'
  if (width === 2 && column + 1 < line.length && (line._data[column * 3 + 3] ?? 0) >>> 22 !== 0) return 'broken glyph'
  const ext = (bg & EXTENDED) !== 0 ? (line._extendedAttrs[column]?._ext ?? 0) : 0
  const shape = (ext >> 26) & 7 || ((fg & 0x10000000) !== 0 ? 1 : 0)
  const underline = (ext & COLOR) === COLOR ? 0 : ext & COLOR
  const style = `fg=${plain(fg & ~0x10000000)} bg=${plain(bg & ~(EXTENDED | 0x20000000))} ul=${shape}/${color(underline).toString(16)}`
  if (text === ' ' && (fg & ~COLOR) === 0 && (bg & ~(COLOR | 0x20000000)) === 0 && shape === 0)
    return `blank bg=${color(bg).toString(16)}`
  return `${JSON.stringify(text)} w=${width} ${style}`
}

function gridLines(core: Core, grid: Grid, historyRows: number): string[] {
  const out: string[] = []
  for (let row = Math.max(0, grid.ybase - historyRows); row < grid.ybase + core.rows; row++) {
    const wrapped = row > Math.max(0, grid.ybase - historyRows) && grid.lines.get(row)?.isWrapped
    for (let column = 0; column < core.cols; column++)
      out.push(`${row - grid.ybase},${column}: ${cell(grid, row, column)}`)
    out.push(`${row - grid.ybase}: ${wrapped ? 'continues' : 'starts'}`)
  }
  return out
}

/** The terminal as a flat list of facts; two lists differ exactly where the terminals do. */
function facts(it: Reference, historyRows = 1_000): string[] {
  const { core } = it.emulator
  const { normal, alt, active } = core._bufferService.buffers
  const { cursorBlink, cursorStyle, synchronizedOutput: _, ...dec } = core.coreService.decPrivateModes
  const alternate = active === alt
  const saved = (grid: Grid) =>
    `${Math.max(0, Math.min(core.rows - 1, grid.savedY - grid.ybase))},${Math.min(core.cols - 1, grid.savedX)} ${plain(grid.savedCurAttrData.fg)}/${plain(grid.savedCurAttrData.bg & ~EXTENDED)}`
  const pen = core._inputHandler._curAttrData
  return [
    `size ${core.cols}x${core.rows}`,
    `buffer ${alternate ? 'alternate' : 'normal'}`,
    `cursor ${active.y},${active.x} ${core.coreService.isCursorHidden ? 'hidden' : 'shown'} ${cursorStyle}/${cursorBlink}`,
    `pen ${plain(pen.fg & ~0x10000000)}/${plain(pen.bg & ~EXTENDED)}`,
    `margins ${active.scrollTop}-${active.scrollBottom}`,
    `saved ${saved(normal)}${alternate ? ` ${saved(alt)}` : ''}`,
    `modes ${JSON.stringify(dec)} insert=${core.coreService.modes.insertMode} lnm=${core.optionsService.rawOptions.convertEol}`,
    `mouse ${core.coreMouseService.activeProtocol} ${core.coreMouseService.activeEncoding}`,
    `sticky ${[...it.modes.privateModes].sort().join()} keys=${JSON.stringify([it.modes.keyboard.normal, alternate && it.modes.keyboard.alternate])} ${it.modes.modifyOtherKeys} charsets=${it.modes.charsets.join('')}/${core._charsetService.glevel}`,
    `colors ${JSON.stringify([...it.modes.colors].sort())} title=${it.modes.title}`,
    `tabs ${Object.keys(active.tabs)
      .filter((key) => active.tabs[Number(key)] && Number(key) < core.cols && Number(key) > 0)
      .join()}`,
    ...gridLines(core, normal, historyRows),
    ...(alternate ? gridLines(core, alt, 0) : []),
  ]
}

/** First differences only: a whole grid in a failure helps nobody. */
export function differences(actual: Reference, expected: Reference, historyRows = 1_000): string[] {
  const a = facts(actual, historyRows)
  const b = facts(expected, historyRows)
  const out: string[] = []
  // What a terminal shows of half a glyph is its own choice.
  for (let at = 0; at < Math.max(a.length, b.length) && out.length < 12; at++)
    if (a[at] !== b[at] && !b[at]?.endsWith('broken glyph')) out.push(`got ${a[at]}   expected ${b[at]}`)
  return out
}
