import { ALL_BUT_SYSTEM } from '../harness/plugin-names.ts'
import { describe, expect, test } from 'vitest'
import { once } from 'node:events'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { run } from '../harness/cli.ts'
import { bin } from '../harness/roots.ts'
import { until } from '../harness/wait.ts'
import { world, type World } from '../harness/world.ts'
import { sessionNew } from '../../plugins/sessions/commands.ts'

type Json = { cli_version: string; protocol: unknown; ok?: any; err?: any } // eslint-disable-line @typescript-eslint/no-explicit-any

async function json(it: World, ...args: string[]): Promise<Json> {
  return JSON.parse((await it.cli([...args, '--json'])).stdout) as Json
}

test('every session command over its life', async () => {
  const it = await world()
  const made = await it.cli(['session', 'new', '--name', 'one', '--meta', 'k=a=b', '--cols', '90', '--rows', '20'])
  expect(made).toMatchObject({ code: 0, stderr: '' })
  const id = /^session (s-[0-9A-Z]{26}) created \(state: running\)\n$/.exec(made.stdout)?.[1] as string
  expect(id).toBeDefined()

  expect((await it.cli(['session', 'list', '-q'])).stdout).toBe(`${id}\n`)
  const table = (await it.cli(['session', 'list'])).stdout.split('\n')
  expect(table[0]?.split(/\s+/)).toEqual(
    'ID NAME AGENT ORIGIN STATE ACTIVITY SOURCE PID SIZE PROJECT BRANCH WARN CWD'.split(' '),
  )
  expect(table[1]?.split(/\s+/)).toMatchObject([
    id,
    'one',
    'shell',
    'managed',
    'running',
    '-',
    'process',
    expect.stringMatching(/^\d+$/),
    '90x20',
    '-',
    '-',
    '-',
    it.roots.work,
  ])

  const listed = await json(it, 'session', 'list')
  expect(Object.keys(listed)).toEqual(['cli_version', 'protocol', 'ok'])
  expect(listed.protocol).toEqual({ minimum: 3, maximum: 4 })
  expect(listed.ok).toHaveLength(1)
  expect(listed.ok[0].metadata).toEqual({ k: 'a=b' })
  expect(listed.ok[0].runtime.runtime_id).toBe(listed.ok[0].runtime.worker_instance_id)
  expect((await it.cli(['session', 'list', '--json'])).stdout).toMatch(/^\{\n {2}"cli_version"/)

  expect((await json(it, 'session', 'list', '--filter', 'state=done')).ok).toEqual([])
  expect(
    (await json(it, 'session', 'list', '--filter', `id=${id}`, '--meta-eq', 'k=a=b', '--meta-has', 'k')).ok,
  ).toHaveLength(1)
  expect((await json(it, 'session', 'list', '--meta-has', 'other')).ok).toEqual([])

  const text = 'echo "screen $((40+2))"'
  expect((await it.cli(['session', 'input', 'one', '--stdin'], { stdin: text })).stdout).toBe(
    `session ${id}: input accepted\n`,
  )
  const { session } = await import('../harness/session.ts').then(({ Session }) => ({
    session: new Session(it, { id, pid: 0 }),
  }))
  await session.untilScreen('screen 42')
  expect((await it.cli(['session', 'screen', id])).stdout).toContain('screen 42\n')
  expect(
    (await it.cli(['session', 'read', 'local/one', '--lines', '2'])).stdout.split('\n').length,
  ).toBeLessThanOrEqual(3)
  expect((await it.cli(['session', 'output', 'one'])).stdout).toContain('screen 42\r\n')
  expect((await json(it, 'session', 'screen', 'one')).ok).toMatchObject({
    session_id: id,
    dimensions: { cols: 90, rows: 20 },
    runtime_id: expect.any(String),
  })

  expect((await it.cli(['session', 'resize', 'one', '--cols', '100', '--rows', '30'])).stdout).toBe(
    `resized ${id} to 100x30\n`,
  )
  expect((await it.cli(['session', 'metadata', 'one', '--set', 'x=1', '--clear', 'k'])).stdout).toBe(
    `updated metadata for ${id}\n`,
  )
  expect((await json(it, 'session', 'inspect', 'one')).ok.metadata).toEqual({ x: '1' })
  expect((await it.cli(['session', 'rename', 'one', 'two'])).stdout).toBe(`session ${id}: renamed to "two"\n`)
  expect((await it.cli(['session', 'rename', 'two', '--clear'])).stdout).toBe(`session ${id}: name cleared\n`)
  expect((await it.cli(['session', 'inspect', id.slice(0, 12)])).stdout).toMatch(/^FIELD\s+VALUE\nid\s+s-/)
  expect((await json(it, 'session', 'runtime-inventory')).ok).toEqual({ entries: expect.any(Array) })

  expect((await it.cli(['session', 'stop', id])).stdout).toBe(`session ${id}: stopped=true\n`)
  expect((await it.cli(['session', 'stop', id])).stdout).toBe(`session ${id}: stopped=false\n`)
  expect((await it.cli(['session', 'rm', id])).stdout).toBe(`session ${id}: removed=true stopped=false\n`)
  expect((await json(it, 'session', 'list')).ok).toEqual([])
})

test('FC-1e37: one documented state field with stable values', async () => {
  const it = await world()
  const running = await it.sh('sleep 60', { name: 'running' })
  const done = await it.sh('exit 0', { name: 'done' })
  const failed = await it.sh('exit 3', { name: 'failed' })
  const stopped = await it.sh('sleep 60', { name: 'stopped' })
  await stopped.stop()
  await done.ended()
  await failed.ended()
  for (const [name, state, code] of [
    ['running', 'running', undefined],
    ['done', 'done', 0],
    ['failed', 'failed', 3],
  ] as const) {
    const { ok } = await json(it, 'session', 'inspect', name)
    expect({ state: ok.state, code: ok.exit_code }).toEqual({ state, code })
  }
  expect((await json(it, 'session', 'inspect', 'stopped')).ok.state).toBe('stopped')
  expect(running.id).toMatch(/^s-/)
})

test('FC-322c: a name that does not exist is an error of its own', async () => {
  const it = await world()
  const refused = await it.cli(['session', 'inspect', 'no-such-session'])
  expect(refused).toMatchObject({ code: 1, stdout: '' })
  expect(refused.stderr).toBe('error: no session "no-such-session"\n  hint: pohunek session list\n')
  expect((await json(it, 'session', 'stop', 's-01ARZ3NDEKTSV4RRFFQ69G5FAV')).err).toMatchObject({
    class: 'runtime',
    code: 'session_not_found',
  })
  await it.sh('sleep 60', { name: 'twin' })
  const { id } = await it.sh('sleep 60', { name: 'twin' })
  // The beginning of an id, but too short to count as one: that is said.
  const short = await it.cli(['session', 'inspect', id.slice(0, 4)])
  expect(short.stderr).toContain('counts from 4 characters behind s- on')
  expect((await json(it, 'session', 'inspect', 'twin')).err.code).toBe('ambiguous_session_name')
  expect((await it.cli(['attach', 'no-such-session'])).code).toBe(125)
})

test('FC-94e0: usage errors exit 2 with one line and create nothing', async () => {
  const it = await world()
  for (const args of [
    ['session', 'read', 'x', '--lines'],
    ['session', 'read'],
    ['session', 'new', '--name', '-rf'],
    ['session', 'new', '--name', ''],
    ['session', 'new', '--name', 'n'.repeat(10_240)],
    ['session', 'new', 'stray'],
    ['session', 'list', '--nope'],
    ['attach'],
    ['nonsense'],
  ]) {
    const { code, stdout, stderr } = await it.cli(args)
    expect({ args, code, stdout }).toEqual({ args, code: 2, stdout: '' })
    expect(stderr).toMatch(/^error: [^\n]+\n$/)
  }
  const usage = await it.cli(['session', 'list', '--json', '--nope'])
  expect(usage.code).toBe(2)
  expect((JSON.parse(usage.stdout) as Json).err).toMatchObject({ code: 'cli_usage' })
  expect((await json(it, 'session', 'list')).ok).toEqual([])
})

test('FC-39e0: list, inspect, screen and errors send no control byte of a program to a terminal', async () => {
  const it = await world()
  const session = await it.sh(
    String.raw`printf '\033]2;t\033]52;c;QQ==\007\033]8;;http://x\033\\link\033]8;;\033\\'; sleep 60`,
    {
      metadata: { note: 'x\x1b[2J\x9b31m' },
    },
  )
  await session.untilScreen('link')
  for (const args of [
    ['session', 'list'],
    ['session', 'inspect', session.id],
    ['session', 'screen', session.id],
    ['session', 'output', session.id],
    ['session', 'inspect', 'x\x1b[2J'],
    ['session', 'inspect', session.id, '--json'],
  ]) {
    const outer = it.terminal(args, { env: { NO_COLOR: '1' }, cols: 100 })
    await outer.ended()

    expect(outer.raw.toString('utf8')).not.toMatch(/[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f]/)
  }
  expect((await json(it, 'session', 'inspect', session.id)).ok.metadata.note).toBe('x\x1b[2J\x9b31m')
})

describe('without a daemon', () => {
  test('--no-start says what to do', async () => {
    const it = await world({ daemon: false })
    const refused = await it.cli(['session', 'list'])
    expect(refused.code).toBe(1)
    expect(refused.stderr).toMatch(/^error: no daemon answers on .*\n {2}hint: pohunek daemon start\n$/)
    expect((await json(it, '--no-start', 'health')).err).toMatchObject({
      class: 'daemon',
      code: 'daemon_unreachable',
      recover: 'pohunek daemon start',
    })
    expect((await it.cli(['daemon', 'status'])).code).toBe(1)
    expect(await it.cli(['daemon', 'stop'])).toMatchObject({ code: 0, stdout: 'no daemon is running\n' })
    expect((await it.cli(['doctor'])).stdout).toMatch(/\noverall: (ok|warn)\n$/)
    expect(existsSync(it.roots.socket)).toBe(false)
  })

  test('bad environments are named', async () => {
    const it = await world({ daemon: false })
    const code = async (env: Record<string, string | undefined>): Promise<string> =>
      (JSON.parse((await it.cli(['health', '--json'], { env })).stdout) as Json).err.code as string
    expect(await code({ POHUNEK_SESSION_ID: 's-1' })).toBe('incomplete_origin_environment')
    expect(await code({ POHUNEK_SESSION_ID: 's 1', POHUNEK_DAEMON_ID: 'd-1' })).toBe('invalid_origin_environment')
    expect(await code({ XDG_RUNTIME_DIR: 'relative' })).toBe('paths_unavailable')
    expect(await code({ XDG_RUNTIME_DIR: '' })).toBe('paths_unavailable')
    expect(await code({ XDG_RUNTIME_DIR: `/${'x'.repeat(120)}` })).toBe('paths_unavailable')
  })
})

test('hosts: local is accepted, another is unknown', async () => {
  const it = await world()
  expect((await it.cli(['--host', 'local', 'session', 'list', '-q'])).code).toBe(0)
  expect((await json(it, '--host', 'elsewhere', 'session', 'list')).err).toMatchObject({
    class: 'discovery',
    code: 'host_unknown',
  })
  expect((await json(it, 'session', 'inspect', 'elsewhere/x')).err.code).toBe('host_unknown')
  expect((await it.cli(['session', 'inspect', 'a/b/c'])).code).toBe(2)
})

test('help, version, health, capabilities', async () => {
  const it = await world()
  const alone = await it.cli([])
  expect(alone).toMatchObject({ code: 0, stderr: '' })
  expect(alone.stdout).toContain('pohunek session new --name work --attach')
  expect(alone.stdout.split('\n').length).toBeLessThan(15)
  const all = await it.cli(['--help'])
  expect(all.code).toBe(0)
  for (const it of ['session runtime-inventory', 'attach <target>', 'daemon stop', 'completions <shell>', '--no-start'])
    expect(all.stdout).toContain(it)
  expect(all.stdout).not.toContain('subscribe')
  const help = await it.cli(['session', 'new', '--help'])
  expect(help).toMatchObject({ code: 0, stderr: '' })
  // Every option is there, and all texts start in one column.
  const rows = help.stdout.split('\n').filter((line) => line.startsWith('  --'))
  for (const flag of sessionNew.flags) expect(rows.some((row) => row.startsWith(`  --${flag.name}`))).toBe(true)
  const starts = rows.map((row) => /^ {2}--.*?\S {2,}(?=\S)/.exec(row)?.[0].length)
  expect(new Set(starts.slice(0, sessionNew.flags.length)).size).toBe(1)
  const attachHelp = (await it.cli(['attach', '--help'])).stdout
  for (const row of [
    /^ {2}Ctrl-\] +detach/m,
    /^ {2}k y +kill the program$/m,
    /^ {2}Esc +back$/m,
    /^ {2}125 +could not attach$/m,
  ])
    expect(attachHelp).toMatch(row)
  const options = (text: string, flag: string): string =>
    new RegExp(`^ {2}--${flag}\\b[^]*?(?=^ {2}--|^$)`, 'm').exec(text)?.[0] ?? ''
  for (const flag of ['project', 'repo', 'branch', 'base-branch', 'reuse-branch'])
    expect(options(help.stdout, flag)).toContain(`--${flag}`)
  const inputHelp = (await it.cli(['session', 'input', '--help'])).stdout
  for (const flag of ['until', 'timeout', 'force', 'paste']) expect(options(inputHelp, flag)).toContain(`--${flag}`)
  expect(inputHelp).toContain("'' presses Enter alone")
  for (const said of ['--json', 'Exit codes: 0 done', 'also: ls', 'help [command]'])
    expect(all.stdout.replaceAll(/\s+/g, ' ')).toContain(said)
  expect(await it.cli(['help'])).toEqual(all)
  expect(await it.cli(['help', 'session', 'new'])).toEqual(help)
  expect((await it.cli(['help', 'nonsense'])).code).toBe(2)
  expect((await it.cli(['--version'])).stdout).toMatch(/^pohunek \d+\.\d+\.\d+\n$/)
  const group = await it.cli(['session'])
  expect(group).toMatchObject({ code: 2, stdout: '' })
  expect(group.stderr).toContain('session stop <target>')
  expect(await it.cli(['session', '--help'])).toMatchObject({ code: 0, stdout: group.stderr, stderr: '' })
  expect((await it.cli(['status'])).stdout).toMatch(
    /^FIELD\s+VALUE\nstatus\s+ok\ndaemon_version\s+\S+\nprotocol_version\s+4\n$/,
  )
  expect((await json(it, 'capabilities')).ok.plugins.map((plugin: { name: string }) => plugin.name)).toContain(
    'sessions',
  )
})

