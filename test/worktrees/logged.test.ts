/** Commits that only git's own entry of a tree names: its logs, its refs, an operation in progress. They go with the entry. */
import { execFileSync } from 'node:child_process'
import { appendFileSync, existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { refused } from '../harness/session.ts'
import { monotonicMs } from '../harness/wait.ts'
import type { Station } from '../sessions/station.ts'
import { branchOff, git, grove, repositoryAt, write, type Repository } from './repository.ts'

const TIMEOUT = { timeout: 60_000 }

/** A session that is over, and its tree. */
async function over(
  s: Station,
  repo: Repository,
  branch: string,
): Promise<{ id: string; path: string; admin: string }> {
  const { id, worktree_path: path } = await branchOff(s, repo, branch)
  await s.call('session.stop', id)
  return { id, path, admin: git(path, 'rev-parse', '--absolute-git-dir') }
}

/** A commit with a file of its own; answers its name. */
function work(path: string, file: string): string {
  write(path, file, `${file}\n`)
  git(path, 'add', '--', file)
  git(path, 'commit', '--quiet', '-m', file)
  return git(path, 'rev-parse', 'HEAD')
}

/** Refs of the repository, by name, that lead to a commit. */
const refsTo = (repo: Repository, commit: string): string[] =>
  repo
    .git('for-each-ref', '--format=%(refname)', `--contains=${commit}`)
    .split('\n')
    .filter((it) => it !== '')

test('commits that only the log of its HEAD has hold nothing back and are kept under a ref', TIMEOUT, async () => {
  const { s, repo } = await grove()
  const { id, path } = await over(s, repo, 'work')
  git(path, 'checkout', '--quiet', '--detach')
  const [one, two] = [work(path, 'one'), work(path, 'two')]
  git(path, 'reset', '--quiet', '--hard', 'main')
  const three = work(path, 'three')
  git(path, 'commit', '--quiet', '--amend', '-m', 'three, said otherwise')
  const amended = git(path, 'rev-parse', 'HEAD')
  git(path, 'checkout', '--quiet', 'work')
  const [told] = await s.call('worktree.list')
  expect(told).toMatchObject({ uncommitted: 0, untracked: 0, unpushed: false })
  const { removed, rescued } = await s.call('worktree.remove', { path })
  expect([removed, rescued.length, existsSync(path)]).toEqual([true, 1, false])
  const [{ ref }] = rescued
  expect(ref).toContain(`refs/pohunek/rescue/${id}/`)
  for (const commit of [one, two, three, amended]) expect(refsTo(repo, commit)).toEqual([ref])
  // It looks as HEAD did, and only the ends of what was left are its parents.
  expect(repo.git('diff', '--stat', 'work', ref)).toBe('')
  expect(repo.git('rev-parse', `${ref}^@`).split('\n').sort()).toEqual(
    [repo.git('rev-parse', 'work'), two, three, amended].sort(),
  )
  expect(await s.call('worktree.rescue.list')).toMatchObject([{ ref, session_id: id }])
  expect(repo.git('fsck', '--no-dangling', '--connectivity-only')).toBe('')
})

test('what the log of a branch that stays has, or what was merged, writes no ref', TIMEOUT, async () => {
  const { s, repo } = await grove()
  const { path } = await over(s, repo, 'work')
  const dropped = work(path, 'dropped')
  git(path, 'reset', '--quiet', '--hard', 'main')
  for (const it of ['a', 'b', 'c']) git(path, 'commit', '--quiet', '--allow-empty', '--amend', '-m', it)
  git(path, 'checkout', '--quiet', '-b', 'side')
  work(path, 'merged')
  git(path, 'checkout', '--quiet', 'work')
  git(path, 'merge', '--quiet', '--no-edit', 'side')
  expect(await s.call('worktree.remove', { path })).toEqual({ removed: true })
  expect(repo.git('log', '--walk-reflogs', '--format=%H', 'work').split('\n')).toContain(dropped)
})

test('a branch that is deleted under a detached tree, and one whose log is gone, keep nothing', TIMEOUT, async () => {
  const { s, repo } = await grove()
  const { id, path } = await over(s, repo, 'work')
  const commit = work(path, 'one')
  git(path, 'checkout', '--quiet', '--detach', 'main')
  git(path, 'branch', '-D', 'work')
  write(path, 'new.c', 'x\n')
  git(path, 'add', 'new.c')
  write(path, 'new.c', 'y\n')
  const { rescued } = await s.call('session.remove', id)
  const [{ ref }] = rescued
  expect(refsTo(repo, commit)).toEqual([ref])
  expect([repo.git('show', `${ref}:new.c`), repo.git('show', `${ref}^2:new.c`)]).toEqual(['y', 'x'])
  const other = await over(s, repo, 'other')
  const dropped = work(other.path, 'two')
  git(other.path, 'reset', '--quiet', '--hard', 'main')
  rmSync(join(repo.path, '.git/logs/refs/heads/other'))
  const result = await s.call('worktree.remove', { path: other.path })
  expect(refsTo(repo, dropped)).toEqual([result.rescued[0].ref])
})

test('a grafted commit only pretends to lead to another one', TIMEOUT, async () => {
  const { s, repo } = await grove()
  const { path } = await over(s, repo, 'work')
  git(path, 'checkout', '--quiet', '--detach')
  const commit = work(path, 'one')
  repo.git('replace', '--graft', 'main', commit)
  expect(refsTo(repo, commit)).toContain('refs/heads/main')
  expect((await refused(s.call('worktree.remove', { path }))).code).toBe('worktree_unsaved')
})

test('thousands of entries cost a few commands; one that names nothing costs nothing', TIMEOUT, async () => {
  const { s, repo } = await grove()
  const { path, admin } = await over(s, repo, 'work')
  const head = git(path, 'rev-parse', 'HEAD')
  const marks = join(s.roots.work, 'marks')
  const commits = Array.from({ length: 3_000 }, (_, at) =>
    [
      `commit refs/heads/x`,
      `mark :${at + 1}`,
      `committer A <a@b> ${at + 1} +0000`,
      'data 1',
      'x',
      `from ${head}`,
      '',
    ].join('\n'),
  )
  execFileSync('git', ['fast-import', '--quiet', '--force', `--export-marks=${marks}`], {
    cwd: repo.path,
    input: commits.join('\n'),
  })
  repo.git('update-ref', '-d', 'refs/heads/x')
  const made = readFileSync(marks, 'utf8').match(/[0-9a-f]{40}/g) ?? []
  expect(made).toHaveLength(3_000)
  const log = ['f'.repeat(40), ...made].map(
    (it) => `${head} ${it} A <a@b> 1 +0000\tcheckout: moving to ${'e'.repeat(40)}\n`,
  )
  appendFileSync(join(admin, 'logs/HEAD'), log.join(''))
  const start = monotonicMs()
  const { rescued } = await s.call('worktree.remove', { path })
  expect(monotonicMs() - start).toBeLessThan(20_000)
  const [{ ref }] = rescued
  const kept = new Set(repo.git('rev-list', ref).split('\n'))
  expect(made.filter((it) => !kept.has(it))).toEqual([])
})

test('a tree whose folder is gone: what was staged, its refs and its logs are kept', TIMEOUT, async () => {
  const { s, repo } = await grove()
  const { id, path } = await over(s, repo, 'work')
  const own = git(path, 'commit-tree', '-p', 'HEAD', '-m', 'mine', 'HEAD^{tree}')
  git(path, 'update-ref', 'refs/worktree/mine', own)
  git(path, 'checkout', '--quiet', '--detach')
  const logged = work(path, 'logged')
  git(path, 'checkout', '--quiet', 'work')
  write(path, 'staged', 'staged\n')
  git(path, 'add', 'staged')
  rmSync(path, { recursive: true })
  const { rescued, worktrees_removed } = await s.call('session.remove', id)
  const [{ ref }] = rescued
  expect([worktrees_removed, repo.git('show', `${ref}:staged`)]).toEqual([1, 'staged'])
  for (const commit of [own, logged]) expect(refsTo(repo, commit)).toEqual([ref])
  expect(repo.git('rev-parse', `${ref}^1`)).toBe(repo.git('rev-parse', 'work'))
  const clean = await over(s, repo, 'clean')
  rmSync(clean.path, { recursive: true })
  expect((await s.call('session.remove', clean.id)).rescued).toBeUndefined()
})

test(
  'a merge and a bisection in progress hold what only they have; a ref that names no commit keeps the tree',
  TIMEOUT,
  async () => {
    const { s, repo } = await grove()
    const merging = await over(s, repo, 'merging')
    const theirs = git(merging.path, 'commit-tree', '-p', 'HEAD', '-m', 'theirs', 'HEAD^{tree}')
    work(merging.path, 'ours')
    git(merging.path, 'merge', '--quiet', '--no-commit', '--strategy=ours', theirs)
    const error = await refused(s.call('worktree.remove', { path: merging.path }))
    expect([error.code, error.body.msg.includes('commits on no branch')]).toEqual(['worktree_unsaved', true])
    const { rescued } = await s.call('worktree.remove', { path: merging.path, force: true })
    expect(refsTo(repo, theirs)).toEqual([rescued[0].ref])

    const bisecting = await over(s, repo, 'bisecting')
    git(bisecting.path, 'update-ref', 'refs/bisect/bad', theirs)
    repo.git('update-ref', '-d', rescued[0].ref)
    expect((await refused(s.call('worktree.remove', { path: bisecting.path }))).code).toBe('worktree_unsaved')

    const odd = await over(s, repo, 'odd')
    git(odd.path, 'update-ref', 'refs/worktree/blob', git(odd.path, 'rev-parse', 'HEAD:read.me'))
    const kept = await refused(s.call('worktree.remove', { path: odd.path, force: true }))
    expect([kept.code, kept.body.msg.includes('refs/worktree/blob')]).toEqual(['worktree_remove_failed', true])
    git(odd.path, 'update-ref', '-d', 'refs/worktree/blob')
    expect(await s.call('worktree.remove', { path: odd.path })).toEqual({ removed: true })
  },
)

test('project.remove names what it kept', TIMEOUT, async () => {
  const { s, repo } = await grove()
  const { path } = await over(s, repo, 'work')
  git(path, 'checkout', '--quiet', '--detach')
  const commit = work(path, 'one')
  git(path, 'checkout', '--quiet', 'work')
  const result = await s.call('project.remove', { reference: 'repo', prune_worktrees: true })
  expect(result).toMatchObject({ removed: true, pruned_worktrees: 1, rescued: [{ repo: repo.path }] })
  expect(refsTo(repo, commit)).toEqual([result.rescued[0].ref])
})

test('FC-29f2: a submodule that is not checked out any more, and one added whole, keep the tree', TIMEOUT, async () => {
  const { s, repo } = await grove()
  const part = repositoryAt(join(s.roots.work, 'part'))
  repo.git('checkout', '--quiet', '-b', 'with-part')
  repo.git('submodule', '--quiet', 'add', part.path, 'deep/part')
  repo.commit('with a submodule')
  repo.git('checkout', '--quiet', 'main')
  const away = await branchOff(s, repo, 'away', { base_branch: 'with-part' })
  await s.call('session.stop', away.id)
  const path = away.worktree_path as string
  git(path, 'submodule', '--quiet', 'update', '--init')
  git(join(path, 'deep/part'), 'checkout', '--quiet', '-b', 'mine')
  const mine = work(join(path, 'deep/part'), 'mine')
  git(path, 'submodule', 'update', '--quiet')
  git(path, 'submodule', 'deinit', '--quiet', '--force', '--all')
  git(path, 'checkout', '--quiet', 'main~0')
  const error = await refused(s.call('worktree.remove', { path, force: true }))
  expect([error.code, error.body.msg.includes('submodule deep/part with commits')]).toEqual([
    'worktree_remove_failed',
    true,
  ])
  const module = join(git(path, 'rev-parse', '--absolute-git-dir'), 'modules/deep/part')
  git(module, '--git-dir=.', '--work-tree=.', 'push', '--quiet', 'origin', `${mine}:refs/heads/pushed`)
  expect(await s.call('worktree.remove', { path, force: true })).toEqual({ removed: true })

  const whole = await over(s, repo, 'whole')
  const inner = repositoryAt(join(whole.path, 'inner'))
  git(whole.path, 'add', 'inner')
  git(whole.path, 'commit', '--quiet', '-m', 'whole')
  const kept = await refused(s.call('worktree.remove', { path: whole.path }))
  expect(kept.body.msg).toContain('submodule inner with commits')
  expect(existsSync(inner.path)).toBe(true)
})

test('FC-29f2: commits that only the log of a submodule has are copied', TIMEOUT, async () => {
  const { s, repo } = await grove()
  const part = repositoryAt(join(s.roots.work, 'part'))
  repo.git('submodule', '--quiet', 'add', part.path, 'part')
  repo.commit('with a submodule')
  const one = await over(s, repo, 'one')
  git(one.path, 'submodule', '--quiet', 'update', '--init')
  const left = work(join(one.path, 'part'), 'left')
  git(one.path, 'submodule', '--quiet', 'update')
  const { rescued } = await s.call('worktree.remove', { path: one.path })
  expect(refsTo(repo, left)).toEqual([rescued[0].ref])
  expect(repo.git('show', `${left}:left`)).toBe('left')
  // Of a folder that is gone there is nobody to push what is at no remote.
  const two = await over(s, repo, 'two')
  git(two.path, 'submodule', '--quiet', 'update', '--init')
  git(join(two.path, 'part'), 'checkout', '--quiet', '-b', 'mine')
  const mine = work(join(two.path, 'part'), 'mine')
  rmSync(two.path, { recursive: true })
  const result = await s.call('session.remove', two.id)
  expect(refsTo(repo, mine)).toEqual([result.rescued[0].ref])
})
