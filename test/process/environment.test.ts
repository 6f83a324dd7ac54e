/** What a session's program inherits, and where sessions meet other sessions. */
import { chmodSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { carrying, runs } from '../harness/processes.ts'
import { bin, CHILD, makeRoots } from '../harness/roots.ts'
import { refused, type Session } from '../harness/session.ts'
import { monotonicMs, until } from '../harness/wait.ts'
import { Wire } from '../harness/wire.ts'
import { world } from '../harness/world.ts'

async function environmentOf(session: Session): Promise<Record<string, string>> {
  const output = (await session.untilOutput('>ENV')).toString()
  return JSON.parse(/ENV<(.*)>ENV/s.exec(output)?.[1] ?? 'null') as Record<string, string>
}

const script = (path: string, text: string): string => {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
  chmodSync(path, 0o755)
  return path
}

describe('FC-aa34: markers of other programs do not leak through the daemon', () => {
  test('none of them arrives, ours do, the terminal is named', async () => {
    const foreign = {
      CLAUDECODE: '1',
      CLAUDE_CODE_ENTRYPOINT: 'cli',
      TMUX: '/x,1,0',
      TMUX_PANE: '%1',
      STY: '1',
      ZELLIJ: '0',
      VSCODE_IPC_HOOK_CLI: '/x',
      INVOCATION_ID: 'x',
      JOURNAL_STREAM: '1:2',
      NOTIFY_SOCKET: '/x',
      WATCHDOG_USEC: '1',
      POHUNEK_CONTROLLER_TOKEN: 'x',
      POHUNEK_ANYTHING: 'x',
      NODE_CHANNEL_FD: '9',
      MY_PRIVATE_THING: 'x',
    }
    const w = await world({ env: { ...foreign, LC_TIME: 'C', SSH_AUTH_SOCK: '/tmp/agent' } })
    const session = await w.child(['env'])
    const env = await environmentOf(session)
    for (const name of Object.keys(foreign)) expect([name, env[name]]).toEqual([name, undefined])
    const { runtime } = await session.info()
    expect(env).toMatchObject({
      POHUNEK_ENV: '1',
      POHUNEK_SESSION_ID: session.id,
      POHUNEK_WORKER_ID: runtime.worker_id,
      POHUNEK_WORKER_INSTANCE_ID: runtime.worker_instance_id,
      POHUNEK_SOCKET_PATH: w.roots.socket,
      POHUNEK_PROTOCOL_VERSION: '4',
      LC_TIME: 'C',
      SSH_AUTH_SOCK: '/tmp/agent',
      HOME: w.roots.home,
      XDG_RUNTIME_DIR: w.roots.runtime,
    })
    expect(env['POHUNEK_DAEMON_ID']).toMatch(/^d-/)
    expect(env['POHUNEK_WORKER_SOCKET_PATH']).toContain(session.id)
    expect(env['TERM']).toMatch(/\S/)
    expect(env['TMPDIR']).toContain(join(w.roots.cache, 'pohunek/session-tmp'))
  })

  test('a profile cannot shadow our markers', async () => {
    const w = await world()
    const agent = w.profile(process.execPath, [CHILD, 'env'], {
      env: { POHUNEK_SESSION_ID: 's-evil', POHUNEK_X: '1', OWN: 'yes', TERM: 'dumb' },
    })
    const session = await w.agent(agent)
    const env = await environmentOf(session)
    expect(env['POHUNEK_SESSION_ID']).toBe(session.id)
    expect(env['POHUNEK_X']).toBeUndefined()
    expect(env).toMatchObject({ OWN: 'yes', TERM: 'dumb' })
  })

  test('a daemon that runs inside a session passes its own markers on, not the outer ones', async () => {
    const w = await world({
      env: {
        POHUNEK_SESSION_ID: 's-outer',
        POHUNEK_DAEMON_ID: 'd-outer',
        POHUNEK_WORKER_INSTANCE_ID: 'w-outer',
        POHUNEK_ENV: '1',
      },
    })
    const session = await w.child(['env'])
    const env = await environmentOf(session)
    expect(env['POHUNEK_SESSION_ID']).toBe(session.id)
    expect(Object.values(env)).not.toContain('s-outer')
    expect(Object.values(env)).not.toContain('d-outer')
    expect(Object.values(env)).not.toContain('w-outer')
  })
})

describe('FC-7e44: commands run inside a session', () => {
  test('a new session is made and shown where it is asked for; the own terminal is left alone', async () => {
    const w = await world()
    const agent = w.profile('/bin/sh', ['-c', 'echo hi; sleep 1; exit 4'])
    const inside = script(
      join(w.roots.work, 'inside.sh'),
      [
        '#!/bin/sh',
        `${bin('pohunek')} session new --name B --agent ${agent} --json > new.json 2> new.err`,
        'echo "new=$?"',
        `${bin('pohunek')} attach B < /dev/null > attach.out 2> attach.err`,
        'echo "attach=$?"',
        'exec sleep 300',
        '',
      ].join('\n'),
    )
    const outer = await w.session('/bin/sh', [inside], { name: 'A' })
    const events = await w.events()
    const screen = await outer.untilScreen(/attach=\d+/, 20_000)
    expect(screen).toContain('new=0')
    // Without a terminal it is a pipe: B's output and B's status, and nothing of A.
    expect(screen).toContain('attach=4')
    expect(screen).not.toContain('hi')
    expect(readFileSync(join(w.roots.work, 'attach.out'), 'utf8')).toContain('hi')
    const all = (await w.call('session.list')) as { id: string; name?: string }[]
    expect(all.map((it) => it.name).sort()).toEqual(['A', 'B'])
    expect(events.of('attach_opened', outer.id)).toEqual([])
  })

  test('attaching a session to itself is refused', async () => {
    const w = await world()
    const inside = script(
      join(w.roots.work, 'inside.sh'),
      `#!/bin/sh\n${bin('pohunek')} attach "$POHUNEK_SESSION_ID" 2> err\necho "attach=$?"\nexec sleep 300\n`,
    )
    const session = await w.session('/bin/sh', [inside])
    const screen = await session.untilScreen(/attach=\d+/, 15_000)
    expect(screen).not.toContain('attach=0')
    const { worker_id } = (await session.info()).runtime
    const error = await refused(session.attach({ origin_session_id: session.id, origin_worker_id: worker_id }))
    expect(error.body).toMatchObject({ class: 'daemon', code: 'attach_self_feedback' })
  })

  test('a program cannot stop or type into its own session by accident; others it can, and reading is free', async () => {
    const w = await world()
    const session = await w.child(['env'])
    const other = await w.child(['lines_in'])
    await other.untilScreen('ready')
    const env = await environmentOf(session)
    const origin = { session: session.id, daemon: env['POHUNEK_DAEMON_ID'] ?? '' }
    for (let round = 0; round < 2; round++) {
      const wire = await w.connect()
      for (const [method, params] of [
        ['session.stop', session.id],
        ['session.remove', session.id],
        ['session.remove_accepting_unconfirmed', session.id],
        ['session.resize', { session_id: session.id, cols: 90, rows: 20 }],
        ['session.rename', { session_id: session.id, name: 'x' }],
        ['session.set_metadata', { session_id: session.id, metadata: {} }],
        ['session.input', { session_id: session.id, text: 'x' }],
      ] as const) {
        const error = await refused(wire.call(method, params, { origin }))
        expect([method, error.code]).toEqual([method, 'plugin_self_target_denied'])
      }
      expect((await wire.call('session.inspect', session.id, { origin })).id).toBe(session.id)
      await wire.call('session.input', { session_id: other.id, text: `round ${round}` }, { origin })
      await other.untilScreen(`got:round ${round}`)
      // The launch-time daemon id is known after a restart too.
      if (round === 0) await w.crash()
    }
  })
})

describe('FC-a823: programs and a daemon with a tiny PATH', () => {
  test("found through the calling client's PATH", async () => {
    const w = await world({ env: { PATH: '/usr/bin:/bin' } })
    const directory = join(w.roots.home, '.local/bin')
    script(join(directory, 'my-agent'), '#!/bin/sh\necho found-it\nexec sleep 300\n')
    const agent = w.profile('my-agent')
    const { code, stdout, stderr } = await w.cli(['session', 'new', '--agent', agent, '--json'], {
      env: { PATH: `${directory}:${w.roots.env()['PATH'] ?? ''}` },
    })
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const id = JSON.parse(stdout).ok.id as string
    await until('it runs', async () =>
      ((await w.call('session.screen', { session_id: id })).visible_lines as string[]).join('').includes('found-it'),
    )
  })
})

describe('FC-e4a2: a login shell that is asked does not hold anything up', () => {
  test.each([
    ['sleeps', '#!/bin/sh\nsleep 40\n'],
    ['floods and reads', '#!/bin/sh\nhead -c 1000000 /dev/zero | tr "\\0" x\nread line < /dev/tty\nexec sleep 40\n'],
    ['fails', '#!/bin/sh\nexit 9\n'],
  ])('one that %s', async (_, text) => {
    const w = await world({ daemon: false })
    const shell = script(join(w.roots.work, 'slow-shell'), text)
    const start = monotonicMs()
    await w.start({ env: { SHELL: shell, PATH: '/usr/bin:/bin' } })
    expect(monotonicMs() - start).toBeLessThan(8_000)
    const before = monotonicMs()
    const [session] = await Promise.all([w.child(['lines_in']), w.sh('echo second; exec sleep 100')])
    await session.untilScreen('ready')
    expect(monotonicMs() - before).toBeLessThan(8_000)
    // A program nobody has is still refused within seconds.
    const asked = monotonicMs()
    expect((await refused(w.session('no-such-program-anywhere', []))).code).toBe('agent_binary_missing')
    expect(monotonicMs() - asked).toBeLessThan(10_000)
    await until(
      'no asking shell is left',
      () => carrying(w.roots.base).filter((it) => it.argv.includes(shell)).length === 0,
      {
        deadlineMs: 15_000,
      },
    )
  })
})

describe('FC-fd33: the directory is removed while the session runs', () => {
  test('observation, input, resize, stop and removal work', async () => {
    const w = await world()
    const cwd = join(w.roots.work, 'tree')
    mkdirSync(cwd)
    const session = await w.child(['lines_in'], { cwd })
    await session.untilScreen('ready')
    rmSync(cwd, { recursive: true })
    await session.input('still here')
    await session.untilScreen('got:still here')
    const info = await session.info()
    expect(info.state).toBe('running')
    // Nothing falls back to another directory silently.
    expect(info.cwd).toContain(cwd)
    expect((await session.output()).bytes.length).toBeGreaterThan(0)
    await session.call('session.resize', { cols: 90, rows: 20 })
    await w.crash()
    expect((await session.info()).runtime.state).toBe('live')
    expect(await session.stop()).toBe(true)
    expect((await refused(w.child(['idle'], { cwd }))).code).toBe('cwd_failed')
    expect((await session.remove()).removed).toBe(true)
  })
})

describe('FC-a45f: a daemon inside a session', () => {
  test('keeps its own registry and leaves ours alone', async () => {
    const w = await world()
    // Below the outer roots, so that everything is one test's; a second set of its own.
    const inner = makeRoots({ base: join(w.roots.base, 'i') })
    const variables = Object.entries(inner.env())
      .filter(([name]) => name.startsWith('XDG_') || name === 'HOME')
      .map(([name, value]) => `export ${name}='${value}'`)
    const start = script(
      join(w.roots.work, 'inner.sh'),
      ['#!/bin/sh', ...variables, `exec ${bin('pohunekd')}`, ''].join('\n'),
    )
    const outer = await w.session('/bin/sh', [start])
    const wire = await until('the inner daemon serves', async () => await Wire.open(inner.socket), {
      deadlineMs: 15_000,
      show: () => w.log.join(''),
    })
    expect(await wire.call('session.list')).toEqual([])
    const made = await wire.call('session.new', { agent: 'shell', cols: 80, rows: 24, cwd: inner.work })
    expect(((await w.call('session.list')) as { id: string }[]).map((it) => it.id)).toEqual([outer.id])
    expect(((await wire.call('session.list')) as { id: string }[]).map((it) => it.id)).toEqual([made.id])

    // Ending the outer session must not take the inner one's separate worker by our marker unless it carries it.
    await wire.call('session.remove', made.id)
    wire.close()
    await outer.stop()
    await until('the inner daemon is gone', () => w.running('daemon').length === 1, { deadlineMs: 15_000 })
    expect(runs(w.daemon.pid)).toBe(true)
  })
})

test('links in the place of a profile directory are looked at, not trusted blindly', async () => {
  const w = await world()
  mkdirSync(join(w.roots.config, 'pohunek'), { recursive: true, mode: 0o700 })
  symlinkSync('/no/such/place', join(w.roots.config, 'pohunek/agents'))
  expect((await refused(w.agent('x'))).code).toMatch(
    /^(agent_profile_not_found|invalid_profile|config_read_failed|io_error)$/,
  )
  const session = await w.agent('shell')
  expect((await session.info()).state).toBe('running')
})