test('a daemon without a plugin: its commands say which one they need', async () => {
  const it = await world({ args: ['--without', ALL_BUT_SYSTEM], end: 'kill' })
  const refused = await it.cli(['session', 'list'])
  expect(refused.code).toBe(1)
  expect(refused.stderr).toContain('its plugin "sessions"')
  expect((await json(it, 'session', 'list')).err.code).toBe('method_not_found')
  expect((await it.cli(['health'])).code).toBe(0)
})

test('start directory and program search are the caller’s', async () => {
  const it = await world()
  mkdirSync(join(it.roots.work, 'sub'))
  mkdirSync(join(it.roots.home, 'proj'))
  const cwd = async (args: string[], from = it.roots.work): Promise<string> =>
    (JSON.parse((await it.cli(['session', 'new', '--json', ...args], { cwd: from })).stdout) as Json).ok.cwd as string
  expect(await cwd([])).toBe(it.roots.work)
  expect(await cwd(['--cwd', 'sub'])).toBe(join(it.roots.work, 'sub'))
  expect(await cwd(['--cwd', '../w/sub'])).toBe(join(it.roots.work, 'sub'))
  expect(await cwd(['--cwd', '~/proj'])).toBe(join(it.roots.home, 'proj'))
  expect(await cwd(['--cwd', '~'])).toBe(it.roots.home)
  const missing = await it.cli(['session', 'new', '--cwd', 'nowhere', '--json'])
  expect((JSON.parse(missing.stdout) as Json).err.code).toBe('cwd_failed')

  mkdirSync(join(it.roots.work, 'tools'))
  writeFileSync(join(it.roots.work, 'tools/mytool'), '#!/bin/sh\necho found-it\nsleep 60\n', { mode: 0o755 })
  it.profile('mytool', [], { name: 'tool' })
  const made = await it.cli(['session', 'new', '--agent', 'tool', '--json'], {
    env: { PATH: `${join(it.roots.work, 'tools')}:${process.env.PATH}` },
  })
  expect((JSON.parse(made.stdout) as Json).ok?.state).toBe('running')
})

