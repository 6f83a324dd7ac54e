import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { expect, test } from 'vitest'
import { refused, Session } from '../harness/session.ts'
import type { Station } from '../sessions/station.ts'
import { branchOff, git, grove, read, repositoryAt, write, type Repository } from './repository.ts'
import { shows } from './walk.ts'

const list = (s: Station): Promise<Record<string, unknown>[]> => s.call('worktree.list')

/** A session in a tree that holds a changed file, a staged one and a new one. */
async function worked(s: Station, repo: Repository, branch = 'work'): Promise<{ id: string; path: string }> {
  const { id, worktree_path: path } = await branchOff(s, repo, branch)
  write(path, 'read.me', 'changed\n')
  write(path, 'staged', 'staged\n')
  git(path, 'add', 'staged')
  write(path, 'staged', 'staged, then changed\n')
  write(path, 'new.c', 'int main;\n')
  return { id, path }
}

function expectRescued(repo: Repository, ref: string): void {
  expect(repo.git('show', `${ref}:read.me`)).toBe('changed')
  expect(repo.git('show', `${ref}:new.c`)).toBe('int main;')
  expect(repo.git('show', `${ref}:staged`)).toBe('staged, then changed')
  expect(repo.git('show', `${ref}^2:staged`)).toBe('staged')
  expect(repo.git('rev-parse', `${ref}^1`)).toBe(repo.git('rev-parse', 'main'))
}

test('FC-3d64: nothing that is not in a commit goes without a trace', { timeout: 60_000 }, async () => {
  const { s, repo } = await grove()
  const { id, path } = await worked(s, repo)
  const index = execFileSync('git', ['ls-files', '--stage', '--debug'], { cwd: path }).toString()
  // Stop, a start of the daemon and a look leave the tree alone.
  await s.call('session.stop', id)
  await s.restart()
  expect(await list(s)).toMatchObject([
    { session_id: id, session_state: 'stopped', state: 'present', uncommitted: 2, untracked: 1, unpushed: false },
  ])
  expect(read(path, 'new.c')).toBe('int main;\n')
  // Removing the tree alone says what would be lost and wants to be forced.
  const unsaved = await refused(s.call('worktree.remove', { path }))
  expect([unsaved.code, unsaved.body.msg]).toEqual([
    'worktree_unsaved',
    expect.stringMatching(/2 uncommitted changes, 1 untracked file/),
  ])
  expect(unsaved.body.recover).toMatch(/--force/)
  expect(execFileSync('git', ['ls-files', '--stage', '--debug'], { cwd: path }).toString()).toBe(index)
  // The session's removal is the operator's explicit word; the work is kept under a ref that is named.
  const result = await s.call('session.remove', id)
  expect(result).toMatchObject({ removed: true, worktrees_removed: 1, worktrees_failed: 0 })
  expect(result.rescued).toMatchObject([{ repo: repo.path }])
  expect(existsSync(path)).toBe(false)
  const [{ ref }] = result.rescued
  expect(ref).toMatch(new RegExp(`^refs/pohunek/rescue/${id}/\\d{8}T\\d{9}Z$`))
  expectRescued(repo, ref)
  expect(repo.branches()).toEqual(['main', 'work'])
})

test('a forced removal of the tree alone names its rescue ref; an unforced one of a clean tree has none', async () => {
  const { s, repo } = await grove()
  const { id, path } = await worked(s, repo)
  expect((await refused(s.call('worktree.remove', { path }))).code).toBe('worktree_in_use')
  await s.call('session.stop', id)
  const { rescued } = await s.call('worktree.remove', { path, force: true })
  expectRescued(repo, rescued[0].ref)
  expect(await s.call('session.remove', id)).toMatchObject({ worktrees_removed: 0, worktrees_failed: 0 })
  const clean = await branchOff(s, repo, 'clean')
  await s.call('session.stop', clean.id)
  write(clean.worktree_path, '.gitignore', 'ignored\n')
  git(clean.worktree_path, 'add', '.gitignore')
  git(clean.worktree_path, 'commit', '--quiet', '-m', 'ignore')
  write(clean.worktree_path, 'ignored', 'x')
  expect(await s.call('worktree.remove', { path: clean.worktree_path })).toEqual({ removed: true })
  for (const other of [repo.path, clean.worktree_path, '/', '/no/such'])
    expect((await refused(s.call('worktree.remove', { path: other }))).code).toBe('worktree_not_owned')
})

