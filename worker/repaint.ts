/**
 * The whole state of a terminal as bytes that recreate it on another one: what an attaching client gets first. Own
 * serializer over the cell array; it contains no query and no clipboard write, and hyperlinks are left out.
 * Invariants
 *  1. It works from any state of the receiver: the parser is cancelled, modes are reset, the right buffer is chosen.
 *  2. A soft-wrapped row is joined with the row before it by printing on, so that the receiver can reflow it.
 *  3. Modes that change how painting works (margins, origin, insert, no autowrap) are set after the painting.
 */
import type { StickyModes, KeyboardStack } from './modes.ts'
import { CODEPOINT, COMBINED, isEmpty, type Attributes, type Core, type Grid, type Line } from './xterm.ts'

const EXTENDED = 0x10000000
const UNDERLINE_COLOR = 0x3ffffff
/** What the emulator stores after "default underline colour" (SGR 59). */
const UNDERLINE_COLOR_UNSET = 0x3ffffff
const PALETTE_16 = 0x1000000
const PALETTE_256 = 0x2000000
const RGB = 0x3000000
/** Combining marks start here. */
const FIRST_JOINER = 0x300
const CSI = '\x1b['
/** More pops than any stack holds empty it. */
const POP_KEYBOARD = `${CSI}<32u`

// CAN ends any sequence, ST any string; then: no keyboard flags of either screen, main buffer, soft reset, no mouse, no paste.
const PRELUDE =
  `\x18\x1b\\${CSI}?2026h${POP_KEYBOARD}${CSI}=0u${CSI}?1049l${CSI}!p` +
  `${CSI}?1;5;9;45;66;1000;1002;1003;1004;1005;1006;1007;1015;1016;2004;2031;2048l${CSI}?7;25h${CSI}4;20l\x1b>` +
  `\x0f\x1b(B\x1b)B\x1b*B\x1b+B${CSI}r${CSI}0 q${POP_KEYBOARD}${CSI}=0u${CSI}>4m${CSI}m`
const CLEAR = `${CSI}H${CSI}2J`

const MOUSE: Record<string, number> = { X10: 9, VT200: 1000, DRAG: 1002, ANY: 1003 }
const ENCODING: Record<string, number> = { SGR: 1006, SGR_PIXELS: 1016 }

export interface RepaintOptions {
  /** Scrollback rows painted before the screen. */
  historyRows: number
}

/** Pure over the emulator's state. The answer is UTF-8 text made of cells, SGR and mode sequences only. */
export function repaint(core: Core, modes: StickyModes, options: RepaintOptions): string {
  const { normal, alt, active } = core._bufferService.buffers
  const alternate = active === alt
  const out: string[] = [PRELUDE]
  inputModes(out, core, modes)
  tabStops(out, core, active)
  keyboard(out, modes.keyboard.normal)
  out.push(CLEAR)
  const from = Math.max(0, normal.ybase - Math.max(0, options.historyRows))
  paintRows(out, core, normal, from, normal.ybase + core.rows)
  savedCursor(out, core, normal, alternate)
  if (alternate) {
    // The switch saves this buffer's cursor, pen included; only then the pen is reset.
    out.push(`${CSI}?1049h${CSI}m\x1b(B${POP_KEYBOARD}${CSI}=0u${CLEAR}`)
    keyboard(out, modes.keyboard.alternate)
    paintRows(out, core, alt, alt.ybase, alt.ybase + core.rows)
    savedCursor(out, core, alt, false)
  }
  finish(out, core, modes, active)
  return out.join('')
}

