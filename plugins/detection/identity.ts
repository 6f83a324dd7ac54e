/**
 * Whose process is in front of a session's terminal. Decided on the foreground process group alone: what runs in the
 * background, in another terminal or under another daemon has no say.
 * Invariants
 *  1. The agent is in front when the group holds a process that the manifest's patterns name (short name or arguments),
 *     or when the launched program itself leads it and has not become another one by exec.
 *  2. Once a pattern named a process, the launched program alone no longer counts: a shell that started the agent is in
 *     front again when the agent is gone.
 *  3. A process that carries the marker of another runtime does not count.
 *  4. What could not be looked at changes nothing.
 */
import type { ProcessIdentity, Processes } from '../../platform/processes.ts'
import { messageOf } from '../../protocol/fault.ts'
import { INSTANCE_MARKER } from '../../protocol/worker/environment.ts'
import { Allowance } from './allowance.ts'
import type { Manifest } from './manifest.ts'
import type { Identity } from './weigh.ts'

export interface InFront {
  readonly identity: Identity
  readonly group: number | undefined
  /** For session.explain. */
  readonly why: string
}

/** What the patterns of a manifest look at. */
const MAX_ARGV_CHARS = 4_096

type Facts = Pick<Processes, 'foregroundGroup' | 'membersOf' | 'argv' | 'isRunning' | 'variable' | 'program'>

/** A group is looked through again after so long while something is going on in it. */
const RESCAN_MS = 1_000
const NOBODY: InFront = { identity: 'unknown', group: undefined, why: 'the process table was not looked at yet' }

/** One per runtime of a session. */
export class Foreground {
  readonly #facts: Facts
  readonly #root: ProcessIdentity
  readonly #instance: string
  /** The launched program, frozen once it showed that it is the agent: wrappers exec while they start. */
  #launched: string | undefined
  #named: { readonly process: ProcessIdentity; readonly image: string | undefined } | undefined
  #wasNamed = false
  #scannedAt = -Infinity
  #seen: InFront = NOBODY

  constructor(facts: Facts, root: ProcessIdentity, instance: string) {
    this.#facts = facts
    this.#root = root
    this.#instance = instance
  }

  get seen(): InFront {
    return this.#seen
  }

  /** `now` in milliseconds, monotonic. Cheap while nothing changed: two reads of /proc. */
  look(process: Manifest['process'], now: number): InFront {
    try {
      return (this.#seen = this.#look(process, now))
    } catch (failure) {
      return { ...this.#seen, why: `${this.#seen.why} (the last look failed: ${messageOf(failure)})` } // 4
    }
  }

  /** The screen showed the agent: what the root runs now is what was launched. */
  confirm(): void {
    if (this.#seen.identity !== 'agent' || this.#named !== undefined) return
    this.#launched ??= this.#facts.program(this.#root.pid)?.image
  }

  #look(process: Manifest['process'], now: number): InFront {
    const group = this.#facts.foregroundGroup(this.#root.pid)
    if (group === undefined) return { ...this.#seen, why: 'the terminal has no foreground process group now' }
    const hasPatterns = process.comm.length + process.cmdline.length > 0
    const isSame = group === this.#seen.group
    if (isSame && this.#named !== undefined && this.#isStill(this.#named)) return this.#seen
    if (hasPatterns && (!isSame || this.#named !== undefined || now - this.#scannedAt >= RESCAN_MS)) {
      this.#scannedAt = now
      const time = new Allowance()
      const found = this.#facts.membersOf({ group }).find((it) => this.#isOurs(it) && this.#isNamed(it, process, time))
      this.#named = found && { process: found, image: this.#facts.program(found.pid)?.image }
      this.#wasNamed ||= this.#named !== undefined
    }
    if (this.#named !== undefined)
      return { identity: 'agent', group, why: `process ${this.#named.process.pid} in front is named by the manifest` } // 1
    if (group !== this.#root.pid) return other(group, 'the process group in front holds no process of the agent')
    if (this.#wasNamed) return other(group, 'the agent ended; what started it is in front') // 2
    const image = this.#facts.program(this.#root.pid)?.image
    if (image === undefined) return { ...this.#seen, why: 'the launched program could not be looked at' } // 4
    if (this.#launched !== undefined && image !== this.#launched)
      return other(group, 'the launched program became another one')
    return { identity: 'agent', group, why: 'the launched program is in front' } // 1
  }

  /** Neither gone nor, by exec, another program. */
  #isStill({ process, image }: { readonly process: ProcessIdentity; readonly image: string | undefined }): boolean {
    return this.#facts.isRunning(process) && this.#facts.program(process.pid)?.image === image
  }

  #isOurs(it: ProcessIdentity): boolean {
    const marker = this.#facts.variable(it, INSTANCE_MARKER)
    return marker === undefined || marker === this.#instance // 3
  }

  #isNamed({ pid }: ProcessIdentity, process: Manifest['process'], time: Allowance): boolean {
    const { comm, cmdline } = process
    const argv = cmdline.length === 0 ? undefined : this.#facts.argv(pid)?.join(' ').slice(0, MAX_ARGV_CHARS)
    const name = comm.length === 0 ? undefined : this.#facts.program(pid)?.command
    let named = false
    time.each(process, [process], () => {
      named =
        (argv !== undefined && cmdline.some((it) => it.test(argv))) ||
        (name !== undefined && comm.some((it) => it.test(name)))
    })
    return named
  }
}

const other = (group: number, why: string): InFront => ({ identity: 'other', group, why })
