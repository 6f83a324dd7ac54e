/** Untrusted text made safe and measured for a terminal. Pure. */

// C0 but not newline, DEL, C1, line and paragraph separators, and the marks that turn the writing direction.

const UNSAFE = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g

// One code unit, one column: ASCII, the letters of Latin, Greek and Cyrillic, punctuation, arrows, box drawing. Anything
// else needs graphemes, whose tables take longer to load than the rest of a command.
const PLAIN = /^[ -~\u00a1-\u00ac\u00ae-\u02ff\u0370-\u0482\u048a-\u052f\u2010-\u2027\u2190-\u21ff\u2500-\u259f]*$/

const escaped = (character: string): string => {
  const code = character.codePointAt(0) as number
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`
}

/** No byte in the answer can drive a terminal: `ESC` becomes `\x1b`. Newlines stay. */
export const safeText = (text: string): string => text.replace(UNSAFE, escaped)

/** As `safeText`, on one line. */
export const safeLine = (text: string): string => safeText(text).replaceAll('\n', '\\x0a')

/** Terminal output as text: carriage returns before newlines and tabs are layout, everything else is escaped. */
export const safeStream = (text: string): string =>
  text.replaceAll('\r\n', '\n').replaceAll('\t', '    ').replace(UNSAFE, escaped)

// Ranges of East Asian Wide, Fullwidth and emoji presentation, coarse where whole blocks are wide. Text, so that a command
// that prints none of them does not pay for the table.
const WIDE =
  '1100-115f 231a-231b 2329-232a 23e9-23ec 23f0 23f3 25fd-25fe 2614-2615 2648-2653 267f 2693 26a1 26aa-26ab ' +
  '26bd-26be 26c4-26c5 26ce 26d4 26ea 26f2-26f3 26f5 26fa 26fd 2705 270a-270b 2728 274c 274e 2753-2755 2757 ' +
  '2795-2797 27b0 27bf 2b1b-2b1c 2b50 2b55 2e80-303e 3041-33ff 3400-4dbf 4e00-9fff a000-a4cf a960-a97f ' +
  'ac00-d7a3 f900-faff fe10-fe19 fe30-fe6f ff00-ff60 ffe0-ffe6 16fe0-18aff 1b000-1b2ff 1f004 1f0cf 1f18e ' +
  '1f191-1f19a 1f1e6-1f265 1f300-1f320 1f32d-1f335 1f337-1f37c 1f37e-1f393 1f3a0-1f3ca 1f3cf-1f3d3 ' +
  '1f3e0-1f3f0 1f3f4 1f3f8-1f43e 1f440 1f442-1f4fc 1f4ff-1f53d 1f54b-1f54e 1f550-1f567 1f57a 1f595-1f596 ' +
  '1f5a4 1f5fb-1f64f 1f680-1f6c5 1f6cc 1f6d0-1f6d2 1f6d5-1f6d7 1f6dc-1f6df 1f6eb-1f6ec 1f6f4-1f6fc ' +
  '1f7e0-1f7eb 1f7f0 1f90c-1f93a 1f93c-1f945 1f947-1f9ff 1fa70-1faff 20000-2fffd 30000-3fffd'
let wide: readonly (readonly [number, number])[] | undefined

function wideRanges(): readonly (readonly [number, number])[] {
  return (wide ??= WIDE.split(' ').map((range) => {
    const [first = 0, last = first] = range.split('-').map((it) => Number.parseInt(it, 16))
    return [first, last]
  }))
}

function isWide(code: number): boolean {
  const ranges = wideRanges()
  let low = 0
  let high = ranges.length - 1
  while (low <= high) {
    const middle = (low + high) >> 1
    const [first, last] = ranges[middle] as readonly [number, number]
    if (code < first) high = middle - 1
    else if (code > last) low = middle + 1
    else return true
  }
  return false
}

let graphemes: Intl.Segmenter | undefined

function clusterWidth(cluster: string): number {
  const code = cluster.codePointAt(0) as number
  if (/^[\p{M}\u200b-\u200f\u2060\ufeff]+$/u.test(cluster)) return 0
  // A variation selector 16 asks for the emoji form, which is two columns.
  return isWide(code) || cluster.includes('\ufe0f') ? 2 : 1
}

function clusters(text: string): string[] {
  graphemes ??= new Intl.Segmenter(undefined, { granularity: 'grapheme' })
  return Array.from(graphemes.segment(text), (it) => it.segment)
}

/** Columns a safe line takes on a terminal. */
export function textWidth(text: string): number {
  if (PLAIN.test(text)) return text.length
  return clusters(text).reduce((sum, cluster) => sum + clusterWidth(cluster), 0)
}

/** At most `columns` wide, cut at the end with an ellipsis; `keep: 'end'` cuts the beginning. */
export function clip(text: string, columns: number, keep: 'start' | 'end' = 'start'): string {
  if (textWidth(text) <= columns) return text
  const parts = PLAIN.test(text) ? [...text] : clusters(text)
  if (keep === 'end') parts.reverse()
  const taken: string[] = []
  let left = columns - 1
  for (const part of parts) {
    left -= PLAIN.test(part) ? 1 : clusterWidth(part)
    if (left < 0) break
    taken.push(part)
  }
  return keep === 'end' ? `…${taken.reverse().join('')}` : `${taken.join('')}…`
}

export const padEnd = (text: string, columns: number): string =>
  text + ' '.repeat(Math.max(0, columns - textWidth(text)))

/** Cuts plain text at its spaces into lines of at most `columns`; a longer word stays whole. At least one line. */
export function wrap(text: string, columns: number): string[] {
  const lines: string[] = []
  let line: string | undefined
  for (const word of text.split(' ')) {
    const longer: string = line === undefined ? word : `${line} ${word}`
    if (line === undefined || textWidth(longer) <= columns) line = longer
    else {
      lines.push(line)
      line = word
    }
  }
  return [...lines, line ?? '']
}
