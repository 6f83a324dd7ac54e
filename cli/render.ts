/** Outcome blocks to text. Pure: what the terminal can do is an argument. */
import type { Block } from '../protocol/command.ts'
import { clip, padEnd, safeLine, safeStream, safeText, textWidth, wrap } from './text.ts'

export interface Look {
  /** Columns of the terminal; undefined in a pipe, where nothing is cut. */
  readonly columns: number | undefined
  readonly color: boolean
}

const GAP = '  '
/**
 * Columns that give way on a narrow terminal: to `fair` before any other is left out, to `least` after that. Ids, states
 * and what stands in no list here always stay whole.
 */
const SHRINKS: Readonly<
  Record<string, { readonly fair: number; readonly least: number; readonly keep: 'start' | 'end' }>
> = {
  CWD: { fair: 16, least: 8, keep: 'end' },
  ROOT: { fair: 16, least: 8, keep: 'end' },
  NAME: { fair: 12, least: 6, keep: 'start' },
  PROJECT: { fair: 12, least: 6, keep: 'start' },
  BRANCH: { fair: 12, least: 6, keep: 'start' },
  TITLE: { fair: 24, least: 12, keep: 'start' },
}
/** Left out in this order once what says nothing is left out; session inspect shows them all. */
const SPARE = ['SOURCE', 'ORIGIN', 'PID', 'SIZE', 'AGENT', 'PROJECT', 'BRANCH', 'HOST', 'SEVERITY', 'SESSION']
/** Texts that go on below themselves, as the last column. */
const WRAPS: ReadonlySet<string> = new Set(['DETAIL', 'VALUE'])
const LEAST_WRAP = 20
const COLORS: Readonly<Record<string, string>> = {
  running: '32',
  working: '32',
  ok: '32',
  starting: '33',
  blocked: '33',
  warn: '33',
  failed: '31',
  fail: '31',
  done: '2',
  stopped: '2',
}

export function render(blocks: readonly Block[], look: Look): string {
  return blocks.map((block) => renderBlock(block, look)).join('')
}

function renderBlock(block: Block, look: Look): string {
  if ('line' in block) return `${safeLine(block.line)}\n`
  if ('verbatim' in block) return block.verbatim
  if ('stream' in block) return look.columns === undefined ? block.stream : ended(safeStream(block.stream))
  if ('screen' in block) return renderScreen(block.screen, look)
  if ('table' in block) return renderTable(block.table.columns, block.table.rows, look)
  return renderTable(['FIELD', 'VALUE'], block.fields, look)
}

/** A prompt stands on a line of its own. */
const ended = (text: string): string => (text === '' || text.endsWith('\n') ? text : `${text}\n`)

function renderScreen(rows: readonly string[], look: Look): string {
  const text = (some: readonly string[]): string => some.map((it) => `${it}\n`).join('')
  if (look.columns === undefined) return text(rows)
  return safeStream(text(rows.slice(0, rows.findLastIndex((it) => it.trim() !== '') + 1)))
}

function renderTable(columns: readonly string[], rows: readonly (readonly string[])[], look: Look): string {
  const cells = rows.map((row) => row.map((cell) => safeLine(cell)))
  const natural = columns.map((name, at) => Math.max(name.length, ...cells.map((row) => textWidth(row[at] ?? ''))))
  const { shown, widths } = look.columns === undefined ? whole(natural) : fit(columns, cells, natural, look.columns)
  if (columns.length > 2 && cells.length > 0 && widthOf(shown, widths) > (look.columns ?? Infinity))
    return cells.map((row) => record(columns, row, look)).join('\n')
  const last = shown.at(-1) as number
  const indent = shown.slice(0, -1).reduce((sum, at) => sum + (widths[at] as number) + GAP.length, 0)
  const line = (texts: readonly string[], paint: boolean): string =>
    shown
      .map((at) => {
        const name = columns[at] as string
        if (at === last && WRAPS.has(name)) return wrapped(texts[at] ?? '', indent, look)
        const cut = clip(texts[at] ?? '', widths[at] as number, SHRINKS[name]?.keep)
        const padded = at === last ? cut : padEnd(cut, widths[at] as number)
        return paint ? painted(padded, cut, look) : padded
      })
      .join(GAP)
      .trimEnd()
  const head = line(columns, false)
  return [look.color ? `\x1b[1m${head}\x1b[0m` : head, ...cells.map((row) => line(row, true))]
    .map((it) => `${it}\n`)
    .join('')
}

