import { chmodSync, existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { execFileSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { inspectBlocks, listBlocks } from '../../plugins/sessions/views.ts'
import { contextOf } from '../../plugins/worktrees/context.ts'
import { refused } from '../harness/session.ts'
import { until, within } from '../harness/wait.ts'
import { branchOff, git, grove, repositoryAt } from './repository.ts'
import { shows, walker } from './walk.ts'

const nothing = {
  project_id: undefined,
  project_label: undefined,
  repo: undefined,
  branch: undefined,
  worktree_path: undefined,
  is_linked_worktree: undefined,
}

test('the context follows the directory of a session, each change told once', async () => {
  const { s, repo } = await grove()
  const other = repositoryAt(join(s.roots.work, 'other'))
  const { id: otherId } = await s.call('project.add', { path: other.path })
  mkdirSync(join(other.path, 'deep'))
  const session = await walker(s, { cwd: repo.path })
  const { project_id } = await shows(s, session.id, { project_label: 'repo', branch: 'main' })
  const events = await s.events()
  await session.input(join(other.path, 'deep'))
  await shows(s, session.id, { project_id: otherId, project_label: 'other', repo: other.path, branch: 'main' })
  await session.input(s.roots.base)
  await shows(s, session.id, nothing)
  await session.input(repo.path)
  await shows(s, session.id, { project_id, project_label: 'repo', is_linked_worktree: false })
  // A directory and its context are two changes: the context is never waited for.
  const told = events.all
    .filter((it: { event: string }) => it.event === 'session_updated')
    .map(({ session: it }: { session: { cwd: string; project_label?: string } }) => [it.cwd, it.project_label])
  expect(told).toEqual([
    [join(other.path, 'deep'), 'repo'],
    [join(other.path, 'deep'), 'other'],
    [s.roots.base, 'other'],
    [s.roots.base, undefined],
    [repo.path, undefined],
    [repo.path, 'repo'],
  ])
})

test('a repository somebody only walks into is shown and not registered', async () => {
  const { s, repo } = await grove()
  const session = await walker(s, { cwd: s.roots.base })
  await session.input(repo.path)
  await shows(s, session.id, { repo: repo.path, branch: 'main', is_linked_worktree: false, project_id: undefined })
  expect(await s.call('project.list')).toEqual([])
  await s.restart()
  await shows(s, session.id, { repo: repo.path, project_id: undefined })
  expect(await s.call('project.list')).toEqual([])
})

test('where a session starts is registered, however quickly it goes elsewhere', async () => {
  const { s, repo } = await grove()
  const other = repositoryAt(join(s.roots.work, 'other'))
  const { PATH, go } = slowGit(join(s.roots.work, 'slow'))
  await s.restart({ env: { PATH } })
  const session = await walker(s, { cwd: repo.path })
  await session.input(other.path)
  await shows(s, session.id, { cwd: other.path })
  writeFileSync(go, '')
  await shows(s, session.id, { repo: other.path, project_id: undefined })
  expect(await s.call('project.list')).toMatchObject([{ repo_root: repo.path }])
})

test('FC-5d0a: another branch, a renamed one and none at all are seen without anybody asking git', async () => {
  const { s, repo } = await grove()
  const inPlace = await s.create({ cwd: repo.path })
  const tree = await branchOff(s, repo, 'feature')
  await shows(s, inPlace.id, { branch: 'main' })
  await shows(s, tree.id, { branch: 'feature', is_linked_worktree: true, worktree_path: tree.worktree_path })
  repo.git('switch', '--quiet', '--create', 'topic/a b'.replace(' ', '-'))
  await shows(s, inPlace.id, { branch: 'topic/a-b' })
  git(tree.worktree_path, 'branch', '-m', 'new-name')
  await shows(s, tree.id, { branch: 'new-name', worktree_path: tree.worktree_path })
  repo.git('checkout', '--quiet', '--detach')
  await shows(s, inPlace.id, { branch: undefined, repo: repo.path, is_linked_worktree: false })
  repo.git('switch', '--quiet', 'main')
  await shows(s, inPlace.id, { branch: 'main' })
  // While no daemon looks.
  await s.drop()
  git(tree.worktree_path, 'branch', '-m', 'third')
  await s.start()
  await shows(s, tree.id, { branch: 'third' })
})

test('FC-5d0a: a tree that is moved under its sessions is followed, twice and by every directory in it', async () => {
  const { s, repo } = await grove()
  const info = await branchOff(s, repo, 'feature')
  mkdirSync(join(info.worktree_path, 'deep'))
  const guest = await s.create({ cwd: join(info.worktree_path, 'deep') })
  const [first, second] = [join(s.roots.work, 'first'), join(s.roots.work, 'second')]
  await shows(s, guest.id, { worktree_path: info.worktree_path })
  repo.git('worktree', 'move', info.worktree_path, first)
  const there = { branch: 'feature', is_linked_worktree: true, cwd_missing: undefined }
  await shows(s, info.id, { worktree_path: first, cwd: first, ...there })
  await shows(s, guest.id, { worktree_path: first, cwd: join(first, 'deep'), ...there })
  expect(existsSync(info.worktree_path)).toBe(false)
  // Again, while no daemon looks, and with something else in the place it was in.
  await s.drop()
  repo.git('worktree', 'move', first, second)
  mkdirSync(first)
  await s.start()
  await shows(s, guest.id, { worktree_path: second, cwd: join(second, 'deep'), ...there })
  await shows(s, info.id, { worktree_path: second, cwd: second, ...there })
  await s.call('session.stop', guest.id)
  await s.call('session.stop', info.id)
})

test('a session in another one’s tree, and in a repository inside of it', async () => {
  const { s, repo } = await grove()
  const owner = await branchOff(s, repo, 'feature')
  const guest = await walker(s, { cwd: owner.worktree_path })
  await shows(s, guest.id, { worktree_path: owner.worktree_path, branch: 'feature', repo: repo.path })
  const inner = repositoryAt(join(owner.worktree_path, 'vendor/inner'))
  await guest.input(inner.path)
  await shows(s, guest.id, { worktree_path: owner.worktree_path, repo: inner.path, branch: 'main' })
  await guest.input(repo.path)
  await shows(s, guest.id, { worktree_path: undefined, repo: repo.path, is_linked_worktree: false })
  await guest.stop()
})

test('FC-fd33: a session whose directory is removed is marked, goes on, and is not marked once it is back', async () => {
  const { s, repo } = await grove()
  await s.call('project.add', { path: repo.path })
  const info = await branchOff(s, repo, 'feature', { agent: 'shell' })
  const { project_id } = await shows(s, info.id, { branch: 'feature', project_label: 'repo', cwd_missing: undefined })
  const events = await s.events()
  repo.git('worktree', 'remove', '--force', info.worktree_path)
  await shows(s, info.id, {
    project_id,
    repo: repo.path,
    state: 'running',
    cwd: info.worktree_path,
    cwd_missing: true,
    branch: undefined,
    worktree_path: undefined,
    is_linked_worktree: undefined,
  })
  const shown = await s.call('session.inspect', info.id)
  expect(JSON.stringify(listBlocks([shown]))).toContain(`${info.worktree_path} (missing)`)
  expect(JSON.stringify(inspectBlocks(shown))).toContain('["cwd_missing","true"]')
  expect(events.all.some((it: { session?: { cwd_missing?: boolean } }) => it.session?.cwd_missing === true)).toBe(true)
  expect((await s.call('session.screen', { session_id: info.id })).session_id).toBe(info.id)
  expect((await refused(s.call('session.diff', { session_id: info.id }))).code).toBe('session_no_worktree')
  expect((await refused(s.create({ cwd: info.worktree_path }))).code).toBe('cwd_failed')
  // Another daemon sees it too.
  await s.restart()
  await shows(s, info.id, { cwd_missing: true })
  repo.git('worktree', 'add', '--quiet', info.worktree_path, 'feature')
  await shows(s, info.id, { cwd_missing: undefined, branch: 'feature', worktree_path: info.worktree_path })
  expect(await s.call('session.stop', info.id)).toEqual({ stopped: true })
  // The tree of an ended session is taken away by its owner's word: nobody watches, and it shows all the same.
  await s.call('worktree.remove', { path: info.worktree_path })
  await shows(s, info.id, { cwd_missing: true, worktree_path: undefined, state: 'stopped' })
})

test('FC-fd33: a directory outside of any repository, and one whose whole surroundings go and come back', async () => {
  const { s } = await grove()
  const cwd = join(s.roots.base, 'a/b/c')
  mkdirSync(cwd, { recursive: true })
  const session = await s.create({ cwd })
  await shows(s, session.id, { cwd_missing: undefined })
  rmSync(join(s.roots.base, 'a'), { recursive: true })
  await shows(s, session.id, { cwd, cwd_missing: true })
  // A file of that name is no directory.
  mkdirSync(dirname(cwd), { recursive: true })
  writeFileSync(cwd, '')
  expect((await s.call('session.inspect', session.id)).cwd_missing).toBe(true)
  rmSync(cwd)
  mkdirSync(cwd)
  await shows(s, session.id, { cwd, cwd_missing: undefined })
})

test('a directory that is removed is seen when the session ends', async () => {
  const { s } = await grove()
  const lost = repositoryAt(join(s.roots.work, 'lost'))
  const session = await walker(s, { cwd: lost.path })
  await shows(s, session.id, { branch: 'main' })
  renameSync(lost.path, `${lost.path}-away`)
  await session.stop()
  await shows(s, session.id, { branch: undefined, project_label: 'lost' })
})

test('a session that is over keeps its last branch, and is not looked at by a start', async () => {
  const { s, repo } = await grove()
  const { id } = await s.create({ cwd: repo.path })
  await shows(s, id, { branch: 'main' })
  await s.call('session.stop', id)
  const witness = await s.create({ cwd: repo.path })
  await shows(s, witness.id, { branch: 'main', project_label: 'repo' })
  // The look that the end of a session causes is over once those behind it are.
  for (const branch of ['one', 'two']) {
    repo.git('switch', '--quiet', '--create', branch)
    await shows(s, witness.id, { branch })
  }
  const { branch } = await s.call('session.inspect', id)
  repo.git('switch', '--quiet', '--create', 'later')
  await shows(s, witness.id, { branch: 'later' })
  await s.restart()
  await shows(s, witness.id, { branch: 'later' })
  expect(await s.call('session.inspect', id)).toMatchObject({ branch, state: 'stopped' })
  expect(branch).not.toBe('later')
})

/** A git that waits until a file is there; every call is noted. */
function slowGit(directory: string): { PATH: string; go: string; calls: string } {
  const real = execFileSync('sh', ['-c', 'command -v git'], { encoding: 'utf8' }).trim()
  const [bin, go, calls] = [join(directory, 'bin'), join(directory, 'go'), join(directory, 'calls')]
  mkdirSync(bin, { recursive: true })
  const script = `#!/bin/sh\necho "$*" >> '${calls}'\nwhile [ ! -e '${go}' ]; do sleep 0.05; done\nexec '${real}' "$@"\n`
  writeFileSync(join(bin, 'git'), script)
  chmodSync(join(bin, 'git'), 0o755)
  return { PATH: `${bin}:${dirname(process.execPath)}:/usr/bin:/bin`, go, calls }
}

test('no creation waits for git, and git is asked once per checkout', async () => {
  const { s } = await grove()
  const repo = repositoryAt(join(s.roots.work, 'asked'))
  const { PATH, go, calls } = slowGit(join(s.roots.work, 'slow'))
  await s.restart({ env: { PATH } })
  const made = []
  for (let n = 0; n < 6; n++) made.push(await within('a session', s.create({ cwd: repo.path }), 20_000))
  expect(made[0]).not.toHaveProperty('project_id')
  await until('git was asked', () => existsSync(calls))
  expect(await s.call('session.list')).toHaveLength(6)
  writeFileSync(go, '')
  for (const { id } of made) await shows(s, id, { project_label: 'asked', branch: 'main' })
  const asked = execFileSync('cat', [calls], { encoding: 'utf8' })
    .split('\n')
    .filter((it) => it.includes('git-common-dir'))
  // Two looks run at once, and both may find that nobody asked yet.
  expect(asked.length).toBeLessThanOrEqual(2)
})

test('no git is started for a directory without a repository', async () => {
  const { s, repo } = await grove()
  const { PATH, go, calls } = slowGit(join(s.roots.work, 'slow'))
  writeFileSync(go, '')
  await s.restart({ env: { PATH } })
  await s.create({ cwd: s.roots.base })
  expect(existsSync(calls)).toBe(false)
  const { id } = await s.create({ cwd: repo.path })
  await shows(s, id, { project_label: 'repo' })
  expect(existsSync(calls)).toBe(true)
})

test('a repository that is made, replaced or taken away is seen by the next change of directory', async () => {
  const { s } = await grove()
  const place = join(s.roots.base, 'place')
  mkdirSync(join(place, 'a'), { recursive: true })
  const session = await walker(s, { cwd: place })
  const step = async (to: string, fields: Record<string, unknown>): Promise<void> => {
    await session.input(to)
    await shows(s, session.id, { cwd: to, ...fields })
  }
  git(place, 'init', '--quiet')
  await step(join(place, 'a'), { repo: place, branch: 'main' })
  rmSync(join(place, '.git'), { recursive: true })
  git(place, 'init', '--quiet', '--initial-branch=trunk')
  await step(place, { repo: place, branch: 'trunk' })
  rmSync(join(place, '.git'), { recursive: true })
  await step(join(place, 'a'), nothing)
  // Something that only looks like one.
  mkdirSync(join(place, '.git'))
  await step(place, nothing)
})

test('what is asked of a project by a session that names it', async () => {
  const { s, repo } = await grove()
  const { id: project_id } = await s.call('project.add', { path: repo.path, name: 'mine' })
  const info = await s.create({ cwd: undefined, project: 'mine' })
  expect(info.cwd).toBe(repo.path)
  await shows(s, info.id, { project_id, project_label: 'mine' })
  expect((await refused(s.create({ cwd: undefined, project: 'other' }))).code).toBe('project_not_found')
})

test('every field of a context is said, so that an old one goes', () => {
  const repository = { commonDir: '/r/.git', gitDir: '/r/.git', isBare: false, topLevel: '/r', isLinked: false }
  const place = { kind: 'repository', directory: '/r', repository, branch: undefined } as const
  expect(contextOf(place, '/r', undefined, undefined)).toStrictEqual({
    ...nothing,
    repo: '/r',
    is_linked_worktree: false,
  })
  expect(contextOf({ kind: 'none', directory: '/x' }, '', undefined, undefined)).toStrictEqual(nothing)
  expect(Object.keys(contextOf({ kind: 'missing' }, '', undefined, undefined))).not.toContain('project_id')
  const inGitDir = { ...place, repository: { ...repository, topLevel: undefined } }
  expect(contextOf(inGitDir, '/r', undefined, undefined)).toMatchObject({ repo: '/r', is_linked_worktree: undefined })
})
