// The lines of the table and what they are judged by. `judge` names the figure a target speaks of: the ratio to the
// peer of the same run, or our own figure. `prototype` is what a throw-away worker reached, `aim` what is wanted; a row
// without either is there to be read only.
const row = (line, what, unit, judge, prototype, aim, peer = 'tmux') => ({
  line,
  what,
  unit,
  judge,
  prototype,
  aim,
  peer,
})

export const rows = {
  'F1.ascii': row('F1', '50 MB attached, plain ASCII lines', 'ms', 'ratio', 0.65, 0.5),
  'F1.screen': row('F1', '50 MB attached, SGR-heavy painting', 'ms', 'ratio', 0.62, 0.5),
  'F1.wide': row('F1', '50 MB attached, CJK and emoji', 'ms', 'ratio', 0.24, 0.2),
  'F1.proxied': row('F1', '50 MB attached, ASCII, through the daemon', 'ms', 'ratio'),
  'F1.client': row('F1', '50 MB attached, ASCII, our client at a PTY', 'ms', 'ratio'),
  'F2.ascii': row('F2', '50 MB detached, plain ASCII lines', 'ms', 'ratio', 0.73, 0.6),
  'F2.screen': row('F2', '50 MB detached, SGR-heavy painting', 'ms', 'ratio', 0.72, 0.6),
  'F2.wide': row('F2', '50 MB detached, CJK and emoji', 'ms', 'ratio', 0.22, 0.2),
  'F3.direct.p50': row('F3', 'keystroke echo idle, stream direct, p50', 'ms', 'ratio', 1.7, 1.3),
  'F3.direct.p99': row('F3', 'keystroke echo idle, stream direct, p99', 'ms', 'ratio', 1.8, 1.2),
  'F3.daemon.p50': row('F3', 'keystroke echo idle, through the daemon, p50', 'ms', 'ratio', 2.5, 1.3),
  'F3.daemon.p99': row('F3', 'keystroke echo idle, through the daemon, p99', 'ms', 'ratio', 1.8, 1.2),
  'F3.client.p50': row('F3', 'keystroke echo idle, our client at a PTY, p50', 'ms', 'ratio'),
  'F3.client.p99': row('F3', 'keystroke echo idle, our client at a PTY, p99', 'ms', 'ratio'),
  'F4.direct.p50': row('F4', 'echo beside a `yes` flood, stream direct, p50', 'ms', 'ratio', 0.38, 0.35),
  'F4.direct.p99': row('F4', 'echo beside a `yes` flood, stream direct, p99', 'ms', 'ratio', 0.57, 0.5),
  'F4.daemon.p50': row('F4', 'echo beside a `yes` flood, through the daemon, p50', 'ms', 'ratio', 0.54, 0.35),
  'F4.daemon.p99': row('F4', 'echo beside a `yes` flood, through the daemon, p99', 'ms', 'ratio', 0.57, 0.5),
  'F4.client.p50': row('F4', 'echo beside a `yes` flood, our client at a PTY, p50', 'ms', 'ratio'),
  'F4.client.p99': row('F4', 'echo beside a `yes` flood, our client at a PTY, p99', 'ms', 'ratio'),
  'F4.lines.p50': row('F4', 'echo beside a flood of long lines, direct, p50', 'ms', 'ratio'),
  'F4.lines.p99': row('F4', 'echo beside a flood of long lines, direct, p99', 'ms', 'ratio'),
  'F5.cli': row('F5', 'create until the program runs, CLI process', 'ms', 'ratio', 7.8, 6),
  'F5.request': row('F5', 'create until the program runs, open connection', 'ms', 'ratio', 1.7, 1.5, 'tmux -C'),
  'F5.burst': row('F5', '10 creates at once, until all programs run', 'ms', 'ratio', undefined, undefined, 'tmux -C'),
  F6: row('F6', 'daemon cold start to first byte of a session', 'ms', 'ours', 111, 150, 'tmux -C'),
  'F6.cli': row('F6', 'the same by the CLI alone (starts the daemon)', 'ms', 'ours'),
  F7: row('F7', 'session list --json, 3 sessions', 'ms', 'ratio', 1.33, 1.3, 'node empty.cjs'),
  'F7.ca': row('F7', 'the same with NODE_EXTRA_CA_CERTS set', 'ms', 'ratio', undefined, undefined, 'node empty.cjs'),
  F8: row('F8', 'screen of 200x50, open connection, p50', 'ms', 'ratio', 0.75, 0.7, 'tmux -C'),
  F9: row('F9', 'request round trip, open connection, p50', 'ms', 'ratio', 1.5, 2.0, 'tmux -C'),
  F10: row('F10', 'attach until a 200x50 picture is there, CLI', 'ms', 'ours', 34, 45),
  'F10.history': row('F10', 'the same behind 1000 lines of scrollback', 'ms', 'ours'),
  F11: row('F11', 'worker PSS, idle, 50 sessions', 'MB', 'ratio', 1.8, 1.7, 'idle node'),
  F12: row('F12', 'worker PSS, 200x50 + 1000 lines, 10 sessions', 'MB', 'ours', 21, 18),
  F12b: row('F12b', 'worker private memory after 50 MB of output', 'MB', 'ours', 13, 13.5),
  F13: row('F13', 'idle CPU, daemon + 50 workers', 'ms/s', 'ours', undefined, 1),
  F14: row('F14', 'daemon PSS, 50 live + 1,000 stored', 'MB', 'ours', undefined, 60),
  F15: row('F15', 'session.list, 50 live + 1,000 stored, p50', 'ms', 'ours', undefined, 15),
  R1: row('R1', 'daemon start, 10,000 stored, to ready', 'ms', 'ours', undefined, 500),
  R2: row('R2', 'adoption of 50 live after SIGKILL', 'ms', 'ours', undefined, 1000),
  R3: row('R3', 'one durable update, 10,000 stored, p50', 'ms', 'ratio', undefined, 1.1, '100 stored'),
  'A1.working': row('A1', 'activity told after the screen shows it: working, p99', 'ms', 'ours', undefined, 1000),
  'A1.blocked': row('A1', 'activity told after the screen shows it: blocked, p99', 'ms', 'ours', undefined, 1000),
  'A1.idle': row('A1', 'activity told after the screen shows it: idle, p99', 'ms', 'ours', undefined, 1000),
  A2: row('A2', '100 waiters, one event, until the last is answered', 'ms', 'ours', undefined, 20),
  'A2.end': row('A2', 'the same from the end of the program', 'ms', 'ours'),
  A3: row('A3', 'daemon CPU, 100 subscribers, 1,000 events/s', '%', 'ours', undefined, 60),
  W1: row('W1', 'session in a new worktree of 50,000 files', 'ms', 'ratio', undefined, 1.2, 'git + F5'),
  W2: row('W2', '16 at once in one repository of 5,000 files', 'ms', 'ratio', undefined, 1.2, '16 x git'),
  R4: row('R4', 'worst growth of memory under mixed load', '%', 'ours', undefined, 2),
}

/** Measured only when asked for by --only: they take many minutes. */
export const longLines = ['R4']
export const lines = [...new Set(Object.values(rows).map((it) => it.line))]

/**
 * 'aim' at or better than wanted, 'ok' at or better than the looser of prototype and aim, 'short' worse than that,
 * '' where nothing is asked or nothing was measured. Smaller is better on every line.
 */
export function verdict({ prototype, aim, judge }, figures) {
  const value = judge === 'ratio' ? figures.ratio : figures.ours
  if (value === undefined || (prototype === undefined && aim === undefined)) return ''
  if (aim !== undefined && value <= aim) return 'aim'
  return value <= Math.max(prototype ?? 0, aim ?? 0) ? 'ok' : 'short'
}
