import { existsSync, mkdirSync, readdirSync, writeFileSync, rmSync, chmodSync } from 'node:fs'
import { basename, join } from 'node:path'
import { expect, test } from 'vitest'
import { delay, systemClock } from '../../kernel/clock.ts'
import { refused } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import type { Station } from '../sessions/station.ts'
import { branchOff, git, grove, read, repositoryAt, Repository, write } from './repository.ts'

const managed = (s: Station): string => join(s.roots.data, 'pohunek/worktrees')
const folders = (s: Station): string[] => (existsSync(managed(s)) ? readdirSync(managed(s)) : [])

test('a branch gets a tree of its own, told on the session', async () => {
  const { s, repo } = await grove()
  const head = repo.git('rev-parse', 'HEAD')
  const info = await branchOff(s, repo, 'feature/One two!'.replace(' ', '-'))
  const path = join(managed(s), `${info.id}-repo-feature-One-two`)
  expect(info).toMatchObject({
    cwd: path,
    worktree_path: path,
    repo: repo.path,
    branch: 'feature/One-two!',
    is_linked_worktree: true,
  })
  expect(info.warnings).toBeUndefined()
  expect(read(path, 'read.me')).toBe('first\n')
  expect(git(path, 'rev-parse', 'HEAD')).toBe(head)
  expect(git(path, 'symbolic-ref', 'HEAD')).toBe('refs/heads/feature/One-two!')
  expect(repo.git('config', '--list', '--local')).not.toMatch(/^branch\./m)
  expect(repo.trees()).toEqual([repo.path, path])
  // Removing the session takes the tree and keeps the branch.
  expect(await s.call('session.remove', info.id)).toEqual({
    removed: true,
    stopped: true,
    worktrees_removed: 1,
    worktrees_failed: 0,
  })
  expect(existsSync(path)).toBe(false)
  expect(repo.trees()).toEqual([repo.path])
  expect(repo.branches()).toEqual(['feature/One-two!', 'main'])
  expect(await s.call('worktree.list')).toEqual([])
})

test('without a branch the session runs in the root of the checkout', async () => {
  const { s, repo } = await grove()
  mkdirSync(join(repo.path, 'deep/er'), { recursive: true })
  const info = await s.create({ cwd: undefined, repo: join(repo.path, 'deep') })
  expect(info.cwd).toBe(repo.path)
  expect(folders(s)).toEqual([])
  const { worktrees_removed } = await s.call('session.remove', info.id)
  expect(worktrees_removed).toBe(0)
  expect(existsSync(join(repo.path, 'read.me'))).toBe(true)
})

test('what means nothing is refused before anything is made', async () => {
  const { s, repo } = await grove()
  const bare = join(s.roots.work, 'bare.git')
  git(s.roots.work, 'init', '--quiet', '--bare', bare)
  const empty = join(s.roots.work, 'empty')
  git(s.roots.work, 'init', '--quiet', empty)
  const cases: [Record<string, unknown>, string, RegExp][] = [
    [{ branch: 'x' }, 'bad_request', /needs project or repo/],
    [{ repo: repo.path, project: 'p' }, 'bad_request', /exclude/],
    [{ repo: repo.path, base_branch: 'main' }, 'bad_request', /needs branch/],
    [{ repo: 'repo', branch: 'x' }, 'bad_request', /absolute/],
    [{ repo: bare }, 'bad_request', /bare/],
    [{ repo: join(s.roots.work, 'none'), branch: 'x' }, 'not_a_git_repo', /none/],
    [{ repo: s.roots.work, branch: 'x' }, 'not_a_git_repo', /in no git repository/],
    [{ repo: empty, branch: 'x' }, 'worktree_add_failed', /no commit/],
    [{ repo: bare, branch: 'x' }, 'worktree_add_failed', /no commit/],
    [{ project: 'nobody', branch: 'x' }, 'project_not_found', /nobody/],
    [{ repo: repo.path, branch: '' }, 'invalid_branch', /empty/],
    [{ repo: repo.path, branch: '-x' }, 'invalid_branch', /starts with -/],
    [{ repo: repo.path, branch: 'a\u0007b' }, 'invalid_branch', /control/],
    [{ repo: repo.path, branch: 'a..b' }, 'invalid_branch', /git takes/],
    [{ repo: repo.path, branch: '@{' }, 'invalid_branch', /./],
    [{ repo: repo.path, branch: '@{-1}x' }, 'invalid_branch', /git takes/],
    [{ repo: repo.path, branch: 'HEAD' }, 'invalid_branch', /git takes/],
    [{ repo: repo.path, branch: 'x.lock' }, 'invalid_branch', /git takes/],
    [{ repo: repo.path, branch: 'žluť~' }, 'invalid_branch', /git takes/],
    [{ repo: repo.path, branch: '漢字' }, 'invalid_branch_slug', /ASCII|character/],
    [{ repo: repo.path, branch: 'x', base_branch: '-m' }, 'invalid_base_branch', /starts with -/],
    [{ repo: repo.path, branch: 'x', reuse_branch: true }, 'invalid_branch', /does not exist/],
  ]
  for (const [params, code, says] of cases) {
    const error = await refused(s.create({ cwd: undefined, ...params }))
    expect([params, error.code]).toEqual([params, code])
    expect(error.body.msg).toMatch(says)
  }
  expect(repo.branches()).toEqual(['main'])
  expect(folders(s)).toEqual([])
  expect(s.traces()).toEqual([])
})