test('FC-8e93: new files count whatever the repository hides', async () => {
  const { s, repo } = await grove()
  repo.git('config', 'status.showUntrackedFiles', 'no')
  const { id, worktree_path: path } = await branchOff(s, repo, 'new-only')
  write(path, 'deep/er/new.c', 'x\n')
  await s.call('session.stop', id)
  const error = await refused(s.call('worktree.remove', { path }))
  expect([error.code, error.body.msg.includes('1 untracked')]).toEqual(['worktree_unsaved', true])
  const { rescued } = await s.call('session.remove', id)
  expect(repo.git('show', `${rescued[0].ref}:deep/er/new.c`)).toBe('x')
})

test('FC-b67f: commits of a detached tree are kept under a ref', async () => {
  const { s, repo } = await grove()
  const { id, worktree_path: path } = await branchOff(s, repo, 'detached')
  git(path, 'checkout', '--quiet', '--detach')
  git(path, 'commit', '--quiet', '--allow-empty', '-m', 'nowhere else')
  const commit = git(path, 'rev-parse', 'HEAD')
  await s.call('session.stop', id)
  const error = await refused(s.call('worktree.remove', { path }))
  expect([error.code, error.body.msg.includes('commits on no branch')]).toEqual(['worktree_unsaved', true])
  const { rescued } = await s.call('session.remove', id)
  expect(rescued).toEqual([{ ref: expect.stringContaining(id), commit, repo: repo.path }])
  expect(repo.git('rev-parse', rescued[0].ref)).toBe(commit)
})

test('FC-b67f: also when its folder was deleted before', async () => {
  const { s, repo } = await grove()
  const { id, worktree_path: path } = await branchOff(s, repo, 'detached')
  git(path, 'checkout', '--quiet', '--detach')
  git(path, 'commit', '--quiet', '--allow-empty', '-m', 'nowhere else')
  const commit = git(path, 'rev-parse', 'HEAD')
  rmSync(path, { recursive: true })
  const { rescued, worktrees_removed } = await s.call('session.remove', id)
  expect([rescued[0].commit, worktrees_removed]).toEqual([commit, 1])
  expect(repo.trees()).toEqual([repo.path])
})

test('FC-f9a0: no branch goes with a session', async () => {
  const { s, repo } = await grove()
  const { id, worktree_path: path } = await branchOff(s, repo, 'given')
  git(path, 'checkout', '--quiet', '-b', 'mine')
  git(path, 'commit', '--quiet', '--allow-empty', '-m', 'x')
  const mine = git(path, 'rev-parse', 'HEAD')
  const result = await s.call('session.remove', id)
  expect(result).toMatchObject({ worktrees_removed: 1 })
  expect(result.rescued).toBeUndefined()
  expect(repo.branches()).toEqual(['given', 'main', 'mine'])
  expect(repo.git('rev-parse', 'mine')).toBe(mine)
})

test('FC-5d0a: a moved tree and a renamed branch are found through git', { timeout: 60_000 }, async () => {
  const { s, repo } = await grove()
  const { id, worktree_path: path } = await branchOff(s, repo, 'old-name')
  git(path, 'branch', '-m', 'new-name')
  write(path, 'new.c', 'x\n')
  await s.call('session.stop', id)
  const moved = join(s.roots.work, 'elsewhere')
  repo.git('worktree', 'move', path, moved)
  await s.restart()
  expect((await s.call('session.diff', { session_id: id })).diff).toContain('new.c')
  expect((await s.call('session.inspect', id)).worktree_path).toBe(moved)
  expect(await list(s)).toMatchObject([{ path: moved, branch: 'new-name', untracked: 1 }])
  expect(existsSync(path)).toBe(false)
  expect((await refused(s.call('worktree.remove', { path: moved }))).code).toBe('worktree_unsaved')
  const { worktrees_removed, rescued } = await s.call('session.remove', id)
  expect([worktrees_removed, rescued.length]).toEqual([1, 1])
  expect(existsSync(moved)).toBe(false)
  expect(repo.branches()).toEqual(['main', 'new-name'])
})

