import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createServer, type Server, type Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { run } from '../harness/cli.ts'
import { Outer } from '../harness/pty.ts'
import { bin } from '../harness/roots.ts'
import { pause, stays, until } from '../harness/wait.ts'
import { world, type World } from '../harness/world.ts'

const POPPED = '\x1b[<u'
const DETACH = '\x1d'
const MENU = '\x1c'

/** Starts attach in a terminal and waits until it shows `text`. */
async function attached(it: World, target: string, text: string): Promise<Outer> {
  const outer = it.terminal(['attach', target])
  await outer.until(text)
  return outer
}

const reconnect = (it: World, lines: string): void => {
  mkdirSync(join(it.roots.config, 'pohunek'), { recursive: true, mode: 0o700 })
  writeFileSync(join(it.roots.config, 'pohunek/attach.conf'), lines, { mode: 0o600 })
}

test('FC-4fa7: what a command prints at once is there exactly once on the first attach', async () => {
  const it = await world()
  it.profile('/bin/sh', ['-c', 'echo banner-1; sleep 60'], { name: 'banner' })
  for (let round = 0; round < 5; round++) {
    const outer = it.terminal(['session', 'new', '--attach', '--agent', 'banner'], { cols: 93, rows: 17 })
    await outer.until('banner-1')
    expect(
      outer
        .screen()
        .join('\n')
        .match(/banner-1/g),
    ).toHaveLength(1)
    outer.write(DETACH)
    expect(await outer.ended()).toBe(0)
    expect(outer.raw.toString('latin1').match(/banner-1/g)).toHaveLength(1)
  }
  const [session] = await it.call('session.list')
  expect([session.cols, session.rows]).toEqual([93, 17])
})

test('FC-5e76: control bytes reach the program unchanged and the terminal is restored', async () => {
  const it = await world()
  const session = await it.sh('stty raw -echo; echo ready; exec cat -v')
  const outer = await attached(it, session.id, 'ready')
  outer.write('\x03\x1a\x11\x13\x16\x04\x00x\xff')
  await outer.until('^C^Z^Q^S^V^D^@x')
  // Ctrl-\ is ours; pressed again in the menu it is sent.
  outer.write(MENU)
  await outer.until('kill the program')
  outer.write(MENU)
  await outer.until('^\\')
  expect(outer.exit).toBeUndefined()
  outer.write(DETACH)
  expect(await outer.ended()).toBe(0)
})

test('the settings of the outer terminal come back', async () => {
  const it = await world()
  const session = await it.sh('echo ready; sleep 60')
  for (const how of ['key', 'SIGTERM'] as const) {
    const script = `stty -a > before; "${bin('pohunek')}" attach ${session.id}; echo "rc=$?"; stty -a > after; cmp before after && echo same; read x`
    const outer = new Outer('/bin/sh', ['-c', script], {
      cwd: it.roots.work,
      env: it.roots.env({ POHUNEK_NO_START: '1' }),
    })
    it.keep({ close: () => outer.dispose() })
    await outer.until('ready')
    if (how === 'key') outer.write(DETACH)
    else
      process.kill(
        it.running('cli').find((one) => one.argv.includes('attach') && !one.argv.includes('-c'))?.pid as number,
        'SIGTERM',
      )
    await outer.until('same')
    await outer.until(how === 'key' ? 'rc=0' : 'rc=143')
    outer.write('\r')
    await outer.ended()
  }
})

