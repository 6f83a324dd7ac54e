/** Retention with a real daemon, real sessions and real repositories: what a sweep takes, what it holds, what it says. */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { hiding, inCrashWorld, unprivileged } from '../harness/crash.ts'
import { runs } from '../harness/processes.ts'
import { Session } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import type { Answer } from '../harness/wire.ts'
import { world, type World } from '../harness/world.ts'
import { git, repositoryAt, write, type Repository } from '../worktrees/repository.ts'
import { ageSessions, owedRemovals } from './aging.ts'

const LONG = { timeout: 120_000 }
const CONFIG = '[workers]\nspares = 0\nstop_grace_ms = 100\nsweep_grace_ms = 1000\n'

interface Made {
  readonly id: string
  readonly path: string
}

interface Place {
  readonly w: World
  readonly repo: Repository
  /** Profile whose program runs until it is stopped. */
  readonly agent: string
  /** A session in a tree of its own, on a branch of that name, whose program runs until it is stopped. */
  readonly make: (branch: string) => Promise<Made>
  /** The same, and its program has ended. */
  readonly over: (branch: string) => Promise<Made>
  /** Another daemon, for which nobody touched a session for years. */
  readonly years: () => Promise<void>
  readonly sweep: (params?: Record<string, unknown>) => Promise<Answer>
}

async function place(): Promise<Place> {
  const w = await world({ config: CONFIG })
  const repo = repositoryAt(join(w.roots.work, 'repo'))
  repo.write('.gitignore', 'build/\n')
  repo.commit('ignoring')
  const agent = w.profile('/bin/cat', [])
  const make = async (branch: string): Promise<Made> => {
    const made = await w.call('session.new', { agent, cols: 80, rows: 24, repo: repo.path, branch })
    return { id: made.id, path: made.worktree_path }
  }
  return {
    w,
    repo,
    agent,
    make,
    over: async (branch) => {
      const made = await make(branch)
      await w.call('session.stop', made.id)
      await new Session(w, made).ended()
      return made
    },
    years: async () => {
      await w.daemon.kill()
      ageSessions(w.roots)
      await w.start()
      await until('every session is what it was', async () =>
        ((await w.call('session.list')) as Answer[]).every((it) => ['live', 'terminal'].includes(it.runtime.state)),
      )
    },
    sweep: (params = { dry_run: false }) => w.call('session.retention.sweep', params),
  }
}

const holds = (swept: Answer): Record<string, string | undefined> =>
  Object.fromEntries((swept.sessions as Answer[]).map((it) => [it.session_id, it.hold]))
const ids = async (w: World): Promise<string[]> =>
  ((await w.call('session.list')) as Answer[]).map((it) => it.id as string).sort()

test('FC-3d64, FC-b67f, FC-8e93: a sweep takes no tree with work in it, and says which work', LONG, async () => {
  const { w, repo, over, years, sweep } = await place()
  const clean = await over('clean')
  const built = await over('built')
  write(built.path, 'build/out', 'made again\n')
  const edited = await over('edited')
  write(edited.path, 'read.me', 'changed\n')
  const fresh = await over('fresh')
  repo.git('config', 'status.showUntrackedFiles', 'no')
  write(fresh.path, 'new.c', 'int main;\n')
  const ahead = await over('ahead')
  git(ahead.path, 'commit', '--quiet', '--allow-empty', '-m', 'mine')
  const adrift = await over('adrift')
  git(adrift.path, 'checkout', '--quiet', '--detach')
  git(adrift.path, 'commit', '--quiet', '--allow-empty', '-m', 'x')
  const commit = git(adrift.path, 'rev-parse', 'HEAD')
  const broken = await over('broken')
  write(broken.path, '.git', 'no pointer\n')
  await years()

  const expected = {
    [clean.id]: undefined,
    [built.id]: undefined,
    [edited.id]: 'worktree_uncommitted',
    [fresh.id]: 'worktree_untracked',
    [ahead.id]: 'worktree_unpushed',
    [adrift.id]: 'worktree_unpushed',
    [broken.id]: 'worktree_unknown',
  }
  expect(holds(await sweep({ dry_run: true }))).toEqual(expected)
  expect(await ids(w)).toHaveLength(7)
  const swept = await sweep()
  expect(holds(swept)).toEqual(expected)
  expect(swept).toMatchObject({
    dry_run: false,
    examined: 7,
    eligible: 2,
    held: 5,
    removed: 2,
    worktrees_cleaned: 2,
    worktrees_failed: 0,
    failed: 0,
  })
  expect(await ids(w)).toEqual([edited, fresh, ahead, adrift, broken].map((it) => it.id).sort())
  for (const it of [edited, fresh, ahead, adrift, broken]) expect(existsSync(it.path)).toBe(true)
  for (const it of [clean, built]) expect(existsSync(it.path)).toBe(false)
  expect(git(adrift.path, 'rev-parse', 'HEAD')).toBe(commit)
  expect(repo.branches()).toEqual(['adrift', 'ahead', 'broken', 'built', 'clean', 'edited', 'fresh', 'main'])
  expect(repo.rescues()).toEqual([])
  // Logs, journals, sockets and the temporary directory went as well.
  const files = (['runtime', 'state', 'cache'] as const).flatMap((root) => w.files(root))
  expect(files.filter((it) => it.includes(clean.id) || it.includes(built.id))).toEqual([])
  expect(files.some((it) => it.includes(edited.id))).toBe(true)
  // An operator's own removal is not subject to holds.
  expect(await w.call('session.remove', edited.id)).toMatchObject({ removed: true, worktrees_removed: 1 })
  expect(repo.rescues()).toHaveLength(1)
  await w.call('session.remove', fresh.id)
})

