/**
 * Ends what a gone worker left behind: every process that carries a runtime's marker. What cannot be proven to belong
 * is never signalled, and what cannot be proven gone is named.
 */
import { delay, type Clock } from '../../kernel/clock.ts'
import type { MarkedSweep, ProcessIdentity, Processes } from '../../platform/processes.ts'
import { INSTANCE_MARKER, SESSION_MARKER } from '../../protocol/worker/environment.ts'

/** Between two looks at the process table; one look reads /proc once. */
const LOOK_MS = 50
/** After SIGKILL a process is gone at once unless the kernel holds it. */
const KILL_WAIT_MS = 2_000

export type Unreadable = MarkedSweep['unreadable'][number]
export interface SweepResult {
  /** Processes of the runtimes that are still there, although signalled. */
  readonly surviving: readonly ProcessIdentity[]
  /** Processes that carry a runtime's marker but no session's, where that is asked for: never signalled. */
  readonly unattributed: readonly ProcessIdentity[]
  /** Processes whose environment the kernel withholds: they may belong. */
  readonly unreadable: readonly Unreadable[]
}

/** One runtime whose processes are looked for. */
export interface SweepTarget {
  readonly runtimeId: string
  /** Its worker: no older process can belong. Undefined when it is not known in this boot. */
  readonly since: ProcessIdentity | undefined
  /** Only processes that also carry this session's marker belong: the runtime is not proven by a journal. */
  readonly onlyOf?: string
}

export interface SweepRequest {
  readonly processes: Processes
  readonly clock: Clock
  readonly signal: AbortSignal
  readonly targets: readonly SweepTarget[]
  readonly graceMs: number
  /** The wait for what cannot be signalled. */
  readonly patience: Patience
}

/**
 * The wait for processes that may belong but cannot be signalled: they may be caught between images, or about to exit.
 * One operation waits once, however many runtimes it sweeps; the wait starts with the first that needs it.
 */
export class Patience {
  readonly #clock: Clock
  readonly #graceMs: number
  readonly #seen = new Set<string>()
  #untilMs: number | undefined

  constructor(clock: Clock, graceMs: number) {
    this.#clock = clock
    this.#graceMs = graceMs
  }

  get isOver(): boolean {
    const now = this.#clock.monotonic()
    return now >= (this.#untilMs ??= now + this.#graceMs)
  }

  /** One that no look of this operation has seen before may be caught between images: it gets another look. */
  isOverFor(doubtful: readonly ProcessIdentity[]): boolean {
    const fresh = doubtful.filter((it) => !this.#seen.has(key(it)))
    for (const it of fresh) this.#seen.add(key(it))
    return this.isOver && fresh.length === 0
  }
}

/** SIGTERM, one grace, SIGKILL for what belongs; patience for what may. */
export async function sweep(request: SweepRequest): Promise<SweepResult> {
  const { processes, clock, graceMs, signal, patience } = request
  const told = new Set<string>()
  const startMs = clock.monotonic()
  for (;;) {
    const found = look(request)
    const elapsedMs = clock.monotonic() - startMs
    for (const it of found.surviving) {
      if (elapsedMs >= graceMs) processes.signal(it, 'SIGKILL')
      else if (!told.has(key(it))) processes.signal(it, 'SIGTERM')
      told.add(key(it))
    }
    const doubtful = [...found.unattributed, ...found.unreadable]
    const isOver = elapsedMs >= graceMs + KILL_WAIT_MS
    if (isOver || (found.surviving.length === 0 && (doubtful.length === 0 || patience.isOverFor(doubtful))))
      return found
    await delay(clock, LOOK_MS, signal)
  }
}

function look({ processes, targets }: SweepRequest): SweepResult {
  const surviving = new Map<string, ProcessIdentity>()
  const unattributed = new Map<string, ProcessIdentity>()
  const unreadable = new Map<string, Unreadable>()
  for (const { runtimeId, since, onlyOf } of targets) {
    const found = processes.findMarked({ name: INSTANCE_MARKER, value: runtimeId, ...(since && { since }) })
    for (const it of found.marked) {
      const owner = onlyOf === undefined ? undefined : processes.variable(it, SESSION_MARKER)
      if (owner === onlyOf) surviving.set(key(it), it)
      else if (owner === undefined) unattributed.set(key(it), it)
      // else it names another session: left alone
    }
    for (const it of found.unreadable) unreadable.set(key(it), it)
  }
  return {
    surviving: [...surviving.values()],
    unattributed: [...unattributed.values()],
    unreadable: [...unreadable.values()],
  }
}

const key = (it: ProcessIdentity): string => `${it.pid}:${it.startIdentity}`

/** Pure. Nothing of the runtimes is left, and nothing that could be. */
export const isClean = (it: SweepResult): boolean =>
  it.surviving.length === 0 && it.unattributed.length === 0 && it.unreadable.length === 0

const CONTROL = /[^\x20-\x7e]/g
/** One candidate for a person: `pid 7 (start 42, sleep)`. */
export const nameProcess = (it: ProcessIdentity & { command?: string }): string =>
  `pid ${it.pid} (start ${it.startIdentity}${it.command === undefined ? '' : `, ${it.command.replace(CONTROL, '?').slice(0, 64)}`})`
