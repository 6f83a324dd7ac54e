/** The temporary directory of a session: whose it is, how long it stays, and what a start of the daemon deletes. */
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { resolvePaths } from '../../kernel/paths.ts'
import { detachedSupervisor, pinnedProcesses } from '../../platform/index.ts'
import type { SessionEdges } from '../../plugins/sessions/plugin.ts'
import { refused, type Session } from '../harness/session.ts'
import { station, type Station } from './station.ts'

const tmpOf = (it: Station, id: string): string => it.kernel.kernel.paths.sessionTmp(id)
/** A session id nobody has. */
const stray = (letter: string): string => `s-${letter.repeat(26)}`

/** What a program sees as its TMPDIR. */
async function seenBy(session: Session): Promise<string> {
  const screen = await session.untilScreen(/tmp=\S+=/)
  return /tmp=(\S+)=/.exec(screen)?.[1] ?? ''
}
const SHOW = 'printf "tmp=%s=" "$TMPDIR"; exec sleep 99'
const WIDE = { cols: 200 }

test('each session has its own, private, in place of the one of the daemon; a profile may name another', async () => {
  const it = await station({ env: { TMPDIR: '/tmp' } })
  const [first, second] = [await it.sh(SHOW, WIDE), await it.sh(SHOW, WIDE)]
  for (const session of [first, second]) {
    expect(await seenBy(session)).toBe(tmpOf(it, session.id))
    expect(statSync(tmpOf(it, session.id)).mode & 0o777).toBe(0o700)
  }
  const own = await it.program('/bin/sh', ['-c', SHOW], WIDE, ['[env]', `TMPDIR = "${it.roots.work}"`])
  expect(await seenBy(own)).toBe(it.roots.work)
})

test('two stores of one cache share no directory', () => {
  const at = (data: string): string =>
    resolvePaths(
      { HOME: '/h', XDG_RUNTIME_DIR: '/r', XDG_CACHE_HOME: '/k', XDG_DATA_HOME: data },
      { uid: 1, platform: 'linux', tmpdir: '/tmp' },
    ).sessionTmp(stray('1'))
  expect(at('/d')).toMatch(/^\/k\/pohunek\/session-tmp\/[^/]+\/s-1+$/)
  expect(dirname(at('/d'))).not.toBe(dirname(at('/e')))
})

test('a stop, an end and a restart keep it with its content; a removal deletes it', async () => {
  const it = await station()
  const stopped = await it.sh('echo x >"$TMPDIR/kept"; echo ready; exec sleep 99')
  await stopped.untilScreen('ready')
  const ended = await it.sh('mkdir "$TMPDIR/deep"; echo y >"$TMPDIR/deep/kept"')
  await ended.ended()
  await stopped.stop()
  await it.restart()
  expect(readFileSync(join(tmpOf(it, stopped.id), 'kept'), 'utf8')).toBe('x\n')
  expect(readFileSync(join(tmpOf(it, ended.id), 'deep/kept'), 'utf8')).toBe('y\n')
  for (const session of [stopped, ended]) {
    await session.remove()
    expect(existsSync(tmpOf(it, session.id))).toBe(false)
  }
})

