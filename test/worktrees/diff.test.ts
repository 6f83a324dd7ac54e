import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { cutToFit, MAX_DIFF_BYTES } from '../../plugins/worktrees/diff.ts'
import { refused } from '../harness/session.ts'
import { branchOff, git, grove, repositoryAt, write } from './repository.ts'

test('tracked, staged, committed and untracked work, against the base of the tree', async () => {
  const { s, repo } = await grove()
  repo.write('stays', 'same\n')
  repo.write('.gitignore', 'ignored\n')
  repo.commit()
  const { id, worktree_path: path } = await branchOff(s, repo, 'work')
  write(path, 'committed', 'one\n')
  git(path, 'add', 'committed')
  git(path, 'commit', '--quiet', '-m', 'one')
  write(path, 'read.me', 'changed\n')
  write(path, 'staged', 'two\n')
  git(path, 'add', 'staged')
  write(path, 'deep/un tracked "é"', 'three\n')
  write(path, 'ignored', 'never shown\n')
  repositoryAt(join(path, 'inner'))
  // What happens on the base afterwards is none of this tree's work.
  repo.write('later', 'x\n')
  repo.commit('later')
  const index = (): string => execFileSync('git', ['ls-files', '--stage', '--debug'], { cwd: path }).toString()
  const before = index()
  const { diff, base, truncated } = await s.call('session.diff', { session_id: id })
  expect([base, truncated]).toEqual(['main', false])
  expect(diff).toContain('diff --git a/read.me b/read.me')
  for (const line of ['-first', '+changed', '+one', '+two', '+three', 'new file mode 100644'])
    expect(diff).toContain(`\n${line}`)
  for (const text of ['never shown', 'later', 'inner', 'stays']) expect(diff).not.toContain(text)
  expect(diff).toContain('deep/un tracked')
  expect(index()).toBe(before)
  // It is a patch: applied to the base it gives the same files.
  const copy = join(s.roots.work, 'copy')
  repo.git('worktree', 'add', '--quiet', '--detach', copy, 'main~1')
  execFileSync('git', ['apply', '-'], { cwd: copy, input: diff })
  expect(git(copy, 'status', '--porcelain').split('\n').sort()).toEqual([
    ' M read.me',
    '?? committed',
    '?? deep/',
    '?? staged',
  ])
})

test('a base that is named, one that is nothing, and sessions without a tree', async () => {
  const { s, repo } = await grove()
  const first = repo.git('rev-parse', 'HEAD')
  repo.write('second', 'x\n')
  repo.commit('second')
  repo.git('checkout', '--quiet', '--orphan', 'apart')
  repo.commit('apart')
  repo.git('checkout', '--quiet', 'main')
  const { id } = await branchOff(s, repo, 'work')
  expect(await s.call('session.diff', { session_id: id })).toEqual({ diff: '', base: 'main', truncated: false })
  const named = await s.call('session.diff', { session_id: id, base: first })
  expect([named.base, named.diff.includes('b/second')]).toEqual([first, true])
  for (const [base, code] of [
    ['', 'invalid_branch'],
    ['-x', 'invalid_branch'],
    ['a\nb', 'invalid_branch'],
    ['nothing', 'session_diff_base_unresolved'],
    ['apart', 'session_diff_base_unresolved'],
  ] as const)
    expect((await refused(s.call('session.diff', { session_id: id, base }))).code).toBe(code)
  const plain = await s.create({ cwd: repo.path })
  expect((await refused(s.call('session.diff', { session_id: plain.id }))).code).toBe('session_no_worktree')
  expect((await refused(s.call('session.diff', { session_id: 's-none' }))).code).toBe('session_not_found')
})

test('the base of a tree that started at origin is what both sides have', async () => {
  const { s, repo } = await grove()
  const origin = join(s.roots.work, 'origin.git')
  repo.git('clone', '--quiet', '--bare', '.', origin)
  repo.git('remote', 'add', 'origin', origin)
  repo.git('fetch', '--quiet', 'origin')
  repo.write('upstream', 'x\n')
  repo.commit('upstream')
  repo.git('push', '--quiet', 'origin', 'main')
  repo.git('reset', '--quiet', '--hard', 'HEAD~1')
  const { id, worktree_path: path } = await branchOff(s, repo, 'work', { base_branch: 'main' })
  write(path, 'mine', 'x\n')
  const { diff, base } = await s.call('session.diff', { session_id: id })
  expect([base, diff.includes('b/mine'), diff.includes('upstream')]).toEqual(['main', true, false])
})

test('configuration of the repository does not change what a diff is', async () => {
  const { s, repo } = await grove()
  for (const [key, value] of [
    ['diff.external', 'false'],
    ['diff.noprefix', 'true'],
    ['diff.mnemonicPrefix', 'true'],
    ['color.ui', 'always'],
    ['core.pager', 'false'],
    ['core.fsmonitor', 'false'],
  ] as const)
    repo.git('config', key, value)
  const { id, worktree_path: path } = await branchOff(s, repo, 'work')
  write(path, 'read.me', 'changed\n')
  expect((await s.call('session.diff', { session_id: id })).diff).toMatch(/^diff --git a\/read.me b\/read.me\n/)
})

test('a diff over the bound ends with a whole file', { timeout: 60_000 }, async () => {
  const { s, repo } = await grove()
  const { id, worktree_path: path } = await branchOff(s, repo, 'big')
  for (let at = 0; at < 9; at++) write(path, `file-${at}`, `${'x'.repeat(99)}\n`.repeat(1_000))
  const { diff, truncated } = await s.call('session.diff', { session_id: id })
  expect(truncated).toBe(true)
  expect(Buffer.byteLength(diff)).toBeLessThanOrEqual(MAX_DIFF_BYTES)
  expect(diff.match(/^diff --git/gm)).toHaveLength(5)
  expect(diff.endsWith(`+${'x'.repeat(99)}\n`)).toBe(true)
  // Bytes that are no text, and text that costs many bytes on the wire.
  writeFileSync(join(path, 'a-latin1'), Buffer.from(`${'\u001b'.repeat(90)}\n`.repeat(3_000), 'latin1'))
  const costly = await s.call('session.diff', { session_id: id })
  expect([costly.truncated, costly.diff]).toEqual([true, ''])
})

test('cutting keeps whole files', () => {
  const file = (name: string, lines: number): string =>
    `diff --git a/${name} b/${name}\n${' diff --git\n'.repeat(lines)}`
  const text = file('a', 2) + file('b', 3)
  expect(cutToFit(Buffer.from(text), false)).toEqual({ diff: text, truncated: false })
  expect(cutToFit(Buffer.from(text), true)).toEqual({ diff: file('a', 2), truncated: true })
  expect(cutToFit(Buffer.from(file('a', 2)), true)).toEqual({ diff: '', truncated: true })
  const many = Array.from({ length: 9 }, (_, at) => file(`f${at}`, 6_000)).join('')
  const cut = cutToFit(Buffer.from(many), false)
  expect(cut.truncated).toBe(true)
  expect(cut.diff).toBe(many.slice(0, cut.diff.length))
  expect(many.slice(cut.diff.length)).toMatch(/^diff --git a\/f/)
  expect(cut.diff.length).toBeGreaterThan(MAX_DIFF_BYTES - 100_000)
})
