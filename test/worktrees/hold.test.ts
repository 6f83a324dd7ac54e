import { rmSync, readFileSync, writeFileSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { definePlugin } from '../../kernel/plugin.ts'
import { Worktrees, type WorktreeService } from '../../plugins/worktrees/api.ts'
import { until } from '../harness/wait.ts'
import type { Station } from '../sessions/station.ts'
import { branchOff, git, grove, repositoryAt, write, type Repository } from './repository.ts'

async function observed(): Promise<{
  s: Station
  repo: Repository
  hold: (id: string) => Promise<string | undefined>
  service: () => WorktreeService
}> {
  let worktrees: WorktreeService | undefined
  const observer = definePlugin({
    contract: { name: 'observer', methods: {}, events: {} },
    needs: { worktrees: Worktrees },
    setup({ needs }) {
      worktrees = needs.worktrees
      return { methods: {} }
    },
  })
  const { s, repo } = await grove({ plugins: [observer] })
  const service = (): WorktreeService => worktrees as WorktreeService
  return { s, repo, service, hold: (id) => service().hold(id, new AbortController().signal) }
}

test('what holds a tree back, and what does not', { timeout: 60_000 }, async () => {
  const { s, repo, hold, service } = await observed()
  const { id, worktree_path: path } = await branchOff(s, repo, 'work')
  expect(service().boundTo(id)).toBe(path)
  expect(await hold(id)).toBeUndefined()
  // Ignored files do not.
  write(path, '.git-ignored', 'x')
  write(repo.path, '.git/info/exclude', '.git-ignored\n')
  expect(await hold(id)).toBeUndefined()
  write(path, 'new', 'x')
  expect(await hold(id)).toBe('worktree_untracked')
  write(path, 'read.me', 'changed\n')
  expect(await hold(id)).toBe('worktree_uncommitted')
  git(path, 'add', '--all')
  expect(await hold(id)).toBe('worktree_uncommitted')
  git(path, 'commit', '--quiet', '-m', 'work')
  expect(await hold(id)).toBe('worktree_unpushed')
  // On another branch, at a remote or under a tag it is elsewhere.
  for (const [there, gone] of [
    [
      ['branch', 'copy', 'work'],
      ['branch', '-D', 'copy'],
    ],
    [
      ['tag', 'v1', 'work'],
      ['tag', '-d', 'v1'],
    ],
    [
      ['update-ref', 'refs/remotes/origin/work', 'work'],
      ['update-ref', '-d', 'refs/remotes/origin/work'],
    ],
  ] as const) {
    repo.git(...there)
    expect(await hold(id)).toBeUndefined()
    repo.git(...gone)
  }
  git(path, 'checkout', '--quiet', '--detach')
  expect(await hold(id)).toBeUndefined() // the branch has it
  git(path, 'commit', '--quiet', '--allow-empty', '-m', 'nowhere')
  expect(await hold(id)).toBe('worktree_unpushed')
  rmSync(path, { recursive: true })
  expect(await hold(id)).toBe('worktree_unpushed')
})

test('what cannot be said is a reason; no tree is none', { timeout: 60_000 }, async () => {
  const { s, repo, hold, service } = await observed()
  const plain = await s.create({ cwd: repo.path })
  expect([service().boundTo(plain.id), await hold(plain.id), await hold('s-nobody')]).toEqual([
    undefined,
    undefined,
    undefined,
  ])
  const damaged = await branchOff(s, repo, 'damaged')
  rmSync(join(damaged.worktree_path, '.git'))
  expect(await hold(damaged.id)).toBe('worktree_unknown')
  const index = await branchOff(s, repo, 'index')
  writeFileSync(join(repo.path, '.git/worktrees', index.worktree_path.split('/').pop(), 'index'), 'no index')
  expect(await hold(index.id)).toBe('worktree_unknown')
  const shared = await branchOff(s, repo, 'shared')
  await s.create({ cwd: shared.worktree_path })
  expect(await hold(shared.id)).toBe('worktree_unknown')
  const aborted = new AbortController()
  aborted.abort()
  const clean = await branchOff(s, repo, 'clean')
  expect(await service().hold(clean.id, aborted.signal)).toBe('worktree_unknown')
  repo.git('worktree', 'remove', '--force', clean.worktree_path)
  expect(await hold(clean.id)).toBeUndefined()
})

test(
  'a complete tree whose session record is gone is kept and listed; damaged records undo nothing',
  { timeout: 60_000 },
  async () => {
    const { s, repo } = await grove({ allowErrors: true })
    const info = await branchOff(s, repo, 'kept')
    await s.call('session.stop', info.id)
    write(info.worktree_path, 'new', 'x')
    await s.drop()
    // The session's record is lost, and a making looks interrupted.
    const file = join(s.roots.data, 'pohunek/metadata.jsonl')
    const lines = readFileSync(file, 'utf8').split('\n')
    const kept = lines.map((it) =>
      it.includes('"session"') && it.includes('"info"') ? '{"kind":"session","broken' : it,
    )
    writeFileSync(file, kept.join('\n').replaceAll('"state":"made"', '"state":"making"'))
    await s.start()
    const entry = await until('it is marked', async () => {
      const [it] = await s.call('worktree.list')
      return it?.session_state === undefined ? it : undefined
    })
    expect(entry).toMatchObject({ path: info.worktree_path, branch: 'kept', untracked: 1 })
    expect(existsSync(join(info.worktree_path, 'new'))).toBe(true)
    const { rescued } = await s.call('worktree.remove', { path: info.worktree_path, force: true })
    expect(repo.git('show', `${rescued[0].ref}:new`)).toBe('x')
    // With its record back the session can be taken down.
    await s.drop()
    writeFileSync(file, lines.join('\n'))
    await s.start()
  },
)

test('a project is pruned of trees nobody works in and that hold nothing', { timeout: 60_000 }, async () => {
  const { s, repo } = await grove()
  const live = await branchOff(s, repo, 'live')
  const dirty = await branchOff(s, repo, 'dirty')
  const clean = await branchOff(s, repo, 'clean')
  const other = await branchOff(s, repositoryAt(join(s.roots.work, 'other')), 'other')
  for (const { id } of [dirty, clean, other]) await s.call('session.stop', id)
  write(dirty.worktree_path, 'new', 'x')
  const result = await s.call('project.remove', { reference: 'repo', prune_worktrees: true })
  expect(result).toMatchObject({ removed: true, pruned_worktrees: 1 })
  expect([...result.skipped_worktrees].sort()).toEqual([live.worktree_path, dirty.worktree_path].sort())
  expect([clean, dirty, live, other].map((it) => existsSync(it.worktree_path))).toEqual([false, true, true, true])
})

test('a half-made tree whose session was never recorded is undone by the next start', { timeout: 60_000 }, async () => {
  const { s, repo } = await grove()
  const info = await branchOff(s, repo, 'half')
  await s.drop()
  const file = join(s.roots.data, 'pohunek/metadata.jsonl')
  const lines = readFileSync(file, 'utf8').split('\n')
  writeFileSync(
    file,
    lines
      .map((it) => it.replaceAll('"state":"made"', '"state":"making"'))
      .filter((it) => !it.includes('"info"'))
      .join('\n'),
  )
  await s.start()
  await until('it is undone', async () => (await s.call('worktree.list')).length === 0)
  expect([repo.branches(), repo.trees(), existsSync(info.worktree_path)]).toEqual([['main'], [repo.path], false])
  // Its worker is none of this: with the record back it can be taken down.
  await s.drop()
  writeFileSync(file, lines.join('\n'))
  await s.start()
})