function inputModes(out: string[], core: Core, modes: StickyModes): void {
  const dec = core.coreService.decPrivateModes
  const set: number[] = [...modes.privateModes]
  if (dec.applicationCursorKeys) set.push(1)
  if (dec.reverseWraparound) set.push(45)
  if (dec.sendFocus) set.push(1004)
  if (dec.bracketedPasteMode) set.push(2004)
  const mouse = MOUSE[core.coreMouseService.activeProtocol]
  if (mouse !== undefined) set.push(mouse)
  const encoding = ENCODING[core.coreMouseService.activeEncoding]
  if (encoding !== undefined) set.push(encoding)
  for (const mode of set) out.push(`${CSI}?${mode}h`)
  if (dec.applicationKeypad) out.push('\x1b=')
  if (modes.modifyOtherKeys > 0) out.push(`${CSI}>4;${modes.modifyOtherKeys}m`)
  if (modes.title !== '') out.push(`\x1b]2;${printable(modes.title)}\x1b\\`)
  for (const [key, value] of modes.colors)
    out.push(key.startsWith('d') ? `\x1b]${key.slice(1)};${value}\x1b\\` : `\x1b]4;${key};${value}\x1b\\`)
  if (dec.cursorStyle !== undefined) {
    const shape = { block: 2, underline: 4, bar: 6 }[dec.cursorStyle]
    out.push(`${CSI}${shape - (dec.cursorBlink ? 1 : 0)} q`)
  }
  if (core.coreService.isCursorHidden) out.push(`${CSI}?25l`)
}

function keyboard(out: string[], stack: KeyboardStack): void {
  const values = [...stack.below, stack.current]
  values.forEach((flags, depth) => {
    if (depth > 0) out.push(`${CSI}>${flags}u`)
    else if (flags !== 0) out.push(`${CSI}=${flags}u`)
  })
}

function tabStops(out: string[], core: Core, grid: Grid): void {
  let same = true
  for (let column = 1; column < core.cols; column++) if (Boolean(grid.tabs[column]) !== (column % 8 === 0)) same = false
  if (same) return
  out.push(`${CSI}3g`)
  for (let column = 0; column < core.cols; column++) if (grid.tabs[column]) out.push(`${CSI}${column + 1}G\x1bH`)
}

/** SGR in force on the receiver. */
interface Pen {
  style: string
}
const DEFAULT_STYLE = `${CSI}0m`

function plainPen(out: string[], pen: Pen): void {
  if (pen.style !== DEFAULT_STYLE) out.push((pen.style = DEFAULT_STYLE))
}

/** Paints [from, to) from the home position on; rows that do not fit scroll into the receiver's history. */
function paintRows(out: string[], core: Core, grid: Grid, from: number, to: number): void {
  const pen: Pen = { style: DEFAULT_STYLE }
  for (let row = from; row < to; row++) {
    const line = grid.lines.get(row)
    if (line === undefined) continue
    const joined = row > from && line.isWrapped
    const continues = row + 1 < to && grid.lines.get(row + 1)?.isWrapped === true
    if (row > from && !joined) {
      plainPen(out, pen)
      out.push('\r\n')
    }
    const next = !continues ? 'new' : startsWide(grid.lines.get(row + 1)) ? 'wide' : 'joined'
    paintLine(out, pen, core, line, joined ? edgeMend(core, grid.lines.get(row - 1), line) : undefined, next)
  }
  plainPen(out, pen)
}

/**
 * A wide glyph that wraps leaves its own colour in the last column of the row above. What mends that cell if it has
 * another one; '' when nothing is to be mended.
 */
function edgeMend(core: Core, above: Line | undefined, line: Line): string {
  const edge = core.cols * 3 - 3
  if (above === undefined || core.rows < 2 || !startsWide(line) || !isEmpty(above._data[edge] ?? 0)) return ''
  const background = above._data[edge + 2] ?? 0
  if ((background & UNDERLINE_COLOR) === ((line._data[2] ?? 0) & UNDERLINE_COLOR)) return ''
  return `${CSI}A${CSI}${core.cols}G${sgr(0, background & UNDERLINE_COLOR, 0)}${CSI}X${CSI}B${CSI}3G`
}

const startsWide = (line: Line | undefined): boolean =>
  line !== undefined && line._data[0] !== undefined && line._data[0] >>> 22 === 2

/**
 * `mend`: given when the row is entered by wrapping, so that its cells carry the colour of the wrap until they are
 * erased; goes out behind the first glyph.
 * `next`: what the row below begins with. Something must be printed in the last column for a joined one to wrap on (2);
 * a wide glyph wraps by itself when one column is left.
 */
