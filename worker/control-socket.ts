/**
 * Where the worker listens.
 * Invariants
 *  1. The socket is bound under a private name and renamed, so that nobody ever finds one that does not answer.
 *  2. A path that was removed (a runtime directory wiped at logout) is made again; one that is somebody else's is not touched.
 *  3. At close the path is removed only while it is still ours.
 */
import * as fs from 'node:fs'
import * as net from 'node:net'
import { dirname, join } from 'node:path'
import type { Scope } from '../kernel/scope.ts'
import { socketPathLimit } from '../platform/roots.ts'
import { randomHex } from './random.ts'

/** One stat each time; rare, because fifty idle workers must cost nothing, and a new attach asks for it at once. */
const LOST_CHECK_MS = 20_000

export interface ControlSocketOptions {
  readonly path: string
  readonly scope: Scope
  readonly accept: (socket: net.Socket) => void
  readonly report: (failure: unknown) => void
}

export class ControlSocket {
  readonly #options: ControlSocketOptions
  #server: net.Server | undefined
  #mine: { dev: number; ino: number } | undefined
  #making: Promise<void> | undefined

  constructor(options: ControlSocketOptions) {
    this.#options = options
  }

  /** Throws RangeError for a path that does not fit. Nothing is made yet. */
  check(): void {
    const maxBytes = socketPathLimit(process.platform)
    for (const name of [this.#options.path, this.#staged()]) {
      const bytes = Buffer.byteLength(name)
      if (bytes > maxBytes) throw new RangeError(`socket path ${name} has ${bytes} bytes, at most ${maxBytes}`)
    }
  }

  /** Accepts once it resolves. Rejects with what the system refused. */
  async open(): Promise<void> {
    await this.#bind()
    this.#options.scope.defer('socket', () => this.#close())
    this.#watch()
  }

  /** Makes the socket again if its path is gone. Never rejects: a failure is reported and tried again later. */
  ensure(): Promise<void> {
    if (this.#found() !== undefined || this.#options.scope.closed) return Promise.resolve()
    return (this.#making ??= this.#bind()
      .catch((failure: unknown) => this.#options.report(failure))
      .finally(() => (this.#making = undefined)))
  }

  #staged(): string {
    return join(dirname(this.#options.path), `.s${randomHex(8)}`)
  }

  async #bind(): Promise<void> {
    const { path, accept } = this.#options
    const staged = this.#staged()
    makeOwnDirectories(dirname(path))
    const server = net.createServer({ noDelay: false }, accept)
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(staged, resolve)
    })
    fs.chmodSync(staged, 0o600)
    const { dev, ino } = fs.statSync(staged)
    fs.renameSync(staged, path) // 1
    this.#mine = { dev, ino }
    this.#server?.close()
    this.#server = server
  }

  #found(): fs.Stats | undefined {
    return fs.lstatSync(this.#options.path, { throwIfNoEntry: false })
  }

  #watch(): void {
    this.#options.scope.after(LOST_CHECK_MS, 'socket check', () => {
      void this.ensure().then(() => {
        if (!this.#options.scope.closed) this.#watch()
      })
    })
  }

  #close(): void {
    this.#server?.close()
    const now = this.#found()
    if (now?.dev === this.#mine?.dev && now?.ino === this.#mine?.ino && now !== undefined)
      fs.rmSync(this.#options.path, { force: true }) // 3
  }
}

/** `<runtime>/pohunek/workers/<session>`: the runtime directory itself belongs to the login and is never made here. */
function makeOwnDirectories(directory: string): void {
  for (const path of [dirname(dirname(directory)), dirname(directory), directory]) {
    try {
      fs.mkdirSync(path, { mode: 0o700 })
    } catch (failure) {
      if ((failure as NodeJS.ErrnoException).code !== 'EEXIST') throw failure
    }
  }
}
