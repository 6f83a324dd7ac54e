/**
 * The worker: owner of one session's runtime, reachable on one private socket.
 * Invariants
 *  1. It never depends on a daemon: losing the controller changes nothing for the program.
 *  2. The journal is written before the fact is told.
 *  3. An uninitialized worker does not outlive its controller, nor wait for one longer than IDLE_MS.
 */
import type * as net from 'node:net'
import { join } from 'node:path'
import type { Clock } from '../kernel/clock.ts'
import { Scope } from '../kernel/scope.ts'
import { crashPoint } from '../platform/crash-points.ts'
import type { Processes } from '../platform/processes.ts'
import { JOURNAL_SCHEMA, type JournalPhase } from '../protocol/worker/files.ts'
import type {
  Capability,
  ChildExit,
  Initialize,
  InspectSnapshot,
  ProcessIdentity,
  RequestOf,
  Scope as RequestScope,
  WorkerError,
  WorkerPhase,
  WritePlan,
} from '../protocol/worker/messages.ts'
import { INPUT_STALL_SINCE, WORKER_PROTOCOL } from '../protocol/worker/messages.ts'
import { Admission } from './admission.ts'
import type { WorkerArguments } from './argv.ts'
import { childEnvironment, markerEntries } from './child-env.ts'
import { Connection } from './connection.ts'
import { ControlSocket } from './control-socket.ts'
import { Control } from './control.ts'
import { confirmExec } from './exec-check.ts'
import { WorkerFailure } from './failure.ts'
import { JournalFile, outcomeOf, type Journal } from './journal.ts'
import { checkLaunch } from './launch-check.ts'
import { Leases, type Lease } from './lease.ts'
import type { WorkerLog } from './log.ts'
import { OutputWaiters } from './observe.ts'
import { loadNativePty } from './pty.ts'
import { randomHex } from './random.ts'
import { fit, Session } from './session.ts'
import { SCROLLBACK_ROWS } from '../protocol/limits.ts'
import { DataStream } from './streams.ts'
import { Tokens, type Grant } from './tokens.ts'
import { warmUp } from './warm-up.ts'
import { createEmulator, type Emulator } from './xterm.ts'

/** Time a fresh or released worker waits for a controller. */
const IDLE_MS = 10_000
/** At most this many output events a second. */
const EVENT_REST_MS = 250
const JOURNAL_RETRY_MS = 5_000
const USUAL_SIZE = { columns: 80, rows: 24 }

export interface WorkerOptions {
  args: WorkerArguments
  processes: Processes
  clock: Clock
  log: WorkerLog
  version: string
  /** File mode mask the programs get: the one this process was started with. */
  umask: number
  /** Ends the worker's process. */
  exit: (code: number) => void
}

export class Worker {
  readonly leases = new Leases()
  readonly tokens: Tokens
  readonly waiters: OutputWaiters
  readonly workerId = `w-${randomHex(16)}`
  readonly #options: WorkerOptions
  readonly #scope: Scope
  readonly #journal: JournalFile
  readonly #process: ProcessIdentity
  #session: Session | undefined
  #started: { transactionId: string; child: ProcessIdentity } | undefined
  #starting:
    { transactionId: string; result: Promise<{ runtime_id: string; child_process: ProcessIdentity }> } | undefined
  #initialize: Initialize | undefined
  #launchDaemonId: string | undefined
  #idle: Disposable | undefined
  readonly #socket: ControlSocket
  readonly #admission = new Admission()
  #resizeSequences = new Map<string, number>()
  /** Events that were told a moment ago, by name; `due` when there is something new to tell. */
  readonly #rests = new Map<string, { due: boolean }>()
  #leaving = false
  #emulator: Emulator | undefined