function paintLine(
  out: string[],
  pen: Pen,
  core: Core,
  line: Line,
  mend: string | undefined,
  next: 'new' | 'joined' | 'wide',
): void {
  const columns = core.cols
  const fill = next === 'joined'
  const joined = mend !== undefined
  const data = line._data
  let text = ''
  /** Text of the cell printed last, '' behind a sequence: nothing joins across one. */
  let before = ''
  const flush = (): void => {
    if (text !== '') out.push(text)
    text = before = ''
  }
  const used = fill ? columns : Math.max(usedColumns(line, columns), next === 'wide' ? columns - 1 : 0)
  const styleAt = (column: number): void => {
    const wanted = sgr(data[column * 3 + 1] ?? 0, data[column * 3 + 2] ?? 0, line._extendedAttrs[column]?._ext ?? 0)
    if (wanted === pen.style) return
    flush()
    out.push((pen.style = wanted))
  }
  for (let column = 0; column < used;) {
    const content = data[column * 3] ?? 0
    const width = content >>> 22
    if (isEmpty(content)) {
      if ((joined && column === 0) || (fill && column === columns - 1)) {
        // The wrap itself has to print something.
        styleAt(column)
        text += before = ' '
        column++
        continue
      }
      const stop = fill ? columns - 1 : used
      let run = 1
      while (
        column + run < stop &&
        isEmpty(data[column * 3 + run * 3] ?? 0) &&
        data[column * 3 + 2] === data[(column + run) * 3 + 2]
      )
        run++
      if (joined || ((data[column * 3 + 2] ?? 0) & RGB) !== 0) {
        styleAt(column)
        flush()
        out.push(`${CSI}${run}X`)
      }
      flush()
      column += run
      if (column < columns || next === 'wide') out.push(`${CSI}${run}C`)
      continue
    }
    styleAt(column)
    // Half a glyph whose other half was printed over is not a glyph any more.
    const broken = width === 0 || (width === 2 && (data[column * 3 + 3] ?? 0) >>> 22 !== 0)
    const combined = (content & COMBINED) !== 0
    const cell = broken ? ' ' : combined ? (line._combined[column] ?? ' ') : String.fromCodePoint(content & CODEPOINT)
    if (before !== '' && (cell.codePointAt(0) ?? 0) >= FIRST_JOINER && joins(core, before, cell)) {
      flush()
      out.push(`${CSI}${column + 1}G`)
    }
    text += before = cell
    if (mend !== undefined && mend !== '' && column === 0) {
      flush()
      out.push(mend)
      pen.style = ''
    }
    column += broken ? 1 : width
    // Terminals disagree about the width of clusters; say where the next cell is.
    if (combined && column < columns) {
      flush()
      out.push(`${CSI}${column + 1}G`)
    }
  }
  flush()
  if (joined && used < columns && next !== 'wide') {
    plainPen(out, pen)
    out.push(`${CSI}K`)
  }
}

/** Would the receiver take `cell` as a part of the cluster before it? Two cells that stand apart must stay so. */
function joins(core: Core, before: string, cell: string): boolean {
  let state = 0
  for (const it of before) state = core.unicodeService.charProperties(it.codePointAt(0) ?? 0, state)
  return (core.unicodeService.charProperties(cell.codePointAt(0) ?? 0, state) & 1) !== 0
}

/** Columns up to the last one that is not an empty cell of the default background. */
function usedColumns(line: Line, columns: number): number {
  for (let column = columns; column > 0; column--) {
    if (!isEmpty(line._data[column * 3 - 3] ?? 0) || ((line._data[column * 3 - 1] ?? 0) & RGB) !== 0) return column
  }
  return 0
}

/** Full SGR of one cell, starting from the default. */
function sgr(fg: number, bg: number, extended: number): string {
  let codes = '0'
  if (fg & 0x8000000) codes += ';1'
  if (bg & 0x8000000) codes += ';2'
  if (bg & 0x4000000) codes += ';3'
  if (bg & EXTENDED) {
    const shape = (extended >> 26) & 7
    if (shape !== 0) codes += shape === 1 ? ';4' : `;4:${shape}`
    else if (fg & 0x10000000) codes += ';4'
    const color = extended & UNDERLINE_COLOR
    if (color !== 0 && color !== UNDERLINE_COLOR_UNSET) codes += underlineColor(color)
  } else if (fg & 0x10000000) codes += ';4'
  if (fg & 0x20000000) codes += ';5'
  if (fg & 0x4000000) codes += ';7'
  if (fg & 0x40000000) codes += ';8'
  if (fg & 0x80000000) codes += ';9'
  if (bg & 0x40000000) codes += ';53'
  codes += color(fg, 30) + color(bg, 40)
  return `${CSI}${codes}m`
}

