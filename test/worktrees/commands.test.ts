import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { sizeText, workOf } from '../../plugins/worktrees/commands-trees.ts'
import { until } from '../harness/wait.ts'
import { world, type World } from '../harness/world.ts'
import { git, read, repositoryAt, write, type Repository } from './repository.ts'

const MENU = '\x1c'

const grown = (w: World): Repository => repositoryAt(join(w.roots.work, 'repo'))
async function json(w: World, ...args: string[]): Promise<never> {
  const { code, stdout, stderr } = await w.cli([...args, '--json'], { deadlineMs: 60_000 })
  if (code !== 0) throw new Error(`${args.join(' ')}: ${code}\n${stdout}\n${stderr}`)
  return JSON.parse(stdout).ok as never
}

test('a tree from the command line: new, diff, list, remove, rescue', { timeout: 120_000 }, async () => {
  const w = await world()
  const repo = grown(w)
  const made = await w.cli(['session', 'new', '--repo', 'repo', '--branch', 'topic', '--name', 'one'])
  expect(made.stderr).toBe('')
  const [, id = '', path = ''] = /^session (\S+) created \(state: running\)\nworktree (.+)\n$/.exec(made.stdout) ?? []
  expect(read(path, 'read.me')).toBe('first\n')
  const row = (await w.cli(['session', 'list'])).stdout.split('\n').find((it) => it.startsWith(id)) ?? ''
  expect(row).toMatch(/ repo +topic /)

  write(path, 'read.me', 'changed\n')
  const diff = await w.cli(['session', 'diff', 'one'])
  expect(diff.stdout).toMatch(/^diff --git a\/read.me b\/read.me\n[^]*-first\n\+changed\n$/)
  expect(await json(w, 'session', 'diff', 'one', '--base', 'HEAD')).toMatchObject({ base: 'HEAD', truncated: false })

  const listed = await w.cli(['worktree', 'list'])
  expect(listed.stdout.split('\n')[0]).toMatch(/^SESSION +OWNER +STATE +BRANCH +SIZE +UNSAVED +PATH$/)
  expect(listed.stdout).toMatch(new RegExp(`^${id} +running +present +topic +\\S+ KiB +1 uncommitted +${path}`, 'm'))
  expect(await json(w, 'worktree', 'list', '--no-size')).toMatchObject([
    { session_id: id, uncommitted: 1, untracked: 0 },
  ])

  const inUse = await w.cli(['worktree', 'remove', path])
  expect([
    inUse.code,
    inUse.stderr.includes('worktree_in_use') || inUse.stderr.includes(`session ${id} runs in`),
  ]).toEqual([1, true])
  await w.cli(['session', 'stop', id])
  const unsaved = await w.cli(['worktree', 'rm', path])
  expect([unsaved.code, /1 uncommitted change/.test(unsaved.stderr), /--force/.test(unsaved.stderr)]).toEqual([
    1,
    true,
    true,
  ])
  const removed = await w.cli(['worktree', 'remove', path, '--force'])
  const [, ref = ''] = /^worktree .+ removed\nunsaved work is kept as (\S+)\n$/.exec(removed.stdout) ?? []
  expect(existsSync(path)).toBe(false)

  const rescues = await w.cli(['worktree', 'rescue', 'list'])
  expect(rescues.stdout).toContain(ref)
  const restored = await w.cli(['worktree', 'rescue', 'restore', ref, '--branch', 'back'])
  expect(restored.stdout).toBe(`branch back made in ${repo.path}\n`)
  expect(repo.git('show', 'back:read.me')).toBe('changed')
  const again = await json(w, 'session', 'new', '--repo', repo.path, '--branch', 'back', '--reuse-branch')
  expect(read((again as { worktree_path: string }).worktree_path, 'read.me')).toBe('changed\n')

  write((again as { worktree_path: string }).worktree_path, 'new', 'x\n')
  const rm = await w.cli(['session', 'rm', (again as { id: string }).id])
  expect(rm.stdout).toMatch(
    /^session \S+: removed=true stopped=true\nunsaved work of the worktree is kept as refs\/pohunek\/rescue\/\S+ in .+\n$/,
  )
  expect((await w.cli(['session', 'rm', id])).stdout).toBe(`session ${id}: removed=true stopped=false\n`)
  expect((await w.cli(['worktree', 'list'])).stderr).toContain('no worktrees')
})

