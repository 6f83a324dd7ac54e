import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parseDescriptor } from '../../plugins/packages/descriptor.ts'
import { officialSet, officialDirectory } from '../../plugins/packages/official.ts'
import { Fault } from '../../protocol/fault.ts'

const text = (runtime: string): string => readFileSync(join(officialDirectory(), runtime, 'runtime.toml'), 'utf8')
const CLAUDE = text('claude')
const PI = text('pi')

function refusal(source: string): Fault {
  try {
    parseDescriptor(Buffer.from(source), '/x/runtime.toml')
  } catch (failure) {
    if (failure instanceof Fault) return failure
    throw failure
  }
  throw new Error('it was not refused')
}

/** `source` with one line in place of the first that begins with `start`, in the table `table`. */
function changed(source: string, table: string, start: string, line: string): string {
  const lines = source.split('\n')
  const from = table === '' ? 0 : lines.indexOf(`[${table}]`)
  const at = lines.findIndex((it, index) => index >= from && it.startsWith(start))
  if (from < 0 || at < 0) throw new Error(`no ${start} in ${table}`)
  lines[at] = line
  return lines.join('\n')
}

const cases: [string, string, string, string, RegExp][] = [
  ['', 'schema', 'schema = 2', 'schema', /1/],
  ['', 'runtime_api', '', 'runtime_api', /missing/],
  ['', 'id', 'id = "A B"', 'id', /package id/],
  ['', 'version', 'version = "one"', 'version', /MAJOR/],
  ['', 'version', 'version = "1.0.0"\nextra = 1', 'extra', /unknown key/],
  ['runtime', 'id', 'id = "a/b"', 'runtime.id', /runtime id/],
  ['runtime', 'name', `name = "${'ä'.repeat(33)}"`, 'runtime.name', /64 bytes/],
  ['runtime', 'program', 'program = "./claude"', 'runtime.program', /bare name/],
  ['runtime', 'program', 'program = "-x"', 'runtime.program', /bare name/],
  ['runtime', 'program', 'program = "$SHELL"', 'runtime.program', /bare name/],
  ['runtime', 'args', `args = [${'"a",'.repeat(65)}]`, 'runtime.args', /64 items/],
  ['runtime', 'args', `args = ["${'a'.repeat(1025)}"]`, 'runtime.args.0', /1024 bytes/],
  ['runtime', 'detect_manifest', 'detect_manifest = "../x.toml"', 'runtime.detect_manifest', /component/],
  ['runtime', 'prompt_arg', 'prompt_arg = "yes"', 'runtime.prompt_arg', /boolean/],
  ['runtime.version_probe', 'parser', 'parser = "guess"', 'runtime.version_probe.parser', /semver-v1/],
  ['runtime.version_probe', 'parser', 'parser = "semver-v1"', 'runtime.version_probe.line', /unknown key/],
  ['runtime.version_probe', 'args', 'args = []', 'runtime.version_probe.args', /no item/],
  ['runtime.version_probe', 'args', 'args = ["a","b","c","d","e"]', 'runtime.version_probe.args', /4 items/],
  ['runtime.version_probe', 'min', 'min = "2.01.0"', 'runtime.version_probe.min', /MAJOR/],
  ['runtime.version_probe', 'min', 'min = "2.2.0"', 'runtime.version_probe.below', /above min/],
  ['runtime.version_probe', 'timeout_ms', 'timeout_ms = 10001', 'runtime.version_probe.timeout_ms', /10000/],
  ['runtime.version_probe', 'line', 'line = "{version}"', 'runtime.version_probe.line', /no literal/],
  ['runtime.version_probe', 'line', 'line = "v{version} {version}"', 'runtime.version_probe.line', /once/],
  ['runtime.version_probe', 'line', 'line = "v{version} {x}"', 'runtime.version_probe.line', /braces/],
  ['runtime.version_probe', 'line', 'line = " v{version}"', 'runtime.version_probe.line', /space/],
  ['runtime.version_probe', 'line', 'line = "v1.{version}"', 'runtime.version_probe.line', /before/],
  ['runtime.version_probe', 'line', 'line = "v{version}-x"', 'runtime.version_probe.line', /behind/],
  ['runtime.version_probe', 'line', 'line = "v{version} é"', 'runtime.version_probe.line', /ASCII/],
  ['runtime.version_probe', 'line', `line = "{version} ${'x'.repeat(128)}"`, 'runtime.version_probe.line', /128/],
  ['input', 'bracketed_paste', '', 'input.bracketed_paste', /missing/],
  ['input', 'submit_delay_ms', 'submit_delay_ms = -1', 'input.submit_delay_ms', /negative/],
  ['input', 'submit_delay_ms', 'submit_delay_ms = 1.5', 'input.submit_delay_ms', /whole/],
  ['input', 'submit_delay_ms', 'submit_delay_ms = 10001', 'input.submit_delay_ms', /10000/],
  ['input', 'text_policy', 'text_policy = "any"', 'input.text_policy', /unrestricted/],
  ['input', 'ready', 'ready = "grace"', 'input.ready', /screen_idle/],
  ['input', 'ready', 'startup_grace_ms = 1000000', 'input.startup_grace_ms', /120000/],
  ['input', 'composer', 'composer = "maybe"', 'input.composer', /required/],
  ['input', 'while_working', 'while_working = "drop"', 'input.while_working', /queue/],
  ['resume', 'supported', 'supported = false', 'resume.reference_kind', /unknown key/],
  ['resume', 'reference_kind', 'reference_kind = "path"', 'resume.reference_kind', /is not id/],
  ['resume', 'args', 'args = ["--resume={reference}"]', 'resume.args', /0 times/],
  ['resume', 'args', 'args = ["{reference}", "{reference}"]', 'resume.args', /2 times/],
  ['fork', 'args', 'args = ["--fork"]', 'fork.args', /0 times/],
  ['native_reference', 'strategy', 'strategy = "none"', 'native_reference.existence', /unknown key/],
  ['native_reference', 'strategy', 'strategy = "assigned"', 'native_reference.launch_args', /missing/],
  ['native_reference.existence', 'check', 'check = "stat"', 'native_reference.existence.check', /file/],
  ['native_reference.existence', 'check', 'check = "none"', 'native_reference.existence.root_env', /unknown key/],
  ['native_reference.existence', 'root_env', 'root_env = "home"', 'native_reference.existence.root_env', /upper-case/],
  ['native_reference.existence', 'root_env', 'root_env = "POHUNEK_X"', 'native_reference.existence.root_env', /ours/],
  ['native_reference.existence', 'dir', 'dir = "../x"', 'native_reference.existence.dir', /relative/],
  ['native_reference.existence', 'dir', 'dir = "/x"', 'native_reference.existence.dir', /relative/],
  ['native_reference.existence', 'file_name', 'file_name = "x.jsonl"', 'native_reference.existence.file_name', /one/],
  [
    'native_reference.existence',
    'file_name',
    'file_name = "a/{reference}"',
    'native_reference.existence.file_name',
    /component/,
  ],
  ['native_reference.existence', 'max_depth', 'max_depth = 5', 'native_reference.existence.max_depth', /4/],
  ['integration', 'handler', 'handler = "hermes-hook-v1"', 'integration.hook_schema', /belong/],
  ['integration', 'handler', 'handler = "mine"', 'integration.handler', /codex-hook-v1/],
  ['integration', 'hook_schema', '', 'integration.hook_schema', /missing/],
  ['config_home', 'default', '', 'config_home.default', /missing/],
  ['config_home', 'default', 'default = "~/.claude"', 'config_home.default', /relative/],
  ['transcripts', 'parser', 'parser = "other"', 'transcripts.parser', /claude-v1/],
  ['reports', 'osc_7501_app', 'osc_7501_app = "a b"', 'reports.osc_7501_app', /app name/],
]
test.each(cases)('[%s] %s = %s is refused as %s', (table, start, line, key, words) => {
  const fault = refusal(changed(CLAUDE, table, start, line))
  expect(fault.code).toBe('package_descriptor_invalid')
  expect(fault.message.startsWith(`runtime descriptor /x/runtime.toml, ${key}: `), fault.message).toBe(true)
  expect(fault.message).toMatch(words)
})