  constructor(options: WorkerOptions) {
    const { args, processes, clock } = options
    this.#options = options
    this.#scope = new Scope('worker', clock)
    this.tokens = new Tokens(clock)
    this.waiters = new OutputWaiters(clock)
    const self = processes.identify(process.pid)
    this.#process = { pid: process.pid, start_identity: self?.startIdentity ?? '0' }
    this.#journal = new JournalFile(args.stateRoot, args.sessionId, this.workerId)
    this.#socket = new ControlSocket({
      path: args.controlSocketPath,
      scope: this.#scope,
      accept: (socket) => this.#connected(socket),
      report: (failure) => void this.unexpected(failure),
    })
  }

  get session(): Session | undefined {
    return this.#session
  }
  /** Version the controller speaks, the newest one while there is none. */
  get version(): number {
    return this.leases.current?.version ?? WORKER_PROTOCOL.maximum
  }
  get phase(): WorkerPhase {
    if (this.#session === undefined) return this.#starting === undefined ? 'uninitialized' : 'starting'
    if (this.#session.fault !== undefined) return 'faulted'
    if (this.#session.exit !== undefined) return 'exited'
    if (this.#starting !== undefined) return 'starting'
    return this.#session.stopping ? 'stopping' : 'running'
  }

  /** Accepts once it resolves. */
  async listen(): Promise<void> {
    this.#socket.check()
    this.#write('bootstrap', false)
    crashPoint('worker.socket.before')
    await this.#socket.open()
    crashPoint('worker.socket.after')
    loadNativePty()
    this.#waitForController()
  }

  /** While nobody waits: makes and runs what a start needs, so that the start itself finds it there. */
  warmUp(): void {
    if (this.phase !== 'uninitialized' || this.#emulator !== undefined) return
    this.#emulator = createEmulator(USUAL_SIZE.columns, USUAL_SIZE.rows, SCROLLBACK_ROWS)
    warmUp(this.#options.args.sessionId)
  }

  #takeEmulator(): Emulator | undefined {
    const made = this.#emulator
    this.#emulator = undefined
    return made
  }

  identity(): {
    session_id: string
    worker_id: string
    runtime_id?: string
    worker_process: ProcessIdentity
    phase: WorkerPhase
  } {
    return {
      session_id: this.#options.args.sessionId,
      worker_id: this.workerId,
      ...(this.#session && { runtime_id: this.#session.runtimeId }),
      worker_process: this.#process,
      phase: this.phase,
    }
  }

  acquire(
    holder: object,
    terms: { daemonId: string; version: number; capabilities: readonly Capability[] },
    send: (message: object) => void,
  ): Lease {
    const lease = this.leases.acquire(holder, terms, send)
    if (lease === undefined) throw new WorkerFailure('controller_busy', 'another daemon controls this worker', true)
    this.#idle?.[Symbol.dispose]()
    this.#idle = undefined
    this.#session?.input.forgetOutcomes()
    this.#resizeSequences.clear()
    return lease
  }

  /** The controller's connection closed, or it released the lease. */
  controllerGone(holder: object): void {
    if (!this.leases.release(holder)) return
    this.tokens.clear()
    if (this.phase === 'uninitialized') void this.leave(0) // 3
  }

  inspect(): InspectSnapshot {
    const session = this.#session
    return {
      ...this.identity(),
      generation: this.#options.args.generation,
      ...(this.#started && { child_process: this.#started.child }),
      ...(session && { dimensions: session.size }),
      history_start_offset: session?.ring.start ?? 0,
      next_offset: session?.ring.end ?? 0,
      ...(session?.exit && { exit: session.exit }),
      ...(session?.fault && { fault: session.fault }),
      ...(session && { launch_identity: this.#launchIdentity() }),
      subagents: [],
      background: [],
      ...(this.#initialize?.hook_schema !== undefined && { hook_schema: this.#initialize.hook_schema }),
      ...(this.#launchDaemonId !== undefined && { launch_daemon_id: this.#launchDaemonId }),
      ...(session?.terminal.reportedCwd !== undefined && { reported_cwd: session.terminal.reportedCwd }),
    }
  }

  /** Starts the program once. The same transaction again gets the same answer. */
  initialize(initialize: Initialize): Promise<{ runtime_id: string; child_process: ProcessIdentity }> {
    if (this.#starting?.transactionId === initialize.transaction_id) return this.#starting.result
    if (this.#started?.transactionId === initialize.transaction_id && this.#session !== undefined) {
      return Promise.resolve({ runtime_id: this.#session.runtimeId, child_process: this.#started.child })
    }
    if (this.#session !== undefined || this.#starting !== undefined)
      return Promise.reject(new WorkerFailure('invalid_state', 'this worker is initialized already'))
    if (initialize.session_id !== this.#options.args.sessionId || initialize.expected_worker_id !== this.workerId) {
      return Promise.reject(new WorkerFailure('identity_mismatch', 'this is the worker of another session'))
    }
    const result = this.#start(initialize).finally(() => {
      this.#starting = undefined
      if (this.leases.current === undefined && this.#session === undefined) void this.leave(0) // 3
    })
    this.#starting = { transactionId: initialize.transaction_id, result }
    return result
  }

  async #start(initialize: Initialize): Promise<{ runtime_id: string; child_process: ProcessIdentity }> {
    const { processes, clock, log, umask } = this.#options
    const runtimeId = `r-${randomHex(16)}`
    const daemonId = this.leases.current?.daemonId ?? ''
    fit(initialize.dimensions)
    checkLaunch({ executable: initialize.executable, args: initialize.arguments, cwd: initialize.cwd })
    const env = this.#environment(initialize, runtimeId, daemonId)
    const scope = this.#scope.child('session')
    this.#initialize = initialize
    crashPoint('worker.initialize.begun')
    let started: Session | undefined
    try {
      this.#write('starting', false, runtimeId)
      const session = new Session({
        initialize,
        env,
        umask,
        runtimeId,
        worker: { pid: this.#process.pid, startIdentity: this.#process.start_identity },
        processes,
        clock,
        scope,
        log,
        emulator: this.#takeEmulator(),
        events: {
          outputAdvanced: () => {
            this.waiters.wake()
            if (this.#session === session) this.#tellOutput(session)
          },
          terminalChanged: () => {
            if (this.#session === session) this.#tellPicture(session)
          },
          cwdReported: () => this.#rested('cwd', () => this.#tellCwd(session)),
          resizedByClient: (dimensions) =>
            this.leases.tellCapable('stream_events', { type: 'resized_by_client', dimensions }),
          streamOpened: (stream_id) => this.leases.tellCapable('stream_events', { type: 'stream_opened', stream_id }),
          streamClosed: (stream_id, reason, error) =>
            this.leases.tellCapable('stream_events', {
              type: 'stream_closed',
              stream_id,
              reason,
              ...(error && { error }),
            }),
          ended: (exit, fault) => this.#ended(exit, fault),
        },
      })
      started = session
      crashPoint('worker.initialize.spawned')
      await confirmExec(session, { processes, executable: initialize.executable, cwd: initialize.cwd })
      crashPoint('worker.initialize.executed')
      this.#session = session
      this.#launchDaemonId = daemonId
      this.#started = {
        transactionId: initialize.transaction_id,
        child: { pid: session.child.pid, start_identity: session.child.startIdentity },
      }
      // A program that has ended meanwhile is journaled as such, behind the answer to this start. Not fsynced: after a
      // power cut the program is gone, and the daemon's own record, which is durable, says that it had been started.
      if (session.exit === undefined)
        this.#write('live', false, runtimeId) // 2
      else setImmediate(() => session.exit && this.#tellEnd(session.exit, session.fault))
      crashPoint('worker.initialize.after')
      this.leases.tell({ type: 'runtime_started' })
      // A quick program prints before its start is confirmed; that is told behind it.
      if (session.ring.end > 0) this.#tellOutput(session)
      if (session.terminal.parsed > 0) this.#tellPicture(session)
      return { runtime_id: runtimeId, child_process: this.#started.child }
    } catch (failure) {
      this.#session = this.#started = this.#initialize = this.#launchDaemonId = undefined
      if (started !== undefined && started.exit === undefined) await started.stop(false).catch(() => {})
      await scope.close()
      this.#tryWrite('bootstrap')
      throw failure
    }
  }

  #environment(initialize: Initialize, runtimeId: string, daemonId: string): string[] {
    const { args } = this.#options
    const kind = initialize.launch.reference_kind
    const markers = markerEntries({
      sessionId: args.sessionId,
      workerId: this.workerId,
      workerInstanceId: runtimeId,
      workerSocketPath: args.controlSocketPath,
      hookProtocolVersion: initialize.hook_protocol_version,
      daemonSocketPath: args.daemonSocketPath,
      publicProtocolVersion: initialize.public_protocol_version,
      daemonId,
      ...(kind && { referenceKind: kind }),
      hookTracePath: join(args.stateRoot, 'logs', 'pohunek-hooks.jsonl'),
    })
    try {
      return childEnvironment(initialize.base_environment, initialize.environment, markers)
    } catch (failure) {
      if (failure instanceof RangeError) throw new WorkerFailure('invalid_request', failure.message)
      throw failure
    }
  }

  /** The runtime a scope names. Throws identity_mismatch or invalid_state. */
  sessionOf(scope: RequestScope): Session {
    const session = this.#session
    if (session === undefined) throw new WorkerFailure('invalid_state', 'this worker is not initialized')
    if (
      scope.session_id !== this.#options.args.sessionId ||
      scope.worker_id !== this.workerId ||
      scope.runtime_id !== session.runtimeId
    ) {
      throw new WorkerFailure('identity_mismatch', 'the request names another runtime')
    }
    return session
  }

  /** A token is of no use while its socket cannot be reached. */
  reachable(): Promise<void> {
    return this.#socket.ensure()
  }

  openStream(request: RequestOf<'open_data_stream'>): { token: string; expires_at_ms: number } {
    const { stream_id: streamId, mode, after_offset: afterOffset, attach } = request
    if (mode === 'observation') throw new WorkerFailure('invalid_request', 'an observation is opened with read_output')
    if (afterOffset < 0) throw new WorkerFailure('invalid_request', 'after_offset is negative')
    const size = attach?.dimensions && fit(attach.dimensions)
    return this.#grant({
      mode,
      streamId,
      afterOffset,
      ...(size && { size }),
      historyRows: Math.max(0, attach?.history_rows ?? SCROLLBACK_ROWS),
    })
  }

  openReading(request: RequestOf<'read_output'>): { token: string; expires_at_ms: number } {
    if (request.max_bytes < 1 || request.wait_ms < 0)
      throw new WorkerFailure('invalid_request', 'max_bytes must be positive and wait_ms not negative')
    return this.#grant({
      mode: 'observation',
      streamId: request.stream_id,
      afterOffset: request.after_offset,
      maxBytes: request.max_bytes,
      waitMs: request.wait_ms,
    })
  }

  #grant(grant: Grant): { token: string; expires_at_ms: number } {
    const issued = this.tokens.issue(grant)
    if (issued === undefined)
      throw new WorkerFailure('observation_limit_exceeded', 'too many streams wait to be opened', true)
    return { token: issued.token, expires_at_ms: issued.expiresAtMs }
  }

  async writePlan(session: Session, plan: WritePlan): Promise<number> {
    if (session.exit !== undefined || session.leaderExited)
      throw new WorkerFailure('invalid_state', 'the program has ended')
    if (plan.fragments.some((it) => !/^[A-Za-z0-9+/]*={0,2}$/.test(it.bytes)))
      throw new WorkerFailure('invalid_request', 'fragment bytes are not base64')
    // Before it had the bound, a write waited as long as the program did not read.
    return session.input.plan(plan, this.version >= INPUT_STALL_SINCE ? this.#initialize?.input_stall_ms : undefined)
  }

  /** The size in force afterwards. Stale sequences of one source change nothing. */
  resize(session: Session, resize: RequestOf<'resize'>['resize']): { columns: number; rows: number } {
    const size = fit(resize.dimensions)
    const last = this.#resizeSequences.get(resize.source_id)
    if (last !== undefined && resize.sequence <= last) return session.size
    if (this.#resizeSequences.size >= 1_024) this.#resizeSequences.clear()
    this.#resizeSequences.set(resize.source_id, resize.sequence)
    if (resize.stream_id === undefined || session.clients.resized(resize.stream_id, size)) session.resize(size)
    return session.size
  }

  stop(session: Session): Promise<ChildExit> {
    crashPoint('worker.stop.asked')
    return session.stop(true)
  }

  acknowledgeTerminal(session: Session): void {
    if (session.exit === undefined) throw new WorkerFailure('invalid_state', 'the program still runs')
    // The answer goes out first.
    setImmediate(() => void this.leave(0))
  }

  /** A failure that is no WorkerFailure: our bug, named in the log and hidden on the wire. */
  unexpected(failure: unknown): WorkerFailure {
    this.#options.log.error(
      { problem: failure instanceof Error ? (failure.stack ?? failure.message) : String(failure) },
      'a request failed unexpectedly',
    )
    return new WorkerFailure('runtime_fault', 'the worker failed; see its log')
  }

  /** SIGTERM: end the program gracefully, then go. */
  async terminate(): Promise<void> {
    // A program that is being started has to be known before it can be ended.
    await this.#starting?.result.catch(() => {})
    const session = this.#session
    if (session !== undefined && session.exit === undefined) await session.stop(false).catch(() => {})
    await this.leave(0)
  }

  /** Removes the socket and ends the process. */
  async leave(code: number): Promise<void> {
    if (this.#leaving) return
    this.#leaving = true
    crashPoint('worker.leave')
    if (this.#session === undefined) this.#tryWrite('never_initialized')
    await this.#scope.close().catch((failure: unknown) => this.unexpected(failure))
    this.#options.exit(code)
  }

  #ended(exit: ChildExit, fault: WorkerError | undefined): void {
    const session = this.#session
    this.waiters.wake()
    // While the start is still being confirmed, what happened is decided there.
    if (session === undefined) return
    this.#tellEnd(exit, fault)
  }

  #tellEnd(exit: ChildExit, fault: WorkerError | undefined): void {
    this.#journalEnd(exit, fault) // 2
    this.#options.log.info({ exit, ...(fault && { fault: fault.message }) }, 'the session ended')
    if (fault === undefined) this.leases.tell({ type: 'child_exited', exit })
    else this.leases.tell({ type: 'runtime_fault', error: fault })
    crashPoint('worker.end.told')
    this.#scope.after(this.#initialize?.limits.terminal_retention_ms ?? 0, 'retention', () => void this.leave(0))
  }

  /** A full disk must not keep an end from its daemon: it is told all the same, and journaled as soon as it can be. */
  #journalEnd(exit: ChildExit, fault: WorkerError | undefined): void {
    try {
      this.#write(fault === undefined ? 'terminal' : 'faulted', true, this.#session?.runtimeId, exit, fault)
    } catch (failure) {
      this.#options.log.error({ problem: (failure as Error).message }, 'the end is not in the journal')
      if (!this.#scope.closed) this.#scope.after(JOURNAL_RETRY_MS, 'journal', () => this.#journalEnd(exit, fault))
    }
  }

  #tellOutput(session: Session): void {
    this.#rested('output', () => this.leases.tell({ type: 'output_advanced', next_offset: session.ring.end }))
  }

  #tellPicture(session: Session): void {
    this.#rested('terminal', () => this.leases.tell({ type: 'terminal_changed', watermark: session.terminal.parsed }))
  }

  #tellCwd(session: Session): void {
    const cwd = session.terminal.reportedCwd
    if (cwd !== undefined) this.leases.tellCapable('stream_events', { type: 'cwd_reported', cwd })
  }

  /** First call at once, further ones together after a rest. */
  #rested(name: string, run: () => void): void {
    const rest = this.#rests.get(name)
    if (rest !== undefined) return void (rest.due = true)
    if (this.leases.current === undefined) return
    run()
    const state = { due: false }
    this.#rests.set(name, state)
    this.#options.clock.after(EVENT_REST_MS, () => {
      this.#rests.delete(name)
      if (state.due) this.#rested(name, run)
    })
  }

  #waitForController(): void {
    this.#idle = this.#scope.after(IDLE_MS, 'controller', () => {
      this.#idle = undefined
      if (this.phase === 'uninitialized' && this.leases.current === undefined) void this.leave(0) // 3
    })
  }

  #connected(socket: net.Socket): void {
    if (!this.#admission.enter()) return void socket.destroy()
    const connection: Connection = new Connection(
      socket,
      {
        line: (message, bytes) => control.line(message, bytes),
        badLine: (problem) => control.badLine(problem),
        raw: (token, rest) => stream.raw(token, rest),
        frame: (frame) => stream.frame(frame),
        badFrame: () => stream.badFrame(),
        closed: () => control.closed(),
      },
      { clock: this.#options.clock, admission: this.#admission },
    )
    const control = new Control(this, connection)
    const stream = new DataStream(this, connection)
  }

  #launchIdentity(): Journal['launch_identity'] {
    const launch = this.#initialize?.launch
    if (launch === undefined) return null
    return {
      provider: launch.agent_base,
      process: this.#started?.child ?? null,
      reference_kind: launch.reference_kind ?? null,
      native_reference: null,
    }
  }

  /** For phases nothing depends on. */
  #tryWrite(phase: 'bootstrap' | 'never_initialized'): void {
    try {
      this.#write(phase, false)
    } catch (failure) {
      this.#options.log.error({ problem: (failure as Error).message }, 'the journal is behind')
    }
  }

  #write(phase: JournalPhase, durable: boolean, runtimeId?: string, exit?: ChildExit, fault?: WorkerError): void {
    const { args, processes, version } = this.#options
    const session = this.#session
    const child = this.#started?.child
    const journal: Journal = {
      schema_version: JOURNAL_SCHEMA,
      session_id: args.sessionId,
      worker_id: this.workerId,
      generation: args.generation,
      worker_pid: this.#process.pid,
      worker_start_identity: this.#process.start_identity,
      worker_version: version,
      boot_id: processes.bootId(),
      worker_protocol: WORKER_PROTOCOL,
      phase,
      ...(runtimeId !== undefined && { runtime_id: runtimeId }),
      ...(child && { child: { pid: child.pid, process_group: child.pid, start_identity: child.start_identity } }),
      ...(exit && { outcome: outcomeOf(exit, fault !== undefined) }),
      ...(fault && { fault: fault.message }),
      launch_identity: this.#launchIdentity(),
      active_identity: null,
      latest_native_reference: null,
      subagents: [],
      background: [],
      hook_schema: this.#initialize?.hook_schema ?? null,
      ...(this.#launchDaemonId !== undefined && { launch_daemon_id: this.#launchDaemonId }),
      output: { history_start_offset: session?.ring.start ?? 0, next_offset: session?.ring.end ?? 0 },
      ...(session && { dimensions: session.size }),
    }
    this.#journal.write(journal, durable)
  }
}
