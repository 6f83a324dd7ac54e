/**
 * One pseudo-terminal with its program. Uses the native half of node-pty alone: its JavaScript half loses the last
 * bytes of a program that exits at once and queues each write in the thread pool.
 * Invariants
 *  1. The slave stays open here until the exit was observed: libuv would declare the end of the stream on POLLHUP with
 *     bytes still unread.
 *  2. `onExit` comes after the last `onBytes`; nothing is read after it.
 *  3. The master descriptor is closed exactly once.
 */
import * as fs from 'node:fs'
import * as tty from 'node:tty'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { Scope } from '../kernel/scope.ts'
import { WorkerFailure } from './failure.ts'

interface NativePty {
  fork(
    file: string,
    args: string[],
    env: string[],
    cwd: string,
    columns: number,
    rows: number,
    uid: number,
    gid: number,
    utf8: boolean,
    helperPath: string,
    onExit: (code: number, signal: number) => void,
  ): { fd: number; pid: number; pty: string }
  resize(fd: number, columns: number, rows: number): void
}

let native: { module: NativePty; directory: string } | undefined

/** Loads node-pty's native module: built in place, or prebuilt for this platform. */
export function loadNativePty(): { module: NativePty; directory: string } {
  if (native !== undefined) return native
  const require = createRequire(fs.realpathSync(process.argv[1] ?? '/'))
  const root = dirname(require.resolve('node-pty/package.json'))
  let last: unknown
  for (const place of ['build/Release', `prebuilds/${process.platform}-${process.arch}`, 'build/Debug']) {
    const directory = join(root, place)
    try {
      return (native = { module: require(join(directory, 'pty.node')) as NativePty, directory })
    } catch (failure) {
      last = failure
    }
  }
  throw new WorkerFailure('pty_alloc_failed', `the terminal module cannot be loaded: ${(last as Error).message}`)
}

/** One read of a terminal gives at most 4095 bytes; a larger buffer takes several in one turn. */
const READ_BYTES = 65_536
/** Some 16 MB: what a helper that writes without end may add in one turn of the drain. */
const MAX_DRAIN_READS = 4_096

export interface PtyExit {
  code?: number
  signal?: number
  /** Somebody else kept the terminal open past the drain window; what came later is not kept. */
  forceClosed: boolean
}

export interface PtyOptions {
  executable: string
  args: string[]
  env: string[]
  cwd: string
  columns: number
  rows: number
  /** File mode mask of the program; ours is stricter. */
  umask: number
  /** How long after the program's exit others may keep the terminal open. */
  drainMs: number
  scope: Scope
  /** The bytes are valid only during the call. */
  onBytes: (bytes: Buffer) => void
  /** The root's status was observed; the drain begins. */
  onLeaderExit: () => void
  onExit: (exit: PtyExit) => void
}

export class Pty {
  readonly pid: number
  readonly path: string
  readonly #options: PtyOptions
  readonly #master: number
  #slave: number | undefined
  readonly #reader: tty.ReadStream
  #status: { code?: number; signal?: number } | undefined
  #drainTimer: Disposable | undefined
  #paused = false
  #finished = false
  #closed = false
  /** The stream closed the master by itself; its number may belong to another file now. */
  #readerGone = false