test('a daemon whose runtime directory was wiped is shown and stopped by its other locks', async () => {
  const it = await world()
  rmSync(dirname(it.roots.socket), { recursive: true })
  const health = async (): Promise<boolean> => (await it.cli(['--no-start', 'health'])).code === 0
  await until('the daemon answers again', health)
  expect((await it.cli(['daemon', 'status'])).stdout).toMatch(new RegExp(`^pid +${it.daemon.pid}$`, 'm'))
  expect((await it.cli(['daemon', 'stop'])).stdout).toContain(`daemon stopped (pid ${it.daemon.pid})`)
  expect(await it.daemon.ended()).toMatchObject({ code: 0 })
})

test('doctor: a daemon that does not tell its checks is no good one', async () => {
  const it = await world({ daemon: false })
  mkdirSync(dirname(it.roots.socket), { mode: 0o700, recursive: true })
  const server = createServer((socket) => {
    socket.on('data', (bytes) => {
      const { id, method } = JSON.parse(bytes.toString()) as { id: string; method: string }
      if (method === 'daemon.health') socket.write(`${JSON.stringify({ v: 4, id, ok: HEALTH })}\n`)
      else socket.destroy()
    })
  }).listen(it.roots.socket)
  await once(server, 'listening')
  const { code, stdout } = await it.cli(['doctor'])
  server.close()
  expect(stdout).toMatch(/^daemon +ok/m)
  expect(stdout).toMatch(/^daemon_checks +fail +the daemon told no checks: /m)
  expect([code, stdout]).toEqual([1, expect.stringMatching(/\noverall: fail\n$/)])
})
const HEALTH = { status: 'ok', daemon_version: '0.1.0', protocol_version: 4 }