test('FC-5d0a: it is found also for a session that was shown without it last, by a look under way as it was moved', async () => {
  const { s, repo } = await grove()
  const { id, worktree_path: path } = await branchOff(s, repo, 'work')
  await s.call('session.stop', id)
  const moved = join(s.roots.work, 'elsewhere')
  repo.git('worktree', 'move', path, moved)
  await s.drop()
  const log = join(s.roots.data, 'pohunek/metadata.jsonl')
  const told = `"worktree_path":${JSON.stringify(path)},`
  const kept = readFileSync(log, 'utf8')
  expect(kept).toContain(told)
  writeFileSync(log, kept.replaceAll(told, ''))
  await s.start()
  await s.call('session.diff', { session_id: id })
  expect(await s.call('session.inspect', id)).toMatchObject({ cwd: moved, worktree_path: moved })
})

test('FC-5d0a: a tree that is moved with git is its session’s, and what stands in its old place is not', async () => {
  const { s, repo } = await grove()
  const [a, b] = [await branchOff(s, repo, 'a'), await branchOff(s, repo, 'b')]
  const old = a.worktree_path as string
  const moved = join(s.roots.work, 'elsewhere')
  await s.call('session.stop', a.id)
  await s.call('session.stop', b.id)
  repo.git('worktree', 'move', old, moved)
  write(moved, 'new.c', 'x\n')
  expect(await list(s)).toMatchObject([{ path: moved, untracked: 1 }, { path: b.worktree_path }])
  expect((await s.call('session.diff', { session_id: a.id })).diff).toContain('new.c')
  await shows(s, a.id, { cwd: moved, worktree_path: moved })
  // The old path means the tree while nothing is there, and whatever is there once something is.
  expect((await refused(s.call('worktree.remove', { path: old }))).code).toBe('worktree_unsaved')
  repositoryAt(old)
  expect((await refused(s.call('worktree.remove', { path: old, force: true }))).code).toBe('worktree_not_owned')
  renameSync(old, `${old}-mine`)
  repo.git('worktree', 'move', b.worktree_path, old)
  expect(await s.call('worktree.remove', { path: old })).toEqual({ removed: true })
  expect(read(moved, 'new.c')).toBe('x\n')
  renameSync(`${old}-mine`, old)
  const { worktrees_removed, rescued } = await s.call('session.remove', a.id)
  expect([worktrees_removed, rescued.length, existsSync(moved)]).toEqual([1, 1, false])
  expect(read(old, 'read.me')).toBe('first\n')
  expect(await s.call('session.remove', b.id)).toMatchObject({ worktrees_removed: 0, worktrees_failed: 0 })
  expect(read(old, 'read.me')).toBe('first\n')
})

test('a symbolic link in the place of a tree, and a tree of a copied repository, are left alone', async () => {
  const { s, repo } = await grove()
  const { id, worktree_path: path } = await branchOff(s, repo, 'linked')
  await s.call('session.stop', id)
  renameSync(path, `${path}-mine`)
  symlinkSync(`${path}-mine`, path)
  expect((await refused(s.call('worktree.remove', { path, force: true }))).body.msg).toContain('symbolic link')
  expect(read(`${path}-mine`, 'read.me')).toBe('first\n')
  rmSync(path)
  // A tree of another repository whose own name for it is the same.
  cpSync(repo.path, `${repo.path}-copy`, { recursive: true })
  cpSync(`${path}-mine`, path, { recursive: true })
  writeFileSync(join(path, '.git'), `gitdir: ${repo.path}-copy/.git/worktrees/${basename(path)}\n`)
  expect((await refused(s.call('worktree.remove', { path, force: true }))).body.msg).toContain('another repository')
  expect(await s.call('session.remove', id)).toMatchObject({ worktrees_removed: 0, worktrees_failed: 1 })
  expect(read(path, 'read.me')).toBe('first\n')
})

