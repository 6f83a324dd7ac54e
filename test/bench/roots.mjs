// Private roots: every daemon of a run has its own directories and an environment built from empty. What was started
// below a root names it in its arguments or environment, so a root can end exactly that and nothing else.
import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, openSync, closeSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { setTimeout as pause } from 'node:timers/promises'
import { isAlive, parentOf, processesNaming } from './proc.mjs'
import { now } from './stats.mjs'
import { Wire } from './wire.mjs'

export const projectRoot = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
export const bin = (name) => join(projectRoot, 'bin', name)

export class Root {
  path
  env
  socketPath
  #wires = []
  #daemon

  constructor() {
    this.path = mkdtempSync(join(tmpdir(), 'pb-'))
    const below = (name) => {
      mkdirSync(join(this.path, name), { mode: 0o700 })
      return join(this.path, name)
    }
    this.env = {
      PATH: process.env.PATH ?? '/usr/bin:/bin',
      HOME: below('h'),
      XDG_RUNTIME_DIR: below('r'),
      XDG_CONFIG_HOME: below('c'),
      XDG_DATA_HOME: below('d'),
      XDG_STATE_HOME: below('s'),
      XDG_CACHE_HOME: below('k'),
      SHELL: '/bin/sh',
      LANG: 'C.UTF-8',
      TERM: 'xterm-256color',
    }
    mkdirSync(join(this.path, 'c/pohunek/agents'), { recursive: true, mode: 0o700 })
    this.socketPath = join(this.env.XDG_RUNTIME_DIR, 'pohunek/daemon.sock')
  }

  file(name, content, mode = 0o600) {
    const path = join(this.path, name)
    writeFileSync(path, content, { mode })
    return path
  }

  /** A host profile that runs exactly `argv`; it is the agent of that name. `more`: lines of its own. */
  profile(name, argv, { base = 'shell', more = '' } = {}) {
    const [program, ...args] = argv
    this.file(
      `c/pohunek/agents/${name}.toml`,
      `base = ${JSON.stringify(base)}\nprogram = ${JSON.stringify(program)}\nargs = ${JSON.stringify(args)}\n${more}`,
    )
  }

  /** A manifest that profiles can name. */
  manifest(name, text) {
    mkdirSync(join(this.path, 'c/pohunek/agents/manifests'), { recursive: true, mode: 0o700 })
    this.file(`c/pohunek/agents/manifests/${name}.toml`, text)
  }

  metadataPath() {
    return join(this.env.XDG_DATA_HOME, 'pohunek/metadata.jsonl')
  }

  /** Starts the daemon and resolves when it answers. Shape: { wire, ms } with ms from the start to the answer. */
  async start({ timeoutMs = 30_000 } = {}) {
    const log = openSync(join(this.path, 'daemon.log'), 'a', 0o600)
    const began = now()
    const child = spawn(bin('pohunekd'), [], {
      env: this.env,
      cwd: this.path,
      stdio: ['ignore', log, log],
      detached: true,
    })
    closeSync(log)
    this.#daemon = child
    let failure
    child.once('error', (problem) => (failure = problem))
    for (;;) {
      try {
        const wire = await Wire.open(this.socketPath)
        this.#wires.push(wire)
        await wire.call('daemon.health')
        return { wire, ms: now() - began }
      } catch (problem) {
        failure ??= child.exitCode === null ? undefined : problem
        if (failure !== undefined || now() - began > timeoutMs)
          throw new Error(
            `pohunekd did not come up: ${failure?.message ?? 'no answer'}; ${readFileSync(join(this.path, 'daemon.log'), 'utf8').slice(-400).trim()}`,
          )
        await pause(1)
      }
    }
  }

  async connect() {
    const wire = await Wire.open(this.socketPath)
    this.#wires.push(wire)
    return wire
  }

  /** The daemon itself, also when bin/pohunekd is a wrapper that stays. */
  daemonPid() {
    const candidates = processesNaming(this.path).filter((it) => it.argv.some((arg) => /pohunekd(\.c?js)?$/.test(arg)))
    const node =
      candidates.find((it) => it.pid === this.#daemon?.pid && /node/.test(it.argv[0] ?? '')) ??
      candidates.find((it) => /node/.test(it.argv[0] ?? ''))
    if (node === undefined) throw new Error('no daemon process found')
    return node.pid
  }

  workers() {
    return processesNaming(this.path).filter((it) => it.argv.some((arg) => /pohunek-sessiond/.test(arg)))
  }

  /** Sends the daemon a signal and waits until it is gone; its workers stay. */
  async stopDaemon(signal = 'SIGTERM') {
    for (const wire of this.#wires.splice(0)) wire.close()
    let pid
    try {
      pid = this.daemonPid()
    } catch {
      return
    }
    process.kill(pid, signal)
    const began = now()
    while (isAlive(pid)) {
      if (now() - began > 10_000) process.kill(pid, 'SIGKILL')
      await pause(1)
    }
  }

  /** Ends everything started below this root and removes it. */
  async destroy() {
    for (const wire of this.#wires.splice(0)) wire.close()
    sweep(this.path)
    for (let round = 0; round < 100 && sweep(this.path) > 0; round++) await pause(20)
    remove(this.path)
  }

  /** The same without awaiting, for a signal handler. */
  destroyNow() {
    for (let round = 0; round < 20 && sweep(this.path) > 0; round++) spawnSync('sleep', ['0.02'])
    remove(this.path)
  }
}

function remove(path) {
  rmSync(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 })
}

function sweep(path) {
  const found = processesNaming(path)
  for (const { pid } of found) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // ended by itself
    }
  }
  return found.length
}

/** The worker of a session: its program's parent. */
export const workerOf = (session) => parentOf(session.pid)