/** A row of a table that no terminal of this width holds: a line for each cell that says something. */
function record(columns: readonly string[], row: readonly string[], look: Look): string {
  const said = columns
    .map((name, at) => [name, row[at] ?? ''] as const)
    .filter(([, text]) => text !== '' && text !== '-')
  const left = Math.max(...said.map(([name]) => name.length))
  return said
    .map(([name, text]) => {
      const shown = wrapped(text, left + GAP.length, look)
      return `${name.padEnd(left)}${GAP}${painted(shown, text, look)}\n`
    })
    .join('')
}

/** `shown` in the colour of the word it is made of, on a terminal that has colours. */
function painted(shown: string, word: string, look: Look): string {
  const color = look.color ? COLORS[word] : undefined
  return color === undefined ? shown : `\x1b[${color}m${shown}\x1b[0m`
}

const widthOf = (shown: readonly number[], widths: readonly number[]): number =>
  shown.reduce((sum, at) => sum + (widths[at] as number), GAP.length * (shown.length - 1))

function wrapped(text: string, indent: number, { columns }: Look): string {
  const room = columns === undefined ? Infinity : columns - indent
  return room < LEAST_WRAP || room === Infinity ? text : wrap(text, room).join(`\n${' '.repeat(indent)}`)
}

interface Layout {
  /** Indices of the columns that are shown. */
  readonly shown: readonly number[]
  readonly widths: readonly number[]
}

const whole = (natural: readonly number[]): Layout => ({ shown: natural.map((_, at) => at), widths: natural })

/** Makes a table fit: columns that say nothing go first, then texts are cut to a fair width, then columns are left out. */
function fit(
  columns: readonly string[],
  cells: readonly (readonly string[])[],
  natural: readonly number[],
  room: number,
): Layout {
  const limits = (kind: 'fair' | 'least'): number[] =>
    columns.map((name, at) => {
      const limit = WRAPS.has(name) ? LEAST_WRAP : SHRINKS[name]?.[kind]
      return limit === undefined
        ? (natural[at] as number)
        : Math.min(natural[at] as number, Math.max(limit, name.length))
    })
  let shown = columns.map((_, at) => at)
  const total = (widths: readonly number[]): number => widthOf(shown, widths)
  const leaveOut = (at: number): void => {
    shown = shown.filter((it) => it !== at)
  }
  const silent = columns.map((_, at) => at).filter((at) => cells.every((row) => (row[at] ?? '-') === '-'))
  for (const at of silent.reverse()) if (cells.length > 0 && total(natural) > room) leaveOut(at)
  const fair = limits('fair')
  for (const at of SPARE.map((name) => columns.indexOf(name))) if (total(fair) > room) leaveOut(at)
  const least = limits('least')
  const widths = [...natural]
  // The widest gives way first, so that what is short stays whole.
  for (let over = total(widths) - room; over > 0; over--) {
    const able = shown.filter((at) => (widths[at] as number) > (least[at] as number))
    const widest = able.reduce((a, b) => ((widths[a] as number) >= (widths[b] as number) ? a : b), able[0] ?? -1)
    if (widest === -1) break
    widths[widest] = (widths[widest] as number) - 1
  }
  return { shown, widths }
}

/** `error: …` and its hint, as stderr shows them. */
export function renderError(error: { readonly msg: string; readonly recover?: string | undefined }): string {
  const hint = error.recover === undefined ? '' : `\n  hint: ${safeLine(error.recover)}`
  return `error: ${safeText(error.msg).replaceAll('\n', '\n  ')}${hint}\n`
}
