/**
 * The runtime: one program in one terminal, from its start to its proven end.
 * Invariants
 *  1. Order of one read: ring, clients, terminal.
 *  2. `ended` is told after the last byte is in the ring, the leftovers were dealt with and the journal says so.
 *  3. What the exit was is only ever what waitpid said.
 */
import type { Clock } from '../kernel/clock.ts'
import type { Scope } from '../kernel/scope.ts'
import { crashPoint } from '../platform/crash-points.ts'
import type { ProcessIdentity, Processes } from '../platform/processes.ts'
import { TERMINAL_MAX_CELLS, TERMINAL_MIN_COLS } from '../protocol/limits.ts'
import type { ChildExit, Initialize, StreamCloseReason, WorkerError } from '../protocol/worker/messages.ts'
import { Clients, type Size } from './clients.ts'
import { describeLeftovers, Ending, type Leftover } from './end.ts'
import { WorkerFailure } from './failure.ts'
import { InputQueue } from './input.ts'
import type { WorkerLog } from './log.ts'
import { Pty, type PtyExit } from './pty.ts'
import { QueryDesk } from './queries.ts'
import { OutputRing } from './ring.ts'
import { ScreenTerminal } from './terminal.ts'
import type { Emulator } from './xterm.ts'

/** How long others may keep the terminal open after the program's exit. */
const DRAIN_MS = 500
/** Sizes that change faster are taken together; the first one counts at once, the last one always. */
const RESIZE_REST_MS = 25

export interface SessionOptions {
  initialize: Initialize
  env: string[]
  umask: number
  runtimeId: string
  worker: ProcessIdentity
  processes: Processes
  clock: Clock
  scope: Scope
  log: WorkerLog
  /** Made before there was a session; it becomes this one's. */
  emulator?: Emulator | undefined
  events: {
    outputAdvanced(): void
    terminalChanged(): void
    cwdReported(cwd: string): void
    resizedByClient(size: Size): void
    streamOpened(streamId: string): void
    streamClosed(streamId: string, reason: StreamCloseReason, error?: WorkerError): void
    /** Everything is over; `fault` when something could not be proven gone. */
    ended(exit: ChildExit, fault: WorkerError | undefined): void
  }
}

export class Session {
  readonly ring: OutputRing
  readonly terminal: ScreenTerminal
  readonly clients: Clients
  readonly input: InputQueue
  readonly runtimeId: string
  readonly child: ProcessIdentity
  readonly #options: SessionOptions
  readonly #pty: Pty
  readonly #holders = new Set<object>()
  readonly #leaderExited: Promise<void>
  #tellLeaderExited: () => void = () => {}
  #end: { exit: ChildExit; fault?: WorkerError } | undefined
  readonly #ended: Promise<void>
  #tellEnded: () => void = () => {}
  #stopping: Promise<void> | undefined
  #ending: Ending | undefined
  #stoppedByUser = false
  #size: Size
  #wanted: Size | undefined
  #resizeRest: Disposable | undefined