test('output that cannot be stored is a failure, said where it can be read', async () => {
  // A report redirected to a full disk was empty or cut, with exit code 0.
  const it = await world()
  const full = (args: string) =>
    run('/bin/sh', ['-c', `exec "$P" ${args} > /dev/full`], {
      cwd: it.roots.work,
      env: it.roots.env({ POHUNEK_NO_START: '1', P: bin('pohunek') }),
    })
  const lost = 'error: standard output: no space left, what was printed is not complete\n'
  for (const args of ['health', 'health --json', '--help', 'doctor']) {
    const { code, stderr } = await full(args)
    expect([args, code, stderr]).toEqual([args, 1, lost])
  }
  const failed = await full('session inspect nope --json')
  expect([failed.code, failed.stderr]).toEqual([1, 'error: no session "nope"\n  hint: pohunek session list\n'])
})

test('output is complete into a slow pipe, and a closed one is no error', async () => {
  const it = await world()
  const session = await it.sh(
    'i=0; while [ $i -lt 4000 ]; do echo "line $i ................................................"; i=$((i+1)); done; sleep 60',
  )
  await session.untilScreen('line 3999')
  const sh = (script: string) =>
    run('/bin/sh', ['-c', script], {
      cwd: it.roots.work,
      env: it.roots.env({ POHUNEK_NO_START: '1', P: bin('pohunek'), S: session.id }),
    })
  const slow = await sh('"$P" session output "$S" --max-bytes 200000 | (sleep 0.5; wc -c)')
  expect(Number(slow.stdout)).toBe(200_000)
  const closed = await sh('("$P" session output "$S" --max-bytes 200000; echo "rc=$?" >&2) | head -c 10')
  expect(closed.stderr).toBe('rc=0\n')
})