test('FC-50f0: a branch in use names its holder and leaves nothing behind; an unused one is reused on request', async () => {
  const { s, repo } = await grove()
  const main = await refused(branchOff(s, repo, 'main'))
  expect([main.code, main.body.msg.includes(repo.path)]).toEqual(['worktree_branch_in_use', true])
  const holder = await branchOff(s, repo, 'held')
  const held = await refused(branchOff(s, repo, 'held', { reuse_branch: true }))
  expect(held.code).toBe('worktree_branch_in_use')
  expect(held.body.msg).toContain(holder.worktree_path)
  expect(held.body.msg).toContain(holder.id)
  expect(held.body.recover).toContain('--cwd')
  repo.git('branch', 'unused')
  const unused = await refused(branchOff(s, repo, 'unused'))
  expect([unused.code, unused.body.msg.includes('--reuse-branch')]).toEqual(['invalid_branch', true])
  expect(repo.trees()).toHaveLength(2)
  const reused = await branchOff(s, repo, 'unused', { reuse_branch: true })
  expect(reused.branch).toBe('unused')
  expect(await s.call('session.list')).toHaveLength(2)
  await s.call('session.remove', reused.id)
  expect(repo.branches()).toContain('unused')
})

test('FC-facf: names that clash with branch folders are refused before anything is made', async () => {
  const { s, repo } = await grove()
  repo.git('branch', 'release/1')
  for (const [branch, clash] of [
    ['release', 'release/1'],
    ['release/1/x', 'release/1'],
  ] as const) {
    const error = await refused(branchOff(s, repo, branch))
    expect([error.code, error.body.msg.includes(`the branch ${clash}:`)]).toEqual(['invalid_branch', true])
    expect(error.body.recover).toBeDefined()
  }
  expect((await branchOff(s, repo, 'release/2')).branch).toBe('release/2')
  // Folder names are cleaned, and unique by the session.
  const one = await branchOff(s, repo, 'a/b')
  const two = await branchOff(s, repo, 'a-b')
  expect(basename(one.worktree_path).replace(one.id, '')).toBe(basename(two.worktree_path).replace(two.id, ''))
  expect(one.worktree_path).not.toBe(two.worktree_path)
})

test(
  'FC-1761: sixteen at once in one repository, also while its configuration is locked',
  { timeout: 120_000 },
  async () => {
    const { s, repo } = await grove()
    const origin = join(s.roots.work, 'origin.git')
    repo.git('clone', '--quiet', '--bare', '.', origin)
    repo.git('remote', 'add', 'origin', origin)
    repo.git('fetch', '--quiet', 'origin')
    const lock = join(repo.path, '.git/config.lock')
    writeFileSync(lock, '')
    const unlocked = delay(systemClock, 3_000).then(() => rmSync(lock))
    const made = await Promise.all(
      Array.from({ length: 16 }, async (_, at) => {
        const wire = await s.connect()
        const params = { agent: 'shell', cols: 80, rows: 24, repo: repo.path, branch: `b${at}`, base_branch: 'main' }
        return await wire.call('session.new', params, { deadlineMs: 60_000 })
      }),
    )
    await unlocked
    expect(new Set(made.map((it) => it.worktree_path)).size).toBe(16)
    expect(repo.branches()).toHaveLength(17)
    expect(repo.trees()).toHaveLength(17)
    expect(repo.git('config', '--list', '--local')).not.toMatch(/^branch\./m)
  },
)

test('the same branch asked for twice at once is made once', async () => {
  const { s, repo } = await grove()
  const answers = await Promise.all(
    [1, 2, 3].map(async () => {
      const wire = await s.connect()
      return await wire
        .call('session.new', { agent: 'shell', cols: 80, rows: 24, repo: repo.path, branch: 'one' })
        .catch((failure: { code: string }) => failure.code)
    }),
  )
  expect(answers.filter((it) => typeof it !== 'string')).toHaveLength(1)
  expect(new Set(answers.filter((it) => typeof it === 'string'))).toEqual(new Set(['worktree_branch_in_use']))
  expect(repo.trees()).toHaveLength(2)
  expect(folders(s)).toHaveLength(1)
})

