import { expect, test } from 'vitest'
import { ScreenState } from '../../cli/attach/screen-state.ts'

const ENTER = '\x1b[?1049h'
const LEAVE = '\x1b[?1049l'

test.each<[string, string, boolean, boolean]>([
  ['nothing', 'text\x1b[31m', false, true],
  ['entered', `a${ENTER}b`, true, true],
  ['entered and left', `${ENTER}x${LEAVE}`, false, true],
  ['left and entered', `${LEAVE}${ENTER}`, true, true],
  ['older spellings', '\x1b[?47h', true, true],
  ['among others', '\x1b[?1;25;1047l\x1b[?2004;1049h', true, false],
  ['a mode that only begins like it', '\x1b[?10490h\x1b[?2500l', false, true],
  ['no private mode', '\x1b[1049h\x1b[25l', false, true],
  ['asked for, saved, restored', '\x1b[?1049$p\x1b[?25s\x1b[?25r', false, true],
  ['a full reset', `${ENTER}\x1b[?25l\x1bc`, false, true],
  ['a full reset and then', `\x1b[?25l\x1bc${ENTER}`, true, true],
  ['the cursor', '\x1b[?25l', false, false],
])('%s', (_, text, alternate, cursorShown) => {
  const bytes = Buffer.from(text)
  // Whole, in two pieces at every place, and byte by byte.
  const cuts = [...Array.from({ length: bytes.length }, (__, at) => [at]), bytes.map((__, at) => at)]
  for (const cut of cuts) {
    const state = new ScreenState()
    let from = 0
    for (const at of cut) {
      state.push(bytes.subarray(from, at))
      from = at
    }
    state.push(bytes.subarray(from))
    expect({ cut: [...cut], alternate: state.alternate, cursorShown: state.cursorShown }).toEqual({
      cut: [...cut],
      alternate,
      cursorShown,
    })
  }
})
