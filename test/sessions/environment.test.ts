import { statSync } from 'node:fs'
import { expect, test } from 'vitest'
import { baseEnvironment } from '../../plugins/sessions/launch-env.ts'
import { inputFragments, withoutPasteMarks } from '../../plugins/sessions/input-text.ts'
import { environmentProblem } from '../../protocol/worker/environment.ts'
import { station } from './station.ts'

const read = (text: string): Map<string, string> =>
  new Map(
    text
      .split('\r\n')
      .flatMap((line) =>
        line.includes('=') ? [[line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)] as const] : [],
      ),
  )

test('FC-aa34: a session gets a clean environment with its own markers', async () => {
  const it = await station({
    env: {
      CLAUDECODE: '1',
      TMUX: '/x,1,0',
      SECRET: 'x',
      NODE_OPTIONS: '--no-warnings',
      POHUNEK_PASS_NODE_OPTIONS: '--max-old-space-size=99',
      POHUNEK_CONTROLLER_TOKEN: 't',
      NOTIFY_SOCKET: '/n',
      LC_ALL: 'C',
      KEEP_ME: 'yes',
    },
    environment: { allowlist: ['KEEP_*'], searchPath: [] },
  })
  const session = await it.program('/usr/bin/env', [], {}, ['[env]', 'MINE = "1"', 'POHUNEK_SESSION_ID = "forged"'])
  await session.ended()
  const env = read((await session.output()).bytes.toString())
  for (const gone of [
    'CLAUDECODE',
    'TMUX',
    'SECRET',
    'POHUNEK_CONTROLLER_TOKEN',
    'NOTIFY_SOCKET',
    'POHUNEK_PASS_NODE_OPTIONS',
    'POHUNEK_TEST_ROOT',
  ])
    expect(env.has(gone), gone).toBe(false)
  const info = await session.info()
  expect(env.get('KEEP_ME')).toBe('yes')
  expect(env.get('MINE')).toBe('1')
  expect(env.get('LC_ALL')).toBe('C')
  expect(env.get('NODE_OPTIONS')).toBe('--max-old-space-size=99')
  expect(env.get('TERM')).toBe('xterm-256color')
  expect(env.get('POHUNEK_SESSION_ID')).toBe(session.id)
  expect(env.get('POHUNEK_WORKER_ID')).toBe(info.runtime.worker_id)
  expect(env.get('POHUNEK_WORKER_INSTANCE_ID')).toBe(info.runtime.worker_instance_id)
  expect(env.get('POHUNEK_DAEMON_ID')).toBe(it.kernel.kernel.daemonId)
  expect(env.get('POHUNEK_SOCKET_PATH')).toBe(it.roots.socket)
  const tmp = env.get('TMPDIR') ?? ''
  expect(tmp).toContain(session.id)
  expect(statSync(tmp).mode & 0o777).toBe(0o700)
})

test('the base environment follows allow list and removals', () => {
  const base = baseEnvironment({
    daemon: { PATH: '/bin', XDG_X: '1', WATCHDOG_PID: '1', INVOCATION_ID: '2', POHUNEK_ENV: '1', OTHER: 'o' },
    allowlist: ['WATCHDOG_*', 'POHUNEK_ENV'],
    tmpdir: '/t',
  })
  expect(base).toEqual({ PATH: '/bin', XDG_X: '1', TMPDIR: '/t', TERM: 'xterm-256color', COLORTERM: 'truecolor' })
})

test.each([
  ['too many', Object.fromEntries(Array.from({ length: 257 }, (_, n) => [`V${n}`, ''])), /256/],
  ['a long name', { ['N'.repeat(129)]: '' }, /128/],
  ['a long value', { BIG: 'x'.repeat(32_769) }, /BIG has 32769 bytes, at most 32768/],
  ['too much', { A: 'x'.repeat(30_000), B: 'x'.repeat(20_000) }, /40960/],
])('an environment with %s is refused without its values', (_, env, words) => {
  expect(environmentProblem(env)).toMatch(words)
})

test.each([
  ['plain', 'plain'],
  ['a\u001b[201~b', 'ab'],
  ['\u001b[20\u001b[201~1~', ''],
  ['\u009b201~\u009b200~', ''],
  ['\u001b[2J stays', '\u001b[2J stays'],
])('paste marks are removed until none is left: %j', (text, clean) => {
  expect(withoutPasteMarks(text)).toBe(clean)
})

test('empty input is the submit key alone', () => {
  const rules = { bracketedPaste: true, submitDelayMs: 5 }
  expect(inputFragments('', rules, true)).toEqual([{ bytes: 'DQ==', delay_after_ms: 0 }])
  expect(inputFragments('x', rules, false).map((it) => it.delay_after_ms)).toEqual([5, 0])
})