test('FC-fd33: a tree that was removed from outside counts as removed, while its session can still be looked at', async () => {
  const { s, repo } = await grove()
  const info = await branchOff(s, repo, 'outside')
  const session = new Session(s, info)
  repo.git('worktree', 'remove', '--force', info.worktree_path)
  expect(await list(s)).toMatchObject([{ state: 'absent', session_id: info.id, path: info.worktree_path }])
  expect((await refused(session.call('session.diff'))).code).toBe('session_no_worktree')
  expect(typeof (await session.screen())).toBe('string')
  expect(await session.stop()).toBe(true)
  expect(await session.remove()).toMatchObject({ worktrees_removed: 1, worktrees_failed: 0 })
  expect(await list(s)).toEqual([])
  // The registration of a tree whose folder alone was deleted goes too, and no other one.
  const second = await branchOff(s, repo, 'second')
  const strange = join(s.roots.work, 'strange')
  repo.git('worktree', 'add', '--quiet', '-b', 'strange', strange)
  rmSync(strange, { recursive: true })
  rmSync(second.worktree_path, { recursive: true })
  expect(await s.call('session.remove', second.id)).toMatchObject({ worktrees_removed: 1 })
  expect(repo.trees()).toEqual([repo.path, strange])
})

test('FC-29f2: submodules: a clean one goes with its tree, a changed one keeps it', { timeout: 60_000 }, async () => {
  const { s, repo } = await grove()
  const part = repositoryAt(join(s.roots.work, 'part'))
  repo.git('submodule', '--quiet', 'add', part.path, 'part')
  repo.commit('with a submodule')
  const init = (path: string): string => git(path, 'submodule', '--quiet', 'update', '--init')
  const clean = await branchOff(s, repo, 'clean')
  init(clean.worktree_path)
  expect(read(clean.worktree_path, 'part/read.me')).toBe('first\n')
  expect(await s.call('session.remove', clean.id)).toMatchObject({ worktrees_removed: 1, worktrees_failed: 0 })
  const edited = await branchOff(s, repo, 'edited')
  init(edited.worktree_path)
  write(edited.worktree_path, 'part/read.me', 'edited\n')
  const committed = await branchOff(s, repo, 'committed')
  init(committed.worktree_path)
  git(join(committed.worktree_path, 'part'), 'commit', '--quiet', '--allow-empty', '-m', 'only here')
  git(committed.worktree_path, 'commit', '--quiet', '--all', '-m', 'points there')
  for (const [{ id, worktree_path: path }, says] of [
    [edited, 'submodule part with uncommitted changes'],
    [committed, 'submodule part with commits that are on no remote branch'],
  ] as const) {
    await s.call('session.stop', id)
    const error = await refused(s.call('worktree.remove', { path, force: true }))
    expect([error.code, error.body.msg.includes(says)]).toEqual(['worktree_remove_failed', true])
    expect(await s.call('session.remove', id)).toMatchObject({
      removed: true,
      worktrees_removed: 0,
      worktrees_failed: 1,
    })
    expect(existsSync(join(path, 'part/.git'))).toBe(true)
  }
  // What stays is listed without a session, and goes once it is settled.
  const left = await list(s)
  expect(left.map((it) => [it['path'], it['session_state']])).toEqual([
    [edited.worktree_path, undefined],
    [committed.worktree_path, undefined],
  ])
  await s.restart()
  git(join(edited.worktree_path, 'part'), 'checkout', '--quiet', '.')
  expect(await s.call('worktree.remove', { path: edited.worktree_path })).toEqual({ removed: true })
  git(join(committed.worktree_path, 'part'), 'push', '--quiet', 'origin', 'HEAD:refs/heads/pushed')
  expect(await s.call('worktree.remove', { path: committed.worktree_path })).toEqual({ removed: true })
})

