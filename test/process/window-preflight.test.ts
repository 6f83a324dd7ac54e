/** `pohunekd upgrade-preflight` (contract/cli.md): what it tells, and that it leaves no trace. */
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Bootable } from '../../kernel/index.ts'
import { resolvePaths } from '../../kernel/paths.ts'
import { plugins } from '../../main/plugins.ts'
import { otherRelease } from '../fixtures/other-release.ts'
import { run, type CliResult } from '../harness/cli.ts'
import { runs } from '../harness/processes.ts'
import { bin, REPOSITORY } from '../harness/roots.ts'
import { until } from '../harness/wait.ts'
import type { Answer } from '../harness/wire.ts'
import { world as anyWorld, type World, type WorldOptions } from '../harness/world.ts'

/** Without spare workers, which would come and go beside the test. */
const world = (options: WorldOptions = {}): Promise<World> =>
  anyWorld({ config: '[workers]\nspares = 0\n', ...options })

const storeOf = (w: World): string => join(w.roots.data, 'pohunek/metadata.jsonl')

const preflight = (w: World, args: readonly string[] = [], program = bin('pohunekd')): Promise<CliResult> =>
  run(program, ['upgrade-preflight', ...args], { env: w.roots.env(), cwd: w.roots.work })

async function report(w: World, program?: string): Promise<{ code: number | null; stderr: string; report: Answer }> {
  const { code, stdout, stderr } = await preflight(w, ['--json'], program)
  return { code, stderr, report: JSON.parse(stdout) }
}

/** Everything below the roots: kind, content, and every time but that of reading. */
function traces(w: World): string[] {
  const walk = (path: string): string[] => {
    const { ino, mode, mtimeMs, ctimeMs, size } = lstatSync(path)
    const own = `${path} ${ino} ${mode} ${mtimeMs} ${ctimeMs} ${size}`
    return lstatSync(path).isDirectory() ? [own, ...readdirSync(path).flatMap((it) => walk(join(path, it)))] : [own]
  }
  return walk(w.roots.base).sort()
}

/** `traces` once nobody writes any more. */
async function quiet(w: World): Promise<string[]> {
  let last = traces(w)
  await until(
    'nobody writes',
    () => {
      const before = last
      last = traces(w)
      return before.join() === last.join()
    },
    { pollMs: 300 },
  )
  return last
}

const KEYS = ['report_version', 'runtimes', 'sessions', 'stopped_sessions', 'store', 'unmanaged_workers']
const STORE_KEYS = ['error', 'error_code', 'records', 'schema_from', 'schema_to', 'state']

test('on a host that never ran a daemon everything is missing, and nothing is made', async () => {
  const w = await world({ daemon: false })
  const before = await quiet(w)
  const { code, stderr, report: told } = await report(w)
  expect(traces(w)).toEqual(before)
  expect([code, stderr]).toEqual([0, ''])
  expect(told).toEqual({
    report_version: 1,
    store: { state: 'missing', schema_from: null, schema_to: 9, records: 0, error_code: null, error: null },
    sessions: [],
    unmanaged_workers: [],
    runtimes: null,
    stopped_sessions: [],
  })
})

