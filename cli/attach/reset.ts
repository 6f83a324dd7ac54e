/** What puts a terminal back to what a shell expects, whatever the program in the session had turned on. */

/**
 * Order matters: a half-written sequence is cancelled first; the cursor is saved before everything that homes it (margins,
 * origin) and put back after; leaving the alternate screen restores the cursor that was saved on the normal one.
 */
export const RESET = [
  '\x18\x1b\\', // cancel whatever sequence or string is half written
  '\x1b[?2026l', // synchronized update
  '\x1b[<u\x1b[=0;1u', // kitty keyboard: leave our entry, and nothing on in the one below
  '\x1b[>4;0m', // modifyOtherKeys
  '\x1b[?9l\x1b[?1000l\x1b[?1001l\x1b[?1002l\x1b[?1003l', // mouse kinds
  '\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l', // mouse encodings
  '\x1b[?1004l', // focus reports
  '\x1b[?2004l', // bracketed paste
  '\x1b[?2031l\x1b[?2048l', // colour scheme and size reports
  '\x1b7\x1b[?1049l', // alternate screen
  '\x1b[?6l\x1b[!p', // soft reset: origin, margins, attributes, keypad
  '\x1b7\x1b[?69l\x1b[r\x1b8', // left/right and top/bottom margins
  '\x1b[?1l\x1b>', // cursor keys and keypad
  '\x1b[?5l\x1b[?7h\x1b[4l\x1b[20l', // reverse video, autowrap, insert, newline mode
  '\x0f\x1b(B', // character sets
  '\x1b[0m\x1b[0 q\x1b[?25h', // attributes, cursor shape, cursor shown
].join('')