test('a repository an agent made inside keeps the tree', async () => {
  const { s, repo } = await grove()
  const { id, worktree_path: path } = await branchOff(s, repo, 'nested')
  repositoryAt(join(path, 'vendor/inner'))
  expect(await s.call('session.remove', id)).toMatchObject({ worktrees_removed: 0, worktrees_failed: 1 })
  expect(read(path, 'vendor/inner/read.me')).toBe('first\n')
  const error = await refused(s.call('worktree.remove', { path, force: true }))
  expect(error.body.msg).toContain('another repository at vendor/inner')
})

test('a locked tree, a damaged one and one of a deleted repository stay', { timeout: 60_000 }, async () => {
  const { s, repo } = await grove()
  const other = repositoryAt(join(s.roots.work, 'other'))
  const locked = await branchOff(s, repo, 'locked')
  repo.git('worktree', 'lock', '--reason', 'mine', locked.worktree_path)
  const damaged = await branchOff(s, repo, 'damaged')
  rmSync(join(damaged.worktree_path, '.git'))
  const homeless = await branchOff(s, other, 'homeless')
  renameSync(other.path, `${other.path}-gone`)
  for (const { id, worktree_path: path } of [locked, damaged, homeless]) {
    expect(await s.call('session.remove', id)).toMatchObject({ worktrees_removed: 0, worktrees_failed: 1 })
    expect(read(path, 'read.me')).toBe('first\n')
  }
  expect((await refused(s.call('worktree.remove', { path: locked.worktree_path }))).body.msg).toMatch(/lock.*mine/s)
  expect(await list(s)).toMatchObject([
    { state: 'present' },
    { state: 'broken', problem: expect.stringContaining('.git file') },
    { state: 'broken', problem: expect.stringContaining('gone') },
  ])
})

test('a tree another session works in stays', async () => {
  const { s, repo } = await grove()
  const owner = await branchOff(s, repo, 'shared')
  const guest = await s.create({ cwd: owner.worktree_path })
  expect(await s.call('session.remove', owner.id)).toMatchObject({ worktrees_removed: 0, worktrees_failed: 1 })
  const error = await refused(s.call('worktree.remove', { path: owner.worktree_path }))
  expect([error.code, error.body.msg.includes(guest.id)]).toEqual(['worktree_in_use', true])
  await s.call('session.stop', guest.id)
  expect(await s.call('worktree.remove', { path: owner.worktree_path })).toEqual({ removed: true })
})

test('a conflict, an unborn branch and a file git cannot read', { timeout: 60_000 }, async () => {
  const { s, repo } = await grove()
  const conflict = await branchOff(s, repo, 'conflict')
  const path = conflict.worktree_path as string
  write(path, 'read.me', 'ours\n')
  git(path, 'commit', '--quiet', '--all', '-m', 'ours')
  repo.write('read.me', 'theirs\n')
  repo.commit('theirs')
  try {
    git(path, 'merge', 'main')
  } catch {
    // it conflicts, which is the point
  }
  const merged = await s.call('session.remove', conflict.id)
  expect(repo.git('show', `${merged.rescued[0].ref}:read.me`)).toMatch(/<<<<<<<[^]*ours[^]*theirs/)
  const orphan = await branchOff(s, repo, 'orphan')
  git(orphan.worktree_path, 'checkout', '--quiet', '--orphan', 'unborn')
  const { rescued } = await s.call('session.remove', orphan.id)
  expect(repo.git('show', `${rescued[0].ref}:read.me`)).toBe('theirs')
})

