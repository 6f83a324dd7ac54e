/** What puts a terminal back to what a shell expects, whatever the program in the session had turned on. */

const MODES = [
  '\x18\x1b\\', // cancel whatever sequence or string is half written
  '\x1b[?2026l', // synchronized update
  '\x1b[<u\x1b[=0;1u', // kitty keyboard: leave our entry, and nothing on in the one below
  '\x1b[>4;0m', // modifyOtherKeys
  '\x1b[?9l\x1b[?1000l\x1b[?1001l\x1b[?1002l\x1b[?1003l', // mouse kinds
  '\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l', // mouse encodings
  '\x1b[?1004l', // focus reports
  '\x1b[?2004l', // bracketed paste
  '\x1b[?2031l\x1b[?2048l', // colour scheme and size reports
]

/** Origin and margins go before the screen changes: both home the cursor, and the main screen's place is to stay. */
const LEAVE_ALTERNATE = [
  '\x1b[?6l\x1b[?69l\x1b[r', // origin, left/right and top/bottom margins
  '\x1b[?1049l', // the main screen, and its cursor where the program left it
  '\x1b[!p', // soft reset: what the main screen had of its own; the cursor stays
  '\x1b7\x1b[r\x1b8', // margins that belong to the main screen
]

/** The cursor is saved first because leaving a screen that is not shown restores the saved one all the same. */
const STAY_ON_MAIN = ['\x1b7\x1b[?1049l', '\x1b[?6l\x1b[!p\x1b[?69l\x1b[r']

const REST = [
  '\x1b[?1l\x1b>', // cursor keys and keypad
  '\x1b[?5l\x1b[?7h\x1b[4l\x1b[20l', // reverse video, autowrap, insert, newline mode
  '\x0f\x1b(B', // character sets
  '\x1b[0m\x1b[0 q\x1b[?25h', // attributes, cursor shape, cursor shown
]

/** The last row: beyond any terminal's height, so it needs no size that may have changed meanwhile. */
const BOTTOM = '\x1b[999;1H'
const FRESH_LINE = '\r\n\x1b[K'

export interface Left {
  /** The program's full-screen picture is shown. */
  readonly alternate: boolean
  /** Rows of the picture that are used, where that is known. */
  readonly usedRows?: number | undefined
}

/**
 * Resets the terminal and starts a fresh line below the session's picture: below its last row, since the program may
 * have left the cursor above what it wrote; below the cursor of the main screen when a full-screen program hid it.
 */
export function resetFrom({ alternate, usedRows }: Left): string {
  const last = usedRows === undefined ? BOTTOM : `\x1b[${Math.max(1, usedRows)};1H`
  return (
    alternate
      ? [...MODES, ...LEAVE_ALTERNATE, ...REST, FRESH_LINE]
      : [...MODES, ...STAY_ON_MAIN, ...REST, last, FRESH_LINE]
  ).join('')
}

/** Room for our own line below a picture that stands still: it moves up by one row, nothing of it is covered. */
export const ROW_BELOW = `\x18\x1b\\\x1b[?6l\x1b[?69l\x1b[r\x1b[0m${BOTTOM}${FRESH_LINE}`
/** Back to that row. */
export const SAME_ROW = BOTTOM