test('FC-5d0a: a sweep takes a moved tree where it is, and names what only its log had', LONG, async () => {
  const { w, repo, over, years, sweep } = await place()
  const moved = await over('moved')
  git(moved.path, 'checkout', '--quiet', '--detach')
  git(moved.path, 'commit', '--quiet', '--allow-empty', '-m', 'left')
  const commit = git(moved.path, 'rev-parse', 'HEAD')
  git(moved.path, 'checkout', '--quiet', 'moved')
  const to = join(w.roots.work, 'elsewhere')
  repo.git('worktree', 'move', moved.path, to)
  write(moved.path, 'mine', 'mine\n')
  const dirty = await over('dirty')
  const away = join(w.roots.work, 'away')
  repo.git('worktree', 'move', dirty.path, away)
  write(away, 'new.c', 'x\n')
  await years()
  const swept = await sweep()
  expect(holds(swept)).toEqual({ [moved.id]: undefined, [dirty.id]: 'worktree_untracked' })
  expect(swept.sessions.map((it: { worktree_path: string }) => it.worktree_path).sort()).toEqual([away, to])
  expect([existsSync(to), existsSync(join(moved.path, 'mine')), existsSync(away)]).toEqual([false, true, true])
  const [{ ref }] = swept.sessions.flatMap((it: { rescued?: unknown[] }) => it.rescued ?? [])
  expect(repo.git('for-each-ref', '--format=%(refname)', `--contains=${commit}`)).toBe(ref)
})

test('FC-454d: liveness beats age, and a tree that somebody locked stays', LONG, async () => {
  const { w, repo, make, over, years, sweep } = await place()
  const quiet = await make('quiet')
  const locked = await over('locked')
  repo.git('worktree', 'lock', '--reason', 'on a stick', locked.path)
  await years()
  expect(await sweep()).toMatchObject({ examined: 2, eligible: 0, removed: 0, worktrees_failed: 0 })
  expect(existsSync(quiet.path)).toBe(true)
  expect(existsSync(locked.path)).toBe(true)
  expect(await w.call('session.inspect', quiet.id)).toMatchObject({ state: 'running' })
  repo.git('worktree', 'unlock', locked.path)
  expect(await sweep()).toMatchObject({ eligible: 1, removed: 1, worktrees_cleaned: 1 })
})