test('beside a daemon it leaves no trace, disturbs nobody and judges every session', async () => {
  const w = await world()
  const live = await w.child(['lines_in'], { name: 'live one' })
  await live.untilScreen('ready')
  const bare = await w.child(['lines_in'])
  await bare.untilScreen('ready')
  const ended = await w.sh('exit 0')
  await ended.ended()
  const events = await w.events()
  const before = await quiet(w)
  const { code, stderr, report: told } = await report(w)
  const text = await preflight(w)
  expect(traces(w)).toEqual(before)
  expect(events.all).toEqual([])
  expect([code, stderr]).toEqual([0, ''])
  expect(Object.keys(told).sort()).toEqual(KEYS)
  expect(Object.keys(told.store).sort()).toEqual(STORE_KEYS)
  expect(told.store).toMatchObject({ state: 'up_to_date', schema_from: 9, schema_to: 9 })
  const adoptable = { verdict: 'adoptable', code: null, detail: null }
  expect(told.sessions).toEqual([
    { session_id: live.id, ...adoptable, name: 'live one' },
    { session_id: bare.id, ...adoptable },
  ])
  expect([told.unmanaged_workers, told.stopped_sessions, told.runtimes]).toEqual([[], [], null])
  expect([text.code, text.stderr]).toEqual([0, ''])
  expect(text.stdout.split('\n')).toEqual([
    `store        up to date: schema 9, ${told.store.records} records`,
    'protocols    public 3..=4, worker 6..=7, journals 3 and 4',
    'sessions     2 live, 0 at risk',
    'stopped      0 resumable, 0 at risk',
    'nothing keeps this daemon from taking over',
    '',
  ])
  await live.input('still')
  await live.untilScreen('got:still')
})

test('it does all that where the runtime forbids it every write, process and module of native code', async () => {
  const w = await world()
  const session = await w.child(['lines_in'])
  await session.untilScreen('ready')
  const flag = Number(process.versions.node.split('.')[0]) >= 24 ? '--permission' : '--experimental-permission'
  const program = join(REPOSITORY, 'dist/pohunekd.bundle.cjs')
  const { code, stdout } = await run(
    process.execPath,
    ['--no-warnings', flag, '--allow-fs-read=*', program, 'upgrade-preflight', '--json'],
    { env: w.roots.env(), cwd: w.roots.work },
  )
  expect(code).toBe(0)
  expect(JSON.parse(stdout)).toEqual((await report(w)).report)
  // What is forbidden fails there: a daemon cannot start.
  const daemon = await run(process.execPath, ['--no-warnings', flag, '--allow-fs-read=*', program], {
    env: w.roots.env(),
    cwd: w.roots.work,
  })
  expect(daemon.code).toBe(1)
})

test('without a daemon it says the same, and takes no lock a daemon would wait for', async () => {
  const w = await world()
  const session = await w.child(['lines_in'])
  await session.untilScreen('ready')
  await w.daemon.kill()
  const all = await Promise.all([report(w), report(w), w.start().then(() => undefined)])
  expect(all.map((it) => it?.code)).toEqual([0, 0, undefined])
  expect(all[0]?.report.sessions).toMatchObject([{ session_id: session.id, verdict: 'adoptable' }])
  expect((await session.info()).runtime.state).toBe('live')
})

test('a session whose worker is gone is not at risk: the upgrade takes nothing from it', async () => {
  const w = await world()
  const session = await w.child(['lines_in'])
  await session.untilScreen('ready')
  const worker = session.worker()
  await w.daemon.kill()
  process.kill(worker.pid, 'SIGKILL')
  await until('worker and program are gone', () => !runs(worker.pid) && !runs(session.pid))
  expect(await report(w)).toMatchObject({ code: 0, report: { sessions: [] } })
  await w.start()
})

test.each<[string, (path: string) => void, RegExp]>([
  ['missing', (path) => rmSync(path), /^its worker has written no journal$/],
  ['damaged', (path) => writeFileSync(path, '{'), /\.json: /],
])('a live session whose journal is %s cannot be verified', async (_, damage, detail) => {
  const w = await world()
  const session = await w.child(['lines_in'])
  await session.untilScreen('ready')
  const [journal] = readdirSync(join(w.roots.state, 'pohunek/workers', session.id))
  const path = join(w.roots.state, 'pohunek/workers', session.id, journal as string)
  copyFileSync(path, join(w.roots.work, 'journal'))
  damage(path)
  const { code, report: told } = await report(w)
  copyFileSync(join(w.roots.work, 'journal'), path)
  expect(code).toBe(1)
  expect(told.sessions).toEqual([
    {
      session_id: session.id,
      verdict: 'would_not_be_adopted',
      code: 'worker_identity_unverified',
      detail: expect.stringMatching(detail) as string,
    },
  ])
})

