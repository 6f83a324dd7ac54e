/** The disk under all of the directories fills up, and has room again. */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { runs } from '../harness/processes.ts'
import { refused, type Session } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import { world, type World } from '../harness/world.ts'
import { fill } from '../store/fixtures/disk.ts'

const canMount = spawnSync('unshare', ['-m', 'mount', '-t', 'tmpfs', 'none', '/mnt'], { stdio: 'ignore' }).status === 0

/** A world whose every directory is on one file system of 2 MiB. */
async function smallWorld(): Promise<World> {
  const disk = mkdtempSync('/tmp/phk-')
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m,mode=0700', 'none', disk])
  // Before the world: what it takes down comes first.
  onTestFinished(() => {
    execFileSync('umount', ['-l', disk])
    rmdirSync(disk)
  })
  return await world({ base: join(disk, 'b'), config: '[workers]\nspares = 0\n' })
}

const isTerminal = (session: Session): boolean => session.journals().some((it) => it.phase === 'terminal')

describe.skipIf(!canMount)('FC-d3bf: everything is full', () => {
  test('what is there goes on, what cannot be kept is refused, what ended is told; with room all is as before', async () => {
    const w = await smallWorld()
    const session = await w.child(['lines_in'], { name: 'before' })
    await session.untilScreen('ready')
    const ending = await w.sh('read go; exit 7')
    const stopped = await w.child(['idle'])
    await stopped.untilScreen('ready')
    const attached = await session.attach()
    await attached.until('ready')
    const agent = w.profile('/bin/cat')
    const filler = fill(w.roots.base)

    const wire = await w.wire()
    const { code } = await refused(wire.call('session.new', { agent, cols: 80, rows: 24, cwd: w.roots.work }))
    expect(code).toMatch(/^(session_store_failed|io_error|worker_exited_before_ready|session_tmpdir_unsafe)$/)
    expect(await w.call('session.list')).toHaveLength(3)
    await session.input('full')
    await attached.until('got:full')
    const again = await session.attach({ direct: true })
    await again.until('got:full')
    await ending.input('go\n')
    expect(await ending.ended()).toMatchObject({ state: 'failed', exit_code: 7 })
    const renamed = await session.call('session.rename', { name: 'after' }).then(
      () => 'after',
      (problem: { code: string }) => {
        expect(problem.code).toBe('session_store_failed')
        return 'before'
      },
    )
    expect(await session.info()).toMatchObject({ name: renamed, state: 'running', runtime: { state: 'live' } })

    rmSync(filler)
    await until('the end is in the journal', () => isTerminal(ending), { deadlineMs: 15_000 })
    await w.crash()
    expect(await session.info()).toMatchObject({ name: renamed, runtime: { state: 'live' } })
    expect(await ending.info()).toMatchObject({ state: 'failed', exit_code: 7, runtime: { state: 'terminal' } })
    expect(await stopped.stop()).toBe(true)
    const later = await w.child(['lines_in'])
    await later.untilScreen('ready')
    // Nothing was set aside: no file was damaged.
    expect(w.files('data').filter((path) => /damaged|aside|quarantin|corrupt/.test(path))).toEqual([])
  })

  test('a daemon that starts on a full disk serves the sessions, and tells what ended meanwhile', async () => {
    const w = await smallWorld()
    const session = await w.child(['lines_in'])
    await session.untilScreen('ready')
    const ending = await w.sh('echo ready; read go; echo bye; exit 7')
    const log = join(w.roots.state, 'pohunek/logs/pohunekd.jsonl')
    const input = await ending.attach({ direct: true })
    await input.until('ready')
    await w.daemon.kill()
    const filler = fill(w.roots.base)
    const records = readFileSync(join(w.roots.data, 'pohunek/metadata.jsonl'), 'utf8')
    input.write('go\n')
    await until('its program ended', () => !runs(ending.pid))
    await w.start()
    expect(await session.info()).toMatchObject({ state: 'running', runtime: { state: 'live' } })
    await session.input('full')
    await session.untilScreen('got:full')
    expect(await ending.ended()).toMatchObject({ state: 'failed', exit_code: 7 })
    expect(await ending.screen()).toContain('bye')
    expect(readFileSync(join(w.roots.data, 'pohunek/metadata.jsonl'), 'utf8').startsWith(records)).toBe(true)
    expect(existsSync(log)).toBe(true)

    rmSync(filler)
    await session.call('session.rename', { name: 'later' })
    await until('the end is in the journal', () => isTerminal(ending), { deadlineMs: 15_000 })
    await w.crash()
    expect(await session.info()).toMatchObject({ name: 'later', runtime: { state: 'live' } })
    expect(await ending.info()).toMatchObject({ state: 'failed', exit_code: 7, runtime: { state: 'terminal' } })
  })
})
