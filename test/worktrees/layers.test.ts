import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { checkName, contains } from '../../plugins/worktrees/config-layers.ts'
import { refused } from '../harness/session.ts'
import type { Answer, WireError } from '../harness/wire.ts'
import type { Station } from '../sessions/station.ts'
import { git, grove, repositoryAt, write, type Repository } from './repository.ts'

interface Layers {
  s: Station
  repo: Repository
  /** Root of the layer of the host. */
  host: string
  inRepo: string
  prompt(name: string): Promise<Answer>
  action(name: string): Promise<Answer>
  actions(): Promise<Answer>
}

async function layers(): Promise<Layers> {
  const { s, repo } = await grove()
  const { id: reference } = await s.call('project.add', { path: repo.path })
  return {
    s,
    repo,
    host: join(s.roots.config, 'pohunek'),
    inRepo: join(repo.path, '.pohunek'),
    prompt: (name) => s.call('project.prompt', { reference, name }),
    action: (name) => s.call('project.action', { reference, name }),
    actions: () => s.call('project.actions', { reference }),
  }
}

async function refusal(it: Promise<Answer>, code: string, says: RegExp | string = ''): Promise<WireError> {
  const answer = await refused(it)
  expect([answer.code, answer.body.msg]).toEqual([code, expect.stringMatching(says)])
  return answer
}

test('a prompt of the repository stands before that of the host, and is read anew each time', async () => {
  const it = await layers()
  await refusal(
    it.prompt('fix'),
    'prompt_not_found',
    /\.pohunek\/prompts\/fix\.tmpl or .*\/pohunek\/prompts\/fix\.tmpl/,
  )
  write(it.host, 'prompts/fix.tmpl', 'host ${title}\n')
  expect(await it.prompt('fix')).toEqual({ name: 'fix', content: 'host ${title}\n', layer: 'host' })
  write(it.inRepo, 'prompts/fix.tmpl', 'Ours: ${body} ${title}')
  expect(await it.prompt('fix')).toEqual({ name: 'fix', content: 'Ours: ${body} ${title}', layer: 'in_repo' })
  write(it.inRepo, 'prompts/fix.tmpl', '')
  expect(await it.prompt('fix')).toEqual({ name: 'fix', content: '', layer: 'in_repo' })
  // Of a linked tree the main checkout's is meant.
  const linked = join(it.s.roots.work, 'linked')
  it.repo.git('worktree', 'add', '--quiet', linked)
  write(linked, '.pohunek/prompts/fix.tmpl', 'of the branch')
  const { id: reference } = await it.s.call('project.add', { path: linked })
  expect((await it.s.call('project.prompt', { reference, name: 'fix' })).content).toBe('')
})

test('a bare repository has the layer of the host alone', async () => {
  const it = await layers()
  const bare = join(it.s.roots.work, 'bare.git')
  git(it.s.roots.work, 'clone', '--quiet', '--bare', it.repo.path, bare)
  const { id: reference } = await it.s.call('project.add', { path: bare })
  write(bare, '.pohunek/prompts/fix.tmpl', 'in the bare one')
  await refusal(it.s.call('project.prompt', { reference, name: 'fix' }), 'prompt_not_found')
  write(it.host, 'prompts/fix.tmpl', 'host')
  expect((await it.s.call('project.prompt', { reference, name: 'fix' })).layer).toBe('host')
})

test('names are one part of a path', async () => {
  const it = await layers()
  write(it.s.roots.config, 'pohunek/secret.tmpl', 'secret')
  for (const name of [
    '',
    '.',
    '..',
    '../secret',
    'a/b',
    '.hidden',
    '-x',
    'a..b',
    'a b',
    'a\0b',
    'é',
    'x'.repeat(201),
  ]) {
    await refusal(it.prompt(name), 'invalid_name')
    await refusal(it.action(name), 'invalid_name')
  }
  for (const name of ['a', 'A.b-c_9', '_x', '9']) expect(() => checkName('prompt', name)).not.toThrow()
  await refusal(it.s.call('project.prompt', { reference: 'other', name: 'a' }), 'project_not_found')
})