test('rescued work is listed and becomes a branch again', async () => {
  const { s, repo } = await grove()
  const { id } = await worked(s, repo)
  const { rescued } = await s.call('session.remove', id)
  const keeper = await branchOff(s, repo, 'keeps-the-repository-known')
  const [entry] = await s.call('worktree.rescue.list')
  expect(entry).toMatchObject({ ...rescued[0], session_id: id, subject: `Unsaved work of session ${id}` })
  expect(Date.parse(entry.at)).toBeGreaterThan(0)
  const back = await s.call('worktree.rescue.restore', { ref: entry.ref, branch: 'back' })
  expect(back).toEqual({ branch: 'back', commit: entry.commit, repo: repo.path })
  const session = await branchOff(s, repo, 'back', { reuse_branch: true })
  expect(read(session.worktree_path, 'new.c')).toBe('int main;\n')
  for (const [params, code] of [
    [{ ref: 'refs/pohunek/rescue/none' }, 'rescue_not_found'],
    [{ ref: 'refs/heads/main' }, 'rescue_not_found'],
    [{ ref: entry.ref, branch: 'a..b' }, 'invalid_branch'],
    [{ ref: entry.ref, branch: 'main' }, 'worktree_branch_in_use'],
    [{ ref: entry.ref, branch: 'work' }, 'invalid_branch'],
  ] as const)
    expect((await refused(s.call('worktree.rescue.restore', params))).code).toBe(code)
  expect((await s.call('worktree.rescue.restore', { ref: entry.ref })).branch).toMatch(/^rescue\/s-/)
  expect(keeper.branch).toBe('keeps-the-repository-known')
})

test('rescued work comes back into a tree as it was', async () => {
  const { s, repo } = await grove()
  const { id, path } = await worked(s, repo)
  const status = (at: string): string => git(at, 'status', '--porcelain=v2', '--untracked-files=all')
  const before = [status(path), git(path, 'diff'), git(path, 'diff', '--cached'), git(path, 'rev-parse', 'HEAD')]
  expect(before[0]?.split('\n')).toHaveLength(3)
  const { rescued } = await s.call('session.remove', id)
  await branchOff(s, repo, 'keeps-the-repository-known')
  const [{ ref, commit }] = rescued
  const back = join(s.roots.work, 'back')
  const restore = (params: Record<string, unknown>) => s.call('worktree.rescue.restore', { ref, ...params })
  expect(await restore({ branch: 'back', path: back })).toEqual({
    branch: 'back',
    commit,
    repo: repo.path,
    worktree_path: back,
  })
  expect([status(back), git(back, 'diff'), git(back, 'diff', '--cached'), git(back, 'rev-parse', 'HEAD')]).toEqual(
    before,
  )
  expect(read(back, 'new.c')).toBe('int main;\n')
  expect(git(back, 'branch', '--show-current')).toBe('back')
  // Nothing that is there is touched, and nothing is left of what could not be made.
  for (const [params, code] of [
    [{ branch: 'other', path: back }, 'worktree_path_conflict'],
    [{ branch: 'back', path: `${back}-2` }, 'worktree_branch_in_use'],
    [{ branch: 'other', path: 'relative' }, 'bad_request'],
    [{ branch: 'other', path: join(back, 'new.c/below') }, 'worktree_add_failed'],
  ] as const)
    expect((await refused(restore(params))).code).toBe(code)
  expect(repo.branches()).not.toContain('other')
  // The two steps the help names come to the same files.
  await restore({ branch: 'commit' })
  const session = await branchOff(s, repo, 'commit', { reuse_branch: true })
  git(session.worktree_path, 'reset', '--quiet', 'HEAD~1')
  expect(
    status(session.worktree_path)
      .replace(/^1 .*read.me$/m, '')
      .trim()
      .split('\n')
      .sort(),
  ).toEqual(['? new.c', '? staged'])
})

test('what was staged in a tree that was deleted comes back staged', async () => {
  const { s, repo } = await grove()
  const { id, worktree_path: path } = await branchOff(s, repo, 'work')
  await s.call('session.stop', id)
  write(path, 'staged', 'staged\n')
  git(path, 'add', 'staged')
  rmSync(path, { recursive: true })
  const { rescued } = await s.call('session.remove', id)
  await branchOff(s, repo, 'keeps-the-repository-known')
  const back = join(s.roots.work, 'back')
  await s.call('worktree.rescue.restore', { ref: rescued[0].ref, path: back })
  expect(git(back, 'status', '--porcelain')).toBe('A  staged')
})