test('what cannot be is said before and after dialling', async () => {
  const w = await world()
  const repo = grown(w)
  for (const args of [
    ['--base-branch', 'main'],
    ['--reuse-branch'],
    ['--project', 'p', '--repo', '.', '--branch', 'x'],
    ['--repo', '.', '--branch', 'x', '--base-branch', 'main', '--reuse-branch'],
    ['--branch', ''],
  ])
    expect([args, (await w.cli(['session', 'new', ...args])).code]).toEqual([args, 2])
  const nowhere = await w.cli(['session', 'new', '--branch', 'x'])
  expect([nowhere.code, nowhere.stderr.includes('needs --repo or --project')]).toEqual([2, true])
  const held = await w.cli(['session', 'new', '--repo', repo.path, '--branch', 'main'])
  expect([held.code, held.stderr.includes(repo.path), held.stderr.includes('--cwd')]).toEqual([1, true, true])
  expect((await w.cli(['session', 'diff', 'nobody'])).code).toBe(1)
  expect((await w.cli(['worktree', 'rescue', 'restore', 'refs/heads/main'])).code).toBe(1)
})

test(
  'the attach menu: a new session in the same worktree, and one that goes with its worktree',
  { timeout: 60_000 },
  async () => {
    const w = await world()
    const repo = grown(w)
    const first = await w.sh('echo ready; exec sleep 60', { cwd: undefined, repo: repo.path, branch: 'topic' })
    const { worktree_path: path } = await first.info()
    const outer = w.terminal(['attach', first.id])
    await outer.until('ready')
    outer.write(MENU)
    await outer.until('new session in the same worktree')
    outer.write('n')
    const second = await until('a second session', async () =>
      ((await w.call('session.list')) as { id: string; cwd: string }[]).find((it) => it.id !== first.id),
    )
    expect(second.cwd).toBe(path)
    await outer.until((screen) => screen.includes('ready') && !screen.includes('new session'))
    await w.call('session.remove', second.id)
    await outer.ended()

    write(path, 'new', 'unsaved\n')
    const last = w.terminal(['attach', first.id])
    await last.until('ready')
    last.write(MENU)
    await last.until('remove the session and its worktree')
    last.write('t')
    await last.until('Its branch stays.')
    last.write('y')
    await last.until('unsaved work of its worktree is kept as refs/pohunek/rescue/')
    expect(await last.ended()).toBe(0)
    expect(existsSync(path)).toBe(false)
    expect(git(repo.path, 'show', `${repo.rescues()[0]}:new`)).toBe('unsaved')
    expect(repo.branches()).toEqual(['main', 'topic'])
  },
)

test('sizes and work in words', () => {
  expect([0, 1, 1_023, 1_024, 1_536, 200_000, 5 * 1_024 ** 3].map(sizeText)).toEqual([
    '0 B',
    '1 B',
    '1023 B',
    '1.0 KiB',
    '1.5 KiB',
    '195 KiB',
    '5.0 GiB',
  ])
  const entry = { path: '/p', repo: '/r', session_id: 's', state: 'present', created_at: '' } as const
  expect(workOf(entry)).toBe('unknown')
  expect(workOf({ ...entry, uncommitted: 0, untracked: 0, unpushed: false })).toBe('-')
  expect(workOf({ ...entry, uncommitted: 2, untracked: 1, unpushed: true })).toBe(
    '2 uncommitted, 1 untracked, unpushed',
  )
})
