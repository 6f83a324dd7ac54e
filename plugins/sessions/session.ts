/**
 * One session in memory: its record, its phase and its worker connection.
 * Invariants
 *  1. Commands on one session run one after the other (`enqueue`).
 *  2. `updated_at` of a session strictly grows.
 *  3. A change of the owner's is told only once it is durable; an observation is told at once and stored behind, so
 *     a full disk never hides what a worker reported.
 */
import type { ChildExit } from '../../protocol/worker/messages.ts'
import type { Scope } from '../../kernel/scope.ts'
import { faults } from './faults.ts'
import { owed, runtimeStateOf, step, type Cause, type Intent, type Phase } from './machine.ts'
import type { SessionRecord } from './record.ts'
import type { SessionInfo } from './types.ts'
import type { WorkerLink } from './worker-link.ts'

/** Shared by all queues that never had anything to do. */
const idle: Promise<unknown> = Promise.resolve()
/** A program that does not read makes each input wait for the stall of the one before. */
const MAX_QUEUED_INPUTS = 64
const MAX_QUEUED_BYTES = 1_048_576

export class Session {
  readonly id: string
  readonly #makeScope: () => Scope
  #scope: Scope | undefined
  #record: SessionRecord
  #phase: Phase
  #commands: Promise<unknown> = idle
  #input: Promise<unknown> = idle
  /** Inputs that wait for their turn or are being written. */
  readonly #queued = { inputs: 0, bytes: 0 }
  /** Leased connection to the worker; also of an ended session while the worker keeps its last output. */
  link: WorkerLink | undefined
  /** An end reported before the creation was committed. */
  earlyExit: ChildExit | undefined
  /** Owns the connection's timers; closed with it. */
  #linkScope: Scope | undefined
  /** Of the last resize sent on this connection. */
  resizeSequence = 0
  /** What its worker last told; see Progress in api.ts. */
  readonly progress = {
    outputOffset: 0,
    watermark: 0,
    outputAtMs: undefined as number | undefined,
    outputAtMonotonicMs: undefined as number | undefined,
  }
  /** Calls waiting for output of this session. */
  waiters = 0
  readonly #watchers = new Set<() => void>()
  /** A background look at a runtime that could not be reached; at most one. */
  recheck: Disposable | undefined
  /** Pause before the look after that one; undefined while nothing is open. */
  nextPauseMs: number | undefined
  /** State and reason last told as degraded: each classification is logged once. */
  classified: string | undefined
  /** The record left the registry; whatever still holds this object must stop. */
  removed = false

  constructor(record: SessionRecord, phase: Phase, makeScope: () => Scope) {
    this.id = record.info.id
    this.#record = record
    this.#phase = phase
    this.#makeScope = makeScope
  }

