/** One daemon per set of roots, and what it does about its place in the file system. */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { run } from '../harness/cli.ts'
import { startDaemon } from '../harness/daemon.ts'
import { carrying, endCarrying, runs } from '../harness/processes.ts'
import { bin, makeRoots, REPOSITORY } from '../harness/roots.ts'
import { stays, until } from '../harness/wait.ts'
import { dial, Wire } from '../harness/wire.ts'
import { world } from '../harness/world.ts'

const AUTOSTART = { POHUNEK_NO_START: undefined }

describe('two daemons on one set of roots', () => {
  test('the second ends with a message that says who is there; the first does not notice', async () => {
    const w = await world()
    const session = await w.child(['lines_in'])
    await session.untilScreen('ready')
    const second = await run(bin('pohunekd'), [], { env: w.roots.env(), cwd: w.roots.work })
    expect(second.code).not.toBe(0)
    expect(second.stderr).toMatch(/already|running|locked|another/i)
    expect(second.stderr).not.toMatch(/\n\s+at .*:\d+:\d+/)
    expect(w.daemon.running).toBe(true)
    await session.input('fine')
    await session.untilScreen('got:fine')
  })

  test.each(['runtime', 'data', 'state'] as const)('a shared %s root alone is enough to be refused', async (shared) => {
    const w = await world()
    const other = makeRoots()
    onTestFinished(() => other.remove())
    const variable = { runtime: 'XDG_RUNTIME_DIR', data: 'XDG_DATA_HOME', state: 'XDG_STATE_HOME' }[shared]
    // The other roots' base is not the test's mark: the shared root in the environment is.
    const second = await run(bin('pohunekd'), [], { env: other.env({ [variable]: w.roots[shared] }), cwd: other.work })
    expect(second.code).not.toBe(0)
    expect(second.stderr).toMatch(/already|running|locked|another/i)
    expect((await w.call('daemon.health')).status).toBe('ok')
  })

  test('many at once: exactly one stays', async () => {
    const w = await world({ daemon: false })
    const all = await Promise.allSettled(Array.from({ length: 6 }, () => startDaemon(w.roots)))
    const up = all.filter((it) => it.status === 'fulfilled').map((it) => it.value)
    expect(up.length).toBe(1)
    await until('the losers are gone', () => w.running('daemon').length === 1)
    expect((await w.call('daemon.health')).status).toBe('ok')
    await up[0]?.stop()
  })
})

describe('FC-d87f: many clients start the daemon over a stale socket', () => {
  // Both daemons ended up running, one of them unreachable.
  test('exactly one daemon, every call succeeds, one registry', { timeout: 180_000 }, async () => {
    const w = await world()
    const session = await w.child(['lines_in'], { name: 'witness' })
    await session.untilScreen('ready')
    await w.daemon.kill()
    for (let round = 0; round < 3; round++) {
      const calls = await Promise.all(
        Array.from(
          { length: 50 },
          async () => await w.cli(['session', 'list', '-q'], { env: AUTOSTART, deadlineMs: 60_000 }),
        ),
      )
      const bad = calls.filter((it) => it.code !== 0 || it.stdout.trim() !== session.id)
      expect(bad.slice(0, 3)).toEqual([])
      await until('exactly one daemon', () => w.running('daemon').length === 1, { show: () => w.running('daemon') })
      const daemon = w.running('daemon')[0]
      if (daemon === undefined) throw new Error('no daemon')
      process.kill(daemon.pid, 'SIGKILL')
      await until('it is gone', () => !runs(daemon.pid))
      expect(statSync(w.roots.socket).isSocket()).toBe(true)
    }
    await w.start()
    await session.input('one registry')
    await session.untilScreen('got:one registry')
  })
})

describe('FC-55c2: the socket file', () => {
  test('a daemon that stops removes only its own', async () => {
    const w = await world({ end: 'kill' })
    unlinkSync(w.roots.socket)
    // Somebody else's socket now has the name, as after a forced takeover.
    const other = createServer((socket) => socket.on('error', () => undefined).end('other\n'))
    await new Promise<void>((resolve) => other.listen(w.roots.socket, resolve))
    onTestFinished(() => void other.close())
    const mine = statSync(w.roots.socket).ino
    w.daemon.signal('SIGTERM')
    await w.daemon.ended()
    expect(statSync(w.roots.socket).ino).toBe(mine)
    const socket = await dial(w.roots.socket)
    socket.destroy()
  })

  test('a stale one is replaced', async () => {
    const w = await world()
    await w.daemon.kill()
    expect(statSync(w.roots.socket).isSocket()).toBe(true)
    await w.start()
    expect((await w.call('daemon.health')).status).toBe('ok')
    expect(statSync(w.roots.socket).mode & 0o777).toBe(0o600)
    expect(statSync(join(w.roots.runtime, 'pohunek')).mode & 0o777).toBe(0o700)
  })
})