test('FC-454d: sweeps, creations and removals at the same moment do not meet', LONG, async () => {
  const { w, repo, agent, make, over, years } = await place()
  const old: Made[] = []
  for (let at = 0; at < 6; at++) old.push(await over(`old-${at}`))
  await years()
  const wires = await Promise.all(Array.from({ length: 6 }, () => w.connect()))
  const options = { deadlineMs: 60_000 }
  const removal = (id: string): Promise<number> =>
    (wires[0] as (typeof wires)[0])
      .call('session.remove', id, options)
      .then((it: Answer) => it.worktrees_removed as number)
      .catch((failure: { code?: string }) => {
        if (failure.code !== 'session_not_found') throw failure
        return 0
      })
  const one = (at: number): (typeof wires)[0] => wires[at] as (typeof wires)[0]
  const [first, second, gone, ...made] = await Promise.all([
    one(1).call('session.retention.sweep', { dry_run: false }, options),
    one(2).call('session.retention.sweep', { dry_run: false }, options),
    Promise.all([old[5], old[2]].map((it) => removal((it as Made).id))),
    make('new-0'),
    one(3)
      .call('session.new', { agent, cols: 80, rows: 24, repo: repo.path, branch: 'new-1' }, options)
      .then((it: Answer): Made => ({ id: it.id, path: it.worktree_path })),
    one(4)
      .call('session.new', { agent, cols: 80, rows: 24, repo: repo.path, branch: 'new-2' }, options)
      .then((it: Answer): Made => ({ id: it.id, path: it.worktree_path })),
  ])
  const swept = [first, second] as Answer[]
  // Every tree was taken away once, by one of them.
  const total = swept.reduce((sum, it) => sum + (it.worktrees_cleaned as number), 0)
  expect(total + gone.reduce((sum, it) => sum + it, 0)).toBe(6)
  for (const it of swept) expect(it).toMatchObject({ failed: 0, worktrees_failed: 0, held: 0 })
  expect(await ids(w)).toEqual((made as Made[]).map((it) => it.id).sort())
  for (const it of made as Made[]) {
    expect(existsSync(it.path)).toBe(true)
    expect(await w.call('session.inspect', it.id)).toMatchObject({ state: 'running' })
  }
  expect(repo.trees().sort()).toEqual([repo.path, ...(made as Made[]).map((it) => it.path)].sort())
})

test('FC-f6a4: a dry run tells how many, how large and why; the sweep takes the same', LONG, async () => {
  const { w, over, years, sweep } = await place()
  const MIB = 1_048_576
  const build = (it: Made): void => {
    mkdirSync(join(it.path, 'build'))
    for (let at = 0; at < 4; at++) writeFileSync(join(it.path, 'build', `out-${at}`), Buffer.alloc(MIB, at))
  }
  const large = await over('large')
  build(large)
  const small = await over('small')
  const dirty = await over('dirty')
  build(dirty)
  write(dirty.path, 'read.me', 'changed\n')
  const pinned = await over('pinned')
  await w.call('session.set_metadata', { session_id: pinned.id, metadata: { pin: 'yes' } })
  await years()
  const dry = await sweep({ dry_run: true })
  expect(dry).toMatchObject({ eligible: 2, held: 2, removed: 0 })
  const of = (id: string): Answer => (dry.sessions as Answer[]).find((it) => it.session_id === id)
  expect(of(large.id)).toMatchObject({ reason: 'terminal', worktree_path: large.path })
  expect(of(large.id).worktree_bytes).toBeGreaterThan(4 * MIB)
  expect(of(large.id).worktree_bytes).toBeLessThan(5 * MIB)
  expect(of(small.id).worktree_bytes).toBeLessThan(MIB)
  expect(of(dirty.id)).toMatchObject({ hold: 'worktree_uncommitted' })
  expect(of(dirty.id).worktree_bytes).toBeGreaterThan(4 * MIB)
  expect(of(pinned.id)).toMatchObject({ hold: 'pinned' })
  const shown = await w.cli(['session', 'retention', 'sweep', '--dry-run'])
  expect(shown.code).toBe(0)
  expect(shown.stdout).toMatch(new RegExp(`${large.id} +terminal +\\d+d +would go +4\\.\\d +${large.path}`))
  expect(shown.stdout).toMatch(new RegExp(`${dirty.id} +terminal +\\d+d +worktree_uncommitted +4\\.\\d +${dirty.path}`))
  const swept = await sweep()
  expect(swept).toMatchObject({ eligible: 2, held: 2, removed: 2, worktrees_cleaned: 2 })
  expect([existsSync(large.path), existsSync(small.path)]).toEqual([false, false])
  expect([existsSync(dirty.path), existsSync(pinned.path)]).toEqual([true, true])
})

