/**
 * The end of a session's processes.
 * Invariants
 *  1. A signal goes only to a process proven to be ours: a member of the program's terminal session, a carrier of
 *     the runtime's marker, or one seen below the program when it was stopped. A recycled pid never gets one.
 *  2. Nothing is told as gone that was not seen gone.
 */
import type { Clock } from '../kernel/clock.ts'
import { delay } from '../kernel/clock.ts'
import { within } from '../platform/timing.ts'
import type { ProcessIdentity, Processes } from '../platform/processes.ts'
import { INSTANCE_MARKER } from '../protocol/worker/environment.ts'

const FIRST_POLL_MS = 5
const MAX_POLL_MS = 50
/** A process that survives SIGKILL this long hangs in the kernel. */
const KILL_BOUND_MS = 5_000

export interface EndingOptions {
  processes: Processes
  clock: Clock
  /** The session's root: leader of its terminal session and of its group. */
  child: ProcessIdentity
  worker: ProcessIdentity
  runtimeId: string
  graceMs: number
}

export interface Leftover {
  pid: number
  startIdentity: string
  why: 'survived' | 'unreadable'
  command?: string
}

export class Ending {
  readonly #it: EndingOptions
  /** Seen below the program when it was stopped: some have left its terminal and its environment. */
  readonly #below = new Map<string, ProcessIdentity>()

  constructor(options: EndingOptions) {
    this.#it = options
  }

  /** HUP and TERM to the program's processes, CONT for stopped ones, KILL after the grace. False: the exit was not seen. */
  async terminate(exited: Promise<void>): Promise<boolean> {
    const { graceMs } = this.#it
    this.#lookBelow()
    // An interactive shell ignores TERM and obeys HUP; most others take either.
    for (const signal of ['SIGHUP', 'SIGTERM', 'SIGCONT'] as const) this.#signal(this.#members(), signal)
    if (await this.#exitedWithin(exited, graceMs)) return true
    for (let waited = 0; waited < KILL_BOUND_MS; waited += 250) {
      this.#lookBelow()
      this.#signal(this.#members(), 'SIGKILL')
      if (await this.#exitedWithin(exited, 250)) return true
    }
    return false
  }

  /** Ends what the program left behind. Answers what cannot be proven gone; empty means clean. */
  async sweep(): Promise<Leftover[]> {
    const { clock, graceMs } = this.#it
    const started = clock.monotonic()
    const asked = new Set<string>()
    let withheldBefore = new Set<string>()
    for (let wait = FIRST_POLL_MS; ; wait = Math.min(MAX_POLL_MS, wait * 2)) {
      const { living, unreadable } = this.#left()
      if (living.length === 0 && unreadable.length === 0) return []
      const age = clock.monotonic() - started
      if (age < graceMs) {
        const fresh = living.filter((it) => !asked.has(key(it)))
        for (const signal of ['SIGHUP', 'SIGTERM', 'SIGCONT'] as const) this.#signal(fresh, signal)
        for (const it of fresh) asked.add(key(it))
      } else {
        this.#signal(living, 'SIGKILL')
        // One that was not there a look ago may be between two images: it gets another look.
        const isKnown = unreadable.every((it) => withheldBefore.has(key(it)))
        if ((living.length === 0 && isKnown) || age > graceMs + KILL_BOUND_MS) {
          return [
            ...living.map((it) => ({ ...it, why: 'survived' as const })),
            ...unreadable.map((it) => ({ ...it, why: 'unreadable' as const })),
          ]
        }
      }
      withheldBefore = new Set(unreadable.map(key))
      await delay(clock, wait)
    }
  }

  #left(): { living: ProcessIdentity[]; unreadable: (ProcessIdentity & { command: string })[] } {
    const { processes, runtimeId, worker } = this.#it
    const found = processes.findMarked({ name: INSTANCE_MARKER, value: runtimeId, since: worker })
    // A process whose environment is withheld is named and never signalled, wherever it was seen.
    const withheld = new Set(found.unreadable.map(key))
    const below = [...this.#below.values()].filter((it) => !withheld.has(key(it)) && processes.isRunning(it))
    const living = new Map([...found.marked, ...this.#members(), ...below].map((it) => [key(it), it]))
    living.delete(key(worker))
    return { living: [...living.values()], unreadable: found.unreadable.filter((it) => !living.has(key(it))) }
  }

  #lookBelow(): void {
    const { processes, child } = this.#it
    for (const it of processes.descendantsOf(child)) this.#below.set(key(it), it)
  }

  /** Processes of the program's terminal session, none once its id belongs to somebody else (1). */
  #members(): ProcessIdentity[] {
    const { processes, child } = this.#it
    const holder = processes.identify(child.pid)
    if (holder !== undefined && holder.startIdentity !== child.startIdentity) return []
    return processes.membersOf({ session: child.pid })
  }

  #signal(targets: readonly ProcessIdentity[], signal: NodeJS.Signals): void {
    for (const target of targets) this.#it.processes.signal(target, signal)
  }

  #exitedWithin(exited: Promise<void>, ms: number): Promise<boolean> {
    const seen = exited.then(() => true)
    return within(this.#it.clock, ms, seen, () => false)
  }
}

const key = (it: ProcessIdentity): string => `${it.pid}:${it.startIdentity}`

/** Pure. Names at most eight leftovers by pid. */
export function describeLeftovers(leftovers: readonly Leftover[]): string {
  const named = leftovers
    .slice(0, 8)
    .map((it) => `pid ${it.pid} (start ${it.startIdentity}${it.command === undefined ? '' : `, ${it.command}`})`)
  const more = leftovers.length > 8 ? ` and ${leftovers.length - 8} more` : ''
  return `processes of the session could not be proven gone: ${named.join(', ')}${more}`
}