test('a worker no record names is listed; with records that cannot be read it is at risk', async () => {
  const w = await world({ end: 'kill' })
  const session = await w.child(['lines_in'])
  await session.untilScreen('ready')
  const worker = session.worker()
  await w.daemon.kill()
  rmSync(storeOf(w))
  const listed = await report(w)
  const detail = `process ${worker.pid} runs as generation 1 of it, which no record names`
  expect([listed.code, listed.report.sessions, listed.report.unmanaged_workers]).toEqual([
    0,
    [],
    [
      {
        session_id: session.id,
        worker_id: session.journals()[0].worker_id,
        pid: worker.pid,
        code: 'stale_worker_generation',
        detail,
      },
    ],
  ])
  expect((await preflight(w)).stdout).toContain(`  ${session.id}  unmanaged  stale_worker_generation: ${detail}\n`)
  writeFileSync(storeOf(w), 'damaged\n', { mode: 0o600 })
  const risky = await report(w)
  expect([risky.code, risky.report.unmanaged_workers, risky.report.sessions]).toEqual([
    1,
    [],
    [
      {
        session_id: session.id,
        verdict: 'would_not_be_adopted',
        code: 'worker_without_session_record',
        detail: `${detail}; the store has records that cannot be read`,
      },
    ],
  ])
})

test.each<[string, Buffer]>([
  ['has no line at all', Buffer.alloc(5_000, 0xff)],
  ['is empty', Buffer.alloc(0)],
  ['has only a torn line', Buffer.from('{"schema_version":9,"kind":"ses')],
])('a store that %s is refused while workers or journals tell of sessions', async (_, bytes) => {
  const w = await world({ end: 'kill' })
  const session = await w.child(['lines_in'])
  await session.untilScreen('ready')
  const worker = session.worker()
  await w.daemon.kill()
  writeFileSync(storeOf(w), bytes)
  const before = await quiet(w)
  const risky = await report(w)
  expect(traces(w)).toEqual(before)
  expect(risky.code).toBe(1)
  expect(risky.report.store).toMatchObject({
    state: 'refused',
    records: 0,
    error_code: 'store_records_lost',
    error: expect.stringContaining(storeOf(w)) as string,
  })
  expect(risky.report.sessions).toMatchObject([
    { session_id: session.id, verdict: 'would_not_be_adopted', code: 'worker_without_session_record' },
  ])
  expect(risky.stderr).toMatch(
    /the records of sessions are lost: .*not one complete line.*\n {2}→ restore \S*metadata\.jsonl from a backup/,
  )
  expect((await preflight(w)).stdout).toContain('store        refused: store_records_lost\n')
  // The worker's end leaves a journal, which still tells that there was a session.
  process.kill(worker.pid, 'SIGKILL')
  await until('worker and program are gone', () => !runs(worker.pid) && !runs(session.pid))
  const gone = await report(w)
  expect([gone.code, gone.report.store.error_code, gone.report.sessions]).toEqual([1, 'store_records_lost', []])
})

test('a store that is new, beside spares, is no reason to stay', async () => {
  const w = await anyWorld({ end: 'kill' })
  const workers = join(w.roots.state, 'pohunek/workers')
  await until(
    'a spare wrote its journal',
    () => existsSync(workers) && readdirSync(workers).some((it) => readdirSync(join(workers, it)).length > 0),
  )
  expect(await report(w)).toMatchObject({ code: 0, report: { store: { state: 'up_to_date', records: 0 } } })
})

