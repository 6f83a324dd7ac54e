// The peer: a private tmux server (own socket directory, no configuration) and its control-mode client.
import { execFileSync, spawn } from 'node:child_process'
import { Terminal } from './terminal.mjs'

export function tmuxVersion() {
  try {
    return execFileSync('tmux', ['-V'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    return undefined
  }
}

export class Tmux {
  env
  base
  #controls = []

  /** `name` keeps several servers of one run apart. */
  constructor(root, name) {
    this.env = { ...root.env, TMUX_TMPDIR: root.path }
    this.base = ['-u', '-L', name, '-f', '/dev/null']
  }

  run(...args) {
    return execFileSync('tmux', [...this.base, ...args], {
      env: this.env,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    })
  }

  /** Server up with one idle session for control clients; no status line, so that a client's rows are all the pane's. */
  start() {
    this.run('new-session', '-d', '-s', 'control', '-x', '80', '-y', '24', '/bin/cat', '-')
    this.run('set-option', '-g', 'status', 'off')
    return this
  }

  session(name, argv, { cols = 200, rows = 50 } = {}) {
    this.run('new-session', '-d', '-s', name, '-x', String(cols), '-y', String(rows), ...argv)
  }

  drop(name) {
    this.run('kill-session', '-t', name)
  }

  attach(name, size) {
    return new Terminal('tmux', [...this.base, 'attach-session', '-t', name], { env: this.env, ...size })
  }

  serverPid() {
    return Number(this.run('display-message', '-p', '#{pid}'))
  }

  async control(args = ['attach-session', '-t', 'control'], onNotice = () => {}) {
    const control = new Control(
      spawn('tmux', [...this.base, '-C', ...args], { env: this.env, stdio: ['pipe', 'pipe', 'ignore'] }),
    )
    control.onNotice = onNotice
    this.#controls.push(control)
    await control.greeted
    return control
  }

  stop() {
    for (const it of this.#controls) it.close()
    try {
      this.run('kill-server')
    } catch {
      // no server any more
    }
  }
}

/** Control mode: each command is answered by a block between %begin and %end (or %error). */
export class Control {
  /** Called with every line outside a block. */
  onNotice = () => {}
  greeted
  #child
  #pending = ''
  #block
  #waiting = []

  constructor(child) {
    this.#child = child
    this.greeted = new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }))
    child.stdout.setEncoding('utf8')
    child.stdout.on('data', (text) => this.#take(text))
    child.stdin.on('error', () => {})
    child.on('exit', () => {
      for (const it of this.#waiting.splice(0)) it.reject(new Error('the tmux control client ended'))
    })
  }

  #take(text) {
    this.#pending += text
    for (;;) {
      const end = this.#pending.indexOf('\n')
      if (end < 0) return
      const line = this.#pending.slice(0, end)
      this.#pending = this.#pending.slice(end + 1)
      if (this.#block === undefined) {
        if (line.startsWith('%begin ')) this.#block = []
        else this.onNotice(line)
      } else if (line.startsWith('%end ')) {
        const lines = this.#block
        this.#block = undefined
        this.#waiting.shift()?.resolve(lines)
      } else if (line.startsWith('%error ')) {
        const lines = this.#block
        this.#block = undefined
        this.#waiting.shift()?.reject(new Error(lines.join(' ')))
      } else this.#block.push(line)
    }
  }

  command(line) {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject })
      this.#child.stdin.write(`${line}\n`)
    })
  }

  close() {
    this.#child.stdin.destroy()
    this.#child.kill('SIGKILL')
  }
}
