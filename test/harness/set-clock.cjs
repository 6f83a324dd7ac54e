// Preloaded into a program under test: its wall clock is off by what the file POHUNEK_TEST_CLOCK names says, in
// milliseconds, read at each look. The monotonic clock and timers are the machine's, as when somebody sets a clock.
'use strict'
const { readFileSync } = require('node:fs')

const file = process.env.POHUNEK_TEST_CLOCK
delete process.env.POHUNEK_TEST_CLOCK
const Real = Date
const now = () => {
  try {
    return Real.now() + Number(readFileSync(file, 'latin1'))
  } catch {
    return Real.now()
  }
}
globalThis.Date = class Date extends Real {
  constructor(...args) {
    if (args.length === 0) super(now())
    else super(...args)
  }
  static now() {
    return now()
  }
}