test('a file where the journals of workers should be is reported with the way out', async () => {
  const w = await world({ end: 'kill' })
  const session = await w.child(['lines_in'])
  await session.untilScreen('ready')
  await w.daemon.kill()
  const workers = join(w.roots.state, 'pohunek/workers')
  renameSync(workers, join(w.roots.work, 'workers'))
  writeFileSync(workers, 'x')
  const { code, stderr, report: told } = await report(w)
  rmSync(workers)
  renameSync(join(w.roots.work, 'workers'), workers)
  expect(code).toBe(1)
  expect(told.sessions).toMatchObject([
    { session_id: session.id, verdict: 'would_not_be_adopted', code: 'worker_identity_unverified' },
  ])
  expect(stderr).toMatch(
    new RegExp(`^pohunekd: ${workers} cannot be read: ENOTDIR.*\n {2}→ move what is at ${workers} away`),
  )
})

test('a session of a runtime this daemon does not serve would lose its recovery, live or stopped', async () => {
  const w = await world({ end: 'kill' })
  const live = await w.child(['lines_in'])
  await live.untilScreen('ready')
  const ended = await w.sh('exit 0', { name: 'to resume' })
  await ended.ended()
  await w.daemon.kill()
  const lines = readFileSync(storeOf(w), 'utf8').split('\n').slice(0, -1)
  const changed = lines.map((line): Answer => {
    const raw = JSON.parse(line)
    if (raw.info !== undefined) {
      raw.info.agent_base = 'gone'
      raw.info.capabilities = { resume: true, fork: false }
    }
    return JSON.stringify(raw)
  })
  writeFileSync(storeOf(w), `${changed.join('\n')}\n`)
  const { code, report: told } = await report(w)
  const verdict = {
    verdict: 'would_lose_recovery',
    code: 'runtime_source_not_served',
    detail: 'no runtime gone is installed for this daemon',
  }
  expect([code, told.sessions, told.stopped_sessions]).toEqual([
    1,
    [{ session_id: live.id, ...verdict }],
    [{ session_id: ended.id, ...verdict, name: 'to resume' }],
  ])
  const { stdout, stderr } = await preflight(w)
  expect(stdout).toContain(
    `  ${ended.id} (to resume)  would_lose_recovery  runtime_source_not_served: ${verdict.detail}\n`,
  )
  expect(stderr).toMatch(/^pohunekd: 2 sessions would not come through the upgrade whole\n {2}→ /)
})

test('an old store would be migrated: the dry run says so and writes nothing', async () => {
  const w = await world()
  const session = await w.child(['lines_in'])
  await session.untilScreen('ready')
  await w.daemon.kill()
  const next = await otherRelease({ store: { schema: 10, migrations: '{ 9: (raw) => raw }' } })
  const before = await quiet(w)
  const { code, report: told } = await report(w, next.daemon)
  const text = await preflight(w, [], next.daemon)
  expect(traces(w)).toEqual(before)
  expect([code, told.store]).toEqual([
    0,
    {
      state: 'would_migrate',
      schema_from: 9,
      schema_to: 10,
      records: expect.any(Number) as number,
      error_code: null,
      error: null,
    },
  ])
  expect(told.sessions).toMatchObject([{ session_id: session.id, verdict: 'adoptable' }])
  expect(text.stdout).toContain('store        a start migrates it from schema 9 to 10 after a backup: ')
})