  /** Owner of this session's connection and timers; made on first use, because most stored sessions have none. */
  get scope(): Scope {
    return (this.#scope ??= this.#makeScope())
  }
  async close(): Promise<void> {
    this.recheck?.[Symbol.dispose]()
    await this.disconnect()
    await this.#scope?.close()
  }

  connect(link: WorkerLink, scope: Scope): void {
    this.link = link
    this.#linkScope = scope
  }
  /** Gives the connection up; the worker goes on without a controller. */
  async disconnect(): Promise<void> {
    const scope = this.#linkScope
    this.link = undefined
    this.#linkScope = undefined
    await scope?.close()
  }

  get record(): SessionRecord {
    return this.#record
  }
  get info(): SessionInfo {
    return this.#record.info
  }
  get phase(): Phase {
    return this.#phase
  }
  get intent(): Intent {
    return this.#record.intent
  }
  get owed(): ReturnType<typeof owed> {
    return owed(this.intent, this.#phase)
  }

  /** Calls `watcher` whenever the terminal may show something else, the program ended or the connection is gone. */
  watch(watcher: () => void): Disposable {
    this.#watchers.add(watcher)
    return { [Symbol.dispose]: () => void this.#watchers.delete(watcher) }
  }
  changed(): void {
    for (const watcher of [...this.#watchers]) watcher()
  }

  /** Replaces the record; callers go through the registry, which stores and tells. */
  replace(record: SessionRecord): void {
    this.#record = record
  }

  step(cause: Cause): { from: Phase; to: Phase } {
    const from = this.#phase
    this.#phase = step(from, cause)
    return { from, to: this.#phase }
  }

  /** Runs `command` after every earlier command of this session. */
  enqueue<T>(command: () => Promise<T>): Promise<T> {
    const result = this.#commands.then(command, command)
    this.#commands = result.catch(() => undefined) // its caller hears of it; the queue goes on
    return result
  }

  /**
   * Runs `write` after every earlier input of this session: input never waits behind a stop, only behind input. `bytes`
   * is what is kept for it meanwhile. Rejects with session_waiter_limit_reached while too much is kept already.
   */
  enqueueInput<T>(write: () => Promise<T>, bytes = 0): Promise<T> {
    const queued = this.#queued
    if (queued.inputs >= MAX_QUEUED_INPUTS || (queued.inputs > 0 && queued.bytes + bytes > MAX_QUEUED_BYTES))
      return Promise.reject(
        faults.session_waiter_limit_reached({
          scope: `to write to ${this.id}, with ${queued.bytes} bytes,`,
          max: queued.inputs,
        }),
      )
    queued.inputs++
    queued.bytes += bytes
    const left = (): void => {
      queued.inputs--
      queued.bytes -= bytes
    }
    const result = this.#input.then(write, write)
    this.#input = result.then(left, left) // as above
    return result
  }

  /** Connection of a running session; otherwise the fault the contract has for the state it is in. */
  running(): WorkerLink {
    if (this.removed) throw faults.session_not_found({ id: this.id })
    switch (this.#phase) {
      case 'running':
      case 'stopping':
        if (this.link?.alive) return this.link
        throw faults.session_runtime_reconnecting({ id: this.id })
      case 'creating':
      case 'unreachable':
        throw faults.session_runtime_reconnecting({ id: this.id })
      case 'conflict':
        throw faults.session_runtime_conflict({ id: this.id, reason: this.info.runtime?.loss_reason })
      case 'incompatible':
        throw faults.worker_protocol_incompatible({ id: this.id })
      case 'lost':
        throw faults.session_runtime_lost({ id: this.id, reason: this.info.runtime?.loss_reason })
      case 'ended':
        throw faults.session_not_running({ id: this.id })
    }
  }

  /** Connection that can still tell what the terminal showed, also after the program's end. */
  observable(): WorkerLink {
    if (
      this.link?.alive &&
      this.record.worker.runtime_id !== undefined &&
      (this.#phase === 'ended' || this.#phase === 'running' || this.#phase === 'stopping')
    ) {
      return this.link
    }
    throw faults.session_terminal_unavailable({ id: this.id })
  }

  /** Scope of worker requests; a link is there, so a runtime is. */
  scopeOf(link: WorkerLink): { lease_id: string; session_id: string; worker_id: string; runtime_id: string } {
    const { worker_id, runtime_id } = this.record.worker
    if (runtime_id === undefined) throw faults.session_runtime_reconnecting({ id: this.id })
    return { lease_id: link.leaseId, session_id: this.id, worker_id, runtime_id }
  }
}

/** Pure. `info` with `runtime.state` telling the phase and a reason only where one applies. */
export function withRuntimeState(info: SessionInfo, phase: Phase, reason?: string): SessionInfo {
  if (info.runtime === undefined) return info
  if (info.runtime.state === runtimeStateOf(phase) && info.runtime.loss_reason === reason) return info
  const { loss_reason: _old, ...runtime } = info.runtime
  return {
    ...info,
    runtime: { ...runtime, state: runtimeStateOf(phase), ...(reason === undefined ? {} : { loss_reason: reason }) },
  }
}
