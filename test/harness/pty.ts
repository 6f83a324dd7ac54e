/**
 * A real outer terminal for programs that need one: the worker's own pseudo-terminal, which loses no last byte of a
 * program that ends, and a headless xterm that answers queries as a user's terminal does. A wait that fails prints the
 * screen.
 */
import xterm from '@xterm/headless'
import { systemClock } from '../../kernel/clock.ts'
import { Scope } from '../../kernel/scope.ts'
import { Pty } from '../../worker/pty.ts'
import { DEADLINE_MS, until, type WaitOptions } from './wait.ts'
import type { Env } from './roots.ts'

export interface OuterOptions {
  readonly env: Env
  readonly cwd: string
  readonly cols?: number
  readonly rows?: number
  /** False: the terminal stays silent when it is asked something. */
  readonly answers?: boolean
}

export class Outer {
  readonly pty: Pty
  readonly #scope = new Scope('outer terminal')
  #typed = Buffer.alloc(0)
  readonly terminal: InstanceType<typeof xterm.Terminal>
  #raw: Buffer[] = []
  exit: { exitCode: number; signal?: number } | undefined

  constructor(program: string, args: readonly string[], options: OuterOptions) {
    const cols = options.cols ?? 80
    const rows = options.rows ?? 24
    this.terminal = new xterm.Terminal({ cols, rows, scrollback: 1_000, allowProposedApi: true })
    this.pty = new Pty({
      executable: program,
      args: [...args],
      env: Object.entries(options.env).flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${value}`])),
      cwd: options.cwd,
      columns: cols,
      rows,
      umask: 0o022,
      drainMs: 2_000,
      scope: this.#scope,
      onBytes: (bytes) => {
        const chunk = Buffer.from(bytes)
        this.#raw.push(chunk)
        this.terminal.write(chunk)
      },
      onLeaderExit: () => undefined,
      onExit: ({ code, signal }) => (this.exit = { exitCode: code ?? 0, ...(signal === undefined ? {} : { signal }) }),
    })
    if (options.answers !== false) this.terminal.onData((data) => this.write(data))
  }

  /** Everything the program wrote, as bytes. */
  get raw(): Buffer {
    if (this.#raw.length > 1) this.#raw = [Buffer.concat(this.#raw)]
    return this.#raw[0] ?? Buffer.alloc(0)
  }

  write(data: string | Buffer): void {
    this.#typed = Buffer.concat([this.#typed, Buffer.from(data)])
    this.#type()
  }

  /** A full input queue takes the rest later, as it does from a user's terminal. */
  #type(): void {
    while (this.#typed.length > 0 && !this.pty.leaderExited) {
      const written = this.pty.write(this.#typed)
      this.#typed = this.#typed.subarray(written)
      if (written === 0) return void systemClock.after(2, () => this.#type())
    }
  }

  resize(cols: number, rows: number): void {
    this.terminal.resize(cols, rows)
    this.pty.resize(cols, rows)
  }

  /** Rows of the screen, trailing blanks trimmed. */
  screen(): string[] {
    const buffer = this.terminal.buffer.active
    return Array.from(
      { length: this.terminal.rows },
      (_, row) => buffer.getLine(buffer.baseY + row)?.translateToString(true) ?? '',
    )
  }

  picture(): string {
    return `--- screen${this.exit ? ` (ended with ${this.exit.exitCode})` : ''}\n${this.screen().join('\n')}\n---`
  }

  async until(what: string | ((screen: string) => unknown), options: WaitOptions = {}): Promise<void> {
    const probe = typeof what === 'string' ? (text: string): boolean => text.includes(what) : what
    await until(
      typeof what === 'string' ? `${JSON.stringify(what)} on the screen` : 'the screen is as expected',
      () => Boolean(probe(this.screen().join('\n'))),
      { show: () => this.picture(), ...options },
    )
  }

  async ended(deadlineMs = DEADLINE_MS): Promise<number> {
    const exit = await until('the program in the terminal ends', () => this.exit, {
      deadlineMs,
      show: () => this.picture(),
    })
    return exit.exitCode
  }

  /** Ends the program and the terminal. */
  dispose(): void {
    if (!this.pty.leaderExited) {
      try {
        process.kill(this.pty.pid, 'SIGKILL')
      } catch {
        // ended by itself
      }
    }
    void this.#scope.close()
    this.terminal.dispose()
  }
}
