/**
 * How text becomes terminal input. Pure. A pasted body is framed only when the program asked for it, and cannot end
 * its own frame; the submit key is a fragment of its own, so that it never lands inside a paste burst.
 */
import { MAX_INPUT_TEXT_BYTES } from '../../protocol/limits.ts'
import { utf8Bytes } from '../../protocol/scalars.ts'
import { faults } from './faults.ts'
import type { InputPlan } from './api.ts'

const PASTE_START = '\x1b[200~'
export const PASTE_END = '\x1b[201~'
// The introducer as ESC [, as the C1 character U+009B, and as what a byte 0x9b becomes in decoded text.
const PASTE_MARK = /(?:\x1b\[|\u009b)20[01]~/g

/** Removes paste marks until none is left: removing one may join the halves of another (FC-7278, FC-b14e). */
export function withoutPasteMarks(text: string): string {
  for (let current = text; ;) {
    const next = current.replace(PASTE_MARK, '')
    if (next === current) return current
    current = next
  }
}

/** Throws session_input_rejected for text that is too long or holds what the runtime's text policy excludes. */
export function checkText(text: string, policy: InputPlan['textPolicy']): void {
  if (utf8Bytes(text) > MAX_INPUT_TEXT_BYTES)
    throw faults.session_input_rejected({ problem: `text is over ${MAX_INPUT_TEXT_BYTES} bytes` })

  if (policy === 'hermes_safe_text' && /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/.test(text)) {
    throw faults.session_input_rejected({ problem: 'text has control characters other than line feed and tab' })
  }
}

/** What the kernel keeps of a line in line mode: 4096 bytes with the line feed (n_tty.c N_TTY_BUF_SIZE). */
export const MAX_COOKED_LINE_BYTES = 4_095

/** Pure. Bytes of the longest line; a carriage return ends one as well, as the terminal turns it into a line feed. */
export function longestLineBytes(text: string): number {
  if (text.length <= MAX_COOKED_LINE_BYTES / 4) return 0
  return Math.max(...text.split(/[\r\n]/).map(utf8Bytes))
}

export interface Fragment {
  readonly bytes: string
  readonly delay_after_ms: number
}

/** Enter. */
export const SUBMIT: Fragment = { bytes: Buffer.from('\r').toString('base64'), delay_after_ms: 0 }

/** Body and key as one plan; an empty text is the key alone. */
export const inputFragments = (
  text: string,
  { bracketedPaste, submitDelayMs }: Pick<InputPlan, 'bracketedPaste' | 'submitDelayMs'>,
  programPastes: boolean,
): Fragment[] => (text === '' ? [SUBMIT] : [bodyFragment(text, bracketedPaste && programPastes, submitDelayMs), SUBMIT])

/** The text as it is written, as a paste where `framed`; `pauseMs` before what follows it. */
export function bodyFragment(text: string, framed: boolean, pauseMs: number): Fragment {
  const body = framed ? `${PASTE_START}${withoutPasteMarks(text)}${PASTE_END}` : text
  return { bytes: Buffer.from(body, 'utf8').toString('base64'), delay_after_ms: pauseMs }
}