test.each<[string, (store: string) => void, Answer]>([
  [
    'newer',
    (store) => appendFileSync(store, '{"schema_version":12,"kind":"session","key":"s"}\n'),
    { schema_from: 12, error_code: 'store_schema_newer' },
  ],
  [
    'too old',
    (store) => appendFileSync(store, '{"kind":"session","key":"s"}\n'),
    { schema_from: 1, error_code: 'store_schema_too_old' },
  ],
  ['open to others', (store) => chmodSync(store, 0o666), { schema_from: null, error_code: 'path_not_private' }],
])('a store that is %s is refused with the file and the way out; nothing is touched', async (_, spoil, expected) => {
  const w = await world({ end: 'kill' })
  const session = await w.child(['lines_in'])
  await session.untilScreen('ready')
  await w.daemon.kill()
  spoil(storeOf(w))
  const before = await quiet(w)
  const { code, stderr, report: told } = await report(w)
  expect(traces(w)).toEqual(before)
  expect(code).toBe(1)
  expect(told.store).toMatchObject({ state: 'refused', schema_to: 9, ...expected })
  expect(told.store.error).toContain(storeOf(w))
  expect(told.sessions).toEqual([])
  expect(stderr).toBe(
    `pohunekd: this daemon would not start on the store: ${told.store.error}\n${stderr.split('\n')[1]}\n`,
  )
  expect(stderr).toMatch(/\n {2}→ \S/)
  // The daemon itself says the same and does not start.
  const started = await run(bin('pohunekd'), [], { env: w.roots.env(), cwd: w.roots.work })
  expect(started.code).toBe(1)
  expect(started.stderr).toContain(told.store.error)
})

test('every record log a daemon makes is judged: one that is newer refuses the upgrade as it refuses the start', async () => {
  const w = await world()
  const session = await w.child(['lines_in'])
  await session.untilScreen('ready')
  await w.daemon.stop()
  const paths = resolvePaths(w.roots.env(), { uid: 0, platform: 'linux', tmpdir: '/tmp' })
  const declared = (plugins as readonly Bootable[]).flatMap((it) => it.stores?.(paths) ?? []).map((it) => it.file)
  const logs = w
    .files('data')
    .filter((it) => it.endsWith('.jsonl') && !it.startsWith('pohunek/events/'))
    .map((it) => join(w.roots.data, it))
  expect(logs.sort()).toEqual([storeOf(w), ...declared].sort())
  for (const file of declared) {
    const before = readFileSync(file)
    appendFileSync(file, '{"schema_version":99,"kind":"x","key":"y"}\n')
    const { code, report: told, stderr } = await report(w)
    expect([code, told.store.state, told.store.error_code]).toEqual([1, 'refused', 'store_schema_newer'])
    expect(told.store.error).toContain(file)
    expect(told.sessions).toMatchObject([{ session_id: session.id, verdict: 'adoptable' }])
    expect(stderr).toContain(file)
    const started = await run(bin('pohunekd'), [], { env: w.roots.env(), cwd: w.roots.work })
    expect([started.code, started.stderr.includes(file)]).toEqual([1, true])
    writeFileSync(file, before)
  }
  expect((await report(w)).code).toBe(0)
})

test.each<[string, string, string]>([
  ['a configuration', 'nonesuch = 1\n', 'config.toml'],
  ['a list of plugins', '[plugins]\nwithout = ["nonesuch"]\n', 'nonesuch'],
])('%s this daemon would not start with ends it without a report', async (_, config, named) => {
  const w = await world({ daemon: false, config })
  const { code, stdout, stderr } = await preflight(w, ['--json'])
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toMatch(/^pohunekd: .*\n {2}→ .*\n$/)
  expect(stderr).toContain(named)
  expect(existsSync(join(w.roots.data, 'pohunek'))).toBe(false)
})

test('a directory that others may enter ends it without a report', async () => {
  const w = await world({ daemon: false })
  mkdirSync(join(w.roots.data, 'pohunek'), { mode: 0o755 })
  chmodSync(join(w.roots.data, 'pohunek'), 0o755)
  const { code, stdout, stderr } = await preflight(w)
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toContain(`${w.roots.data}/pohunek`)
})

test.each([[['upgrade-preflight', 'more']], [['upgrade']], [['--json']], [['upgrade-preflight', '--ready-fd', '3']]])(
  '%j is a usage error',
  async (args) => {
    const w = await world({ daemon: false })
    const { code, stdout, stderr } = await run(bin('pohunekd'), args, { env: w.roots.env(), cwd: w.roots.work })
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(/^pohunekd: /)
  },
)