test('FC-4ddf: a failed launch takes tree and branch back, and the next try has them', async () => {
  const { s, repo } = await grove()
  const program = join(s.roots.work, 'broken')
  writeFileSync(program, '#!/no/such/interpreter\n', { mode: 0o755 })
  s.profile('broken', ['base = "shell"', `program = ${JSON.stringify(program)}`])
  s.profile('missing', ['base = "shell"', 'program = "/no/such/agent"'])
  for (const agent of ['broken', 'missing']) {
    const error = await refused(branchOff(s, repo, 't1', { agent }))
    expect(['spawn_failed', 'agent_binary_missing']).toContain(error.code)
    expect(repo.branches()).toEqual(['main'])
    expect(repo.trees()).toEqual([repo.path])
    expect(folders(s)).toEqual([])
    expect(await s.call('worktree.list')).toEqual([])
    expect(await s.call('session.list')).toEqual([])
  }
  expect((await branchOff(s, repo, 't1')).branch).toBe('t1')
})

test('FC-4ddf: so does a first prompt that cannot be delivered; what the program did until then is kept', async () => {
  const { s, repo } = await grove()
  const program = ['-c', 'if [ -e early ]; then echo x > new.c; fi; exit 3']
  s.profile('brief', ['base = "shell"', 'program = "/bin/sh"', `args = ${JSON.stringify(program)}`])
  const params = { agent: 'brief', input: 'hello', accept_startup_grace: true }
  await refused(branchOff(s, repo, 't1', params))
  expect([repo.branches(), repo.trees(), repo.rescues()]).toEqual([['main'], [repo.path], []])
  repo.write('early', '')
  repo.commit()
  await refused(branchOff(s, repo, 't1', params))
  expect([repo.branches(), repo.trees(), folders(s)]).toEqual([['main'], [repo.path], []])
  const [ref = ''] = repo.rescues()
  expect(repo.git('show', `${ref}:new.c`)).toBe('x')
  expect(await s.call('session.list')).toEqual([])
})

test('a failing checkout is taken back completely: hooks, filters, full folders', async () => {
  const { s, repo } = await grove()
  write(repo.path, '.git/hooks/post-checkout', '#!/bin/sh\nexit 3\n')
  chmodSync(join(repo.path, '.git/hooks/post-checkout'), 0o755)
  expect((await refused(branchOff(s, repo, 'hooked'))).code).toBe('worktree_add_failed')
  rmSync(join(repo.path, '.git/hooks/post-checkout'))
  repo.write('.gitattributes', '*.bin filter=big\n')
  repo.write('a.bin', 'x')
  repo.commit()
  repo.git('config', 'filter.big.smudge', 'no-such-program-at-all')
  repo.git('config', 'filter.big.required', 'true')
  const filtered = await refused(branchOff(s, repo, 'filtered'))
  expect([filtered.code, /no-such-program|smudge/.test(filtered.body.msg)]).toEqual(['worktree_add_failed', true])
  expect(filtered.body.msg).not.toContain('\n')
  expect(repo.branches()).toEqual(['main'])
  expect(repo.trees()).toEqual([repo.path])
  expect(folders(s)).toEqual([])
})

test('the base: fetched from origin, the local one when it is ahead, HEAD with a warning when there is none', async () => {
  const { s, repo } = await grove()
  const origin = join(s.roots.work, 'origin.git')
  repo.git('clone', '--quiet', '--bare', '.', origin)
  repo.git('remote', 'add', 'origin', origin)
  repo.git('fetch', '--quiet', 'origin')
  // Somebody else pushes.
  const other = join(s.roots.work, 'other')
  git(s.roots.work, 'clone', '--quiet', origin, other)
  const theirs = new Repository(other)
  theirs.write('theirs', 'x')
  const pushed = theirs.commit('theirs')
  theirs.git('push', '--quiet', 'origin', 'main')
  const fetched = await branchOff(s, repo, 'fetched', { base_branch: 'main' })
  expect(git(fetched.worktree_path, 'rev-parse', 'HEAD')).toBe(pushed)
  expect(fetched.warnings).toBeUndefined()
  expect(existsSync(join(repo.path, '.git/FETCH_HEAD')) && read(repo.path, '.git/FETCH_HEAD')).not.toContain(pushed)
  // The local branch has a commit nobody pushed.
  repo.git('reset', '--quiet', '--hard', pushed)
  repo.write('mine', 'x')
  const local = repo.commit('mine')
  const ahead = await branchOff(s, repo, 'ahead', { base_branch: 'main' })
  expect(git(ahead.worktree_path, 'rev-parse', 'HEAD')).toBe(local)
  // A branch only here, a branch nowhere, a remote that is gone.
  repo.git('branch', 'only-here', pushed)
  const here = await branchOff(s, repo, 'here', { base_branch: 'only-here' })
  expect([git(here.worktree_path, 'rev-parse', 'HEAD'), here.warnings]).toEqual([pushed, undefined])
  const fallen = await branchOff(s, repo, 'fallen', { base_branch: 'nowhere' })
  expect(git(fallen.worktree_path, 'rev-parse', 'HEAD')).toBe(local)
  expect(fallen.warnings).toMatchObject([{ kind: 'base_branch_fallback' }])
  rmSync(origin, { recursive: true })
  const offline = await branchOff(s, repo, 'offline', { base_branch: 'main' })
  expect(offline.warnings).toMatchObject([{ kind: 'fetch' }])
  expect(git(offline.worktree_path, 'rev-parse', 'HEAD')).toBe(local)
})

