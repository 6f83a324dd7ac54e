/**
 * A release with a newer store takes over: two steps of migration over a real store with a live session, killed at each
 * durable step, and the way back through the backup.
 */
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  appendFileSync,
  statSync,
} from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { MIGRATION_CRASH_POINTS } from '../../platform/crash-points.ts'
import { otherRelease, type Programs } from '../fixtures/other-release.ts'
import { run } from '../harness/cli.ts'
import { runs } from '../harness/processes.ts'
import { bin, REPOSITORY } from '../harness/roots.ts'
import type { Session } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import type { Answer } from '../harness/wire.ts'
import { world, type World } from '../harness/world.ts'

/** Neither step alone leaves a session that loads; a record whose metadata say so cannot be migrated. */
const MIGRATIONS = `{
  9: (raw) => {
    if (raw.kind !== 'session') return raw
    if (JSON.stringify(raw).includes('unmigratable')) throw new Error('no way to schema 10')
    const { intent, ...others } = raw
    return { ...others, wanted: intent }
  },
  10: (raw) => {
    if (raw.kind !== 'session') return raw
    const { wanted, ...others } = raw
    return { ...others, intent: wanted }
  },
}`

let next: Programs
beforeAll(async () => {
  next = await otherRelease({ store: { schema: 11, migrations: MIGRATIONS } })
})

interface Old {
  readonly w: World
  readonly live: Session
  readonly ended: Session
  readonly store: string
  readonly bytes: Buffer
  /** Lines that cannot be migrated. */
  readonly odd: readonly string[]
}

/** A store of this release, its daemon gone; one session lives. */
async function oldStore({ odd = false }: { odd?: boolean } = {}): Promise<Old> {
  const w = await world()
  const live = await w.child(['lines_in'], { name: 'live', metadata: { kept: 'yes' } })
  await live.untilScreen('ready')
  const ended = await w.sh('exit 3', { name: 'ended' })
  await ended.ended()
  await w.daemon.stop()
  const store = join(w.roots.data, 'pohunek/metadata.jsonl')
  const garbage = '{"schema_version":9,"kind":"session","key":"s-bro'
  const lost = JSON.stringify({ schema_version: 9, kind: 'session', key: 's-lost', info: { name: 'unmigratable' } })
  const lines = odd ? [garbage, lost] : []
  // A kind of a plugin that is not in the build goes through the steps as well.
  const foreign = JSON.stringify({ schema_version: 9, kind: 'later', key: 'x', n: 1 })
  appendFileSync(store, [...lines, foreign].map((it) => `${it}\n`).join(''))
  return { w, live, ended, store, bytes: readFileSync(store), odd: lines }
}

const versions = (store: string): unknown[] => [
  ...new Set(
    readFileSync(store, 'utf8')
      .split('\n')
      .slice(0, -1)
      .map((it) => JSON.parse(it).schema_version as unknown),
  ),
]

const files = (store: string): string[] =>
  readdirSync(join(store, '..')).filter((it) => it.startsWith('metadata.jsonl'))

async function expectWhole({ w, live, ended }: Old): Promise<void> {
  expect(await live.info()).toMatchObject({
    name: 'live',
    pid: live.pid,
    metadata: { kept: 'yes' },
    runtime: { state: 'live' },
  })
  expect(await ended.info()).toMatchObject({ name: 'ended', state: 'failed', exit_code: 3 })
  expect(((await w.call('session.list')) as Answer[]).map((it) => it.id).sort()).toEqual([live.id, ended.id].sort())
  const word = `w${Math.round(performance.now())}`
  await live.input(word)
  await live.untilScreen(`got:${word}`)
}

/** Back to the release before, as its message says, with what it wrote. */
async function backToOld(old: Old): Promise<void> {
  const { w, store, bytes } = old
  await w.daemon.stop()
  const refused = await run(bin('pohunekd'), [], { env: w.roots.env(), cwd: w.roots.work })
  expect(refused.code).toBe(1)
  expect(refused.stderr).toContain(`${store} line 1 `)
  expect(refused.stderr).toContain('has schema 11, this daemon knows 9')
  expect(refused.stderr).toContain(`restore the backup ${store}.pre-schema-9`)
  expect(versions(store)).toEqual([11])
  expect(readFileSync(`${store}.pre-schema-9`)).toEqual(bytes)
  copyFileSync(`${store}.pre-schema-9`, store)
  await w.start()
  await expectWhole(old)
}

