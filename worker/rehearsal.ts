/**
 * Runs what every session runs once, on a terminal of its own: the build makes V8's code cache after it, so that the
 * functions of a start and of a first screen are in the cache.
 */
import { systemClock } from '../kernel/clock.ts'
import { Scope } from '../kernel/scope.ts'
import { OutputRing } from './ring.ts'
import { ScreenTerminal } from './terminal.ts'

const SAMPLE =
  '\x1b]0;title\x07\x1b[1;32muser@host\x1b[0m:\x1b[34m~\x1b[0m$ ls --color\r\n\x1b[38;5;208mfile\x1b[0m \x1b[38;2;1;2;3;48;5;17mdir\x1b[m\r\n' +
  '\x1b[?1049h\x1b[?25l\x1b[2J\x1b[H┌──┐ 日本 👩‍🔬 é\x1b[5;10r\x1b[4mU\x1b[m\x1b[K\x1b[3;1H\x1b[L\x1b[M\x1b[P\x1b[@\x1b[X\x1b7\x1b8\x1b[?1049l\x1b[?25h' +
  '\x1b[?2004h\x1b[?1002h\x1b[?1006h\x1b[c\x1b[6n\x1b]11;?\x07\x1b[>q\x1b[?u\x1b[?2026h\x1b[?2026l'

export function rehearse(): void {
  const scope = new Scope('rehearsal')
  const ring = new OutputRing(1_000_000)
  const terminal = new ScreenTerminal({
    columns: 80,
    rows: 24,
    ring,
    clock: systemClock,
    scope,
    hooks: { asked: () => {}, cwdReported: () => {}, changed: () => {}, hold: () => {}, parseFailed: () => {} },
  })
  for (let line = 0; line < 100; line++) {
    const bytes = Buffer.from(
      SAMPLE + 'plain text of a usual length that fills most of a row, twice over\r\n'.repeat(4),
    )
    ring.append(bytes)
    terminal.parseAll()
  }
  terminal.resize(100, 30)
  terminal.snapshot()
  terminal.picture(1_000)
  void scope.close()
}
