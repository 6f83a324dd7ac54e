import { chmodSync, existsSync, lstatSync, mkdirSync, readlinkSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { unmatched } from '../../plugins/worktrees/copy.ts'
import { branchOff, git, grove, read, write } from './repository.ts'

test('FC-c9ac: ignored files on the list come along; tracked ones, links outside and missing ones do not', async () => {
  const { s, repo } = await grove()
  repo.write('.gitignore', '.env*\nlocal/\n*.key\nout\nlinked\nelsewhere\n')
  repo.write('tracked.key.md', 'tracked\n')
  repo.write(
    '.pohunek/copy',
    [
      '# what a tree needs',
      '.env*',
      '!.env.not',
      'local/',
      '/gone.key',
      'out',
      'inside',
      'loose',
      'linked',
      'elsewhere',
      '',
    ].join('\n'),
  )
  repo.write('elsewhere/tracked', 'of the branch\n')
  repo.git('add', '--force', 'elsewhere/tracked')
  repo.commit('the list')
  repo.write('.env', 'SECRET=1\n')
  chmodSync(join(repo.path, '.env'), 0o600)
  repo.write('.env.local', 'x\n')
  repo.write('.env.not', 'x\n')
  repo.write('local/deep/$(id) "é"\nfile', 'odd\n')
  repo.write('loose', 'not ignored\n')
  symlinkSync('/etc/passwd', join(repo.path, 'out'))
  symlinkSync('.env', join(repo.path, 'linked'))
  // In the branch of the tree the same name is a tracked file, with other content.
  repo.git('checkout', '--quiet', '-b', 'other')
  repo.git('add', '--force', '.env.local')
  repo.git('commit', '--quiet', '-m', 'tracked there')
  repo.git('checkout', '--quiet', 'main')
  repo.write('.env.local', 'of the main checkout\n')
  const info = await branchOff(s, repo, 'topic', { base_branch: 'other' })
  const path = info.worktree_path as string
  expect(read(path, '.env')).toBe('SECRET=1\n')
  expect(statSync(join(path, '.env')).mode & 0o777).toBe(0o600)
  expect(read(path, 'local/deep/$(id) "é"\nfile')).toBe('odd\n')
  expect(readlinkSync(join(path, 'linked'))).toBe('.env')
  expect(read(path, '.env.local')).toBe('x\n')
  for (const missing of ['.env.not', 'loose', 'out']) expect(existsSync(join(path, missing))).toBe(false)
  expect(git(path, 'status', '--porcelain')).toBe('')
  const told = (info.warnings as { kind: string; message: string }[]).map((it) => `${it.kind}: ${it.message}`)
  expect(told.sort()).toEqual([
    expect.stringMatching(/^setup_script: "\.env\.local", "loose" not copied: git does not ignore them$/),
    expect.stringMatching(/^setup_script: "\/gone\.key", "inside", "elsewhere" not copied: not there/),
    expect.stringMatching(/^setup_script: "out" not copied: it links outside$/),
  ])
  // Copied files are ignored: they hold nothing back.
  await s.call('session.stop', info.id)
  expect(await s.call('worktree.remove', { path })).toEqual({ removed: true })
  expect(read(repo.path, '.env')).toBe('SECRET=1\n')
})

test('nothing is written through a link of the branch', async () => {
  const { s, repo } = await grove()
  const outside = join(s.roots.work, 'outside')
  mkdirSync(outside)
  repo.write('.gitignore', 'conf/*.env\n')
  repo.write('.pohunek/copy', 'conf/*.env\n')
  repo.commit()
  repo.git('checkout', '--quiet', '-b', 'evil')
  symlinkSync(outside, join(repo.path, 'conf'))
  repo.git('add', '--force', 'conf')
  repo.git('commit', '--quiet', '-m', 'a link')
  repo.git('checkout', '--quiet', 'main')
  repo.write('conf/a.env', 'SECRET\n')
  const info = await branchOff(s, repo, 'topic', { base_branch: 'evil' })
  expect(lstatSync(join(info.worktree_path, 'conf')).isSymbolicLink()).toBe(true)
  expect(existsSync(join(outside, 'a.env'))).toBe(false)
  expect(info.warnings).toHaveLength(1)
})

test('without a list nothing is copied, and one that cannot be read is a warning', async () => {
  const { s, repo } = await grove()
  repo.write('.gitignore', '.env\n.pohunek\n')
  repo.commit()
  repo.write('.env', 'x')
  const none = await branchOff(s, repo, 'none')
  expect([none.warnings, existsSync(join(none.worktree_path, '.env'))]).toEqual([undefined, false])
  mkdirSync(join(repo.path, '.pohunek/copy'), { recursive: true })
  const broken = await branchOff(s, repo, 'broken')
  expect(broken.warnings).toMatchObject([{ kind: 'setup_script', message: expect.stringContaining('.pohunek/copy') }])
  write(repo.path, 'x', 'x')
})

test('plain patterns without a file are told, patterns with wildcards are not', () => {
  const listed = ['.env', 'a/b/key', 'local/x']
  expect(
    unmatched(['.env', '', '# c', '!no', '/a/b', 'key', 'local/', 'b', '*.none', 'a/key', 'gone/', ' '], listed),
  ).toEqual(['a/key', 'gone/'])
})
