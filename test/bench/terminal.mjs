// A terminal as a user has one: a PTY with a client in it. node-pty only makes the PTY; keys are written straight to
// its descriptor, because node-pty's own write queues them in the thread pool.
import { writeSync } from 'node:fs'
import pty from 'node-pty'
import { Watch } from './wire.mjs'

export class Terminal extends Watch {
  #pty
  #exited

  constructor(file, args, { env, cols = 200, rows = 50 }) {
    super()
    this.#pty = pty.spawn(file, args, { env, cols, rows, cwd: env.HOME, encoding: null, name: 'xterm-256color' })
    this.#pty.onData((chunk) => this.feed(chunk))
    this.#exited = new Promise((resolve) => this.#pty.onExit(resolve))
    void this.#exited.then(() => this.end())
  }

  get pid() {
    return this.#pty.pid
  }

  write(bytes) {
    writeSync(this.#pty.fd, bytes)
  }

  /** Takes the client away and waits for it. */
  async close() {
    try {
      this.#pty.kill('SIGHUP')
    } catch {
      // already gone
    }
    const timer = setTimeout(() => process.kill(this.#pty.pid, 'SIGKILL'), 2_000)
    await this.#exited
    clearTimeout(timer)
  }
}
