import { writeFileSync, mkdirSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from '../../cli/parse.ts'
import { render } from '../../cli/render.ts'
import { projectCommands } from '../../plugins/worktrees/commands-projects.ts'
import { linkOf, parseItem, renderPrompt } from '../../plugins/worktrees/work-item.ts'
import type { CommandContext, Outcome } from '../../protocol/command.ts'
import { Fault } from '../../protocol/fault.ts'
import { privateRoot } from '../harness/kernel.ts'
import { refused } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import { world } from '../harness/world.ts'
import type { Station } from '../sessions/station.ts'
import { branchOff, grove, repositoryAt, write } from './repository.ts'

interface Ran {
  readonly out: string
  readonly notes: readonly string[]
  readonly ok: unknown
}

/** Runs one command line as the CLI does, against a daemon of the test. */
async function cli(argv: string[], given: { s?: Station; stdin?: string; cwd?: string } = {}): Promise<Ran> {
  const parsed = parse(projectCommands, argv)
  if (!('input' in parsed)) throw new Error('problem' in parsed ? parsed.problem : 'no command')
  const context: Partial<CommandContext> = {
    call: async (method, params) => (await given.s?.call(method, params)) as unknown,
    readInput: () => Promise.resolve(given.stdin ?? ''),
    resolvePath: (base, path) => resolve(base, path),
    cwd: given.cwd ?? '/',
    home: given.s?.roots.work,
    env: {},
  }
  const { ok, human, notes = [] }: Outcome = await parsed.command.run(context as CommandContext, parsed.input)
  return { ok, out: render(human, { columns: undefined, color: false }), notes }
}
const usage = (...argv: string[]): string => {
  const parsed = parse(projectCommands, argv)
  return 'problem' in parsed ? parsed.problem : ''
}
const failed = async (it: Promise<unknown>): Promise<{ code: string; message: string }> => {
  const failure: unknown = await it.catch((problem: unknown) => problem)
  if (!(failure instanceof Fault)) throw new Error(`no fault: ${String(failure)}`)
  return failure
}

describe('prompt render', () => {
  test.each([
    ['${title}: ${body}', { title: 'T', body: 'B' }, 'T: B'],
    ['${title} ${title}', { title: '${body}', body: 'no' }, '${body} ${body}'],
    ['$title ${other} $1 $& ${ title }', { title: 'T' }, '$title ${other} $1 $& ${ title }'],
    ['${title}', { title: '$& $1 $$' }, '$& $1 $$'],
    ['${body}', { description: 'of an issue\r\nline' }, 'of an issue\nline'],
    ['${body}|', { description: null }, '|'],
    ['${title}', { title: '日本\u001b[31m' }, '日本\u001b[31m'],
    ['', {}, ''],
  ])('%s', (template, item, text) => expect(renderPrompt(template, item)).toBe(text))

  test('a template of a file, or title and body; what cannot be is one line', async () => {
    const root = privateRoot()
    const item = JSON.stringify({ title: 'Broken', body: 'It is.\n', url: 'u' })
    const plain = await cli(['prompt', 'render', '--provider', 'linear_issue', '--item-id', 'A-1'], { stdin: item })
    expect(plain).toEqual({ ok: null, notes: [], out: 'Broken\n\nIt is.\n\n' })
    writeFileSync(join(root, 't.tmpl'), '# ${title}\n')
    const render = (file: string, stdin = item) =>
      cli(['prompt', 'render', '--template-file', file], { stdin, cwd: root })
    expect((await render('t.tmpl')).out).toBe('# Broken\n')
    expect((await render(join(root, 't.tmpl'))).out).toBe('# Broken\n')
    for (const [file, stdin, says] of [
      ['gone.tmpl', item, /gone\.tmpl: ENOENT/],
      ['.', item, /EISDIR/],
      ['t.tmpl', '', /no JSON/],
      ['t.tmpl', '[1]', /no JSON object/],
      ['t.tmpl', '{"body":"x"}', /has no title/],
      ['t.tmpl', '{"title":{}}', /has no title/],
    ] as const) {
      const { code, message } = await failed(render(file, stdin))
      expect([code, message]).toEqual(['prompt_render_failed', expect.stringMatching(says)])
    }
    writeFileSync(join(root, 'latin'), Buffer.from([0xe9]))
    expect((await failed(render('latin'))).message).toMatch(/not UTF-8/)
    writeFileSync(join(root, 'large'), Buffer.alloc(262_145, 'a'))
    expect((await failed(render('large'))).message).toMatch(/larger than/)
    expect(usage('prompt', 'render', '--json')).not.toBe('')
    expect(usage('prompt', 'render', '--provider', 'jira')).toMatch(/linear_issue/)
    expect(usage('prompt', 'render', '--template-file', '')).toBe('--template-file is empty')
  })
})

describe('prompt link', () => {
  const LINEAR = {
    id: 'uuid',
    identifier: 'ENG-7',
    title: 'T',
    url: 'https://linear.app/x/ENG-7',
    branchName: 'me/eng-7',
  }
  const GITHUB = { number: 12, title: 'T', url: 'https://github.com/a/b/pull/12', headRefName: 'fix/x=y' }

  test('exactly five lines in one order, whatever the item is', async () => {
    const link = (provider: string, item: unknown, ...more: string[]) =>
      cli(['prompt', 'link', '--provider', provider, ...more], { stdin: JSON.stringify(item) })
    const linear = await link('linear_issue', LINEAR)
    expect(linear.out).toBe(
      'link.provider=linear\nlink.kind=issue\nlink.id=ENG-7\nlink.url=https://linear.app/x/ENG-7\nlink.branch=me/eng-7\n',
    )
    expect(linear.ok).toEqual({
      'link.provider': 'linear',
      'link.kind': 'issue',
      'link.id': 'ENG-7',
      'link.url': 'https://linear.app/x/ENG-7',
      'link.branch': 'me/eng-7',
    })
    expect((await link('github_pr', GITHUB)).out).toBe(
      'link.provider=github\nlink.kind=pr\nlink.id=12\nlink.url=https://github.com/a/b/pull/12\nlink.branch=fix/x=y\n',
    )
    expect((await link('github_pr', {}, '--item-id', '3', '--url', 'u')).out).toBe(
      'link.provider=github\nlink.kind=pr\nlink.id=3\nlink.url=u\nlink.branch=\n',
    )
    expect((await link('github_pr', GITHUB, '--item-id', '9')).out).toContain('link.id=9\n')
  })

  test('what would not be one line of metadata is refused', () => {
    const bad: [Record<string, unknown>, RegExp][] = [
      [{ ...GITHUB, url: undefined }, /no url; pass --url/],
      [{ ...GITHUB, number: undefined }, /no id; pass --item-id/],
      [{ ...GITHUB, url: 'a\nlink.id=b' }, /link\.url would hold control characters/],
      [{ ...GITHUB, headRefName: 'x'.repeat(4_097) }, /link\.branch would be over 4096 bytes/],
      [{ ...GITHUB, url: '' }, /no url/],
    ]
    for (const [item, says] of bad) expect(() => linkOf('github_pr', item, {})).toThrow(says)
    expect(() => parseItem('null')).toThrow(/no JSON object/)
    expect(usage('prompt', 'link')).toBe('prompt link needs --provider')
    expect(usage('prompt', 'link', '--provider', 'none')).toMatch(/github_pr/)
  })

  test('the lines are metadata of a session', async () => {
    const { s } = await grove()
    const { out } = await cli(['prompt', 'link', '--provider', 'github_pr'], { stdin: JSON.stringify(GITHUB) })
    const metadata = Object.fromEntries(
      out
        .trimEnd()
        .split('\n')
        .map((it) => [it.slice(0, it.indexOf('=')), it.slice(it.indexOf('=') + 1)]),
    ) as Record<string, string>
    const info = await s.create({ metadata: { ...metadata, 'link.branch': '' } })
    expect(Object.keys(info.metadata)).toEqual(['link.provider', 'link.kind', 'link.id', 'link.url', 'link.branch'])
  })
})

test('every project command over the life of a project', async () => {
  const { s, repo } = await grove()
  const run = (...argv: string[]) => cli(argv, { s, cwd: s.roots.work })
  expect(await run('project', 'list')).toMatchObject({
    ok: [],
    notes: ['no projects; pohunek project add registers one'],
  })
  const added = await run('project', 'add', 'repo', '--name', 'mine', '--base-branch', 'main')
  const { id } = added.ok as { id: string }
  expect(added.out).toBe(`project ${id} added: mine\nroot ${repo.path}\n`)
  expect((await run('project', 'add', '~/repo')).ok).toMatchObject({ id, label: 'mine' })
  expect((await cli(['project', 'add'], { s, cwd: repo.path })).ok).toMatchObject({ id })
  const bare = repositoryAt(join(s.roots.work, 'there/second'))
  bare.git('config', 'core.bare', 'true')
  await run('project', 'add', 'there/second/.git')
  const list = (await run('project', 'list')).out.split('\n').map((it) => it.trim().split(/ +/))
  expect(list[0]).toEqual(['ID', 'LABEL', 'SOURCE', 'BARE', 'ROOT'])
  expect(list[1]).toEqual([id, 'mine', 'manual', 'no', repo.path])
  expect(list[2]?.slice(2)).toEqual(['manual', 'yes', join(bare.path, '.git')])
  expect((await run('project', 'list', '--filter', 'label=mine', '--filter', 'source=auto')).ok).toEqual([])
  expect((await run('project', 'list', '--filter', `id=${id}`)).ok).toHaveLength(1)

  const tree = await branchOff(s, repo, 'feature')
  const dirty = await branchOff(s, repo, 'dirty')
  const shown = await run('project', 'show', 'mine')
  expect(shown.out).toMatch(/^FIELD +VALUE\nid +p-/)
  expect(shown.out).toContain('\nworktrees (3):\n')
  expect(shown.out).toContain(`\n${repo.path} main\n`)
  expect(shown.out).toContain(`\n${tree.worktree_path} feature [owned, session=${tree.id}]\n`)
  expect(Object.keys(shown.ok as object)).toEqual(['project', 'worktrees'])

  write(repo.path, '.pohunek/prompts/fix.tmpl', 'fix ${title}')
  write(repo.path, '.pohunek/templates.toml', '[template.t]\nagent = "shell"\nprompt = "fix"\nbase_branch = "main"\n')
  const config = join(s.roots.config, 'pohunek')
  mkdirSync(config, { recursive: true, mode: 0o700 })
  write(
    config,
    'actions.toml',
    '[action.a]\ntemplate = "t"\nprovider = "none"\nbranch = "b"\n[action.z]\ntemplate = "t"\nprovider = "github_pr"\n',
  )
  expect(await run('project', 'prompt', 'mine', 'fix')).toMatchObject({
    out: 'fix ${title}',
    notes: ['layer: in_repo'],
  })
  expect((await run('project', 'actions', 'mine')).out).toBe(
    'ACTION\tPROVIDER\tTEMPLATE\tLAYER\na\tnone\tt\thost\nz\tgithub_pr\tt\thost\n',
  )
  // Any directory of its repository names a project.
  for (const directory of [repo.path, join(repo.path, '.pohunek/prompts')])
    expect((await run('project', 'actions', directory)).out).toMatch(/^a\tnone/m)
  await expect(run('project', 'actions', dirname(repo.path))).rejects.toMatchObject({ code: 'project_not_found' })
  expect((await run('project', 'action', 'mine', 'a')).out).toBe(
    'provider: none\nagent: shell\nbase branch: main\nbranch: b\nprompt: fix\n---\nfix ${title}',
  )

  expect((await run('project', 'rename', 'mine', 'yours')).out).toBe(`project ${id}: renamed to "yours"\n`)
  write(dirty.worktree_path, 'unsaved', '')
  for (const it of [tree, dirty]) await s.call('session.stop', it.id)
  const removed = await run('project', 'rm', 'yours', '--prune-worktrees')
  expect(removed.out).toBe(`project yours: removed=true pruned_worktrees=1\nskipped ${dirty.worktree_path}\n`)
  expect(removed.notes).toHaveLength(1)
  expect((await refused(run('project', 'show', 'yours'))).code).toBe('project_not_found')
})

test('the installed commands: a work item becomes a session of its project, which the list finds', async () => {
  const it = await world()
  const repo = repositoryAt(join(it.roots.work, 'My Rëpo'))
  expect(await it.cli(['project', 'add'], { cwd: repo.path })).toMatchObject({ code: 0, stderr: '' })
  write(join(it.roots.config, 'pohunek'), 'prompts/fix.tmpl', '# ${title}\n')
  const item = JSON.stringify({ number: 5, title: 'Tïtle', body: '', url: 'https://example.org/5', headRefName: 'fix' })
  const prompt = await it.cli(['project', 'prompt', 'My Rëpo', 'fix'])
  expect(prompt).toMatchObject({ code: 0, stdout: '# ${title}\n', stderr: 'layer: host\n' })
  write(it.roots.work, 'fix.tmpl', prompt.stdout)
  const rendered = await it.cli(['prompt', 'render', '--template-file', 'fix.tmpl'], { stdin: item })
  expect(rendered).toMatchObject({ code: 0, stdout: '# Tïtle\n' })
  const { stdout } = await it.cli(['prompt', 'link', '--provider', 'github_pr'], { stdin: item })
  const meta = stdout
    .trimEnd()
    .split('\n')
    .flatMap((line) => ['--meta', line])
  const made = await it.cli(['session', 'new', '--project', 'My Rëpo', ...meta])
  const id = /session (\S+) created/.exec(made.stdout)?.[1]
  const list = ['session', 'list', '--filter', 'project=My Rëpo']
  await until('the session shows its project', async () => (await it.cli([...list, '-q'])).stdout === `${id}\n`, {
    deadlineMs: 25_000,
  })
  const row = (await it.cli(list)).stdout.split('\n')[1]
  expect(row).toMatch(/ My Rëpo +main +/)
  expect((await it.cli([...list, '--meta-eq', 'link.id=5', '-q'])).stdout).toBe(`${id}\n`)
  expect((await it.cli(['session', 'list', '--filter', 'project=other', '-q'])).stdout).toBe('')
  const bad = await it.cli(['prompt', 'render'], { stdin: 'no' })
  expect(bad).toMatchObject({ code: 1, stdout: '' })
  expect(bad.stderr).toContain('standard input is no JSON')
})

test('usage problems are told before anything is dialled', () => {
  expect(usage('project', 'list', '--filter', 'state=x')).toMatch(/source, label, id/)
  expect(usage('project', 'list', '--filter', 'label')).toMatch(/source, label, id/)
  expect(usage('project', 'list', '--filter', 'source=x')).toMatch(/auto or manual/)
  expect(usage('project', 'add', '')).toBe('the path is empty')
  expect(usage('project', 'add', '--name', '')).toBe('--name is empty')
  expect(usage('project', 'rename', 'a', ' ')).toBe('the name is blank')
  for (const argv of [['show'], ['rename', 'a'], ['prompt', 'a'], ['action', 'a'], ['actions'], ['rm']])
    expect(usage('project', ...argv)).not.toBe('')
})