test('configuration that lets git see other names or another folder hides no work', async () => {
  const { s, repo } = await grove()
  const { id, worktree_path: path } = await branchOff(s, repo, 'case')
  await s.call('session.stop', id)
  repo.git('config', 'core.ignorecase', 'true')
  write(path, 'READ.me', 'new\n')
  expect((await refused(s.call('worktree.remove', { path }))).code).toBe('worktree_unsaved')
  const { rescued } = await s.call('worktree.remove', { path, force: true })
  expect([repo.git('show', `${rescued[0].ref}:READ.me`), repo.git('show', `${rescued[0].ref}:read.me`)]).toEqual([
    'new',
    'first',
  ])
  const other = await branchOff(s, repo, 'other')
  await s.call('session.stop', other.id)
  const tree = other.worktree_path as string
  cpSync(tree, `${tree}-copy`, { recursive: true })
  repo.git('config', 'extensions.worktreeConfig', 'true')
  git(tree, 'config', '--worktree', 'core.worktree', `${tree}-copy`)
  write(tree, 'new.c', 'x\n')
  const error = await refused(s.call('worktree.remove', { path: tree, force: true }))
  expect([error.code, error.body.msg.includes('core.worktree')]).toEqual(['worktree_remove_failed', true])
  expect(read(tree, 'new.c')).toBe('x\n')
})

test('where nothing can be rescued nothing is removed', async () => {
  const { s, repo } = await grove()
  const { id, worktree_path: path } = await branchOff(s, repo, 'stuck')
  write(path, 'new.c', 'x\n')
  // Nothing can be named below a ref of that name.
  repo.git('update-ref', 'refs/pohunek/rescue', 'HEAD')
  expect(await s.call('session.remove', id)).toMatchObject({ removed: true, worktrees_failed: 1, worktrees_removed: 0 })
  expect(read(path, 'new.c')).toBe('x\n')
  expect(await list(s)).toMatchObject([{ path, untracked: 1 }])
})

test('changes git was told not to see, and what a rebase set aside, are work too', { timeout: 60_000 }, async () => {
  const { s, repo } = await grove()
  repo.write('assumed', 'as it was\n')
  repo.write('sparse', 'as it was\n')
  repo.write('absent', 'as it was\n')
  repo.commit()
  const hidden = await branchOff(s, repo, 'hidden')
  const path = hidden.worktree_path as string
  git(path, 'update-index', '--assume-unchanged', 'assumed')
  git(path, 'update-index', '--skip-worktree', 'sparse', 'absent')
  rmSync(join(path, 'absent'))
  await s.call('session.stop', hidden.id)
  expect(await list(s)).toMatchObject([{ uncommitted: 0, untracked: 0 }])
  write(path, 'assumed', 'changed\n')
  write(path, 'sparse', 'changed too\n')
  expect(await list(s)).toMatchObject([{ uncommitted: 2, untracked: 0 }])
  const { rescued } = await s.call('session.remove', hidden.id)
  const [{ ref }] = rescued
  expect(['assumed', 'sparse', 'absent'].map((it) => repo.git('show', `${ref}:${it}`))).toEqual([
    'changed',
    'changed too',
    'as it was',
  ])

  const rebased = await branchOff(s, repo, 'rebased')
  const tree = rebased.worktree_path as string
  write(tree, 'read.me', 'ours\n')
  git(tree, 'commit', '--quiet', '--all', '-m', 'ours')
  repo.write('read.me', 'theirs\n')
  repo.commit('theirs')
  write(tree, 'assumed', 'set aside\n')
  try {
    git(tree, 'rebase', '--autostash', 'main')
  } catch {
    // it stops at the conflict, which is the point
  }
  git(tree, 'checkout', '--quiet', '--theirs', '.')
  git(tree, 'add', '--all')
  git(tree, '-c', 'core.editor=true', 'commit', '--quiet', '-m', 'settled')
  const result = await s.call('session.remove', rebased.id)
  const kept = repo.git('log', '--format=%H', result.rescued[0].ref).split('\n')
  expect(kept.some((it) => repo.git('show', `${it}:assumed`) === 'set aside')).toBe(true)
})