describe('FC-75bf: keyboard and mouse modes of the program end with the attach', () => {
  const modes = String.raw`printf '\033[>1u\033[>4;2m\033[?1002h\033[?1006h\033[?2004h\033[?1004hready'; sleep 60`
  const last = (outer: Outer): string => outer.raw.toString('latin1').slice(-600)
  const check = (outer: Outer): void => {
    for (const part of [POPPED, '\x1b[>4;0m', '\x1b[?1002l', '\x1b[?1006l', '\x1b[?2004l', '\x1b[?1004l', '\x1b[?25h'])
      expect(last(outer)).toContain(part)
  }

  test('detach by key', async () => {
    const it = await world()
    const outer = await attached(it, (await it.sh(modes)).id, 'ready')
    outer.write(DETACH)
    expect(await outer.ended()).toBe(0)
    check(outer)
  })

  test('SIGTERM and SIGHUP to the client', async () => {
    const it = await world()
    const session = await it.sh(modes)
    for (const [signal, code] of [
      ['SIGTERM', 143],
      ['SIGHUP', 129],
    ] as const) {
      const outer = await attached(it, session.id, 'ready')
      process.kill(outer.pty.pid, signal)
      expect(await outer.ended()).toBe(code)
      check(outer)
    }
  })

  test('the program ends', async () => {
    const it = await world()
    const outer = await attached(it, (await it.sh(modes.replace('sleep 60', 'read x; exit 5'))).id, 'ready')
    outer.write('\r')
    expect(await outer.ended()).toBe(5)
    check(outer)
  })

  test('the worker dies', async () => {
    const it = await world({ end: 'kill' })
    reconnect(it, 'attach_reconnect_seconds=1\nattach_reconnect_interval_seconds=0.05\n')
    const session = await it.sh(modes)
    const outer = await attached(it, session.id, 'ready')
    process.kill(session.worker().pid, 'SIGKILL')
    expect(await outer.ended()).toBe(126)
    check(outer)
  })
})

describe('FC-903c: encoded keys in a real terminal', () => {
  test.each(['\x1b[93;5u', '\x1b[93;133u', '\x1b[27;5;93~', '\x1b[93;5:1u'])(
    '%j detaches, also split',
    async (bytes) => {
      const it = await world()
      const session = await it.sh('echo ready; sleep 60')
      for (const at of [0, 1, 2, 4]) {
        const outer = await attached(it, session.id, 'ready')
        if (at > 0) {
          outer.write(bytes.slice(0, at))
          await stays('the client runs', 20, () => outer.exit === undefined)
        }
        outer.write(bytes.slice(at))
        expect(await outer.ended()).toBe(0)
      }
    },
  )

  test('a release passes and does not detach', async () => {
    const it = await world()
    const session = await it.sh('stty raw -echo; echo ready; exec cat -v')
    const outer = await attached(it, session.id, 'ready')
    outer.write('\x1b[93;5:3u')
    await outer.until('^[[93;5:3u')
    outer.write('\x1b')
    await outer.until('u^[')
    outer.write(DETACH)
    await outer.ended()
  })
})

describe('FC-3d17: the exit status of attach says what happened', () => {
  test('the program’s own status, during and after', async () => {
    const it = await world()
    const session = await it.sh('read x; exit 3', { name: 'a' })
    const outer = it.terminal(['attach', 'a'])
    await until('the attach is there', async () => (await it.events()) && outer.raw.length > 0)
    outer.write('\r')
    expect(await outer.ended()).toBe(3)
    expect((await session.ended()).exit_code).toBe(3)
    const late = await it.cli(['attach', 'a'])
    expect(late).toMatchObject({ code: 3, stdout: '' })
    expect(late.stderr).toBe(`[session ${session.id} ended with exit status 3]\n`)
    const inTerminal = it.terminal(['attach', 'a'])
    expect(await inTerminal.ended()).toBe(3)
    expect(inTerminal.raw.toString()).not.toContain('\x1b')
  })

  test('with standard input closed it shows output until the end', async () => {
    const it = await world()
    await it.sh('echo early; sleep 0.5; echo late; exit 3', { name: 'a' })
    const result = await it.cli(['attach', 'a'])
    expect(result.code).toBe(3)
    expect(result.stdout).toContain('late')
  })

  test('stopped by somebody: 128 and the signal', async () => {
    const it = await world()
    const session = await it.sh('echo ready; exec sleep 60')
    const outer = await attached(it, session.id, 'ready')
    await session.stop()
    const { exit_code: code } = await session.ended()
    expect(code).toBeGreaterThan(128)
    expect(await outer.ended()).toBe(code)
    await outer.until('was stopped')
  })

  test('a session that is not there, and itself', async () => {
    const it = await world()
    expect((await it.cli(['attach', 's-01ARZ3NDEKTSV4RRFFQ69G5FAV'])).code).toBe(125)
    const session = await it.sh('env; sleep 60')
    const output = (await session.untilOutput('POHUNEK_WORKER_ID')).toString()
    const env = Object.fromEntries(
      [...output.matchAll(/^(POHUNEK_(?:SESSION|WORKER|DAEMON)_ID)=(\S+)\r$/gm)].map(([, name, value]) => [
        name,
        value,
      ]),
    )
    const own = await it.cli(['attach', session.id], { env })
    expect(own.code).toBe(125)
    expect(own.stderr).toContain('inside itself')
  })
})