test.each([
  ['native_reference', 'launch_args', 'launch_args = ["--id"]', 'native_reference.launch_args'],
  ['native_reference', 'assign_fork', 'assign_fork = false', 'fork.args'],
  ['fork', 'args', 'args = ["--fork", "{reference}"]', 'fork.args'],
  ['native_reference', 'strategy', 'strategy = "hook"', 'native_reference.launch_args'],
  [
    'native_reference.existence',
    'relocating_settings',
    'relocating_settings = { file = "x", keys = [] }',
    'native_reference.existence.relocating_settings.keys',
  ],
])('of an assigned reference, [%s] %s = %s is refused as %s', (table, start, line, key) => {
  expect(refusal(changed(PI, table, start, line)).message).toContain(`, ${key}: `)
})

test('text that is no TOML, or no text, is told with its line', () => {
  expect(refusal('schema = 1\nruntime_api =\n').message).toContain('line 2')
  expect(() => parseDescriptor(Buffer.from([0xff, 0xfe]), 'f')).toThrow(/UTF-8/)
})

test('what the descriptors of this build say', () => {
  const { runtimes } = officialSet(officialDirectory())
  const facts = [...runtimes.values()].map(({ id, descriptor: it }) => [
    id,
    it.runtime.program,
    it.runtime.promptArg,
    it.input.composer,
    it.input.whileWorking,
    it.nativeReference.strategy,
    it.reports?.osc7501App,
  ])
  expect(facts).toEqual([
    ['claude', 'claude', true, 'required', 'queue', 'hook', 'claude-code'],
    ['codex', 'codex', true, 'required', 'steer', 'hook', 'codex'],
    ['hermes', 'hermes', false, 'none', 'queue', 'hook', undefined],
    ['pi', 'pi', true, 'required', 'steer', 'assigned', undefined],
    ['shell', '$SHELL', false, 'none', 'queue', 'none', undefined],
  ])
  expect(new Set([...runtimes.values()].map((it) => it.digest)).size).toBe(5)
})