test('FC-ef90: of an unread, a pinned and a plain session only the plain one goes', LONG, async () => {
  const { w, over, years, sweep } = await place()
  const unread = await over('unread')
  const pinned = await over('pinned')
  const plain = await over('plain')
  const { record } = await w.call('notification.create', {
    source: { provider: 'test', provider_event: 'e', host_local_source_id: 'x' },
    kind: 'error',
    severity: 'error',
    title: 't',
    body: 'b',
    session_id: unread.id,
  })
  expect(record.status).toBe('unread')
  await w.call('session.set_metadata', { session_id: pinned.id, metadata: { pin: 'yes' } })
  await years()
  const dry = await sweep({ dry_run: true })
  expect(holds(dry)).toMatchObject({
    [unread.id]: 'notification_unread',
    [pinned.id]: 'pinned',
    [plain.id]: undefined,
  })
  const swept = await sweep()
  expect(swept).toMatchObject({ removed: 1, worktrees_cleaned: 1, held: 2 })
  expect(await ids(w)).toEqual([unread.id, pinned.id].sort())
  for (const it of [unread, pinned]) expect(existsSync(it.path)).toBe(true)
  // Read and unpinned, they are like any other; the clock is that of their last activity.
  await w.call('notification.update', { id: record.id, status: 'read' })
  await w.call('session.set_metadata', { session_id: pinned.id, metadata: {} })
  const next = await sweep()
  expect(holds(next)[unread.id]).toBe(undefined)
  expect(await ids(w)).toEqual([pinned.id])
})

test('FC-ef90: one whose grandchild may live is held, and nothing of it is signalled', LONG, async (context) => {
  await inCrashWorld(context, async (w) => {
    const uid = unprivileged(w)
    if (typeof uid === 'string') return context.skip(uid)
    await w.startDying(undefined, { uid })
    const told = join(w.roots.work, 'hidden')
    const session = await w.sh(`${hiding(told)}; exit 7`)
    await session.ended(30_000)
    const plain = await w.sh('exit 0')
    await plain.ended(30_000)
    const hidden = Number(readFileSync(told, 'utf8'))
    await w.daemon.kill()
    ageSessions(w.roots)
    await w.startDying()
    await until('both are what they were', async () =>
      ((await w.call('session.list')) as Answer[]).every((it) => ['lost', 'terminal'].includes(it.runtime.state)),
    )
    const expected = { [session.id]: 'processes_unconfirmed', [plain.id]: undefined }
    expect(holds(await w.call('session.retention.sweep', { dry_run: true }))).toEqual(expected)
    expect(await w.call('session.retention.sweep')).toMatchObject({ held: 1, removed: 1, failed: 0 })
    expect(await ids(w)).toEqual([session.id])
    expect(runs(hidden)).toBe(true)
    process.kill(hidden, 'SIGKILL')
    await w.call('session.remove', session.id)
  })
})

test(
  'a sweep that is killed half way leaves whole sessions and one that is finished at the next start',
  LONG,
  async (context) => {
    await inCrashWorld(context, async (w) => {
      const repo = repositoryAt(join(w.roots.work, 'repo'))
      await w.startDying()
      const made: Made[] = []
      const agent = w.profile('/bin/cat', [])
      for (const branch of ['a', 'b', 'c', 'd']) {
        const it = await w.call('session.new', { agent, cols: 80, rows: 24, repo: repo.path, branch })
        await w.call('session.stop', it.id)
        made.push({ id: it.id, path: it.worktree_path })
      }
      const [first, second, ...rest] = made as [Made, Made, Made, Made]
      await w.daemon.kill()
      // The order of a sweep is that of the ages; equal ones go by id, which grows.
      ageSessions(w.roots)
      await w.startDying('worktree.removed:2')
      await expect(w.call('session.retention.sweep', { dry_run: false })).rejects.toThrow()
      await w.dies()
      expect(owedRemovals(w.roots)).toEqual(new Set([second.id]))
      expect([first, second, ...rest].map((it) => existsSync(it.path))).toEqual([false, false, true, true])
      await w.startDying()
      await until('what was begun is finished', async () => (await ids(w)).length === 2, { deadlineMs: 20_000 })
      expect(await ids(w)).toEqual(rest.map((it) => it.id).sort())
      await w.nothingStrays()
      expect(repo.trees()).toEqual([repo.path, ...rest.map((it) => it.path)])
      expect(await w.call('session.retention.sweep', { dry_run: false })).toMatchObject({
        removed: 2,
        worktrees_cleaned: 2,
      })
      expect(repo.branches()).toEqual(['a', 'b', 'c', 'd', 'main'])
    })
  },
)

