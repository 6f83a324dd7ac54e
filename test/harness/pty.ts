/**
 * A real outer terminal for programs that need one: node-pty and a headless xterm that answers queries as a user's
 * terminal does. A wait that fails prints the screen.
 */
import { spawn, type IPty } from 'node-pty'
import xterm from '@xterm/headless'
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
  readonly pty: IPty
  readonly terminal: InstanceType<typeof xterm.Terminal>
  #raw: Buffer[] = []
  exit: { exitCode: number; signal?: number } | undefined

  constructor(program: string, args: readonly string[], options: OuterOptions) {
    const cols = options.cols ?? 80
    const rows = options.rows ?? 24
    this.terminal = new xterm.Terminal({ cols, rows, scrollback: 1_000, allowProposedApi: true })
    this.pty = spawn(program, [...args], { cols, rows, cwd: options.cwd, env: options.env, encoding: null })
    this.pty.onData((data) => {
      // encoding null delivers Buffers under a string type
      const chunk = data as unknown as Buffer
      this.#raw.push(chunk)
      this.terminal.write(chunk)
    })
    if (options.answers !== false) this.terminal.onData((data) => this.write(data))
    this.pty.onExit((exit) => (this.exit = exit))
  }

  /** Everything the program wrote, as bytes. */
  get raw(): Buffer {
    if (this.#raw.length > 1) this.#raw = [Buffer.concat(this.#raw)]
    return this.#raw[0] ?? Buffer.alloc(0)
  }

  write(data: string | Buffer): void {
    if (this.exit === undefined) this.pty.write(data)
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
    if (this.exit === undefined) {
      try {
        this.pty.kill('SIGKILL')
      } catch {
        // ended by itself
      }
    }
    this.terminal.dispose()
  }
}
