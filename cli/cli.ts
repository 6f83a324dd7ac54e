/** One run of the CLI: what it knows of its environment, and the daemon it talks to. */
import { fstatSync, readSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Caller, ConnectOptions } from '../client/caller.ts'
import { ClientError } from '../client/errors.ts'
import { checkRuntimeDirectory } from '../client/runtime-directory.ts'
import type { Session } from '../client/methods.ts'
import { allPages, type SessionFilter } from '../client/pages.ts'
import { resolveRoots, type Roots } from '../platform/roots.ts'
import type { CallOptions, CommandContext } from '../protocol/command.ts'
import { faults } from './errors.ts'
import { err, sleep } from './out.ts'
import type { Look } from './render.ts'
import { foreignRoots } from './running-daemon.ts'
import { isFullId, resolveTarget, splitTarget } from './target.ts'

type Environment = Readonly<Record<string, string | undefined>>

declare const POHUNEK_VERSION: string | undefined
export const VERSION = typeof POHUNEK_VERSION === 'string' ? POHUNEK_VERSION : '0.0.0-dev'

/** What the autostart needs to know to start the daemon of this installation. */
export interface Installation {
  /** bin/pohunekd beside this build. */
  readonly daemon: string
}

/** Standard input that someone else made non-blocking is asked again this often. */
const INPUT_RETRY_MS = 5

/** What a small build lacks is needed; nothing was done yet. */
export class HandOver extends Error {}

/** `C` is the client of this build: a small one calls, the complete one also subscribes and attaches. */
export class Cli<C extends Caller = Caller> implements CommandContext {
  readonly env: Environment
  readonly installation: Installation
  /** Starts a daemon; left out where a build must stay small. */
  starter:
    | ((roots: Roots, env: Environment, installation: Installation, tell: (line: string) => void) => Promise<void>)
    | undefined
  /** Throws when a daemon of these directories answers elsewhere; left out where a build must stay small. */
  finder: ((roots: Roots) => void) | undefined
  /** The attach client; left out where a build must stay small. */
  attacher: { check(): void; attach(sessionId: string): Promise<number> } | undefined
  /** Prints output as it comes; left out where a build must stay small. */
  follower: ((sessionId: string, afterOffset: string) => Promise<void>) | undefined
  /** Calls that wait over daemons that go; left out where a build must stay small. */
  waiter: ((method: string, params: unknown, timeoutMs: number | undefined) => Promise<unknown>) | undefined
  /** Plugin of the command that runs, for the message about a daemon without it. */
  plugin: string | undefined
  noStart = false
  readonly #makeClient: new (options: ConnectOptions) => C
  #client: C | undefined
  #roots: Roots | undefined
  #noted = false

  constructor(env: Environment, installation: Installation, client: new (options: ConnectOptions) => C) {
    this.env = env
    this.installation = installation
    this.#makeClient = client
  }

  get home(): string | undefined {
    return this.env.HOME
  }

  get cwd(): string | undefined {
    try {
      return process.cwd()
    } catch {
      return undefined // the directory was deleted under us
    }
  }

  get terminal(): { cols: number; rows: number } | undefined {
    const { columns, rows, isTTY } = process.stdout
    return process.stdin.isTTY && isTTY && columns > 0 && rows > 0 ? { cols: columns, rows } : undefined
  }