test('session retention sweep: its exit code tells a partial failure, and holds are none', LONG, async () => {
  const { w, over, years } = await place()
  const sweep = (...args: string[]): ReturnType<World['cli']> => w.cli(['session', 'retention', 'sweep', ...args])
  for (const args of [[], ['--dry-run', '--apply'], ['--apply', '--limit', 'x'], ['--apply', '--limit', '0']])
    expect((await sweep(...args)).code).toBe(2)
  expect((await sweep('--apply')).code).toBe(0)
  // A policy that is set in part keeps the rest.
  expect((await w.cli(['session', 'policy', 'set', '--max-removals-per-sweep', '7', '--enabled'])).code).toBe(0)
  expect((await w.cli(['session', 'policy', 'set', '--disabled'])).code).toBe(0)
  const policy = JSON.parse((await w.cli(['session', 'policy', 'get', '--json'])).stdout)
  expect(policy.ok.retention).toMatchObject({ enabled: false, max_removals_per_sweep: 7, terminal_ttl_secs: 2_592_000 })
  expect((await w.cli(['session', 'policy', 'set', '--terminal-ttl-secs', '60'])).code).not.toBe(0)
  const dirty = await over('dirty')
  write(dirty.path, 'new.c', 'work\n')
  await over('clean')
  await years()
  const dry = await sweep('--dry-run', '--json')
  expect(dry.code).toBe(0)
  expect(JSON.parse(dry.stdout)).toMatchObject({ ok: { dry_run: true, eligible: 1, held: 1, removed: 0 } })
  const applied = await sweep('--apply', '--json', '--limit', '1')
  expect(applied.code).toBe(0)
  expect(JSON.parse(applied.stdout)).toMatchObject({ ok: { removed: 1, held: 1, worktrees_cleaned: 1 } })
})

test(
  'what ends with an error says so: a tree that git does not take away, a session that cannot be proven gone',
  LONG,
  async () => {
    const w = await world({ config: CONFIG, daemon: false })
    const tools = join(w.roots.work, 'tools')
    mkdirSync(tools)
    const fails = join(w.roots.work, 'git fails')
    writeFileSync(
      join(tools, 'git'),
      `#!/bin/sh\ncase " $* " in *" worktree remove "*) if [ -e '${fails}' ]; then echo 'fatal: the disk is odd' >&2; exit 128; fi;; esac\nPATH=\${PATH#*:} exec git "$@"\n`,
      { mode: 0o755 },
    )
    const env = { PATH: `${tools}:${process.env['PATH'] ?? ''}` }
    await w.start({ env })
    const repo = repositoryAt(join(w.roots.work, 'repo'))
    const agent = w.profile('/bin/cat', [])
    const made = await w.call('session.new', { agent, cols: 80, rows: 24, repo: repo.path, branch: 'a' })
    await w.call('session.stop', made.id)
    await w.daemon.kill()
    ageSessions(w.roots)
    await w.start({ env })
    writeFileSync(fails, '')
    const swept = await w.cli(['session', 'retention', 'sweep', '--apply', '--json'])
    expect(JSON.parse(swept.stdout)).toMatchObject({ ok: { removed: 1, worktrees_cleaned: 0, worktrees_failed: 1 } })
    expect(swept.code).toBe(1)
    // The record is gone, the tree is listed as nobody's, and the operator takes it away.
    expect(await ids(w)).toEqual([])
    const [left] = (await w.call('worktree.list')) as Answer[]
    expect(left).toMatchObject({ path: made.worktree_path, state: 'present' })
    expect(left.session_state).toBe(undefined)
    rmSync(fails)
    expect(await w.call('worktree.remove', { path: left.path })).toMatchObject({ removed: true })
    expect(repo.trees()).toEqual([repo.path])
  },
)

test('the age of an ended session counts from its last activity: a restart is none', LONG, async () => {
  const { w, over } = await place()
  const { id } = await over('a')
  const before = await w.call('session.inspect', id)
  await w.crash()
  await until('it is what it was', async () => (await w.call('session.inspect', id)).runtime.state === 'terminal')
  expect((await w.call('session.inspect', id)).updated_at).toBe(before.updated_at)
})
