import { chmodSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { officialSet, officialDirectory } from '../../plugins/packages/official.ts'
import { runtimeService } from '../../plugins/packages/registry.ts'
import { planOf, resolveAgent, type Agents } from '../../plugins/packages/resolve.ts'
import type { LaunchPlan } from '../../plugins/sessions/api.ts'
import { Fault } from '../../protocol/fault.ts'
import { privateRoot } from '../harness/kernel.ts'

const official = officialSet(officialDirectory())

function host(): Agents & { put(name: string, text: string, mode?: number): string } {
  const directory = join(privateRoot(), 'agents')
  mkdirSync(join(directory, 'manifests'), { recursive: true, mode: 0o700 })
  return {
    directory,
    env: { SHELL: '/bin/sh' },
    official,
    submitDelayMs: undefined,
    put(name, text, mode = 0o600) {
      const file = join(directory, `${name}.toml`)
      writeFileSync(file, text)
      chmodSync(file, mode)
      return file
    },
  }
}

const empty = (agent: string): LaunchPlan => ({
  agent,
  args: [],
  env: {},
  input: {
    bracketedPaste: false,
    submitDelayMs: 0,
    ready: 'grace',
    textPolicy: 'unrestricted',
    composer: 'none',
    whileWorking: 'queue',
  },
  promptArg: false,
  target: {},
  capabilities: { resume: false, fork: false },
})

function resolvePlan(plan: LaunchPlan, agents: Agents): LaunchPlan {
  const agent = resolveAgent(plan.agent, agents)
  return agent === undefined ? plan : planOf(plan, agent)
}

function refusal(run: () => unknown): Fault {
  try {
    run()
  } catch (failure) {
    if (failure instanceof Fault) return failure
    throw failure
  }
  throw new Error('it was not refused')
}

test('a bare runtime is what its descriptor says', () => {
  expect(resolvePlan(empty('claude'), host())).toMatchObject({
    agentBase: 'claude',
    program: 'claude',
    args: [],
    env: {},
    promptArg: true,
    input: {
      bracketedPaste: true,
      submitDelayMs: 300,
      ready: 'screen_idle',
      textPolicy: 'unrestricted',
      composer: 'required',
      whileWorking: 'queue',
    },
  })
  expect(resolvePlan(empty('hermes'), host())).toMatchObject({
    program: 'hermes',
    args: ['chat'],
    promptArg: false,
    input: { textPolicy: 'hermes_safe_text', startupGraceMs: 15_000, composer: 'none' },
  })
  expect(resolvePlan(empty('shell'), host())).toMatchObject({ program: '/bin/sh', args: ['-l'], agentBase: 'shell' })
  expect(resolvePlan(empty('nobody'), host()).agentBase).toBeUndefined()
})

test('a profile changes what it names and inherits the rest', () => {
  const it = host()
  it.put('mine', 'base = "claude"\n[env]\nCLAUDE_CONFIG_DIR = "/x"\n')
  expect(resolvePlan(empty('mine'), it)).toMatchObject({
    agentBase: 'claude',
    program: 'claude',
    env: { CLAUDE_CONFIG_DIR: '/x' },
    promptArg: false,
    input: { bracketedPaste: true, submitDelayMs: 300, composer: 'required' },
  })
  it.put('quick', 'base = "claude"\nargs = ["-v"]\n[input_rules]\nbracketed_paste = false\nsubmit_delay_ms = 0\n')
  expect(resolvePlan(empty('quick'), it)).toMatchObject({
    args: ['-v'],
    input: { bracketedPaste: false, submitDelayMs: 0, ready: 'screen_idle' },
  })
  it.put('other', 'base = "hermes"\nprogram = "/opt/hermes"\n')
  expect(resolvePlan(empty('other'), it)).toMatchObject({ program: '/opt/hermes', args: ['chat'] })
  it.put('tool', 'base = "shell"\nprogram = "vim"\n')
  expect(resolvePlan(empty('tool'), it)).toMatchObject({ program: 'vim', args: [] })
  it.put('claude', 'base = "claude"\nargs = ["--mine"]\n')
  expect(resolvePlan(empty('claude'), it)).toMatchObject({ args: ['--mine'], promptArg: false })
})

test('the submit delay of the host replaces only one that may be replaced, and a profile has the last word', () => {
  const it = host()
  const delayed = { ...it, submitDelayMs: 40 }
  const delay = (name: string): number => resolvePlan(empty(name), delayed).input.submitDelayMs
  it.put('mine', 'base = "claude"\n')
  it.put('own', 'base = "claude"\n[input_rules]\nsubmit_delay_ms = 7\n')
  expect([delay('claude'), delay('mine'), delay('own'), delay('codex'), delay('shell')]).toEqual([40, 40, 7, 300, 0])
})

const broken: [string, string, string | undefined, RegExp][] = [
  ['text that is no TOML', 'base = \n', undefined, /line 1/],
  ['an unknown key', 'base = "shell"\nbasis = 1\n', 'basis', /unknown key/],
  ['a base that is no id', 'base = "../x"\n', 'base', /runtime id/],
  ['a value of another type', 'base = "shell"\nargs = "x"\n', 'args', /Array/],
  ['a secret of another type', 'base = "shell"\n[env]\nTOKEN = 12345\n', 'env.TOKEN', /string/],
  ['a pin', `base = "claude"\npackage = "p"\ndigest = "sha256:${'0'.repeat(64)}"\n`, 'package', /built in/],
  ['half a pin', 'base = "claude"\npackage = "p"\n', 'digest', /belong together/],
  [
    'a delay without end',
    'base = "claude"\n[input_rules]\nsubmit_delay_ms = 60000\n',
    'input_rules.submit_delay_ms',
    /./,
  ],
  ['resume rules of an assigned base', 'base = "pi"\n[resume]\nresumable = false\n', 'resume', /assigns/],
  [
    'resume without the reference',
    'base = "claude"\n[resume]\nreference_kind = "id"\nargs = ["-r"]\n',
    'resume.args',
    /0 times/,
  ],
  [
    'resume with a reference inside an item',
    'base = "claude"\n[resume]\nreference_kind = "id"\nargs = ["{reference}", "--x={reference}"]\n',
    'resume.args',
    /longer item/,
  ],
  [
    'a fork of a base that cannot be forked',
    'base = "codex"\n[resume]\nreference_kind = "id"\nargs = ["{reference}"]\nfork_args = ["{reference}"]\n',
    'resume.fork_args',
    /cannot be forked/,
  ],
  [
    'resume rules beside resumable',
    'base = "claude"\n[resume]\nresumable = false\nreference_kind = "id"\nargs = ["{reference}"]\n',
    'resume',
    /shape/,
  ],
  ['a manifest outside', 'base = "claude"\nmanifest = "../m"\n', 'manifest', /manifest name/],
  ['a manifest that is not there', 'base = "claude"\nmanifest = "m"\n', 'manifest', /manifests\/m\.toml: is missing/],
]
test.each(broken)('%s in a profile is told with its file and key', (_, text, key, words) => {
  const it = host()
  const file = it.put('bad', text)
  const fault = refusal(() => resolvePlan(empty('bad'), it))
  expect(fault.code).toBe('invalid_profile')
  expect(fault.message.startsWith(`profile ${file}${key === undefined ? '' : `, ${key}`}: `), fault.message).toBe(true)
  expect(fault.message).toMatch(words)
  expect(fault.message).not.toContain('12345')
})

test('valid resume rules are taken', () => {
  const it = host()
  it.put('never', 'base = "claude"\n[resume]\nresumable = false\n')
  it.put(
    'own',
    'base = "claude"\n[resume]\nreference_kind = "path"\nargs = ["-r", "{reference}"]\nfork_args = ["-f", "{reference}"]\n',
  )
  expect(resolvePlan(empty('never'), it).agentBase).toBe('claude')
  expect(resolvePlan(empty('own'), it).agentBase).toBe('claude')
})

test('profiles and manifests of others, and links, are not followed', () => {
  const it = host()
  it.put('open', 'base = "shell"\n', 0o666)
  expect(refusal(() => resolvePlan(empty('open'), it)).message).toContain('open.toml')
  const file = it.put('real', 'base = "shell"\n')
  symlinkSync(file, join(it.directory, 'link.toml'))
  expect(refusal(() => resolvePlan(empty('link'), it)).message).toContain('symbolic link')
  it.put('named', 'base = "claude"\nmanifest = "m"\n')
  const manifest = it.put('manifests/m', '[process]\n', 0o666)
  expect(refusal(() => resolvePlan(empty('named'), it)).message).toContain(manifest)
  chmodSync(manifest, 0o600)
  expect(resolvePlan(empty('named'), it).agentBase).toBe('claude')
  renameSync(manifest, join(it.directory, 'manifests/real.toml'))
  symlinkSync(join(it.directory, 'manifests/real.toml'), manifest)
  expect(refusal(() => resolvePlan(empty('named'), it)).message).toContain('symbolic link')
})

test('a base that is not served is told as such', () => {
  const it = host()
  it.put('gone', 'base = "gemini"\n')
  expect(refusal(() => resolvePlan(empty('gone'), it)).code).toBe('runtime_not_installed')
})

test('a manifest that is not UTF-8 is refused, not read with letters replaced', () => {
  const it = host()
  it.put('mine', 'base = "claude"\nmanifest = "m"\n')
  const file = it.put('manifests/m', '')
  for (const bytes of [
    [0x23, 0x20, 0xff],
    [0x23, 0xc3],
    [0x23, 0xed, 0xa0, 0x80],
  ]) {
    writeFileSync(file, Buffer.from(bytes))
    const fault = refusal(() => resolvePlan(empty('mine'), it))
    expect(fault).toMatchObject({
      code: 'invalid_profile',
      message: `profile ${join(it.directory, 'mine.toml')}, manifest: ${file}: is not UTF-8 text`,
    })
  }
  writeFileSync(file, Buffer.from('# ❯\n'))
  expect(runtimeService(official, it.directory).manifestOf('mine', 'claude')?.text).toBe('# ❯\n')
})

test('a manifest is read again when it, or what the profile names, is another', () => {
  const it = host()
  const runtimes = runtimeService(official, it.directory)
  const own = runtimes.manifestOf('claude', 'claude')
  expect(own).toBe(runtimes.get('claude')?.id === 'claude' ? own : undefined)
  it.put('manifests/a', '# one\n')
  it.put('manifests/b', '# two\n')
  it.put('mine', 'base = "claude"\nmanifest = "a"\n')
  const first = runtimes.manifestOf('mine', 'claude')
  expect(first).toMatchObject({ text: '# one\n', file: join(it.directory, 'manifests/a.toml') })
  expect(runtimes.manifestOf('mine', 'claude')).toBe(first)
  it.put('manifests/a', '# one, changed\n')
  const changed = runtimes.manifestOf('mine', 'claude')
  expect(changed?.text).toBe('# one, changed\n')
  expect(changed?.revision).not.toBe(first?.revision)
  it.put('mine', 'base = "claude"\nmanifest = "b"\n')
  expect(runtimes.manifestOf('mine', 'claude')?.text).toBe('# two\n')
  it.put('mine', 'base = "claude"\nmanifest = "none"\n')
  expect(refusal(() => runtimes.manifestOf('mine', 'claude')).message).toContain('none.toml')
  it.put('mine', 'base = [\n')
  expect(runtimes.manifestOf('mine', 'claude')).toBe(own)
  expect(runtimes.manifestOf('nobody', 'gemini')).toBeUndefined()
})