  get roots(): Roots {
    return (this.#roots ??= resolveRoots(this.env, {
      uid: process.geteuid?.() ?? 0,
      platform: process.platform,
      tmpdir: '/tmp',
    }))
  }

  /** A client of the local daemon; nothing is dialled yet. */
  get client(): C {
    if (this.#client === undefined) {
      checkRuntimeDirectory(this.roots)
      this.#client = new this.#makeClient({ env: this.env, socketPath: this.roots.daemonSocket })
    }
    return this.#client
  }

  get mayStart(): boolean {
    return !this.noStart && this.env.POHUNEK_NO_START !== '1'
  }

  /** Makes sure that a daemon answers; starts one when that is allowed, and tells of it in one line. */
  async ensureDaemon(tell: (line: string) => void = err): Promise<void> {
    const { client } = this
    try {
      await client.connect()
      this.#noteForeign(tell)
    } catch (failure) {
      if (!nobodyListens(failure)) throw failure
      if (this.starter === undefined) throw new HandOver()
      this.finder?.(this.roots)
      if (!this.mayStart) throw failure
      await this.starter(this.roots, this.env, this.installation, tell)
      await client.connect()
    }
  }

  /** A shared runtime directory is told once: whoever looks for a session elsewhere would not find it. */
  #noteForeign(tell: (line: string) => void): void {
    if (this.#noted) return
    this.#noted = true
    const [other] = foreignRoots(this.roots)
    if (other === undefined) return
    tell(
      `note: the daemon on ${this.roots.daemonSocket} keeps its files in ${other} and not below your HOME or XDG ` +
        'directories; set XDG_RUNTIME_DIR to have one of your own\n',
    )
  }

  async call(method: string, params: unknown, { lasting, again, ...options }: CallOptions = {}): Promise<unknown> {
    if (lasting === true && this.waiter === undefined) throw new HandOver()
    await this.ensureDaemon()
    try {
      if (lasting === true) return await this.waiter?.(method, params, options.timeoutMs)
      return await this.client.callAny(method, params, options)
    } catch (failure) {
      // A daemon that is being killed takes connections until the kernel has closed its socket.
      if (again === true && isBroken(failure)) return await this.call(method, params, options)
      throw this.#explained(failure, method)
    }
  }

  async session(text: string): Promise<string> {
    const { host, target } = splitTarget(text)
    if (host !== undefined) checkHost(host)
    if (isFullId(target)) return target
    return resolveTarget(target, await this.sessions([]))
  }

  async sessions(filters: readonly SessionFilter[]): Promise<readonly Session[]> {
    const page = (params: unknown): Promise<Session[]> =>
      this.call('session.list', params, { again: true }) as Promise<Session[]>
    return await allPages(page, filters)
  }

  readInput(): Promise<string> {
    const parts: Buffer[] = []
    const buffer = Buffer.allocUnsafe(65_536)
    for (;;) {
      const bytes = readSome(buffer)
      if (bytes === 0) break
      parts.push(Buffer.from(buffer.subarray(0, bytes)))
    }
    return Promise.resolve(Buffer.concat(parts).toString('utf8'))
  }

  checkAttach(): void {
    this.attacher?.check()
  }

  async attach(sessionId: string): Promise<number> {
    if (this.attacher === undefined) throw new HandOver()
    return await this.attacher.attach(sessionId)
  }

  async follow(sessionId: string, afterOffset: string): Promise<void> {
    if (this.follower === undefined) throw new HandOver()
    await this.follower(sessionId, afterOffset)
  }

  resolvePath(base: string, path: string): string {
    return resolve(base, path)
  }

  #explained(failure: unknown, method: string): unknown {
    if (!(failure instanceof ClientError) || failure.code !== 'method_not_found' || this.plugin === undefined)
      return failure
    return new ClientError({
      class: failure.class,
      code: failure.code,
      msg: `this daemon does not serve ${method}; the command needs its plugin "${this.plugin}"`,
      recover: `start the daemon with the plugin "${this.plugin}"`,
    })
  }
}

export function checkHost(host: string): void {
  if (host !== 'local') throw faults.host_unknown({ host })
}

/** The connection ended before the answer. */
const isBroken = (failure: unknown): boolean => failure instanceof ClientError && failure.code === 'framing'

function nobodyListens(failure: unknown): boolean {
  if (!(failure instanceof ClientError) || failure.code !== 'daemon_unreachable') return false
  const { code } = (failure.cause ?? {}) as NodeJS.ErrnoException
  return code === 'ENOENT' || code === 'ECONNREFUSED'
}

function readSome(buffer: Buffer): number {
  for (;;) {
    try {
      return readSync(0, buffer)
    } catch (failure) {
      const { code } = failure as NodeJS.ErrnoException
      if (code === 'EOF') return 0
      if (code === 'EAGAIN') sleep(INPUT_RETRY_MS)
      else throw faults.io_error({ what: 'standard input', problem: code ?? 'cannot be read' }, failure)
    }
  }
}

/** What standard output is. A pipe is told from its descriptor: the stream object costs a short command dearly. */
export function outputLook(env: Environment): Look {
  if (!fstatSync(1).isCharacterDevice() || !process.stdout.isTTY) return { columns: undefined, color: false }
  const color = (env.NO_COLOR === undefined || env.NO_COLOR === '') && env.TERM !== 'dumb'
  const columns = process.stdout.columns || Number(env.COLUMNS)
  return { columns: Number.isInteger(columns) && columns > 0 ? Math.max(20, columns) : 80, color }
}