test('subscribe prints events as lines and ends quietly', async () => {
  const it = await world()
  const reader = run('/bin/sh', ['-c', '"$P" subscribe | head -n 1'], {
    cwd: it.roots.work,
    env: it.roots.env({ POHUNEK_NO_START: '1', P: bin('pohunek') }),
  })
  // head ends after the first line; until the subscription stands an event may be missed, so more than one is made.
  let line: string | undefined
  void reader.then(({ stdout }) => (line = stdout))
  while (line === undefined) await (await it.sh('exit 0')).ended()
  await it.sh('exit 0')
  expect(JSON.parse(line)).toMatchObject({ v: 4, event: expect.stringMatching(/^session_/) })
})

test('on a terminal of 80 columns nothing wraps, and screens have no blank tail', async () => {
  const it = await world()
  const deep = join(it.roots.work, 'a/rather/long/path/to/some/project/that/is/deep')
  mkdirSync(deep, { recursive: true })
  const session = await it.sh('echo top; sleep 60', { name: 'a name that is long enough to be cut', cwd: deep })
  await it.sh('sleep 60', { name: 'žluťoučký kůň 漢字 🚀' })
  await session.untilScreen('top')
  for (const args of [
    [],
    ['--help'],
    ['session', 'new', '--help'],
    ['attach', '--help'],
    ['session', 'list'],
    ['doctor'],
  ]) {
    const outer = it.terminal(args, { cols: 80, rows: 60, env: { NO_COLOR: '1' } })
    expect(await outer.ended(), args.join(' ')).toBe(0)
    // A row that goes on in the next one was too long.
    const { active } = outer.terminal.buffer
    const wrapped = Array.from({ length: active.length }, (_, row) => active.getLine(row)).filter(
      (row) => row?.isWrapped,
    )
    expect({ args, wrapped: wrapped.map((row) => row?.translateToString()) }).toEqual({ args, wrapped: [] })
  }
  const screen = it.terminal(['session', 'screen', session.id], { env: { NO_COLOR: '1' } })
  await screen.ended()
  expect(screen.raw.toString()).toBe('top\r\n')
  expect((await it.cli(['session', 'screen', session.id])).stdout).toBe(`top\n${'\n'.repeat(23)}`)
})

