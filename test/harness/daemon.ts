/** The real daemon program with private roots: start, stop, kill, freeze. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { bin, type Env, type Roots } from './roots.ts'
import { runs } from './processes.ts'
import { until, within } from './wait.ts'

const READY_MS = 15_000
const STOP_MS = 15_000

export class Daemon {
  readonly process: ChildProcess
  readonly #log: string[]

  constructor(child: ChildProcess, log: string[]) {
    this.process = child
    this.#log = log
  }

  get pid(): number {
    if (this.process.pid === undefined) throw new Error('the daemon was not started')
    return this.process.pid
  }

  get running(): boolean {
    return this.process.exitCode === null && this.process.signalCode === null
  }

  /** All it wrote on stderr and stdout so far. */
  get output(): string {
    return this.#log.join('')
  }

  signal(signal: NodeJS.Signals): void {
    process.kill(this.pid, signal)
  }

  /** Waits for its end. */
  async ended(deadlineMs = STOP_MS): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
    if (this.running) await within('the daemon ends', once(this.process, 'exit'), deadlineMs, () => this.output)
    return { code: this.process.exitCode, signal: this.process.signalCode }
  }

  /** SIGKILL, as a crash or the kernel's memory killer does. */
  async kill(): Promise<void> {
    if (!this.running) return
    this.signal('SIGKILL')
    await this.ended()
    await until('the daemon is gone', () => !runs(this.pid))
  }

  /** SIGTERM; fails when it does not end cleanly. */
  async stop(): Promise<void> {
    if (!this.running) return
    this.signal('SIGCONT')
    this.signal('SIGTERM')
    const { code, signal } = await this.ended()
    if (code !== 0) throw new Error(`the daemon ended with ${code ?? signal} on SIGTERM\n${this.output}`)
  }
}

export interface DaemonOptions {
  /** Program to start; default bin/pohunekd of this repository. */
  readonly program?: string
  /** User and group it runs as; default the test's own. */
  readonly uid?: number
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Complete environment instead of the roots' one. */
  readonly wholeEnv?: Env
  /** Do not wait for the ready line. */
  readonly unready?: boolean
  readonly cwd?: string
  readonly log?: string[]
  /** Descriptors 4 and up, as a careless starter leaves them open. */
  readonly extra?: readonly number[]
}

/** Starts bin/pohunekd and waits until it says on descriptor 3 that it is ready. */
export async function startDaemon(roots: Roots, options: DaemonOptions = {}): Promise<Daemon> {
  const log = options.log ?? []
  const child = spawn(options.program ?? bin('pohunekd'), ['--ready-fd', '3', ...(options.args ?? [])], {
    cwd: options.cwd ?? roots.work,
    ...(options.uid === undefined ? {} : { uid: options.uid, gid: options.uid }),
    env: options.wholeEnv ?? roots.env(options.env),
    stdio: ['ignore', 'pipe', 'pipe', 'pipe', ...(options.extra ?? [])],
  })
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (chunk: Buffer) => void log.push(chunk.toString()))
  const daemon = new Daemon(child, log)
  const ready = child.stdio[3] as Readable
  ready.on('error', () => undefined)
  if (options.unready) {
    ready.resume()
    return daemon
  }
  const told = await within(
    'the daemon is ready',
    new Promise<boolean>((resolve, reject) => {
      child.once('error', reject)
      ready.once('data', () => resolve(true))
      ready.once('end', () => resolve(false))
      child.once('exit', () => resolve(false))
    }),
    READY_MS,
    () => log.join(''),
  )
  ready.resume()
  if (!told) {
    const end = await daemon.ended()
    throw new Error(`the daemon ended before it was ready: ${end.code ?? end.signal}\n${log.join('')}`)
  }
  return daemon
}