describe('FC-257a: the runtime directory is wiped while sessions live', () => {
  test('the daemon is reachable again, by itself or after a restart, and the sessions are the same', async () => {
    const w = await world()
    const session = await w.child(['lines_in'])
    await session.untilScreen('ready')
    rmSync(join(w.roots.runtime, 'pohunek'), { recursive: true })
    const back = await until('the daemon serves again', async () => await Wire.open(w.roots.socket), {
      deadlineMs: 8_000,
    }).catch(() => undefined)
    if (back === undefined) {
      await w.daemon.stop()
      await w.start()
    } else back.close()
    expect(await session.info()).toMatchObject({ pid: session.pid, state: 'running' })
    expect(runs(session.pid)).toBe(true)
    await until('the session is live', async () => (await session.info()).runtime.state === 'live', {
      deadlineMs: 15_000,
    })
    await session.input('still here')
    await session.untilScreen('got:still here')
    const attached = await session.attach()
    await attached.until('got:still here')
  })
})

describe('FC-5b46: long paths', () => {
  /** Roots whose runtime path has exactly this many bytes. */
  const longRoots = (bytes: number): ReturnType<typeof makeRoots> => {
    const roots = makeRoots()
    onTestFinished(async () => {
      await endCarrying(roots.base)
      roots.remove()
    })
    const runtime = join(roots.base, 'x'.repeat(bytes - roots.base.length - 1))
    mkdirSync(runtime, { mode: 0o700 })
    return {
      ...roots,
      runtime,
      socket: join(runtime, 'pohunek/daemon.sock'),
      env: (extra) => roots.env({ XDG_RUNTIME_DIR: runtime, ...extra }),
    }
  }
  // What must fit: <runtime>/pohunek/workers/s-<26>/.s<16 hex> in 107 bytes.
  const ROOM = 107 - '/pohunek/workers/s-01ARZ3NDEKTSV4RRFFQ69G5FAV/.s0123456789abcdef'.length

  test('one byte too long: refused with path, length and limit, before any file is made', async () => {
    const roots = longRoots(ROOM + 1)
    const { code, stderr } = await run(bin('pohunekd'), [], { env: roots.env(), cwd: roots.work })
    expect(code).not.toBe(0)
    expect(stderr).toContain(roots.runtime)
    expect(stderr).toContain('107')
    expect(stderr).toContain('108')
    expect(readdirSync(roots.runtime)).toEqual([])
    expect(readdirSync(roots.state)).toEqual([])
    expect(readdirSync(roots.data)).toEqual([])
  })

  test('exactly as long as fits: a session works', async () => {
    const roots = longRoots(ROOM)
    const daemon = await startDaemon(roots)
    const wire = await Wire.open(roots.socket)
    const info = await wire.call('session.new', { agent: 'shell', cols: 80, rows: 24, cwd: roots.work })
    expect(info.state).toBe('running')
    expect((await wire.call('session.remove', info.id)).removed).toBe(true)
    wire.close()
    await daemon.stop()
  })

  test('a home of 120 bytes matters to nobody', async () => {
    const w = await world({ daemon: false })
    const home = join(w.roots.base, 'h'.repeat(120 - w.roots.base.length - 1))
    mkdirSync(home, { mode: 0o700 })
    await w.start({ env: { HOME: home } })
    const session = await w.child(['lines_in'])
    await session.untilScreen('ready')
  })
})

describe('roots that are not trustworthy are refused', () => {
  test.each(['XDG_RUNTIME_DIR', 'XDG_DATA_HOME', 'XDG_STATE_HOME', 'HOME'])(
    '%s relative or empty',
    async (variable) => {
      const w = await world({ daemon: false })
      for (const value of ['', 'relative/path']) {
        const { code, stderr } = await run(bin('pohunekd'), [], {
          env: w.roots.env({ [variable]: value }),
          cwd: w.roots.work,
        })
        expect(code).not.toBe(0)
        expect(stderr).toContain(variable)
      }
    },
  )

  test('a runtime directory that others may write', async () => {
    const w = await world({ daemon: false })
    mkdirSync(join(w.roots.runtime, 'pohunek'), { mode: 0o700 })
    chmodSync(join(w.roots.runtime, 'pohunek'), 0o777)
    const { code, stderr } = await run(bin('pohunekd'), [], {
      env: w.roots.env(),
      cwd: w.roots.work,
      deadlineMs: 8_000,
    }).catch(() => ({ code: null, stderr: 'did not end' }))
    expect(code).not.toBe(0)
    expect(stderr).toContain(join(w.roots.runtime, 'pohunek'))
  })

  test('a symbolic link in the place of the runtime directory', async () => {
    const w = await world({ daemon: false })
    mkdirSync(join(w.roots.base, 'elsewhere'), { mode: 0o700 })
    symlinkSync(join(w.roots.base, 'elsewhere'), join(w.roots.runtime, 'pohunek'))
    const { code } = await run(bin('pohunekd'), [], { env: w.roots.env(), cwd: w.roots.work, deadlineMs: 8_000 })
    expect(code).not.toBe(0)
    expect(readdirSync(join(w.roots.base, 'elsewhere'))).toEqual([])
  })
})