function color(value: number, base: 30 | 40): string {
  const index = value & 0xff
  switch (value & RGB) {
    case PALETTE_16:
      return index < 8 ? `;${base + index}` : `;${base + 52 + index}`
    case PALETTE_256:
      return `;${base + 8};5;${index}`
    case RGB:
      return `;${base + 8};2;${(value >> 16) & 0xff};${(value >> 8) & 0xff};${index}`
    default:
      return ''
  }
}

function underlineColor(value: number): string {
  if ((value & RGB) === RGB) return `;58:2::${(value >> 16) & 0xff}:${(value >> 8) & 0xff}:${value & 0xff}`
  return `;58:5:${value & 0xff}`
}

const attributes = (it: Attributes): string => sgr(it.fg, it.bg, it.extended._ext)

function savedCursor(out: string[], core: Core, grid: Grid, enteringAlternate: boolean): void {
  const row = Math.max(0, Math.min(core.rows - 1, grid.savedY - grid.ybase))
  const column = Math.max(0, Math.min(core.cols - 1, grid.savedX))
  const plain =
    grid.savedX === 0 && grid.savedY <= grid.ybase && grid.savedCurAttrData.fg === 0 && grid.savedCurAttrData.bg === 0
  // Entering the alternate buffer saves the cursor of this one by itself.
  if (plain && grid.savedCharset === undefined && !enteringAlternate) return
  const charset = grid.savedCharset !== undefined
  out.push(`${CSI}${row + 1};${column + 1}H${attributes(grid.savedCurAttrData)}${charset ? '\x1b(0' : ''}`)
  out.push(`\x1b7${charset && !enteringAlternate ? '\x1b(B' : ''}`)
}

/** (3): margins, origin, pen, charsets, cursor, and only then what would have disturbed them. */
function finish(out: string[], core: Core, modes: StickyModes, grid: Grid): void {
  const dec = core.coreService.decPrivateModes
  const margins = grid.scrollTop !== 0 || grid.scrollBottom !== core.rows - 1
  if (margins) out.push(`${CSI}${grid.scrollTop + 1};${grid.scrollBottom + 1}r`)
  if (dec.origin) out.push(`${CSI}?6h`)
  const top = dec.origin ? grid.scrollTop : 0
  const line = grid.lines.get(grid.ybase + grid.y)
  if (grid.x >= core.cols && line !== undefined) {
    // The cursor waits behind the last column: only printing that cell again puts it there.
    let last = core.cols - 1
    if ((line._data[last * 3] ?? 0) >>> 22 === 0 && last > 0) last--
    const content = line._data[last * 3] ?? 0
    out.push(
      `${CSI}${grid.y + 1 - top};${last + 1}H${sgr(line._data[last * 3 + 1] ?? 0, line._data[last * 3 + 2] ?? 0, line._extendedAttrs[last]?._ext ?? 0)}`,
    )
    out.push(
      (content & COMBINED) !== 0
        ? (line._combined[last] ?? ' ')
        : isEmpty(content)
          ? ' '
          : String.fromCodePoint(content & CODEPOINT),
    )
  } else {
    out.push(`${CSI}${grid.y + 1 - top};${Math.min(core.cols, grid.x + 1)}H`)
  }
  out.push(attributes(core._inputHandler._curAttrData))
  modes.charsets.forEach((final, slot) => {
    if (final !== 'B') out.push(`\x1b${'()*+'[slot] ?? '('}${final}`)
  })
  const shift = ['', '\x0e', '\x1bn', '\x1bo'][core._charsetService.glevel]
  if (shift) out.push(shift)
  if (core.coreService.modes.insertMode) out.push(`${CSI}4h`)
  if (core.optionsService.rawOptions.convertEol) out.push(`${CSI}20h`)
  if (!dec.wraparound) out.push(`${CSI}?7l`)
  out.push(`${CSI}?2026l`)
}

/** Titles come from the program: no control character may leave the string. */
function printable(text: string): string {
  return text.replace(/[\x00-\x1f\x7f-\x9f]/g, '')
}