test('FC-7e44: from inside a session another one is made and attached to explicitly', async () => {
  const it = await world()
  it.profile('/bin/sh', ['-c', 'echo hi-from-b; sleep 60'], { name: 'b' })
  const script = `"${bin('pohunek')}" session new --agent b --name B && "${bin('pohunek')}" attach B < /dev/null > out & sleep 60`
  const a = await it.sh(script, { cols: 71, name: 'A' })
  await a.untilScreen('created (state: running)')
  const sessions = await until('B is there', async () => {
    const all: { name?: string }[] = await it.call('session.list')
    return all.find((one) => one.name === 'B') === undefined ? undefined : all
  })
  expect(sessions).toHaveLength(2)
  await until('B was shown to the script', async () =>
    (await run('/bin/cat', [join(it.roots.work, 'out')], { cwd: it.roots.work, env: it.roots.env() })).stdout.includes(
      'hi-from-b',
    ),
  )
  expect(await a.screen()).not.toContain('hi-from-b')
  expect((await a.info()).cols).toBe(71)
})

describe('the menu', () => {
  test('freezes the picture, shows facts, and gives it back with what came meanwhile', async () => {
    const it = await world()
    const session = await it.sh(
      String.raw`echo first; read x; echo second; read x; printf '\033[?1049h\033[HFULL'; read x; printf ' more'; sleep 60`,
      { name: 'named' },
    )
    const outer = await attached(it, 'named', 'first')
    outer.write(MENU)
    await outer.until('named · local')
    await outer.until('terminate: kill it')
    await session.input('1')
    await session.untilScreen('second')
    expect(outer.screen().join('\n')).not.toContain('second')
    outer.write('q')
    await outer.until(
      (screen) => screen.includes('first') && screen.includes('second') && !screen.includes('terminate'),
    )
    await session.input('2')
    await outer.until('FULL')
    outer.write(MENU)
    await outer.until('terminate: kill it')
    await session.input('3')
    await session.untilScreen('more')
    outer.write('\x1b')
    await outer.until((screen) => screen.includes('more') && !screen.includes('terminate'))
    outer.write(DETACH)
    expect(await outer.ended()).toBe(0)
  })

  test('rename, kill, terminate, new, detach', async () => {
    const it = await world()
    const session = await it.sh('echo ready $POHUNEK_SESSION_ID; exec sleep 60')
    const outer = await attached(it, session.id, 'ready')
    outer.write(MENU)
    await outer.until('rename')
    outer.write('rneu\r')
    await until('it was renamed', async () => (await session.info()).name === 'neu')
    await outer.until((screen) => screen.includes('ready') && !screen.includes('rename'))

    outer.write(MENU)
    await outer.until('new session in the same directory')
    outer.write('n')
    const all = await until('a second session', async () => {
      const list: { id: string; agent: string; cwd: string }[] = await it.call('session.list')
      return list.length === 2 ? list : undefined
    })
    const [first, second] = [all.find((one) => one.id === session.id), all.find((one) => one.id !== session.id)]
    expect(second).toMatchObject({ agent: first?.agent, cwd: first?.cwd })
    await outer.until(`ready ${second?.id}`)

    outer.write(MENU)
    await outer.until('kill the program')
    outer.write('ty')
    expect(await outer.ended()).toBe(0)
    expect(((await it.call('session.list')) as unknown[]).length).toBe(1)

    const again = await attached(it, session.id, 'ready')
    again.write(MENU)
    await again.until('kill the program')
    again.write('kn')
    await again.until('kill the program')
    again.write('d')
    expect(await again.ended()).toBe(0)

    const last = await attached(it, session.id, 'ready')
    last.write(MENU)
    await last.until('kill the program')
    last.write('ky')
    expect(await last.ended()).toBe((await session.ended()).exit_code)
  })
})

