import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { foldersAbove, isBranchName, slugOf, treeName } from '../../plugins/worktrees/branch.ts'

test('names are taken exactly where git takes them', () => {
  const parts = [
    'a',
    'B7',
    '.',
    '..',
    '/',
    '@',
    '{',
    '-',
    ' ',
    '~',
    '^',
    ':',
    '?',
    '*',
    '[',
    '\\',
    '.lock',
    'HEAD',
    'é',
    '漢',
    '_',
    "'",
    '$(',
    '"',
  ]
  let seed = 42
  const next = (bound: number): number => (seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31) % bound
  const names = new Set([
    '@',
    'HEAD',
    'a/HEAD',
    'a.lock/b',
    'a.lock',
    '.a',
    'a/.b',
    'a.',
    'a./b',
    '@{',
    'a@b',
    '@{-1}',
    '-a',
    'a/-b',
  ])
  while (names.size < 250) names.add(Array.from({ length: 1 + next(5) }, () => parts[next(parts.length)]).join(''))
  for (const name of names) {
    const { status, stdout } = spawnSync('git', ['check-ref-format', '--branch', name], { cwd: '/', encoding: 'utf8' })
    // `@` means HEAD to some of git's commands.
    const taken = status === 0 && stdout === `${name}\n` && name !== '@'
    expect([name, isBranchName(name)]).toEqual([name, taken])
  }
})

test('folder names', () => {
  expect(slugOf('feature/One two!')).toBe('feature-One-two')
  expect(slugOf('--a..b__c--')).toBe('a..b__c')
  expect(slugOf('漢字')).toBe('')
  expect(slugOf('x'.repeat(300))).toHaveLength(100)
  expect(treeName('s-1', 'My Rëpo', 'a/b')).toBe('s-1-My-R-po-a-b')
  expect(treeName('s-1', '漢', 'a')).toBe('s-1-a')
  expect(foldersAbove('a/b/c')).toEqual(['a', 'a/b'])
  expect(foldersAbove('a')).toEqual([])
})