test('nothing outside of a layer is read, however it is linked, and no other layer stands in for it', async () => {
  const it = await layers()
  const outside = join(it.s.roots.work, 'outside')
  write(outside, 'prompts/fix.tmpl', 'secret')
  write(outside, 'actions.toml', '')
  write(it.host, 'prompts/fix.tmpl', 'host')
  const prompts = join(it.inRepo, 'prompts')
  mkdirSync(prompts, { recursive: true })
  // The file itself.
  symlinkSync(join(outside, 'prompts/fix.tmpl'), join(prompts, 'fix.tmpl'))
  const answer = await refusal(it.prompt('fix'), 'path_escape', /fix\.tmpl leaves/)
  expect(answer.body.msg).not.toContain('secret')
  expect(answer.body.msg).not.toContain(outside)
  // Of the repository, and still not of the layer.
  symlinkSync('../../read.me', join(prompts, 'readme.tmpl'))
  await refusal(it.prompt('readme'), 'path_escape')
  // Within the layer.
  write(it.inRepo, 'shared/text', 'shared')
  symlinkSync('../shared/text', join(prompts, 'inside.tmpl'))
  expect((await it.prompt('inside')).content).toBe('shared')
  // The layer as a whole may be elsewhere in the repository.
  renameSync(it.inRepo, join(it.repo.path, 'config'))
  symlinkSync('config', it.inRepo)
  expect((await it.prompt('inside')).content).toBe('shared')
  await refusal(it.prompt('fix'), 'path_escape')
  // A directory on the way.
  renameSync(prompts, join(it.inRepo, 'old'))
  symlinkSync(join(outside, 'prompts'), prompts)
  await refusal(it.prompt('fix'), 'path_escape')
  symlinkSync(join(outside, 'actions.toml'), join(it.inRepo, 'actions.toml'))
  await refusal(it.actions(), 'path_escape')
  // The layer as a whole.
  renameSync(it.inRepo, join(it.repo.path, 'unused'))
  symlinkSync(outside, it.inRepo)
  await refusal(it.prompt('fix'), 'path_escape', /\.pohunek leaves/)
  await refusal(it.actions(), 'path_escape')
})

test('what is no plain text file of a bounded size is refused by name', async () => {
  const it = await layers()
  const prompts = join(it.inRepo, 'prompts')
  write(it.host, 'prompts/x.tmpl', 'host')
  const put = (name: string, make: (path: string) => void): string => {
    mkdirSync(prompts, { recursive: true })
    make(join(prompts, `${name}.tmpl`))
    return name
  }
  const fifo = put('fifo', (path) => execFileSync('mkfifo', [path]))
  await refusal(it.prompt(fifo), 'config_read_failed', /fifo\.tmpl: is not a regular file/)
  await refusal(it.prompt(put('folder', (path) => mkdirSync(path))), 'config_read_failed', /not a regular file/)
  await refusal(it.prompt(put('zero', (path) => symlinkSync('/dev/zero', path))), 'path_escape')
  await refusal(
    it.prompt(put('large', (path) => writeFileSync(path, Buffer.alloc(262_145, 'a')))),
    'config_read_failed',
    /larger than 262144 bytes/,
  )
  expect(
    (await it.prompt(put('most', (path) => writeFileSync(path, Buffer.alloc(262_144, 'a'))))).content,
  ).toHaveLength(262_144)
  await refusal(
    it.prompt(put('latin', (path) => writeFileSync(path, Buffer.from([0x61, 0xe9])))),
    'config_read_failed',
    /not UTF-8/,
  )
  await refusal(it.prompt(put('nowhere', (path) => symlinkSync('gone', path))), 'config_read_failed')
  await refusal(it.prompt(put('loop', (path) => symlinkSync('loop.tmpl', path))), 'config_read_failed', /loop of links/)
  if (process.geteuid?.() !== 0)
    await refusal(it.prompt(put('shut', (path) => (writeFileSync(path, ''), chmodSync(path, 0)))), 'config_read_failed')
  // A layer that is a file has no files.
  renameSync(it.inRepo, join(it.repo.path, 'away'))
  writeFileSync(it.inRepo, 'text')
  expect((await it.prompt('x')).layer).toBe('host')
})

const TEMPLATES = `
[template.review]
agent = "claude"
prompt = "review"
base_branch = "develop"
`
const ACTIONS = `
[action.look]
template = "review"
provider = "github_pr"
[action.chore]
template = "review"
provider = "none"
branch = "chore/x"
`

