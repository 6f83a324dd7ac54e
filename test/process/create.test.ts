/** Creating a session fails, or the daemon dies in the middle of it: complete or compensated, nothing half-made. */
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { descriptors, runs } from '../harness/processes.ts'
import { refused } from '../harness/session.ts'
import { pause, until } from '../harness/wait.ts'
import { Wire } from '../harness/wire.ts'
import { world, type World } from '../harness/world.ts'

interface Row {
  id: string
  pid: number
  state: string
  runtime: { state: string }
}
const rows = async (w: World): Promise<Row[]> => await w.call('session.list')

/** No record, no worker with a program, no path of a session. */
async function nothingMade(w: World): Promise<void> {
  expect(await rows(w)).toEqual([])
  await until('no program runs', () => w.running('other').length === 0)
  const journals = w.files('state').filter((it) => /workers\/s-[^/]+\/.+/.test(it))
  const bootstrap = w.running('worker').length
  expect(journals.length).toBeLessThanOrEqual(bootstrap) // warm workers have a journal each, nobody else
}

describe('the daemon is killed while it creates', () => {
  // Fixed delays over the length of one create, so that a failure can be repeated.
  test.each([0, 2, 5, 9, 14, 20, 30, 45, 70, 110])('%d ms after the request', async (delayMs) => {
    const w = await world()
    const agent = w.profile(process.execPath, ['-e', 'setInterval(() => 0, 1e9)'])
    const wire = await Wire.open(w.roots.socket)
    wire.send(
      `${JSON.stringify({ v: { minimum: 3, maximum: 4 }, id: 'new', method: 'session.new', params: { agent, cols: 80, rows: 24, cwd: w.roots.work } })}\n`,
    )
    if (delayMs > 0) await pause(delayMs)
    await w.daemon.kill()
    const answer = wire.lines[0]
    wire.close()

    await w.start()
    const settled = await until('the create is settled', async () => {
      const all = await rows(w)
      return all.every((it) => it.runtime.state === 'live' && it.state === 'running' && runs(it.pid))
        ? { all }
        : undefined
    })
    // What was answered is there; what was not may be there complete, or not at all.
    if (answer?.ok) expect(settled.all.map((it) => it.id)).toEqual([answer.ok.id])
    else expect(settled.all.length).toBeLessThanOrEqual(1)
    await until('no other program runs', () => {
      const programs = w.running('other').map((it) => it.pid)
      return programs.length === settled.all.length && programs.every((pid) => settled.all.some((it) => it.pid === pid))
    })
  })

  test('again and again with warm workers: none is left over', async () => {
    const w = await world()
    for (let round = 0; round < 4; round++) {
      const wire = await Wire.open(w.roots.socket)
      const agent = w.profile('/bin/cat')
      void wire.call('session.new', { agent, cols: 80, rows: 24, cwd: w.roots.work }).catch(() => undefined)
      await pause(round * 6)
      await w.daemon.kill()
      wire.close()
      await w.start()
    }
    const live = (await rows(w)).filter((it) => it.runtime.state === 'live').length
    await until('workers: one per session and at most three warm ones', () => w.running('worker').length <= live + 3)
  })
})