describe('a start of the daemon', () => {
  const leave = (it: Station, id: string): string => {
    const path = tmpOf(it, id)
    mkdirSync(path, { recursive: true, mode: 0o700 })
    writeFileSync(join(path, 'left'), '')
    return path
  }

  test('deletes what nothing names, in its own store alone, and nothing that is no session’s', async () => {
    const it = await station()
    const session = await it.sh('echo x >"$TMPDIR/kept"; echo ready; exec sleep 99')
    await session.untilScreen('ready')
    const left = leave(it, stray('1'))
    const other = join(dirname(dirname(left)), 'another-store', stray('1'))
    const named = join(dirname(left), 'not-a-session')
    for (const path of [other, named]) mkdirSync(path, { recursive: true, mode: 0o700 })
    await it.restart()
    expect([left, other, named, join(tmpOf(it, session.id), 'kept')].map((path) => existsSync(path))).toEqual([
      false,
      true,
      true,
      true,
    ])
    rmSync(dirname(other), { recursive: true })
  })

  test('keeps what a worker’s journal names that ran something', async () => {
    const it = await station()
    const left = leave(it, stray('1'))
    const journals = it.kernel.kernel.paths.journals(stray('1'))
    mkdirSync(journals, { recursive: true, mode: 0o700 })
    const journal = { schema_version: 4, session_id: stray('1'), worker_id: 'w-1', generation: '1', runtime_id: 'r-1' }
    writeFileSync(
      join(journals, 'w-1.json'),
      JSON.stringify({ ...journal, worker_pid: 4_000_000, worker_start_identity: '1', phase: 'live' }),
      { mode: 0o600 },
    )
    await it.restart()
    expect(existsSync(left)).toBe(true)
    rmSync(journals, { recursive: true })
    await it.restart()
    expect(existsSync(left)).toBe(false)
  })

  test('deletes nothing while journals cannot be read, or a line of the store names no session', async () => {
    const it = await station({ allowErrors: true })
    const left = leave(it, stray('1'))
    const journals = it.kernel.kernel.paths.journals(stray('1'))
    mkdirSync(journals, { recursive: true, mode: 0o700 })
    writeFileSync(join(journals, 'w-1.json'), '{', { mode: 0o600 })
    await it.restart()
    expect(existsSync(left)).toBe(true)
    rmSync(journals, { recursive: true })

    const store = join(it.roots.data, 'pohunek/metadata.jsonl')
    await it.drop()
    const whole = readFileSync(store)
    appendFileSync(store, '{"nonsense\n')
    await it.start()
    expect(existsSync(left)).toBe(true)
    await it.drop()
    writeFileSync(store, whole)
    await it.start()
    expect(existsSync(left)).toBe(false)
  })

  test('deletes nothing while the service manager does not list its jobs', async () => {
    const troubles = { list: false }
    const supervisor: SessionEdges['supervisor'] = ({ paths, clock }) => {
      const workerLog = (id: string): string => join(paths.logs, id)
      const real = detachedSupervisor({ state: paths.state, processes: pinnedProcesses, clock, workerLog })
      return {
        kind: real.kind,
        start: (job, signal) => real.start(job, signal),
        list: () => (troubles.list ? Promise.reject(new Error('the bus does not answer')) : real.list()),
        inspect: (job) => real.inspect(job),
        retire: (job, graceMs) => real.retire(job, graceMs),
        [Symbol.asyncDispose]: () => real[Symbol.asyncDispose](),
      }
    }
    const it = await station({ edges: { supervisor } })
    const left = leave(it, stray('1'))
    troubles.list = true
    await it.restart()
    expect(existsSync(left)).toBe(true)
    troubles.list = false
    await it.restart()
    expect(existsSync(left)).toBe(false)
  })
})

describe('a directory that is not the user’s alone refuses the session before its program starts', () => {
  const spoils: [string, (above: string, aside: string) => void][] = [
    ['others may write it', (above) => chmodSync(above, 0o777)],
    ['others may enter it', (above) => chmodSync(above, 0o711)],
    [
      'a link in its place',
      (above, aside) => {
        renameSync(above, aside)
        symlinkSync(aside, above)
      },
    ],
    [
      'a file in its place',
      (above, aside) => {
        renameSync(above, aside)
        writeFileSync(above, '')
      },
    ],
  ]
  if (process.geteuid?.() === 0) spoils.push(['somebody else owns it', (above) => chownSync(above, 12_345, 12_345)])
  test.each(spoils)('%s', async (_, spoil) => {
    const it = await station()
    const started = join(it.roots.work, 'started')
    await (await it.sh('exit 0')).remove()
    const above = dirname(tmpOf(it, stray('1')))
    spoil(above, `${above}.aside`)
    const error = await refused(it.sh(`: >'${started}'; exec sleep 99`))
    expect(error.body).toMatchObject({ class: 'runtime', code: 'session_tmpdir_unsafe' })
    expect(error.body.msg).toContain(above)
    expect(error.body.recover).toMatch(/fix/)
    expect(existsSync(started)).toBe(false)
    expect(it.traces()).toEqual([])
    expect(await it.call('session.list')).toEqual([])
    rmSync(above, { recursive: true, force: true })
    expect(existsSync(await it.sh('exit 0').then((session) => tmpOf(it, session.id)))).toBe(true)
  })
})