test('an action is its template and its prompt, each from the first layer that has it', async () => {
  const it = await layers()
  await refusal(it.action('look'), 'action_not_found', /actions\.toml or .*actions\.toml/)
  expect(await it.actions()).toEqual({ actions: [] })
  write(it.host, 'actions.toml', ACTIONS)
  await refusal(it.action('look'), 'template_not_found', /review/)
  write(it.host, 'templates.toml', TEMPLATES)
  await refusal(it.action('look'), 'prompt_not_found', /review/)
  write(it.host, 'prompts/review.tmpl', 'host')
  expect(await it.action('look')).toEqual({
    provider: 'github_pr',
    agent: 'claude',
    base_branch: 'develop',
    prompt_name: 'review',
    prompt_content: 'host',
  })
  expect(await it.action('chore')).toMatchObject({ provider: 'none', branch: 'chore/x' })
  write(it.inRepo, 'templates.toml', '[template.review]\nagent = "codex"\nprompt = "short"\n')
  write(it.inRepo, 'prompts/short.tmpl', 'short')
  expect(await it.action('look')).toEqual({
    provider: 'github_pr',
    agent: 'codex',
    prompt_name: 'short',
    prompt_content: 'short',
  })
  write(it.inRepo, 'actions.toml', '[action.look]\ntemplate = "review"\nprovider = "linear_issue"\n')
  expect(await it.actions()).toEqual({
    actions: [
      { name: 'chore', provider: 'none', template: 'review', layer: 'host' },
      { name: 'look', provider: 'linear_issue', template: 'review', layer: 'in_repo' },
    ],
  })
})

test('a recipe that is malformed is refused with file and key, never with what it holds', async () => {
  const it = await layers()
  write(it.host, 'actions.toml', ACTIONS)
  write(it.host, 'templates.toml', TEMPLATES)
  write(it.host, 'prompts/review.tmpl', '')
  const cases: [string, RegExp][] = [
    ['[action', /actions\.toml: line 1: /],
    ['[action.look]\nprovider = "none"', /action\.look\.template is missing/],
    ['[action.look]\ntemplate = "a"', /action\.look\.provider is missing/],
    [
      '[action.look]\ntemplate = "a"\nprovider = "secret"',
      /action\.look\.provider must be linear_issue, github_pr, none$/,
    ],
    ['[action.look]\ntemplate = "../secret"\nprovider = "none"', /action\.look\.template is not a name$/],
    ['[action.look]\ntemplate = "a"\nprovider = "none"\nsecret = 1', /action\.look\.secret is an unknown key/],
    ['[action.look]\ntemplate = "a"\nprovider = "github_pr"\nbranch = "secret"', /which only provider none may have$/],
    ['[action.look]\ntemplate = "a"\nprovider = "none"\nbranch = "-secret"', /branch is not a branch name$/],
    ['[action."a b"]\ntemplate = "a"\nprovider = "none"', /is not a name$/],
    ['[template.x]\nagent = "a"\nprompt = "b"', /template is an unknown key/],
    ['action = 1', /action has the wrong type/],
    [`# ${'x'.repeat(65_536)}`, /larger than 65536 bytes/],
  ]
  for (const [text, says] of cases) {
    write(it.inRepo, 'actions.toml', text)
    const code = says.source.startsWith('larger') ? 'config_read_failed' : 'invalid_action'
    for (const ask of [() => it.actions(), () => it.action('chore')]) {
      const answer = await refusal(ask(), code, says)
      if (!/unknown key/.test(answer.body.msg)) expect(answer.body.msg).not.toContain('secret')
    }
  }
  write(it.inRepo, 'actions.toml', '')
  write(it.inRepo, 'templates.toml', '[template.review]\nagent = "a"')
  await refusal(it.action('look'), 'invalid_template', /templates\.toml: template\.review\.prompt is missing/)
  write(it.inRepo, 'templates.toml', '[template.review]\nagent = "a/b"\nprompt = "x"')
  await refusal(it.action('look'), 'invalid_template', /agent is not a name/)
})

test('FC-7f56: the layer of a repository with any name', async () => {
  const it = await layers()
  const repo = repositoryAt(join(it.s.roots.work, 'Ä "b"\n$(id)'))
  write(repo.path, '.pohunek/prompts/fix.tmpl', 'there')
  const { id: reference } = await it.s.call('project.add', { path: repo.path })
  expect((await it.s.call('project.prompt', { reference, name: 'fix' })).content).toBe('there')
})

test('containment is by whole parts of a path', () => {
  expect(contains('/a', '/a')).toBe(true)
  expect(contains('/a', '/a/b')).toBe(true)
  expect(contains('/a', '/a/..b')).toBe(true)
  expect(contains('/a', '/ab')).toBe(false)
  expect(contains('/a', '/')).toBe(false)
  expect(contains('/a/b', '/a/c')).toBe(false)
})
