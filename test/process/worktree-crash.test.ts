/**
 * The daemon is killed at each durable or external step of making, unmaking and removing a managed tree; the next one
 * leaves either all of it or nothing, and never loses work.
 */
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test, type TestContext } from 'vitest'
import { WORKTREE_CRASH_POINTS } from '../../platform/crash-points.ts'
import { CrashCases, inCrashWorld, type CrashWorld } from '../harness/crash.ts'
import { until } from '../harness/wait.ts'
import type { Answer } from '../harness/wire.ts'
import { git, repositoryAt, write, type Repository } from '../worktrees/repository.ts'

const TIMEOUT = { timeout: 240_000 }

const points = new CrashCases()

const repositoryOf = (w: CrashWorld): Repository => repositoryAt(join(w.roots.work, 'repo'))
const folders = (w: CrashWorld): string[] => {
  const path = join(w.roots.data, 'pohunek/worktrees')
  return existsSync(path) ? readdirSync(path) : []
}
const create = async (w: CrashWorld, repo: Repository, agent = 'shell'): Promise<Answer> =>
  await w.call('session.new', { agent, cols: 80, rows: 24, repo: repo.path, branch: 'topic' })
const list = async (w: CrashWorld): Promise<Answer[]> => (await w.call('worktree.list')) as Answer[]

/** No session, no tree, no branch, no record; and the name is free. */
async function expectNothing(w: CrashWorld, repo: Repository): Promise<void> {
  await until(
    'nothing is left',
    async () => (await w.call('session.list')).length === 0 && (await list(w)).length === 0,
    {
      deadlineMs: 20_000,
      show: () => w.files('data').join('\n'),
    },
  )
  await w.nothingStrays()
  expect(folders(w)).toEqual([])
  expect(repo.trees()).toEqual([repo.path])
  expect(repo.branches()).toEqual(['main'])
  const again = await create(w, repo)
  expect(again.branch).toBe('topic')
  await w.call('session.remove', again.id)
}

describe.concurrent('session.new with a branch', () => {
  const CASES = points.of([
    'worktree.recorded',
    'worktree.branched',
    'worktree.added',
    'worktree.made',
    'create.prepared',
    'create.initialized',
  ])
  test.for(CASES)('%s', TIMEOUT, async (at, context: TestContext) => {
    await inCrashWorld(context, async (w) => {
      const repo = repositoryOf(w)
      await w.startDying(at)
      await expect(create(w, repo)).rejects.toThrow()
      await w.dies()
      await w.startDying()
      await expectNothing(w, repo)
    })
  })

  test.for(points.of(['worktree.undone', 'teardown.left']))(
    'a failed one is undone: %s',
    TIMEOUT,
    async (at, context) => {
      await inCrashWorld(context, async (w) => {
        const repo = repositoryOf(w)
        const program = join(w.roots.work, 'no-program')
        writeFileSync(program, '#!/no/such/interpreter\n', { mode: 0o755 })
        const agent = w.profile(program)
        await w.startDying(at)
        await expect(create(w, repo, agent)).rejects.toThrow()
        await w.dies()
        await w.startDying()
        await expectNothing(w, repo)
      })
    },
  )

  test.for(points.of(['worktree.undone', 'teardown.left']))(
    'the daemon that undoes it dies too: %s',
    TIMEOUT,
    async (at, context) => {
      await inCrashWorld(context, async (w) => {
        const repo = repositoryOf(w)
        await w.startDying('worktree.added')
        await expect(create(w, repo)).rejects.toThrow()
        await w.dies()
        await w.startDying(at, { unready: true })
        await w.dies()
        await w.startDying()
        await expectNothing(w, repo)
      })
    },
  )

  test('what a program did before its creation was undone is kept under a ref', TIMEOUT, async (context) => {
    await inCrashWorld(context, async (w) => {
      const repo = repositoryOf(w)
      await w.startDying('create.initialized')
      const agent = w.profile('/bin/sh', ['-c', 'echo mine > new.c; exec sleep 99'])
      await expect(create(w, repo, agent)).rejects.toThrow()
      await w.dies()
      const [folder = ''] = folders(w)
      await until('the program worked', () => existsSync(join(w.roots.data, 'pohunek/worktrees', folder, 'new.c')))
      await w.startDying()
      await until('it is undone', async () => (await list(w)).length === 0, { deadlineMs: 20_000 })
      expect(folders(w)).toEqual([])
      const [ref = ''] = repo.rescues()
      expect(repo.git('show', `${ref}:new.c`)).toBe('mine')
    })
  })
})

describe.concurrent('session.remove with a tree', () => {
  const CASES = points.of([
    'remove.recorded',
    'worktree.rescued',
    'worktree.removed',
    'teardown.left',
    'remove.forgotten',
  ])
  test.for(CASES)('%s', TIMEOUT, async (at, context: TestContext) => {
    await inCrashWorld(context, async (w) => {
      const repo = repositoryOf(w)
      await w.startDying(at)
      const { id, worktree_path: path } = await create(w, repo)
      write(path, 'new.c', 'unsaved\n')
      git(path, 'commit', '--quiet', '--allow-empty', '-m', 'saved')
      await expect(w.call('session.remove', id)).rejects.toThrow()
      await w.dies()
      await w.startDying()
      await until('it is gone', async () => (await list(w)).length === 0, { deadlineMs: 20_000 })
      await w.nothingStrays()
      expect(await w.call('session.list')).toEqual([])
      expect(folders(w)).toEqual([])
      expect(repo.trees()).toEqual([repo.path])
      expect(repo.git('log', '-1', '--format=%s', 'topic')).toBe('saved')
      const rescues = repo.rescues()
      expect(rescues.length).toBeGreaterThan(0)
      expect(rescues.map((it) => repo.git('show', `${it}:new.c`))).toEqual(rescues.map(() => 'unsaved'))
    })
  })
})

test('every point of worktrees is died at', () => {
  expect(points.missing(WORKTREE_CRASH_POINTS)).toEqual([])
})
