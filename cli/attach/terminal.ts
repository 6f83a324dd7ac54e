/**
 * The terminal an attach runs in: raw mode, output that never blocks the keys, and modes put back on every way out.
 * Without a terminal on both sides it is a pipe and nothing is changed.
 */
import { spawn } from 'node:child_process'
import { closeSync, constants, openSync, writeSync } from 'node:fs'
import { ReadStream, WriteStream, isatty } from 'node:tty'
import type { Readable } from 'node:stream'
import { after, monotonicMs } from '../../client/clock.ts'
import { faults } from '../errors.ts'
import { err } from '../out.ts'
import { resetFrom } from './reset.ts'
import { ScreenState } from './screen-state.ts'

/**
 * There is no event for a terminal that takes bytes again. One holds 4 kB and is mostly read at once, so it is asked in
 * each turn of the loop for a moment, and then this often.
 */
const STALLED_SOON_MS = 2
const STALLED_RETRY_MS = 2
/** Last words may wait this long for a stalled terminal. */
const RESTORE_MS = 1_000

export interface Size {
  readonly cols: number
  readonly rows: number
}

export class Terminal {
  /** Keys and modes have a meaning: both sides are a terminal. */
  readonly interactive: boolean
  readonly #input: Readable
  readonly #screen: WriteStream | undefined
  readonly #fd: number
  readonly #ownsFd: boolean
  #rest: Uint8Array | undefined
  #retry: Disposable | undefined
  #restored = false
  #painted = false
  readonly #shown = new ScreenState()
  /** Called once what was held back is out. */
  onRoom: (() => void) | undefined
  /** The reader of our output is gone. */
  onClosed: (() => void) | undefined

  constructor() {
    this.#screen = isatty(1) ? new WriteStream(1) : undefined
    this.interactive = isatty(0) && this.#screen !== undefined
    this.#input = isatty(0) ? new ReadStream(0) : process.stdin
    const own = this.#screen === undefined ? undefined : openOwn()
    this.#fd = own ?? 1
    this.#ownsFd = own !== undefined
  }

  /** Size of the terminal, undefined when it has none to tell. */
  get size(): Size | undefined {
    if (!this.interactive || this.#screen === undefined) return undefined
    const [cols = 0, rows = 0] = this.#screen.getWindowSize()
    return cols > 0 && rows > 0 ? { cols, rows } : undefined
  }

  /** Reads the size again after SIGWINCH. */
  refreshSize(): void {
    ;(this.#screen as unknown as { _refreshSize?: () => void } | undefined)?._refreshSize?.()
  }

  /** Which screen is shown, and whether the cursor is, once all that was written is out. */
  get shown(): { readonly alternate: boolean; readonly cursorShown: boolean } {
    return this.#shown
  }

  /** Raw input; resolves when output is raw too and the picture may be painted. */
  raw(): Promise<void> {
    if (!this.interactive) return Promise.resolve()
    ;(this.#input as ReadStream).setRawMode(true)
    return rawOutput()
  }

  /** The shell took the terminal back while this process was stopped. */
  resumed(): void {
    if (!this.interactive || this.#restored) return
    ;(this.#input as ReadStream).setRawMode(false)
    void this.raw()
  }

  /** Input from now on; `end` comes once, also when the terminal hung up. */
  listen(data: (chunk: Buffer) => void, end: () => void): void {
    let over = false
    const finish = (): void => {
      if (!over) end()
      over = true
    }
    this.#input.on('data', data)
    this.#input.once('end', finish)
    this.#input.once('error', finish)
    this.#input.once('close', finish)
  }

  /** Writes output; false when a stalled terminal holds it back, then `onRoom` is called. The bytes are copied if kept. */
  write(bytes: Uint8Array): boolean {
    this.#painted = true
    if (this.#screen !== undefined) this.#shown.push(bytes)
    if (this.#rest !== undefined) {
      this.#rest = Buffer.concat([this.#rest, bytes])
      return false
    }
    const left = this.#push(bytes)
    if (left === undefined) return true
    this.#rest = Buffer.from(left)
    this.#wait()
    return false
  }

  /** Puts the terminal back; safe to call again and from an exit handler. `usedRows` of the picture, where known. */
  restore(usedRows?: number): void {
    if (this.#restored) return
    this.#restored = true
    this.#retry?.[Symbol.dispose]()
    // What a stalled terminal did not take is stale by now; the reset begins by cancelling what it cut.
    const stalled = this.interactive && this.#rest !== undefined
    if (this.#rest !== undefined && !stalled) this.#writeLast(this.#rest)
    // A pipe gets what the session wrote and nothing of ours.
    if (this.#screen !== undefined && this.#painted)
      this.#writeLast(
        resetFrom({ alternate: this.#shown.alternate && !stalled, usedRows: stalled ? undefined : usedRows }),
      )
    if (this.interactive) (this.#input as ReadStream).setRawMode(false)
    if (this.#ownsFd) closeSync(this.#fd)
  }

  #push(bytes: Uint8Array): Uint8Array | undefined {
    let left = bytes
    while (left.length > 0) {
      try {
        left = left.subarray(writeSync(this.#fd, left))
      } catch (failure) {
        const { code } = failure as NodeJS.ErrnoException
        if (code === 'EAGAIN') return left
        if (code !== 'EINTR') {
          this.onClosed?.()
          return undefined
        }
      }
    }
    return undefined
  }

  #wait(sinceMs = monotonicMs()): void {
    const again = (): void => {
      const before = this.#rest ?? Buffer.alloc(0)
      const left = this.#push(before)
      this.#rest = left
      if (left === undefined) this.onRoom?.()
      else this.#wait(left.length < before.length ? undefined : sinceMs)
    }
    this.#retry = monotonicMs() - sinceMs < STALLED_SOON_MS ? soon(again) : after(STALLED_RETRY_MS, again)
  }

  #writeLast(text: string | Uint8Array): void {
    const end = monotonicMs() + RESTORE_MS
    let left: Uint8Array | undefined = Buffer.from(text)
    while (left !== undefined && monotonicMs() < end) left = this.#push(left)
  }
}

function soon(run: () => void): Disposable {
  const turn = setImmediate(run)
  return { [Symbol.dispose]: () => clearImmediate(turn) }
}

/** The terminal behind descriptor 1 with a status of its own: not blocking there would not block the shell's too. */
function openOwn(): number | undefined {
  for (const path of ['/proc/self/fd/1', '/dev/tty']) {
    try {
      return openSync(path, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY)
    } catch {
      // no such file on this system, or no controlling terminal: the next one, or blocking writes
    }
  }
  return undefined
}

/**
 * Node's raw mode leaves output processing on, and a bare line feed of a full-screen program would return the carriage.
 * stty turns it off; the old settings come back with raw mode's end. Without stty the session still works.
 */
function rawOutput(): Promise<void> {
  return new Promise((resolve) => {
    const child = spawn('stty', ['-opost'], { stdio: ['inherit', 'ignore', 'ignore'] })
    child.once('error', () => resolve())
    child.once('exit', () => resolve())
  })
}

/** A person at a terminal must see what is typed into. Throws cli_usage. */
export function checkTerminal(): void {
  if (isatty(0) && !isatty(1)) throw faults.cli_usage({ problem: NO_SCREEN })
}

const NO_SCREEN =
  'attach shows a session on the terminal it is typed at, but standard output is not that terminal; ' +
  'pohunek session output --follow prints into a file or a pipe'

/** A line for the person, apart from the stream. */
export function say(text: string): void {
  err(`${text}\n`)
}
