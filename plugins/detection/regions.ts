/**
 * What a region of a detection manifest is on one picture of the terminal (contract/runtime-packages.md §2). Pure.
 * Rows are rows of the visible grid: a wide glyph stands once, blanks at the end of a row are cut. Regions are chosen
 * by rows; rows of the chosen that are one line to the program (soft wrap) become one line of the text, so that a
 * sentence is found whatever the width.
 */
import type { TerminalSnapshot } from '../../protocol/worker/messages.ts'

/** In the order session.detection lists them. */
export const REGION_KINDS = [
  'osc_title',
  'osc_progress',
  'whole_recent',
  'bottom_lines',
  'bottom_non_empty_lines',
  'top_non_empty_lines',
  'last_non_empty_above_prompt_box',
  'after_last_prompt_marker',
  'prompt_box_body',
  'after_last_horizontal_rule',
] as const
export type RegionKind = (typeof REGION_KINDS)[number]

export interface Region {
  readonly kind: RegionKind
  /** Rows, of the three kinds that count. */
  readonly count?: number
}

export type EvidenceGroup = 'title' | 'screen'

export type Picture = Pick<TerminalSnapshot, 'title' | 'progress' | 'visible_lines' | 'wrapped_rows'> &
  Partial<Pick<TerminalSnapshot, 'cursor' | 'under_cursor'>>

const COUNTED: readonly RegionKind[] = ['bottom_lines', 'bottom_non_empty_lines', 'top_non_empty_lines']
const MAX_COUNT = 65_535

/** A line drawn across; a word may stand in it. Shorter ones, dashed ones and tables of text belong to what is told. */
const RULE = /^\s*[╭╰├┌└╞╔╚]?(?:[─━═▔]{8}|[─━═▔].*[─━═▔]{8}\s*[╮╯┤┐┘╡╗╝]?$)/u
/** The sign a prompt starts with, also inside a drawn box. */
const PROMPT_MARKER = /^\s*[│┃]?\s*[❯›>](?:\s|$)/u

/** The region as it is spelled, undefined for any other text: there is no broader region to fall back to. */
export function parseRegion(text: string): Region | undefined {
  const parts = /^([a-z_]+)(?:\(([1-9][0-9]{0,4})\))?$/.exec(text)
  const kind = REGION_KINDS.find((it) => it === parts?.[1])
  const count = parts?.[2] === undefined ? undefined : Number(parts[2])
  if (kind === undefined || COUNTED.includes(kind) !== (count !== undefined)) return undefined
  return count === undefined ? { kind } : count <= MAX_COUNT ? { kind, count } : undefined
}

/** `bottom_lines(8)`: how a manifest spells the region. */
export const spellRegion = (region: Region): string =>
  region.count === undefined ? region.kind : `${region.kind}(${region.count})`

export const groupOf = (region: Region): EvidenceGroup =>
  region.kind === 'osc_title' || region.kind === 'osc_progress' ? 'title' : 'screen'

/**
 * Lines joined by `\n`. Empty where the picture has no prompt box. What follows a rule or a marker that is not in the
 * picture is all of it: it scrolled out above a question taller than the screen.
 */
export function regionText(region: Region, picture: Picture): string {
  if (region.kind === 'osc_title') return picture.title ?? ''
  if (region.kind === 'osc_progress') return picture.progress ?? ''
  return joined(chosenRows(region, picture.visible_lines), picture)
}

/**
 * The text of `region` up to the cursor, with `whole` up to the end of its row. The row of the prompt sign that a region
 * begins behind is part of it. undefined where the cursor is somewhere else.
 */
export function textToCursor(region: Region, picture: Picture, whole: boolean): string | undefined {
  const { cursor, visible_lines: lines } = picture
  if (cursor === undefined) return undefined
  const chosen = chosenRows(region, lines)
  const first = chosen[0] ?? lines.length
  const rows = region.kind === 'after_last_prompt_marker' && first > 0 ? [first - 1, ...chosen] : chosen
  if (!rows.includes(cursor.row)) return undefined
  const above = rows.filter((row) => row < cursor.row).map((row) => lines[row] ?? '')
  const row = lines[cursor.row] ?? ''
  // A wide glyph stands once: behind one too much is taken, but only where something was typed.
  const left = whole ? row : Array.from(row).slice(0, cursor.column).join('')
  return [...above, left].join('\n')
}

function chosenRows({ kind, count = 0 }: Region, rows: readonly string[]): number[] {
  const last = rows.length - 1
  switch (kind) {
    case 'osc_title':
    case 'osc_progress':
      return []
    case 'whole_recent':
      return range(0, last)
    case 'bottom_lines':
      return range(Math.max(0, rows.length - count), last)
    case 'bottom_non_empty_lines':
      return filled(rows).slice(-count)
    case 'top_non_empty_lines':
      return filled(rows).slice(0, count)
    case 'last_non_empty_above_prompt_box': {
      const box = promptBox(rows)
      return box === undefined ? [] : filled(rows.slice(0, box.top)).slice(-1)
    }
    case 'prompt_box_body': {
      const box = promptBox(rows)
      return box === undefined ? [] : range(box.top + 1, box.bottom - 1)
    }
    case 'after_last_prompt_marker':
      return range(rows.findLastIndex((row) => PROMPT_MARKER.test(row)) + 1, last)
    case 'after_last_horizontal_rule':
      return range(rows.findLastIndex(isRule) + 1, last)
  }
}

const isRule = (row: string): boolean => RULE.test(row)

/** The two lowest horizontal rules with what stands between them. */
function promptBox(rows: readonly string[]): { top: number; bottom: number } | undefined {
  const bottom = rows.findLastIndex(isRule)
  const top = bottom < 0 ? -1 : rows.slice(0, bottom).findLastIndex(isRule)
  return top < 0 ? undefined : { top, bottom }
}

const range = (from: number, to: number): number[] =>
  Array.from({ length: Math.max(0, to - from + 1) }, (_, n) => from + n)

const filled = (rows: readonly string[]): number[] => range(0, rows.length - 1).filter((n) => rows[n]?.trim() !== '')

function joined(chosen: readonly number[], picture: Picture): string {
  const wrapped = new Set(picture.wrapped_rows)
  let text = ''
  let before: number | undefined
  for (const row of chosen) {
    if (before !== undefined && !(row === before + 1 && wrapped.has(row))) text += '\n'
    text += picture.visible_lines[row] ?? ''
    before = row
  }
  return text
}