  /** Throws WorkerFailure `pty_alloc_failed`; nothing is left then. */
  constructor(options: PtyOptions) {
    this.#options = options
    const { module, directory } = loadNativePty()
    let forked: { fd: number; pid: number; pty: string }
    const own = process.umask(options.umask)
    try {
      forked = module.fork(
        options.executable,
        options.args,
        options.env,
        options.cwd,
        options.columns,
        options.rows,
        -1,
        -1,
        true,
        join(directory, 'spawn-helper'),
        (code, signal) => this.#leaderExited(code, signal),
      )
    } catch (failure) {
      throw new WorkerFailure('pty_alloc_failed', `no terminal could be made: ${(failure as Error).message}`, true)
    } finally {
      process.umask(own)
    }
    this.pid = forked.pid
    this.path = forked.pty
    this.#master = forked.fd
    try {
      this.#slave = fs.openSync(forked.pty, fs.constants.O_RDWR | fs.constants.O_NOCTTY) // 1
    } catch {
      // The program may be gone already, or the slave be out of reach: the drain below still reads what is buffered.
    }
    const buffer = Buffer.allocUnsafeSlow(READ_BYTES)
    const onread = {
      buffer,
      callback: (length: number): boolean => {
        if (!this.#finished) options.onBytes(buffer.subarray(0, length))
        return true
      },
    }
    this.#reader = new tty.ReadStream(this.#master, { onread } as unknown as { readable: boolean })
    this.#reader.on('error', () => this.#streamEnded())
    this.#reader.on('end', () => this.#streamEnded())
    this.#reader.on('close', () => this.#streamEnded())
    this.#reader.resume()
    options.scope.defer('pty', () => this.close())
  }

  get master(): number {
    return this.#master
  }
  get leaderExited(): boolean {
    return this.#status !== undefined
  }
  get ended(): boolean {
    return this.#finished
  }

  /** Writes what the terminal takes now; 0 when its input queue is full. Throws once the terminal is gone. */
  write(bytes: Uint8Array): number {
    if (this.#closed || this.#readerGone) throw new WorkerFailure('invalid_state', 'the terminal is closed')
    try {
      return fs.writeSync(this.#master, bytes)
    } catch (failure) {
      if ((failure as NodeJS.ErrnoException).code === 'EAGAIN') return 0
      throw new WorkerFailure(
        'invalid_state',
        `the terminal does not take input: ${(failure as NodeJS.ErrnoException).code}`,
      )
    }
  }

  resize(columns: number, rows: number): void {
    if (!this.#closed && !this.#readerGone) loadNativePty().module.resize(this.#master, columns, rows)
  }

  pause(): void {
    if (this.#paused || this.#finished) return
    this.#paused = true
    this.#reader.pause()
  }

  unpause(): void {
    if (!this.#paused) return
    this.#paused = false
    if (!this.#finished) this.#reader.resume()
  }

  /** Ends the drain now, as its window would. */
  forceClose(): void {
    if (this.#status !== undefined) this.#finish(true)
  }

  close(): void {
    this.#finished = true
    this.#drainTimer?.[Symbol.dispose]()
    this.#closeSlave()
    if (this.#closed) return
    this.#closed = true // 3
    this.#reader.destroy()
  }

  #leaderExited(code: number, signal: number): void {
    this.#status = signal > 0 ? { signal } : { code }
    if (this.#finished) return
    this.#options.onLeaderExit()
    this.unpause()
    this.#readAvailable()
    this.#closeSlave()
    if (this.#readAvailable()) return this.#finish(false)
    // The reader goes on; its end means that everybody has let go of the terminal.
    this.#drainTimer = this.#options.scope.after(this.#options.drainMs, 'drain', () =>
      this.#finish(!this.#readAvailable()),
    )
  }

  /** Reads until nothing is buffered. True when the terminal reported its end. */
  #readAvailable(): boolean {
    const buffer = Buffer.allocUnsafe(READ_BYTES)
    for (let reads = 0; reads < MAX_DRAIN_READS; reads++) {
      if (this.#readerGone) return true
      try {
        const length = fs.readSync(this.#master, buffer)
        if (length === 0) return true
        this.#options.onBytes(buffer.subarray(0, length))
      } catch (failure) {
        return (failure as NodeJS.ErrnoException).code !== 'EAGAIN'
      }
    }
    return false
  }

  #streamEnded(): void {
    this.#readerGone = true
    // Before the exit the slave is ours, so this cannot be the natural end; the exit still comes from waitpid.
    if (this.#status !== undefined) this.#finish(false)
  }

  #finish(forceClosed: boolean): void {
    if (this.#finished || this.#status === undefined) return
    this.#finished = true // 2
    this.#drainTimer?.[Symbol.dispose]()
    const status = this.#status
    this.close()
    this.#options.onExit({ ...status, forceClosed })
  }

  #closeSlave(): void {
    if (this.#slave === undefined) return
    fs.closeSync(this.#slave)
    this.#slave = undefined
  }
}
