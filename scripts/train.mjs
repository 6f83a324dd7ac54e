// Makes the V8 code caches from what the programs really do: a daemon with private directories starts, makes a session,
// shows it, is attached to by the CLI, and all of them leave. So a cache holds the functions of a start and of everyday
// work and no others. Measured against a cache of the load alone: a daemon takes 84 instead of 107 ms of CPU until its
// first session is attached to; the small CLI gains 2 ms, and nothing from a cache of its load.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import pty from 'node-pty'

const LIMIT_MS = 30_000
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP']
const END = 'end-of-sample'
const STYLES =
  '\x1b]0;title\x07\x1b[1;32muser@host\x1b[0m:\x1b[34m~\x1b[0m$ ls --color\r\n\x1b[38;5;208mfile\x1b[0m \x1b[38;2;1;2;3;48;5;17mdir\x1b[m\r\n' +
  '\x1b[?1049h\x1b[?25l\x1b[2J\x1b[H┌──┐ 日本 👩‍🔬 é\x1b[5;10r\x1b[4mU\x1b[m\x1b[K\x1b[3;1H\x1b[L\x1b[M\x1b[P\x1b[@\x1b[X\x1b7\x1b8\x1b[?1049l\x1b[?25h' +
  '\x1b[?2004h\x1b[?1002h\x1b[?1006h\x1b[c\x1b[6n\x1b]11;?\x07\x1b[>q\x1b[?u\x1b[?2026h\x1b[?2026l' +
  'plain text of a usual length that fills most of a row, twice over\r\n'.repeat(4)

