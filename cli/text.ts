/** Untrusted text made safe and measured for a terminal. Pure. */

// C0 but not newline, DEL, C1, line and paragraph separators, and the marks that turn the writing direction.

const UNSAFE = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g

const PLAIN = /^[\u0020-\u007e]*$/

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

// Ranges of East Asian Wide, Fullwidth and emoji presentation, coarse where whole blocks are wide.
const WIDE: readonly (readonly [number, number])[] = [
  [0x1100, 0x115f],
  [0x231a, 0x231b],
  [0x2329, 0x232a],
  [0x23e9, 0x23ec],
  [0x23f0, 0x23f0],
  [0x23f3, 0x23f3],
  [0x25fd, 0x25fe],
  [0x2614, 0x2615],
  [0x2648, 0x2653],
  [0x267f, 0x267f],
  [0x2693, 0x2693],
  [0x26a1, 0x26a1],
  [0x26aa, 0x26ab],
  [0x26bd, 0x26be],
  [0x26c4, 0x26c5],
  [0x26ce, 0x26ce],
  [0x26d4, 0x26d4],
  [0x26ea, 0x26ea],
  [0x26f2, 0x26f3],
  [0x26f5, 0x26f5],
  [0x26fa, 0x26fa],
  [0x26fd, 0x26fd],
  [0x2705, 0x2705],
  [0x270a, 0x270b],
  [0x2728, 0x2728],
  [0x274c, 0x274c],
  [0x274e, 0x274e],
  [0x2753, 0x2755],
  [0x2757, 0x2757],
  [0x2795, 0x2797],
  [0x27b0, 0x27b0],
  [0x27bf, 0x27bf],
  [0x2b1b, 0x2b1c],
  [0x2b50, 0x2b50],
  [0x2b55, 0x2b55],
  [0x2e80, 0x303e],
  [0x3041, 0x33ff],
  [0x3400, 0x4dbf],
  [0x4e00, 0x9fff],
  [0xa000, 0xa4cf],
  [0xa960, 0xa97f],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe10, 0xfe19],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x16fe0, 0x18aff],
  [0x1b000, 0x1b2ff],
  [0x1f004, 0x1f004],
  [0x1f0cf, 0x1f0cf],
  [0x1f18e, 0x1f18e],
  [0x1f191, 0x1f19a],
  [0x1f1e6, 0x1f265],
  [0x1f300, 0x1f320],
  [0x1f32d, 0x1f335],
  [0x1f337, 0x1f37c],
  [0x1f37e, 0x1f393],
  [0x1f3a0, 0x1f3ca],
  [0x1f3cf, 0x1f3d3],
  [0x1f3e0, 0x1f3f0],
  [0x1f3f4, 0x1f3f4],
  [0x1f3f8, 0x1f43e],
  [0x1f440, 0x1f440],
  [0x1f442, 0x1f4fc],
  [0x1f4ff, 0x1f53d],
  [0x1f54b, 0x1f54e],
  [0x1f550, 0x1f567],
  [0x1f57a, 0x1f57a],
  [0x1f595, 0x1f596],
  [0x1f5a4, 0x1f5a4],
  [0x1f5fb, 0x1f64f],
  [0x1f680, 0x1f6c5],
  [0x1f6cc, 0x1f6cc],
  [0x1f6d0, 0x1f6d2],
  [0x1f6d5, 0x1f6d7],
  [0x1f6dc, 0x1f6df],
  [0x1f6eb, 0x1f6ec],
  [0x1f6f4, 0x1f6fc],
  [0x1f7e0, 0x1f7eb],
  [0x1f7f0, 0x1f7f0],
  [0x1f90c, 0x1f93a],
  [0x1f93c, 0x1f945],
  [0x1f947, 0x1f9ff],
  [0x1fa70, 0x1faff],
  [0x20000, 0x2fffd],
  [0x30000, 0x3fffd],
]

function isWide(code: number): boolean {
  let low = 0
  let high = WIDE.length - 1
  while (low <= high) {
    const middle = (low + high) >> 1
    const [first, last] = WIDE[middle] as readonly [number, number]
    if (code < first) high = middle - 1
    else if (code > last) low = middle + 1
    else return true
  }
  return false
}

let graphemes: Intl.Segmenter | undefined
const ZERO = /^[\p{M}\u200b-\u200f\u2060\ufeff]+$/u

function clusterWidth(cluster: string): number {
  const code = cluster.codePointAt(0) as number
  if (ZERO.test(cluster)) return 0
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
