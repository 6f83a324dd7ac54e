import { randomBytes } from 'node:crypto'
import { chmodSync, lstatSync, renameSync, unlinkSync, type Stats } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { dirname, join } from 'node:path'
import { socketPathLimit } from '../../platform/roots.ts'
import type { Scope } from '../scope.ts'
import type { Log } from '../log.ts'
import { listenFaults } from './faults.ts'

const PROBE_MS = 1_000
// A wiped runtime directory is noticed within this; one lstat each time.
const LOST_CHECK_MS = 2_000
const BACKLOG = 511

export interface ListenOptions {
  /** Absolute path in a private directory. */
  readonly path: string
  readonly scope: Scope
  readonly log: Log
  readonly accept: (socket: Socket) => void
  /** Makes the directory again when it vanished under the running daemon. */
  readonly prepare?: () => void
}

/**
 * Listens on a unix socket of mode 0600. A socket nobody listens on is replaced, a live one never: the new socket is
 * bound under another name and renamed over it, so that at no moment a client meets a half-made one. When the path
 * vanishes it is made again; when another daemon took it, it is left alone. At close the path is removed only while it
 * is still ours.
 * Throws Fault daemon_already_running, socket_path_taken, socket_path_invalid.
 */
export async function listenLocal(options: ListenOptions): Promise<AsyncDisposable> {
  const { path, scope } = options
  const bytes = Buffer.byteLength(path)
  const maxBytes = socketPathLimit(process.platform)
  if (bytes > maxBytes) throw listenFaults.socket_path_invalid({ path, bytes, maxBytes })
  await refuseLive(path)
  const listener = new LocalListener(options)
  await listener.bind()
  return scope.own('listener', listener)
}

class LocalListener implements AsyncDisposable {
  readonly #options: ListenOptions
  #server: Server | undefined
  #mine: Stats | undefined
  #closed = false

  constructor(options: ListenOptions) {
    this.#options = options
  }

  async bind(): Promise<void> {
    const { path, accept } = this.#options
    // Shorter than any socket name in use, so it fits where `path` fits; its leading dot is the contract's too.
    const staged = join(dirname(path), `.d${randomBytes(4).toString('hex')}`)
    const server = createServer({ allowHalfOpen: true }, accept)
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen({ path: staged, backlog: BACKLOG }, resolve)
    })
    server.on('error', (failure) => this.#options.log.error({ err: failure }, 'the listener failed'))
    try {
      chmodSync(staged, 0o600)
      const mine = lstatSync(staged)
      renameSync(staged, path)
      this.#mine = mine
    } catch (failure) {
      await closed(server)
      throw failure
    }
    const before = this.#server
    this.#server = server
    if (before !== undefined) void closed(before)
    this.#watch()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true
    if (this.#isMine()) unlinkSync(this.#options.path)
    if (this.#server !== undefined) await closed(this.#server)
  }

  #isMine(): boolean {
    const now = found(this.#options.path)
    return now !== undefined && now.ino === this.#mine?.ino && now.dev === this.#mine.dev
  }

  #watch(): void {
    const { scope, path, log } = this.#options
    if (this.#closed || scope.closed) return
    scope.after(LOST_CHECK_MS, 'socket check', () => {
      if (this.#isMine()) return this.#watch()
      if (found(path) !== undefined) return log.error({ path }, 'another daemon took the socket path over')
      log.warn({ path }, 'the socket vanished and is made again')
      this.#remake().catch((failure: unknown) => {
        log.error({ path, err: failure }, 'the socket could not be made again')
        this.#watch()
      })
    })
  }

  async #remake(): Promise<void> {
    this.#options.prepare?.()
    await this.bind()
  }
}

/** Stops listening; open connections are not waited for, they have an owner of their own. */
const closed = (server: Server): Promise<void> =>
  new Promise((resolve) => {
    server.close()
    resolve()
  })

const found = (path: string): Stats | undefined => lstatSync(path, { throwIfNoEntry: false })

/** Throws unless `path` is free or a socket nobody listens on. */
async function refuseLive(path: string): Promise<void> {
  const there = found(path)
  if (there === undefined) return
  if (!there.isSocket()) throw listenFaults.socket_path_taken({ path })
  if (await isLive(path)) throw listenFaults.daemon_already_running({ path })
}

/** True when something accepts on the socket or may: only a refused connection proves that nobody does. */
function isLive(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path)
    const decide = (live: boolean): void => {
      socket.destroy()
      resolve(live)
    }
    socket.setTimeout(PROBE_MS, () => decide(true))
    socket.once('connect', () => decide(true))
    socket.once('error', (failure: NodeJS.ErrnoException) =>
      decide(failure.code !== 'ECONNREFUSED' && failure.code !== 'ENOENT'),
    )
  })
}