/** A temporary directory of its own needs a mount namespace; without the privilege this is shown as skipped. */
const canUnshare = ((): boolean => {
  if (REPOSITORY.startsWith('/tmp/')) return false // the programs themselves would be hidden
  try {
    execFileSync('unshare', ['-m', 'mount', '-t', 'tmpfs', 'tmpfs', '/tmp'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
})()

test.skipIf(!canUnshare)(
  'without XDG_RUNTIME_DIR: an owner-private directory of the user, refused when it is not',
  async () => {
    const base = mkdtempSync('/var/tmp/phk-')
    const roots = makeRoots({ base })
    onTestFinished(async () => {
      await endCarrying(base)
      roots.remove()
    })
    const script = [
      'mount -t tmpfs -o mode=1777 tmpfs /tmp',
      '"$1" session new --agent shell --json > new || exit 10',
      'stat -c "%a %u" /tmp/pohunek-$(id -u) > mode',
      '"$1" session list -q > list || exit 11',
      '"$1" session rm "$(cat list)" > /dev/null || exit 12',
      '"$1" daemon stop > /dev/null || exit 13',
      'chmod 777 /tmp/pohunek-$(id -u)',
      '"$2" 2> refused && exit 14',
      'exit 0',
    ].join('\n')
    const env = roots.env({ XDG_RUNTIME_DIR: undefined })
    const { code, stderr } = await run('unshare', ['-m', 'sh', '-c', script, 'sh', bin('pohunek'), bin('pohunekd')], {
      env,
      cwd: roots.work,
    })
    expect({ code, stderr }).toMatchObject({ code: 0 })
    const told = (file: string): string => readFileSync(join(roots.work, file), 'utf8')
    expect(told('mode').trim()).toBe(`700 ${process.getuid?.()}`)
    expect(JSON.parse(told('new')).ok.state).toBe('running')
    expect(stderr).toContain('XDG_RUNTIME_DIR')
    expect(told('refused')).toContain('/tmp/pohunek-')
    await until('nothing is left', () => carrying(base).length === 0)
  },
)

describe('the command line and a daemon that is not there', () => {
  test('starts one and says so in one line on stderr; --no-start does not', async () => {
    const w = await world({ daemon: false })
    const off = await w.cli(['session', 'list', '--json', '--no-start'], { env: AUTOSTART })
    expect(off.code).toBe(1)
    expect(JSON.parse(off.stdout).err.code).toBe('daemon_unreachable')
    expect(w.running('daemon')).toEqual([])

    const on = await w.cli(['session', 'list', '--json'], { env: AUTOSTART })
    expect(on.code).toBe(0)
    expect(JSON.parse(on.stdout).ok).toEqual([])
    expect(on.stderr.trim().split('\n').length).toBe(1)
    expect(w.running('daemon').length).toBe(1)

    const again = await w.cli(['session', 'list', '--json'], { env: AUTOSTART })
    expect(again.stderr).toBe('')

    expect((await w.cli(['daemon', 'stop'])).code).toBe(0)
    await until('it stopped', () => w.running('daemon').length === 0)
  })

  test('the daemon it starts outlives it and its terminal', async () => {
    const w = await world({ daemon: false })
    const terminal = w.terminal(['session', 'list'], { env: AUTOSTART })
    expect(await terminal.ended()).toBe(0)
    terminal.dispose()
    const daemon = w.running('daemon')[0]
    if (daemon === undefined) throw new Error('no daemon')
    await stays('the daemon stays', 300, () => runs(daemon.pid))
    expect((await w.cli(['health'])).code).toBe(0)
    expect((await w.cli(['daemon', 'stop'])).code).toBe(0)
    await until('it stopped', () => !runs(daemon.pid))
  })
})