test('Ctrl-C ends an input that waits for its text or for the daemon, and nothing is typed', async () => {
  const it = await world()
  const session = await it.sh('cat', { name: 'cat' })
  const SIGINT = 2
  const reading = it.terminal(['session', 'input', 'cat', '--stdin'])
  await until('the command runs', () => it.running('cli').length > 0)
  reading.write('half a li')
  await reading.until('half a li')
  reading.write('\x03')
  await reading.ended()
  expect(reading.exit).toMatchObject({ signal: SIGINT })
  expect(reading.raw.toString()).toMatch(/^half a li(\^C)?$/)

  it.daemon.signal('SIGSTOP')
  const asking = it.terminal(['session', 'input', session.id, 'late'])
  await until('the command waits for an answer', () => it.running('cli').length > 0)
  asking.write('\x03')
  await asking.ended()
  expect(asking.exit).toMatchObject({ signal: SIGINT })
  expect(asking.raw.toString()).toMatch(/^(\^C)?$/)
  it.daemon.signal('SIGCONT')
  expect((await session.info()).state).toBe('running')
})

test('a second session of one name is told, and how to tell them apart', async () => {
  const it = await world()
  const WARNING = 'warning: another session has this name; address it by id\n'
  expect((await it.cli(['session', 'new', '--name', 'twin'])).stderr).toBe('')
  expect(await it.cli(['session', 'new', '--name', 'twin'])).toMatchObject({ code: 0, stderr: WARNING })
  const other = await it.sh('sleep 60', { name: 'other' })
  expect((await it.cli(['session', 'rename', other.id, 'alone'])).stderr).toBe('')
  expect(await it.cli(['session', 'rename', other.id, 'twin'])).toMatchObject({ code: 0, stderr: WARNING })
  // What completion offers: every id, and no name that means two.
  const offered = (await it.cli(['session', 'list', '--targets'])).stdout.trimEnd().split('\n')
  expect(offered).toHaveLength(3)
  expect(offered).not.toContain('twin')
})

test('an empty input presses Enter', async () => {
  const it = await world()
  const session = await it.sh('read x; echo "got [$x]"; sleep 60')
  expect((await it.cli(['session', 'input', session.id, ''])).code).toBe(0)
  await session.untilScreen('got []')
})

describe('session output --follow', () => {
  test('prints what there is and what comes, as bytes into a pipe, until the program ended', async () => {
    const it = await world()
    const session = await it.sh(String.raw`printf 'early\033[31m\n'; read x; echo "late $x"; exit 3`)
    await session.untilScreen('early')
    const following = it.cli(['session', 'output', session.id, '--follow'])
    await until('it follows', () => it.running('cli').length > 0)
    await session.input('words')
    const { code, stdout, stderr } = await following
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toBe((await session.output()).bytes.toString())
    expect(stdout).toContain('early\x1b[31m\r\n')
    expect(stdout).toContain('late words\r\n')
    expect((await it.cli(['session', 'output', session.id, '--follow', '--json'])).code).toBe(2)
  })

  test('a terminal gets text, and a reader that leaves is no error', async () => {
    const it = await world()
    const session = await it.sh(String.raw`while :; do printf '\033[31mred\r\n'; sleep 0.05; done`)
    const outer = it.terminal(['session', 'output', session.id, '-f'], { env: { NO_COLOR: '1' } })
    await outer.until(String.raw`\x1b[31mred`)
    expect(outer.raw.toString()).not.toContain('\x1b')
    const SIGINT = 2
    outer.write('\x03')
    await outer.ended()
    expect(outer.exit).toMatchObject({ signal: SIGINT })
    const left = await run('/bin/sh', ['-c', '("$P" session output "$S" -f; echo "rc=$?" >&2) | head -c 4'], {
      cwd: it.roots.work,
      env: it.roots.env({ POHUNEK_NO_START: '1', P: bin('pohunek'), S: session.id }),
    })
    expect(left.stderr).toBe('rc=0\n')
  })
})