test('the size follows the terminal, the last change wins', async () => {
  const it = await world()
  const session = await it.sh("trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done")
  const outer = await attached(it, session.id, 'ready')
  for (const cols of [90, 100, 110, 97]) outer.resize(cols, 31)
  await outer.until('31 97')
  const info = await session.info()
  expect([info.cols, info.rows]).toEqual([97, 31])
  outer.write(DETACH)
  await outer.ended()
})

/** Closes every stream as soon as it is there; the answer stops that. */
function setCloser(fake: Scripted): () => void {
  let over = false
  void (async () => {
    while (!over) {
      for (const socket of fake.streams.splice(0)) socket.destroy()
      await pause(5)
    }
  })()
  return () => (over = true)
}

/**
 * A daemon that drops its streams by script: a real one does so only after a minute, and offers the way to the worker
 * that survives it.
 */
class Scripted {
  attaches = 0
  received = ''
  session: Record<string, unknown> = { id: 's-1', state: 'running', runtime: { state: 'live' } }
  streamError: unknown
  picture = 'picture'
  readonly streams: Socket[] = []
  #server: Server | undefined
  readonly #path: string
  readonly #it: World

  constructor(it: World) {
    this.#it = it
    mkdirSync(join(it.roots.runtime, 'pohunek'), { mode: 0o700, recursive: true })
    this.#path = it.roots.socket
    it.keep({ close: () => this.stop() })
  }