describe('a program that cannot be started', () => {
  test('missing by path: a typed error that names it, nothing left', async () => {
    const w = await world()
    const error = await refused(w.session('/no/such/binary', []))
    expect(error.body).toMatchObject({ class: 'runtime', code: 'agent_binary_missing' })
    expect(error.message).toContain('/no/such/binary')
    await nothingMade(w)
  })

  test('missing by name: the error shows what was searched (FC-a823)', async () => {
    const w = await world()
    const error = await refused(w.session('no-such-program', []))
    expect(error.code).toBe('agent_binary_missing')
    expect(error.message).toContain('no-such-program')
    expect(error.message).toContain('/usr/bin')
    await nothingMade(w)
  })

  test.each(['plain file', 'directory', 'dangling link', 'broken interpreter'])('%s', async (kind) => {
    const w = await world()
    const program = join(w.roots.work, 'program')
    if (kind === 'plain file') writeFileSync(program, 'text', { mode: 0o644 })
    if (kind === 'directory') mkdirSync(program)
    if (kind === 'dangling link') symlinkSync('/no/such/target', program)
    if (kind === 'broken interpreter') writeFileSync(program, '#!/no/such/interpreter\n', { mode: 0o755 })
    const error = await refused(w.session(program, []))
    expect(error.code).toMatch(/^(spawn_failed|agent_binary_missing)$/)
    expect(error.message).toContain(program)
    await nothingMade(w)
  })

  test('an unreadable shell', async () => {
    const w = await world({ daemon: false })
    const shell = join(w.roots.work, 'shell')
    writeFileSync(shell, '#!/bin/sh\nexec /bin/sh\n', { mode: 0o755 })
    chmodSync(shell, 0o000)
    await w.start({ env: { SHELL: shell } })
    const error = await refused(w.agent('shell'))
    expect(error.code).toMatch(/^(spawn_failed|agent_binary_missing)$/)
    expect(error.message).toContain(shell)
    await nothingMade(w)
  })

  test('an agent nobody knows, and names that are no names', async () => {
    const w = await world()
    expect((await refused(w.agent('nobody'))).code).toBe('agent_profile_not_found')
    for (const name of ['../evil', 'a/b', '.', '..', '', '-rf', 'a b', 'x\n', 'x\u0000']) {
      expect([name, (await refused(w.agent(name))).code]).toEqual([
        name,
        expect.stringMatching(/^(invalid_name|bad_request)$/),
      ])
    }
    await nothingMade(w)
  })
})