test('a newer release migrates in two steps over a live session; its backup takes the older one back', async () => {
  const old = await oldStore()
  const { w, store, bytes } = old
  await w.start({ program: next.daemon })
  await expectWhole(old)
  expect(versions(store)).toEqual([11])
  expect(readFileSync(store, 'utf8')).toContain('"kind":"later"')
  expect(readFileSync(`${store}.pre-schema-9`)).toEqual(bytes)
  expect(statSync(`${store}.pre-schema-9`).mode & 0o777).toBe(0o600)
  // A second start finds nothing to migrate.
  await w.daemon.stop()
  await w.start({ program: next.daemon })
  await expectWhole(old)
  expect(files(store)).toEqual(['metadata.jsonl', 'metadata.jsonl.pre-schema-9'])
  await backToOld(old)
})

describe('killed at', () => {
  test.each(MIGRATION_CRASH_POINTS)('%s, the next start has everything', async (point) => {
    const old = await oldStore({ odd: true })
    const { w, live, store, bytes, odd } = old
    const dying = await w.start({ program: next.daemon, unready: true, env: { POHUNEK_CRASH_AT: point } })
    expect(await dying.ended()).toMatchObject({ signal: 'SIGKILL' })
    await until('it is gone', () => !runs(dying.pid))
    expect(runs(live.pid)).toBe(true)
    // At any moment the name means one whole log: the old one byte by byte, or the new one.
    if (point === 'migrate.after') expect(versions(store)).toEqual([11])
    else expect(readFileSync(store)).toEqual(bytes)

    await w.start({ program: next.daemon })
    await expectWhole(old)
    expect(versions(store)).toEqual([11])
    expect(readFileSync(`${store}.pre-schema-9`)).toEqual(bytes)
    expect(readFileSync(`${store}.quarantine`, 'utf8')).toBe(odd.map((it) => `${it}\n`).join(''))
    expect(files(store)).toEqual(['metadata.jsonl', 'metadata.jsonl.pre-schema-9', 'metadata.jsonl.quarantine'])
    expect(existsSync(`${store}.compacting`)).toBe(false)
    await backToOld({ ...old })
  })
})

test('a release that lacks a step refuses the store and touches nothing', async () => {
  const old = await oldStore()
  const { w, store, bytes } = old
  const later = await otherRelease({ store: { schema: 11, migrations: '{ 10: (raw) => raw }' } })
  const before = files(store)
  const { code, stderr } = await run(later.daemon, [], { env: w.roots.env(), cwd: w.roots.work })
  expect(code).toBe(1)
  expect(stderr).toContain(`${store} line 1 (session) has schema 9, which this daemon can no longer migrate`)
  expect(stderr).toMatch(/\n {2}→ start an older release once/)
  expect([readFileSync(store), files(store)]).toEqual([bytes, before])
  await w.start()
  await expectWhole(old)
})

test('the store a daemon of release 0.1.0 left loads whole: every record is there and none is set aside', async () => {
  const w = await world({ daemon: false })
  const directory = join(w.roots.data, 'pohunek')
  mkdirSync(directory, { mode: 0o700 })
  const store = join(directory, 'metadata.jsonl')
  copyFileSync(join(REPOSITORY, 'test/fixtures/store/schema-9.jsonl'), store)
  chmodSync(store, 0o600)
  const judged = await run(bin('pohunekd'), ['upgrade-preflight', '--json'], { env: w.roots.env(), cwd: w.roots.work })
  expect(JSON.parse(judged.stdout)).toMatchObject({ store: { state: 'up_to_date' }, sessions: [] })
  await w.start()
  const list = (await w.call('session.list')) as Answer[]
  expect(list.map((it) => [it.name, it.state, it.exit_code, it.runtime.state, it.metadata])).toEqual([
    ['alive', 'failed', undefined, 'lost', { ticket: 'T-1' }],
    ['ended', 'failed', 3, 'terminal', undefined],
    [undefined, 'stopped', expect.anything(), 'terminal', undefined],
  ])
  expect(files(store)).toEqual(['metadata.jsonl'])
})