  async start(): Promise<void> {
    const server = createServer((socket) => this.#serve(socket))
    this.#server = server
    await new Promise<void>((resolve) => server.listen(this.#path, resolve))
  }

  readonly #open = new Set<Socket>()
  stop(): void {
    for (const socket of this.#open) socket.destroy()
    this.#server?.close()
  }

  #serve(socket: Socket): void {
    this.#open.add(socket)
    socket.on('error', () => undefined)
    let text = ''
    const take = (chunk: Buffer): void => {
      text += chunk.toString()
      for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n')) {
        const line = JSON.parse(text.slice(0, at)) as { id?: string; method?: string; attach?: string }
        text = text.slice(at + 1)
        if (line.attach === undefined)
          socket.write(`${JSON.stringify({ v: 4, id: line.id, ok: this.#answer(line.method) })}\n`)
        else {
          socket.removeListener('data', take)
          socket.on('data', (bytes: Buffer) => (this.received += bytes.toString()))
          this.streams.push(socket)
          socket.write(`\x1b[H\x1b[2J${this.picture}`)
        }
      }
    }
    socket.on('data', take)
  }

  #answer(method: string | undefined): unknown {
    if (method === 'session.attach') return { stream_id: `a-${++this.attaches}` }
    if (method === 'session.detach')
      return { detached: false, ...(this.streamError === undefined ? {} : { error: this.streamError }) }
    if (method === 'session.list') return [{ ...this.session, name: 'one' }]
    return this.session
  }
}

describe('FC-becc: an interruption', () => {
  test('a typed stream failure is shown once and not retried', async () => {
    const it = await world({ daemon: false })
    const fake = new Scripted(it)
    await fake.start()
    const outer = await attached(it, 'one', 'picture')
    fake.streamError = {
      class: 'runtime',
      code: 'worker_attach_stream_failed',
      msg: 'the client was too slow',
      recover: 'attach again',
    }
    fake.streams[0]?.destroy()
    expect(await outer.ended()).toBe(126)
    await outer.until('error: the client was too slow')
    expect(fake.attaches).toBe(1)
    expect(outer.raw.toString()).toContain(POPPED)
  })

  test('a stream that closes is brought back; keys in the gap are refused where it is seen', async () => {
    const it = await world({ daemon: false })
    reconnect(it, 'attach_reconnect_seconds=20\nattach_reconnect_interval_seconds=0.1\n')
    const fake = new Scripted(it)
    await fake.start()
    const outer = await attached(it, 'one', 'picture')
    outer.write('before')
    await until('input arrived', () => fake.received === 'before')
    fake.stop()
    await outer.until('reconnecting')
    outer.write('lost')
    await outer.until('the key was not sent')
    fake.picture = 'back again'
    await fake.start()
    await outer.until('back again')
    outer.write('after')
    await until('input arrives again', () => fake.received === 'beforeafter')
    outer.write(DETACH)
    expect(await outer.ended()).toBe(0)
  })

  test('detaching in the gap works, and a daemon that stays away ends it with 126', async () => {
    const it = await world({ daemon: false })
    reconnect(it, 'attach_reconnect_seconds=0.5\nattach_reconnect_interval_seconds=0.05\n')
    for (const leave of [true, false]) {
      const fake = new Scripted(it)
      await fake.start()
      const outer = await attached(it, 'one', 'picture')
      fake.stop()
      await outer.until('reconnecting')
      if (leave) outer.write(DETACH)
      expect(await outer.ended()).toBe(leave ? 0 : 126)
      expect(outer.raw.toString()).toContain(POPPED)
    }
    expect(it.running('daemon')).toEqual([])
  })

  test('attempts are bounded while the daemon answers', async () => {
    const it = await world({ daemon: false })
    reconnect(
      it,
      'attach_reconnect_seconds=30\nattach_reconnect_interval_seconds=0.01\nattach_reconnect_max_attempts=2\n',
    )
    const fake = new Scripted(it)
    await fake.start()
    const outer = await attached(it, 'one', 'picture')
    const closing = setCloser(fake)
    expect(await outer.ended(25_000)).toBe(126)
    closing()
    expect(fake.attaches).toBe(3)
  }, 40_000)

  test('a direct stream does not notice that the daemon is killed', async () => {
    const it = await world()
    const session = await it.sh('echo ready; while read x; do echo "got $x"; done')
    const outer = await attached(it, session.id, 'ready')
    await it.daemon.kill()
    outer.write('one\r')
    await outer.until('got one')
    await it.start()
    outer.resize(91, 22)
    await until('the size arrives once a daemon is back', async () => (await session.info()).cols === 91)
    outer.write(DETACH)
    expect(await outer.ended()).toBe(0)
  })
})

test('a pipe is passed through and keys have no meaning', async () => {
  const it = await world()
  const session = await it.sh('stty raw -echo; echo ready; exec cat -v')
  await session.untilScreen('ready')
  const piped = run('/bin/sh', ['-c', `(printf 'a\\035b'; sleep 3) | "$P" attach ${session.id}`], {
    cwd: it.roots.work,
    env: it.roots.env({ POHUNEK_NO_START: '1', P: bin('pohunek') }),
  })
  await session.untilScreen('a^]b')
  await session.stop()
  expect((await piped).stdout).toContain('a^]b')
  expect((await session.info()).cols).toBe(80)
})