describe('FC-5e81: the start directory', () => {
  test('missing: the error names the directory, not the program', async () => {
    const w = await world()
    const gone = join(w.roots.base, 'gone')
    const error = await refused(w.sh('true', { cwd: gone }))
    expect(error.code).toBe('cwd_failed')
    expect(error.message).toContain(gone)
    expect(error.message).not.toContain('/bin/sh')
    await nothingMade(w)
  })

  test('a file is no directory', async () => {
    const w = await world()
    const file = join(w.roots.work, 'file')
    writeFileSync(file, '')
    expect((await refused(w.sh('true', { cwd: file }))).code).toBe('cwd_failed')
    await nothingMade(w)
  })

  test.each(['~/x', 'relative', ''])('%j over the wire is refused with a clear message', async (cwd) => {
    const w = await world()
    const error = await refused(w.sh('true', { cwd }))
    expect(error.code).toMatch(/^(bad_request|cwd_failed)$/)
    if (cwd !== '') expect(error.message).toContain(cwd)
    await nothingMade(w)
  })

  test('the command line resolves a relative path against its own directory', async () => {
    const w = await world()
    mkdirSync(join(w.roots.work, 'sub'))
    const agent = w.profile('/bin/cat')
    const { code, stdout, stderr } = await w.cli(['session', 'new', '--agent', agent, '--cwd', 'sub', '--json'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(JSON.parse(stdout).ok.cwd).toBe(join(w.roots.work, 'sub'))
  })
})

test('bad sizes and names are refused before anything is made', async () => {
  const w = await world()
  const agent = w.profile('/bin/cat')
  for (const bad of [
    { cols: 0 },
    { rows: 0 },
    { cols: -1 },
    { cols: 65_536 },
    { cols: 80.5 },
    { cols: '80' },
    { name: 'x'.repeat(129) },
    { name: 'a\u0007b' },
    { metadata: { a: 1 } },
    { metadata: Object.fromEntries(Array.from({ length: 33 }, (_, n) => [`k${n}`, ''])) },
    { metadata: { ['k'.repeat(65)]: '' } },
    { metadata: { a: 'v'.repeat(4_097) } },
    { base_branch: 'main' },
    { branch: 'x' },
    { repo: '/x', project: 'y' },
  ]) {
    const error = await refused(w.call('session.new', { agent, cols: 80, rows: 24, cwd: w.roots.work, ...bad }))
    expect([bad, error.body.class, error.code]).toEqual([bad, 'daemon', 'bad_request'])
  }
  await nothingMade(w)
})

describe('FC-cce3: descriptors and terminals do not leak', () => {
  test('60 failed starts', async () => {
    const w = await world()
    const agent = w.profile('/no/such/binary')
    const fail = async (): Promise<void> => {
      expect((await refused(w.agent(agent))).code).toBe('agent_binary_missing')
    }
    await fail()
    const open = descriptors(w.daemon.pid).length
    for (let n = 0; n < 60; n++) await fail()
    await until('the daemon has as many descriptors as before', () => descriptors(w.daemon.pid).length <= open)
    await nothingMade(w)
  })

  test('60 short sessions, created, ended and removed', { timeout: 60_000 }, async () => {
    const w = await world()
    const agent = w.profile('/bin/true')
    const once = async (): Promise<void> => {
      const session = await w.agent(agent)
      await session.ended()
      await session.remove()
    }
    for (let n = 0; n < 3; n++) await once()
    await until('workers of ended sessions are gone', () => w.running('worker').length <= 3)
    // A spare worker that comes or goes at the moment of the look takes a few; a leak would be one a session.
    const before = descriptors(w.daemon.pid).length
    const held = (): string[] =>
      [w.daemon.pid, ...w.running('worker').map((it) => it.pid)]
        .flatMap(descriptors)
        .filter((it) => it.startsWith('/dev/pt') || it.startsWith('/dev/pts'))
    for (let n = 0; n < 60; n++) await once()
    await until(
      'descriptors and terminals are back',
      () => descriptors(w.daemon.pid).length <= before + 6 && held().length === 0,
      { show: () => ({ before, daemon: descriptors(w.daemon.pid), held: held() }) },
    )
    await until('no worker is left but warm ones', () => w.running('worker').length <= 3)
    expect(await rows(w)).toEqual([])
  })
})

/** A small file system of its own needs a privilege; without it these tests are shown as skipped. */
const canMount = ((): boolean => {
  if (process.getuid?.() !== 0) return false
  try {
    execFileSync('unshare', ['-m', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
})()

describe.skipIf(!canMount)('a full disk', () => {
  /** Puts a small tmpfs on a directory for the time of the test. */
  function small(directory: string, bytes: number): void {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${bytes},mode=0700`, 'tmpfs', directory])
    onTestFinished(() => void execFileSync('umount', ['-l', directory], { stdio: 'ignore' }))
  }
  function fill(directory: string): string {
    const file = join(directory, 'filler')
    try {
      for (let n = 0; n < 4_096; n++) writeFileSync(file, Buffer.alloc(4_096), { flag: 'a' })
    } catch (problem) {
      if ((problem as NodeJS.ErrnoException).code === 'ENOSPC') return file
      throw problem
    }
    throw new Error('the disk did not fill up')
  }

  test('at create: a typed error, nothing left; running sessions go on; space helps without a restart', async () => {
    const w = await world({ daemon: false, end: 'kill' })
    small(w.roots.data, 256 * 1_024)
    await w.start()
    const running = await w.child(['lines_in'])
    await running.untilScreen('ready')
    const filler = fill(w.roots.data)

    let code = ''
    for (let n = 0; n < 40 && code === ''; n++) {
      // The last block of the record log may still take some lines.
      code = await w.child(['idle'], { metadata: { pad: 'x'.repeat(3_000) } }).then(
        () => '',
        (problem: { code: string }) => problem.code,
      )
    }
    expect(code).toMatch(/^(session_store_failed|io_error)$/)
    const count = (await rows(w)).length
    await until('no program without a record runs', () => w.running('other').length === count)
    await running.input('still fine')
    await running.untilScreen('got:still fine')

    rmSync(filler)
    const later = await w.child(['lines_in'])
    await later.untilScreen('ready')

    await w.crash()
    expect((await later.info()).runtime.state).toBe('live')
    expect((await running.info()).runtime.state).toBe('live')
    expect((await rows(w)).length).toBe(count + 1)
    for (const it of await rows(w)) await w.call('session.remove', it.id)
    await w.daemon.stop()
    expect(existsSync(join(w.roots.data, 'pohunek/metadata.jsonl'))).toBe(true)
  })
})