/** Trains the programs in `dist`. Rejects when this machine does not let one of them run. */
export async function train(dist) {
  const directory = mkdtempSync(join(tmpdir(), 'pht-'))
  const limit = new AbortController()
  const timer = setTimeout(() => limit.abort(new Error(`not over after ${LIMIT_MS} ms`)), LIMIT_MS)
  let daemon
  const clear = () => {
    daemon?.kill('SIGKILL')
    endWorkers(directory)
    rmSync(directory, { recursive: true, force: true, maxRetries: 5 })
  }
  const interrupted = () => {
    clear()
    process.exit(130)
  }
  for (const signal of SIGNALS) process.once(signal, interrupted)
  try {
    const env = roots(directory)
    const training = { ...env, POHUNEK_MAKE_CACHE: 'run' }
    program(directory)
    const worker = workerOnce(directory, dist)
    daemon = spawn(process.execPath, [join(dist, 'pohunekd.cjs')], {
      env: { ...training, POHUNEK_WORKER_BIN: worker },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    await Promise.race([scene(directory, dist, training, limit.signal), failed(daemon, limit.signal)])
    daemon.kill('SIGTERM')
    const [code] = await once(daemon, 'exit', { signal: limit.signal })
    if (code !== 0) throw new Error(`the daemon left with ${code}`)
    // The worker's own files are private; what is installed is for every user.
    for (const name of readdirSync(dist)) if (name.endsWith('.cache')) chmodSync(join(dist, name), 0o644)
  } finally {
    clearTimeout(timer)
    limit.abort()
    for (const signal of SIGNALS) process.off(signal, interrupted)
    clear()
  }
}

function roots(directory) {
  const below = (name) => {
    mkdirSync(join(directory, name), { mode: 0o700 })
    return join(directory, name)
  }
  return {
    PATH: process.env.PATH ?? '/usr/bin:/bin',
    HOME: below('h'),
    SHELL: '/bin/sh',
    TERM: 'xterm-256color',
    XDG_RUNTIME_DIR: below('r'),
    XDG_CONFIG_HOME: below('c'),
    XDG_DATA_HOME: below('d'),
    XDG_STATE_HOME: below('s'),
    XDG_CACHE_HOME: below('k'),
  }
}

/** What runs in the session: it prints the sample and stays. */
function program(directory) {
  const script = join(directory, 'print')
  writeFileSync(join(directory, 'sample'), STYLES.repeat(60) + END)
  writeFileSync(script, `stty raw -echo\ncat '${directory}/sample'\nexec cat > /dev/null\n`, { mode: 0o700 })
  mkdirSync(join(directory, 'c/pohunek/agents'), { recursive: true, mode: 0o700 })
  writeFileSync(
    join(directory, 'c/pohunek/agents/print.toml'),
    `base = "shell"\nprogram = "/bin/sh"\nargs = [${JSON.stringify(script)}]\n`,
    { mode: 0o600 },
  )
}

/** A worker program whose first run, the session's, makes the cache; the spare behind it never gets to do anything. */
function workerOnce(directory, dist) {
  const path = join(directory, 'worker')
  const lines = [
    '#!/bin/sh',
    `mkdir '${directory}/first' 2>/dev/null && export POHUNEK_MAKE_CACHE=run`,
    `echo $$ >> '${directory}/workers'`,
    `exec '${process.execPath}' --v8-pool-size=0 '${join(dist, 'pohunek-sessiond.cjs')}' "$@"`,
  ]
  writeFileSync(path, `${lines.join('\n')}\n`, { mode: 0o700 })
  return path
}

/** None is left after a session that was removed; a scene that broke off leaves its own. */
function endWorkers(directory) {
  let pids = ''
  try {
    pids = readFileSync(join(directory, 'workers'), 'utf8')
  } catch {
    return // none was started
  }
  for (const pid of pids.trim().split('\n').map(Number)) {
    try {
      if (readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(directory)) process.kill(pid, 'SIGKILL')
    } catch {
      // it is gone
    }
  }
}

async function failed(child, signal) {
  const [code] = await once(child, 'exit', { signal })
  throw new Error(`the daemon left with ${code}`)
}

/** What the programs do. */
async function scene(directory, dist, env, signal) {
  const daemon = await Line.open(join(directory, 'r/pohunek/daemon.sock'), signal)
  await daemon.call('daemon.health')
  const { id } = await daemon.call('session.new', { agent: 'print', cols: 80, rows: 24 })
  for (;;) {
    const { visible_lines: lines } = await daemon.call('session.screen', { session_id: id })
    if (lines.some((it) => it.startsWith(END))) break
    await pause(20, undefined, { signal })
  }
  await daemon.call('session.remove', id)
  // Another worker is attached to than the one whose cache is made: what is in there takes memory in every worker, 0.2 MB
  // for the streams, and saves a few milliseconds of a first attach.
  const { id: other } = await daemon.call('session.new', { agent: 'print', cols: 80, rows: 24 })
  await run([join(dist, 'pohunek.cjs'), 'session', 'list', '--json'], env)
  await attach(join(dist, 'pohunek-full.cjs'), other, env, signal)
  await daemon.call('session.remove', other)
  daemon.close()
}

async function run(args, env) {
  const [code] = await once(spawn(process.execPath, args, { env, stdio: ['ignore', 'ignore', 'inherit'] }), 'exit')
  if (code !== 0) throw new Error(`${args.slice(1).join(' ')} left with ${code}`)
}

/** Attaches in a terminal, waits for the picture and detaches by its key. */
async function attach(program, id, env, signal) {
  const client = pty.spawn(process.execPath, [program, 'attach', id], { env, cols: 100, rows: 30 })
  const abort = () => client.kill('SIGKILL')
  signal.addEventListener('abort', abort)
  const left = new Promise((resolve) => client.onExit(({ exitCode }) => resolve(exitCode)))
  let seen = ''
  client.onData((text) => {
    if (!seen.includes(END) && (seen += text).includes(END)) client.write('\x1d')
  })
  const code = await left
  signal.removeEventListener('abort', abort)
  if (code !== 0) throw new Error(`attach left with ${code}`)
}

/** One connection to the daemon. */
class Line {
  #socket
  #pending = ''
  #waiting = []

  static async open(path, signal) {
    for (;;) {
      const socket = connect(path)
      try {
        await once(socket, 'connect')
        return new Line(socket)
      } catch {
        await pause(5, undefined, { signal })
      }
    }
  }

  constructor(socket) {
    this.#socket = socket
    socket.setEncoding('utf8')
    socket.on('error', () => {})
    socket.on('data', (text) => {
      const lines = (this.#pending + text).split('\n')
      this.#pending = lines.pop()
      for (const line of lines) this.#waiting.shift()?.(JSON.parse(line))
    })
  }

  async call(method, params = null) {
    this.#socket.write(`${JSON.stringify({ v: { minimum: 3, maximum: 4 }, id: 'train', method, params })}\n`)
    const { ok, err } = await new Promise((resolve) => this.#waiting.push(resolve))
    if (err !== undefined) throw new Error(`${method}: ${err.code}: ${err.msg}`)
    return ok
  }

  close() {
    this.#socket.destroy()
  }
}
