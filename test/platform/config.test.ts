import { chmodSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { loadConfig, parseConfig } from '../../kernel/config.ts'
import { temporary } from './fixtures/temporary.ts'

const defaults = {
  supervisor: 'auto',
  without: [],
  workers: {
    spares: 1,
    outputHistoryBytes: 10_000_000,
    subscriberQueueBytes: 1_000_000,
    terminalRetentionMs: 86_400_000,
    stopGraceMs: 500,
    sweepGraceMs: 5_000,
  },
  environment: { allowlist: [], searchPath: [] },
  input: { startupGraceMs: 5_000, submitDelayMs: 150, writeStallTimeoutMs: 10_000 },
  waits: { turnDefaultMs: 300_000, turnCeilingMs: 1_800_000 },
  notify: { command: [], timeoutMs: 10_000, kinds: [] },
  logLevel: 'info',
}

test('without a file, or with an empty one, everything has its default', () => {
  expect(loadConfig({ config: temporary() })).toEqual(defaults)
  expect(parseConfig('# nothing\n', 'f')).toEqual(defaults)
})

test('every key', () => {
  const text = `
[supervisor]
kind = "detached"
[plugins]
without = ["observer", "retention"]
[workers]
spares = 3
output_history_bytes = 20_000_000
subscriber_queue_bytes = 2_000_000
terminal_retention_ms = 1
stop_grace_ms = 2
sweep_grace_ms = 3
[environment]
allowlist = ["EDITOR", "MY_*"]
search_path = ["/opt/bin"]
[input]
startup_grace_ms = 4
submit_delay_ms = 5
write_stall_timeout_ms = 6
[waits]
turn_default_ms = 7
turn_ceiling_ms = 8
[notify]
command = ["/bin/notify", "-x"]
timeout_ms = 9
kinds = ["agent_blocked", "error"]
[log]
level = "debug"
`
  expect(parseConfig(text, 'f')).toEqual({
    supervisor: 'detached',
    without: ['observer', 'retention'],
    workers: {
      spares: 3,
      outputHistoryBytes: 20_000_000,
      subscriberQueueBytes: 2_000_000,
      terminalRetentionMs: 1,
      stopGraceMs: 2,
      sweepGraceMs: 3,
    },
    environment: { allowlist: ['EDITOR', 'MY_*'], searchPath: ['/opt/bin'] },
    input: { startupGraceMs: 4, submitDelayMs: 5, writeStallTimeoutMs: 6 },
    waits: { turnDefaultMs: 7, turnCeilingMs: 8 },
    notify: { command: ['/bin/notify', '-x'], timeoutMs: 9, kinds: ['agent_blocked', 'error'] },
    logLevel: 'debug',
  })
})

test.each([
  ['[workers]\nspares = 1\nsparse = 2\n', 'f line 3, workers.sparse: unknown key'],
  ['[worker]\nspares = 1\n', 'f line 1, worker: unknown key'],
  ['\n[workers]\n# few\nspares = 99\n', 'f line 4, workers.spares: '],
  ['[workers]\nspares = 1.5\n', 'f line 2, workers.spares: '],
  ['[notify]\nkinds = ["blocked"]\n', 'f line 2, notify.kinds'],
  ['[workers]\noutput_history_bytes = "much"\n', 'f line 2, workers.output_history_bytes: '],
  ['[log]\nlevel = "loud"\n', 'f line 2, log.level: '],
  ['[plugins]\nobserver = false\n', 'f line 2, plugins.observer: '],
  ['[plugins.detection]\nidle_ms = 700\n', 'f line 1, plugins.detection: unknown key'],
  ['[environment]\nsearch_path = ["bin"]\n', 'f line 2, environment.search_path.0: not an absolute path'],
  ['[environment]\nallowlist = ["A B"]\n', 'f line 2, environment.allowlist.0: not a variable name'],
  ['log = 3\n', 'f line 1, log: '],
  ['[log\n', 'f line 1'],
  ['[log]\nlevel = "info"\nlevel = "warn"\n', 'f line 3'],
])('%j is refused with file, line and key', (text, message) => {
  const failure = (() => {
    try {
      return parseConfig(text, 'f')
    } catch (it) {
      return it as Error
    }
  })()
  expect(failure).toMatchObject({ class: 'configuration', code: 'config_invalid' })
  expect((failure as Error).message.startsWith(message)).toBe(true)
})

test('the file is this user’s alone and small', () => {
  const config = temporary()
  const file = join(config, 'config.toml')
  writeFileSync(file, '[log]\nlevel = "warn"\n', { mode: 0o644 })
  expect(loadConfig({ config }).logLevel).toBe('warn')
  chmodSync(file, 0o664)
  expect(() => loadConfig({ config })).toThrow('others may write it')
  chmodSync(file, 0o600)
  writeFileSync(file, `#${'x'.repeat(65_536)}`)
  expect(() => loadConfig({ config })).toThrow('the limit is 65536')
  const linked = temporary()
  symlinkSync(file, join(linked, 'config.toml'))
  expect(() => loadConfig({ config: linked })).toThrow('symbolic link')
})