  /** Throws WorkerFailure; no process and no descriptor is left then. */
  constructor(options: SessionOptions) {
    const { initialize, clock, scope, processes } = options
    this.#options = options
    this.runtimeId = options.runtimeId
    this.#size = fit(initialize.dimensions)
    this.#leaderExited = new Promise((resolve) => (this.#tellLeaderExited = resolve))
    this.#ended = new Promise((resolve) => (this.#tellEnded = resolve))
    this.ring = new OutputRing(initialize.limits.output_history_bytes)
    this.#pty = new Pty({
      umask: options.umask,
      executable: initialize.executable,
      args: initialize.arguments,
      env: options.env,
      cwd: initialize.cwd,
      ...this.#size,
      drainMs: DRAIN_MS,
      scope,
      onBytes: (bytes) => this.#output(bytes),
      onLeaderExit: () => this.#tellLeaderExited(),
      onExit: (exit) => void this.#finish(exit),
    })
    this.child = processes.identify(this.#pty.pid) ?? { pid: this.#pty.pid, startIdentity: '0' }
    this.input = new InputQueue({
      writer: this.#pty,
      clock,
      maxOutcomes: initialize.limits.write_dedup_entries,
      onKeys: () => this.terminal.keysSent(),
    })
    const host = {
      newestClient: () => this.clients.newest(),
      foregroundGroup: () => processes.foregroundGroup(this.child.pid),
      answer: (text: string) => this.input.replied(Buffer.from(text, 'latin1')),
    }
    const desk: QueryDesk = new QueryDesk(host, clock)
    this.terminal = new ScreenTerminal({
      ...this.#size,
      ring: this.ring,
      clock,
      scope,
      emulator: options.emulator,
      hooks: {
        asked: (kind, own) => desk.asked(kind, own),
        answer: host.answer,
        foregroundGroup: host.foregroundGroup,
        cwdReported: (cwd) => options.events.cwdReported(cwd),
        changed: () => options.events.terminalChanged(),
        hold: (on) => this.#hold(this.terminal, on),
        parseFailed: (failure) =>
          options.log.warn({ problem: (failure as Error).message }, 'the terminal could not take a piece of output'),
      },
    })
    this.clients = new Clients({
      ring: this.ring,
      clock,
      queueBytes: Math.max(65_536, initialize.limits.subscriber_queue_bytes),
      terminal: this.terminal,
      input: this.input,
      desk,
      hold: (who, on) => this.#hold(who, on),
      resize: (size) => {
        const before = this.size
        this.resize(size)
        if (before.columns !== this.size.columns || before.rows !== this.size.rows)
          options.events.resizedByClient(this.size)
      },
      exit: () => this.#end?.exit,
      opened: (streamId) => options.events.streamOpened(streamId),
      closed: (streamId, reason, error) => options.events.streamClosed(streamId, reason, error),
    })
  }

  get exit(): ChildExit | undefined {
    return this.#end?.exit
  }
  get fault(): WorkerError | undefined {
    return this.#end?.fault
  }
  /** The size in force, or about to be within RESIZE_REST_MS. */
  get size(): Size {
    return this.#wanted ?? this.#size
  }
  get stopping(): boolean {
    return this.#stopping !== undefined && this.#end === undefined
  }
  get leaderExited(): boolean {
    return this.#pty.leaderExited
  }
  whenLeaderExited(): Promise<void> {
    return this.#leaderExited
  }
  whenEnded(): Promise<void> {
    return this.#ended
  }

  /** Last one wins; equal sizes do nothing. Throws WorkerFailure `invalid_request` for sizes over the cell bound. */
  resize(size: Size): void {
    this.#wanted = fit(size)
    if (this.#resizeRest === undefined) this.#applySize()
  }

  #applySize(): void {
    const wanted = this.#wanted
    this.#wanted = undefined
    if (wanted === undefined || (wanted.columns === this.#size.columns && wanted.rows === this.#size.rows)) return
    this.#size = wanted
    if (!this.#pty.ended) {
      try {
        this.#pty.resize(wanted.columns, wanted.rows)
      } catch {
        // the terminal hung up between the program's end and its report
      }
    }
    this.terminal.resize(wanted.columns, wanted.rows)
    this.#resizeRest = this.#options.clock.after(RESIZE_REST_MS, () => {
      this.#resizeRest = undefined
      this.#applySize()
    })
  }

  /** Ends the program; a second stop joins the first. Rejects when its end could not be observed or proven. */
  async stop(byUser: boolean): Promise<ChildExit> {
    if (this.#end === undefined) {
      if (byUser && !this.#pty.leaderExited) this.#stoppedByUser = true
      await (this.#stopping ??= this.#terminate())
    }
    const end = this.#end
    if (end === undefined) throw new WorkerFailure('runtime_fault', 'the end of the program could not be observed')
    if (end.fault !== undefined) throw new WorkerFailure('runtime_fault', end.fault.message)
    return end.exit
  }

  async #terminate(): Promise<void> {
    if (!(await this.#endingOnce().terminate(this.#leaderExited))) {
      this.#options.log.error({ child: this.child.pid }, 'the program survived SIGKILL')
      this.#stopping = undefined
      return
    }
    await this.#ended
  }

  /** One for the stop and for the sweep behind it: what the stop has seen is swept too. */
  #endingOnce(): Ending {
    const { processes, clock, worker, runtimeId, initialize } = this.#options
    return (this.#ending ??= new Ending({
      processes,
      clock,
      worker,
      runtimeId,
      child: this.child,
      graceMs: Math.max(0, initialize.stop_policy.grace_ms),
    }))
  }

  #output(bytes: Buffer): void {
    // A program may print before the constructor is through: the reader is asynchronous, so never inside it.
    this.ring.append(bytes, this.clients.pinnedFrom)
    this.clients.outputArrived()
    this.terminal.outputArrived(bytes)
    this.#options.events.outputAdvanced()
  }

  #hold(who: object, on: boolean): void {
    if (on) this.#holders.add(who)
    else this.#holders.delete(who)
    if (this.#holders.size > 0) this.#pty.pause()
    else this.#pty.unpause()
  }

  async #finish(ended: PtyExit): Promise<void> {
    const { clock, log, events } = this.#options
    const exitedAt = clock.now()
    crashPoint('worker.end.exited')
    this.terminal.endOfOutput()
    this.input.end(new WorkerFailure('invalid_state', 'the program has ended'))
    let leftovers: Leftover[] = []
    try {
      leftovers = await this.#endingOnce().sweep()
    } catch (failure) {
      log.error({ problem: (failure as Error).message }, 'the sweep failed')
      leftovers = [{ pid: this.child.pid, startIdentity: this.child.startIdentity, why: 'unreadable' }]
    }
    crashPoint('worker.end.swept')
    for (const it of leftovers) log.warn({ ...it }, 'a process keeps the cleanup open')
    const exit: ChildExit = {
      ...(ended.code === undefined ? {} : { code: ended.code }), // 3
      ...(ended.signal === undefined ? {} : { signal: ended.signal }),
      stopped_by_user: this.#stoppedByUser,
      exited_at_ms: exitedAt,
      output_force_closed: ended.forceClosed,
    }
    const fault: WorkerError | undefined =
      leftovers.length === 0
        ? undefined
        : { code: 'runtime_fault', message: describeLeftovers(leftovers), retryable: false }
    this.#end = { exit, ...(fault && { fault }) }
    events.ended(exit, fault) // 2
    this.clients.ended()
    this.#tellEnded()
  }
}

/** Pure. Raises a width no wide glyph fits into, refuses what the terminal could not hold. */
export function fit(size: Size): Size {
  const columns = Math.max(TERMINAL_MIN_COLS, size.columns)
  const rows = Math.max(1, size.rows)
  if (columns * rows > TERMINAL_MAX_CELLS) {
    throw new WorkerFailure(
      'invalid_request',
      `a terminal of ${size.columns}x${size.rows} is over ${TERMINAL_MAX_CELLS} cells`,
    )
  }
  return { columns, rows }
}
