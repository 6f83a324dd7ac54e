/** Outcome blocks to text. Pure: what the terminal can do is an argument. */
import type { Block } from '../protocol/command.ts'
import { clip, padEnd, safeLine, safeStream, safeText, textWidth } from './text.ts'

export interface Look {
  /** Columns of the terminal; undefined in a pipe, where nothing is cut. */
  readonly columns: number | undefined
  readonly color: boolean
}

const GAP = '  '
// Columns that may be cut on a narrow terminal and what stays of them; ids and states always stay whole.
const SHRINKS: Readonly<Record<string, { readonly least: number; readonly keep: 'start' | 'end' }>> = {
  CWD: { least: 12, keep: 'end' },
  ROOT: { least: 12, keep: 'end' },
  DETAIL: { least: 20, keep: 'start' },
  NAME: { least: 8, keep: 'start' },
  PROJECT: { least: 8, keep: 'start' },
  BRANCH: { least: 8, keep: 'start' },
}
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
  if ('stream' in block) return look.columns === undefined ? block.stream : safeStream(block.stream)
  if ('table' in block) return renderTable(block.table.columns, block.table.rows, look)
  return renderTable(['FIELD', 'VALUE'], block.fields, look)
}

function renderTable(columns: readonly string[], rows: readonly (readonly string[])[], look: Look): string {
  const cells = rows.map((row) => row.map((cell) => safeLine(cell)))
  const widths = columns.map((name, at) => Math.max(name.length, ...cells.map((row) => textWidth(row[at] ?? ''))))
  const shown = columns.map((_, at) => at)
  if (look.columns !== undefined) fit(columns, cells, widths, shown, look.columns)
  const line = (texts: readonly string[], paint: boolean): string =>
    shown
      .map((at, place) => {
        const name = columns[at] as string
        const cut = clip(texts[at] ?? '', widths[at] as number, SHRINKS[name]?.keep)
        const padded = place === shown.length - 1 ? cut : padEnd(cut, widths[at] as number)
        const color = paint && look.color ? COLORS[cut] : undefined
        return color === undefined ? padded : `\x1b[${color}m${padded}\x1b[0m`
      })
      .join(GAP)
      .trimEnd()
  const head = line(columns, false)
  return [look.color ? `\x1b[1m${head}\x1b[0m` : head, ...cells.map((row) => line(row, true))]
    .map((it) => `${it}\n`)
    .join('')
}

/** Makes a table fit: long texts are cut first, then columns that say nothing are left out. */
function fit(
  columns: readonly string[],
  cells: readonly (readonly string[])[],
  widths: number[],
  shown: number[],
  room: number,
): void {
  const total = (): number => shown.reduce((sum, at) => sum + (widths[at] as number), GAP.length * (shown.length - 1))
  for (const [name, { least }] of Object.entries(SHRINKS)) {
    const at = columns.indexOf(name)
    if (at === -1 || total() <= room) continue
    widths[at] = Math.max(least, name.length, Math.min(widths[at] as number, (widths[at] as number) - (total() - room)))
  }
  for (let at = columns.length - 1; at > 0 && total() > room; at--) {
    if (cells.every((row) => (row[at] ?? '-') === '-')) shown.splice(shown.indexOf(at), 1)
  }
}

/** `error: …` and its hint, as stderr shows them. */
export function renderError(error: { readonly msg: string; readonly recover?: string | undefined }): string {
  const hint = error.recover === undefined ? '' : `\n  hint: ${safeLine(error.recover)}`
  return `error: ${safeText(error.msg).replaceAll('\n', '\n  ')}${hint}\n`
}