test(
  'FC-7f56: paths with spaces, quotes, substitutions, line feeds and other letters',
  { timeout: 60_000 },
  async () => {
    const { s } = await grove()
    for (const name of ["My Rëpo $(id) 'x'", 'two\nlines', '漢字 "q" \\']) {
      const repo = repositoryAt(join(s.roots.work, name))
      const info = await branchOff(s, repo, 'topic')
      const path = info.worktree_path as string
      expect(repo.trees()).toEqual([repo.path, path])
      const odd = 'new $(id) ë\nfile'
      write(path, odd, 'text\n')
      const [entry] = await s.call('worktree.list', { sizes: true })
      expect(entry).toMatchObject({ path, repo: repo.path, branch: 'topic', untracked: 1, state: 'present' })
      expect(entry.size_bytes).toBeGreaterThan(0)
      const { diff } = await s.call('session.diff', { session_id: info.id })
      expect(diff).toContain('+text')
      expect(JSON.stringify([entry, diff])).not.toMatch(/uid=/)
      const { rescued, worktrees_removed } = await s.call('session.remove', info.id)
      expect(worktrees_removed).toBe(1)
      expect(repo.git('show', `${rescued[0].ref}:${odd}`)).toBe('text')
      expect(repo.trees()).toEqual([repo.path])
    }
  },
)

test('a bare repository serves trees', async () => {
  const { s, repo } = await grove()
  const bare = join(s.roots.work, 'store.git')
  repo.git('clone', '--quiet', '--bare', '.', bare)
  const info = await s.create({ cwd: undefined, repo: bare, branch: 'b' })
  expect(info.repo).toBe(bare)
  expect(basename(info.worktree_path)).toBe(`${info.id}-store-b`)
  expect((await s.call('session.remove', info.id)).worktrees_removed).toBe(1)
})

test('a repository of somebody else is refused with what git says', async () => {
  if (process.geteuid?.() !== 0) return
  const { s, repo } = await grove()
  git(s.roots.work, 'config', '--file', join(repo.path, '.git/config'), 'x.y', 'z')
  const { chownSync } = await import('node:fs')
  chownSync(join(repo.path, '.git'), 12_345, 12_345)
  chownSync(repo.path, 12_345, 12_345)
  const error = await refused(branchOff(s, repo, 'b'))
  expect([error.code, /ownership/.test(error.body.msg)]).toEqual(['not_a_git_repo', true])
  expect(error.body.msg).not.toContain('\n')
  chownSync(join(repo.path, '.git'), 0, 0)
  chownSync(repo.path, 0, 0)
})

test('a tree that is being made is nobody else to take', { timeout: 60_000 }, async () => {
  const { s, repo } = await grove()
  const gate = join(s.roots.work, 'gate')
  repo.write('.pohunek/setup', `while ! [ -e '${gate}' ]; do sleep 0.05; done\n`)
  const wire = await s.connect()
  const params = { agent: 'shell', cols: 80, rows: 24, repo: repo.path, branch: 'slow' }
  const creating = wire.call('session.new', params, { deadlineMs: 60_000 })
  const path = await until('it is being made', async () => {
    const [it] = await s.call('worktree.list')
    return it?.state === 'making' && existsSync(it.path) ? (it.path as string) : undefined
  })
  expect((await refused(s.call('worktree.remove', { path, force: true }))).code).toBe('worktree_in_use')
  const { skipped_worktrees } = await s.call('project.remove', { reference: 'repo', prune_worktrees: true })
  expect(skipped_worktrees).toEqual([path])
  writeFileSync(gate, '')
  expect((await creating).worktree_path).toBe(path)
  expect(read(path, 'read.me')).toBe('first\n')
})
