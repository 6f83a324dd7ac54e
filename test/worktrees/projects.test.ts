import { chownSync, existsSync, mkdirSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import worktrees from '../../plugins/worktrees/plugin.ts'
import { fnv1a64, freeId, labelOf, Projects, projectTable } from '../../plugins/worktrees/projects.ts'
import { findRepository, type Repository } from '../../plugins/worktrees/git/repository.ts'
import { Git } from '../../plugins/worktrees/git/run.ts'
import { redacted } from '../../plugins/worktrees/urls.ts'
import { manualClock, systemClock } from '../../kernel/clock.ts'
import { memoryLog, privateRoot } from '../harness/kernel.ts'
import { memoryTables } from '../harness/memory-tables.ts'
import { refused } from '../harness/session.ts'
import { station, type Station } from '../sessions/station.ts'
import { branchOff, git, grove, read, repositoryAt, write } from './repository.ts'
import { shows } from './walk.ts'

const labels = async (s: Station): Promise<string[]> =>
  ((await s.call('project.list')) as { label: string }[]).map((it) => it.label)

test('a session in a work tree registers its project; main checkout and linked trees are one', async () => {
  const { s, repo } = await grove()
  expect(await s.call('project.list')).toEqual([])
  const first = await s.create({ cwd: repo.path })
  const { project_id } = await shows(s, first.id, { project_label: 'repo' })
  const linked = join(s.roots.work, 'linked')
  repo.git('worktree', 'add', '--quiet', '-b', 'side', linked)
  mkdirSync(join(linked, 'deep'))
  const second = await s.create({ cwd: join(linked, 'deep') })
  await shows(s, second.id, { project_id, repo: repo.path, branch: 'side', is_linked_worktree: true })
  const third = await s.create({ cwd: s.roots.work })
  const [project, ...more] = await s.call('project.list')
  expect(more).toEqual([])
  expect(project).toEqual({
    id: project_id,
    label: 'repo',
    repo_root: repo.path,
    git_common_dir: join(repo.path, '.git'),
    source: 'auto',
    is_bare: false,
    added_at: project.added_at,
    last_used_at: project.added_at,
  })
  expect(project_id).toBe(`p-${fnv1a64(join(repo.path, '.git')).toString(16).padStart(16, '0').slice(0, 8)}`)
  for (const value of ['repo', project_id]) {
    const found = await s.call('session.list', { filters: [{ key: 'project', value }] })
    expect(found.map((it: { id: string }) => it.id).sort()).toEqual([first.id, second.id].sort())
  }
  expect(await s.call('session.inspect', third.id)).not.toHaveProperty('project_id')
})

test('projects outlive the daemon; a new label and a removal reach the sessions', async () => {
  const { s, repo } = await grove()
  const { id } = await s.create({ cwd: repo.path })
  const { project_id } = await shows(s, id, { project_label: 'repo' })
  await s.restart()
  expect(await s.call('project.list')).toMatchObject([{ id: project_id, label: 'repo' }])
  expect(await s.call('project.rename', { reference: 'repo', name: ' new name ' })).toMatchObject({ label: 'new name' })
  await shows(s, id, { project_id, project_label: 'new name' })
  expect(await s.call('project.remove', { reference: 'new name' })).toEqual({ removed: true, pruned_worktrees: 0 })
  const info = await shows(s, id, { project_id: undefined, project_label: undefined })
  expect(info.repo).toBe(repo.path)
  expect(await s.call('project.list')).toEqual([])
  await s.restart()
  expect(await s.call('project.list')).toEqual([])
  expect(existsSync(join(repo.path, 'read.me'))).toBe(true)
})

test('added by hand: from any directory of it, with a name and a base branch, again to change them', async () => {
  const { s, repo } = await grove()
  repo.git('remote', 'add', 'origin', 'https://me:secret@example.org/repo.git?token=abc')
  repo.git('branch', 'develop')
  mkdirSync(join(repo.path, 'deep'))
  symlinkSync(repo.path, join(s.roots.work, 'other-name'))
  const added = await s.call('project.add', { path: join(s.roots.work, 'other-name/deep') })
  expect(added).toMatchObject({
    label: 'repo',
    repo_root: repo.path,
    origin_url: 'https://example.org/repo.git',
    source: 'manual',
  })
  expect(added).not.toHaveProperty('default_base_branch')
  const again = await s.call('project.add', { path: repo.path, name: 'mine', base_branch: 'develop' })
  expect(again).toEqual({ ...added, label: 'mine', default_base_branch: 'develop' })
  repo.git('remote', 'remove', 'origin')
  const later = await s.call('project.add', { path: repo.path })
  expect(later).toMatchObject({ label: 'mine', default_base_branch: 'develop' })
  expect(later).not.toHaveProperty('origin_url')
  // What was detected becomes one that was added.
  const second = repositoryAt(join(s.roots.work, 'second'))
  const { id } = await s.create({ cwd: second.path })
  await shows(s, id, { project_label: 'second' })
  const list = (value: string) => s.call('project.list', { filters: [{ key: 'source', value }] })
  expect(await list('auto')).toMatchObject([{ label: 'second' }])
  expect(await list('manual')).toMatchObject([{ label: 'mine' }])
  await s.call('project.add', { path: second.path })
  expect(await list('auto')).toEqual([])
  expect(
    await s.call('project.list', {
      filters: [
        { key: 'id', value: added.id },
        { key: 'label', value: 'x' },
      ],
    }),
  ).toEqual([])
  expect(read(s.roots.data, 'pohunek/metadata.jsonl')).not.toMatch(/secret|token/)
})

test('bare repositories, submodules and separate git directories have the root a person would name', async () => {
  const { s, repo } = await grove()
  const bare = join(s.roots.work, 'kept.git')
  git(s.roots.work, 'clone', '--quiet', '--bare', repo.path, bare)
  const linked = join(s.roots.work, 'of-bare')
  git(bare, 'worktree', 'add', '--quiet', linked, 'main')
  expect(await s.call('project.add', { path: linked })).toMatchObject({ label: 'kept', is_bare: true, repo_root: bare })
  expect(await s.call('project.add', { path: bare })).toMatchObject({ label: 'kept', is_bare: true, repo_root: bare })
  repo.git('submodule', '--quiet', 'add', bare, 'inner')
  const inner = join(repo.path, 'inner')
  expect(await s.call('project.add', { path: inner })).toMatchObject({
    label: 'inner',
    is_bare: false,
    repo_root: inner,
    git_common_dir: join(repo.path, '.git/modules/inner'),
  })
  const apart = join(s.roots.work, 'apart')
  git(s.roots.work, 'init', '--quiet', `--separate-git-dir=${join(s.roots.work, 'elsewhere')}`, apart)
  expect(await s.call('project.add', { path: apart })).toMatchObject({ label: 'apart', repo_root: apart })
  expect(await s.call('project.list')).toHaveLength(3)
})

test('what cannot be is refused and leaves nothing', async () => {
  const { s, repo } = await grove()
  const plain = join(s.roots.work, 'plain')
  write(plain, 'file', '')
  const cases: [string, Record<string, unknown>, string][] = [
    ['project.add', { path: plain }, 'not_a_git_repo'],
    ['project.add', { path: join(plain, 'file') }, 'not_a_git_repo'],
    ['project.add', { path: join(plain, 'gone') }, 'not_a_git_repo'],
    ['project.add', { path: 'repo' }, 'bad_request'],
    ['project.add', {}, 'bad_request'],
    ['project.add', { path: repo.path, name: '  ' }, 'bad_request'],
    ['project.add', { path: repo.path, name: 'a\nb' }, 'bad_request'],
    ['project.add', { path: repo.path, name: 'x'.repeat(129) }, 'bad_request'],
    ['project.add', { path: repo.path, base_branch: 'nowhere' }, 'invalid_base_branch'],
    ['project.add', { path: repo.path, base_branch: '-x' }, 'invalid_base_branch'],
    ['project.show', { reference: 'repo' }, 'project_not_found'],
    ['project.rename', { reference: 'repo', name: 'x' }, 'project_not_found'],
    ['project.remove', { reference: '' }, 'project_not_found'],
    ['project.list', { filters: [{ key: 'source', value: 'other' }] }, 'bad_request'],
  ]
  for (const [method, params, code] of cases)
    expect([method, params, (await refused(s.call(method, params))).code]).toEqual([method, params, code])
  expect(await s.call('project.list')).toEqual([])
  await s.call('project.add', { path: repo.path })
  expect((await refused(s.call('project.rename', { reference: 'repo', name: '\t' }))).code).toBe('bad_request')
})

test('a label of two projects is ambiguous, an id never is', async () => {
  const { s, repo } = await grove()
  const other = repositoryAt(join(s.roots.work, 'there/repo'))
  const a = await s.call('project.add', { path: repo.path })
  const b = await s.call('project.add', { path: other.path })
  const answer = await refused(s.call('project.show', { reference: 'repo' }))
  expect(answer.code).toBe('project_ambiguous')
  expect(answer.body.msg).toContain(a.id)
  expect(answer.body.msg).toContain(b.id)
  expect((await s.call('project.show', { reference: b.id })).project.repo_root).toBe(other.path)
  // A label that is another project's id does not hide it.
  await s.call('project.rename', { reference: a.id, name: b.id })
  expect((await s.call('project.show', { reference: b.id })).project.repo_root).toBe(other.path)
})

test('a project shows its trees, and --prune-worktrees takes only ours that hold nothing', async () => {
  const { s, repo } = await grove()
  await s.call('project.add', { path: repo.path })
  const foreign = join(s.roots.work, 'foreign')
  repo.git('worktree', 'add', '--quiet', '--detach', foreign)
  repo.git('worktree', 'lock', foreign)
  const clean = await branchOff(s, repo, 'clean')
  const dirty = await branchOff(s, repo, 'dirty')
  const used = await branchOff(s, repo, 'used')
  write(dirty.worktree_path, 'unsaved', 'work')
  for (const it of [clean, dirty]) await s.call('session.stop', it.id)
  const head = repo.git('rev-parse', 'HEAD')
  const shown = await s.call('project.show', { reference: 'repo' })
  const owned = (it: { id: string; worktree_path: string; branch: string }) => ({
    path: it.worktree_path,
    branch: it.branch,
    head,
    session_id: it.id,
    bare: false,
    locked: false,
    owned: true,
  })
  const trees = [
    { path: repo.path, branch: 'main', head, bare: false, locked: false, owned: false },
    { path: foreign, head, bare: false, locked: true, owned: false },
    ...[clean, dirty, used].map(owned),
  ]
  expect(new Set(shown.worktrees)).toEqual(new Set(trees))
  const removed = await s.call('project.remove', { reference: 'repo', prune_worktrees: true })
  expect(removed).toMatchObject({ removed: true, pruned_worktrees: 1 })
  expect(removed.skipped_worktrees.sort()).toEqual([dirty.worktree_path, used.worktree_path].sort())
  expect(existsSync(clean.worktree_path)).toBe(false)
  expect(read(dirty.worktree_path, 'unsaved')).toBe('work')
  expect(repo.trees().sort()).toEqual([repo.path, foreign, dirty.worktree_path, used.worktree_path].sort())
  expect(repo.branches()).toEqual(['clean', 'dirty', 'main', 'used'])
})

test('a project whose repository was deleted can still be shown and removed', async () => {
  const { s, repo } = await grove()
  const { id } = await s.call('project.add', { path: repo.path })
  rmSync(repo.path, { recursive: true })
  expect((await s.call('project.show', { reference: id })).worktrees).toEqual([])
  expect(await s.call('project.remove', { reference: id, prune_worktrees: true })).toMatchObject({ removed: true })
})

test('a registry that cannot be written refuses what is asked and changes nothing', async () => {
  const diskFull = { now: false }
  const { s, repo } = await grove({ diskFull, allowErrors: true })
  await s.call('project.add', { path: repo.path })
  diskFull.now = true
  expect((await refused(s.call('project.rename', { reference: 'repo', name: 'x' }))).code).toBe('project_store_error')
  expect((await refused(s.call('project.remove', { reference: 'repo' }))).code).toBe('project_store_error')
  const other = repositoryAt(join(s.roots.work, 'other'))
  expect((await refused(s.call('project.add', { path: other.path }))).code).toBe('project_store_error')
  diskFull.now = false
  expect(await s.call('project.list')).toMatchObject([{ label: 'repo' }])
})

test('FC-7f56: names with spaces, quotes, line feeds and other letters are taken as they are', async () => {
  const { s } = await grove()
  const names = ["My Rëpo $(id) 'x'", 'two\nlines', '-dash "quoted" `id`', 'Проект 日本']
  const shown = ["My Rëpo $(id) 'x'", 'two lines', '-dash "quoted" `id`', 'Проект 日本']
  for (const [at, name] of names.entries()) {
    const repo = repositoryAt(join(s.roots.work, name))
    mkdirSync(join(repo.path, name))
    const linked = join(s.roots.work, `${name} linked`)
    repo.git('worktree', 'add', '--quiet', '-b', 'wörk/x', linked)
    const { id } = await s.create({ cwd: join(repo.path, name) })
    const label = shown[at]
    await shows(s, id, { project_label: label, repo: repo.path, branch: 'main', is_linked_worktree: false })
    const inLinked = await s.create({ cwd: linked })
    await shows(s, inLinked.id, { project_label: label, repo: repo.path, branch: 'wörk/x', is_linked_worktree: true })
    const { project, worktrees: trees } = await s.call('project.show', { reference: label })
    expect(project).toMatchObject({ repo_root: repo.path, git_common_dir: join(repo.path, '.git') })
    expect(trees.map((it: { path: string; branch: string }) => [it.path, it.branch])).toEqual([
      [repo.path, 'main'],
      [linked, 'wörk/x'],
    ])
  }
  expect((await labels(s)).sort()).toEqual([...shown].sort())
})

test('FC-a45f: the repositories of a daemon inside a session do not enter the registry of the outer one', async () => {
  const outer = await grove()
  const host = await outer.s.create({ cwd: outer.repo.path })
  await shows(outer.s, host.id, { project_label: 'repo' })
  // What a daemon that is started in that session finds in its environment, with directories of its own.
  const inner = await station({
    plugins: [worktrees],
    env: { POHUNEK_SESSION_ID: host.id, POHUNEK_SOCKET_PATH: outer.s.roots.socket, POHUNEK_DAEMON_ID: 'd-outer' },
  })
  const throwaway = repositoryAt(join(inner.roots.work, 'throwaway'))
  const { id } = await inner.create({ cwd: throwaway.path })
  await shows(inner, id, { project_label: 'throwaway' })
  await inner.call('project.add', { path: repositoryAt(join(inner.roots.work, 'second')).path })
  expect(await labels(inner)).toEqual(['second', 'throwaway'])
  expect(await labels(outer.s)).toEqual(['repo'])
  await outer.s.restart()
  expect(await labels(outer.s)).toEqual(['repo'])
})

test('a repository of somebody else is no project', async () => {
  if (process.geteuid?.() !== 0) return
  const { s, repo } = await grove()
  for (const it of [repo.path, join(repo.path, '.git')]) chownSync(it, 12_345, 12_345)
  const answer = await refused(s.call('project.add', { path: repo.path }))
  expect(answer.code).toBe('not_a_git_repo')
  expect(answer.body.msg).toMatch(/dubious ownership/)
  const { id } = await s.create({ cwd: repo.path })
  const probe = repositoryAt(join(s.roots.work, 'probe'))
  const later = await s.create({ cwd: probe.path })
  await shows(s, later.id, { project_label: 'probe' })
  expect(await s.call('session.inspect', id)).not.toHaveProperty('repo')
})

describe('what is shown of a remote', () => {
  test.each([
    ['https://example.org/a/b.git', 'https://example.org/a/b.git'],
    ['https://user:pass@example.org/a.git', 'https://example.org/a.git'],
    ['https://ghp_token@example.org/a.git', 'https://example.org/a.git'],
    ['https://example.org:8443/a.git?access_token=x#y', 'https://example.org:8443/a.git'],
    ['https://user:pa/ss@example.org/a.git', 'https://example.org/a.git'],
    ['https://u:p@ss/word@example.org/a', 'https://example.org/a'],
    ['https://example.org/@scope/a', 'https://example.org/@scope/a'],
    ['ssh://git@example.org/a.git', 'ssh://git@example.org/a.git'],
    ['ssh://git:pw@example.org:22/a.git', 'ssh://git@example.org:22/a.git'],
    ['ssh://me@example.org/a.git', 'ssh://example.org/a.git'],
    ['git@example.org:a/b.git', 'git@example.org:a/b.git'],
    ['me:pw@example.org:a/b.git', 'example.org:a/b.git'],
    ['example.org:a/b.git', 'example.org:a/b.git'],
    ['/srv/a b#1.git', '/srv/a b#1.git'],
    ['../a:b', '../a:b'],
    ['file:///srv/a.git', 'file:///srv/a.git'],
    ['ext::sh -c "login secret"', 'ext::…'],
    ['foo::https://u:p@example.org/a', 'foo::https://example.org/a'],
    ['https://example.org/\u001b[31ma', 'https://example.org/[31ma'],
  ])('%s', (given, shown) => {
    expect(redacted(given)).toBe(shown)
  })
})

test('the registry is bounded, and remembers when a project was used last', async () => {
  const clock = manualClock()
  const table = memoryTables().table(projectTable)
  const git = new Git({ PATH: process.env['PATH'] }, systemClock)
  const projects = new Projects({ table, git, clock, log: memoryLog(), relabelled: () => undefined })
  const root = privateRoot()
  const { signal } = new AbortController()
  const at = async (name: string): Promise<Repository> => {
    const found = await findRepository(git, repositoryAt(join(root, name)).path)
    if (found.kind !== 'repository') throw new Error(name)
    return found.repository
  }
  const first = await at('first')
  const project = await projects.ensure(first)
  clock.advance(59_000)
  expect(await projects.ensure(first)).toEqual(project)
  clock.advance(2_000)
  const used = await projects.ensure(first)
  expect(Date.parse(used.last_used_at) - Date.parse(project.last_used_at)).toBe(61_000)
  expect(projects.list()).toEqual([{ ...project, last_used_at: used.last_used_at }])
  for (let n = 1; n < 1_000; n++) {
    const id = `p-${String(n).padStart(8, '0')}`
    await table.put({ ...project, id, label: id, git_common_dir: `/nowhere/${n}` })
  }
  const second = await at('second')
  for (const more of [() => projects.ensure(second), () => projects.add(second, {}, signal)])
    await expect(more()).rejects.toMatchObject({ code: 'project_store_error' })
  expect((await projects.ensure(first)).id).toBe(project.id)
  await projects.remove('p-00000001')
  expect((await projects.ensure(second)).label).toBe('second')
})

test('ids: the first half of the hash, zeros kept, the next free one where it is taken', () => {
  expect(fnv1a64('')).toBe(0xcbf29ce484222325n)
  expect(fnv1a64('a')).toBe(0xaf63dc4c8601ec8cn)
  expect(freeId('', () => false)).toBe('p-cbf29ce4')
  const taken = new Set(['p-cbf29ce4', 'p-cbf29ce5'])
  expect(freeId('', (it) => taken.has(it))).toBe('p-cbf29ce6')
  expect(labelOf('/a/b.git')).toBe('b')
  expect(labelOf('/a/.git')).toBe('a')
  expect(labelOf('/.git')).toBe('repository')
  expect(labelOf('/')).toBe('repository')
  expect(labelOf('/a/\n')).toBe('repository')
})
