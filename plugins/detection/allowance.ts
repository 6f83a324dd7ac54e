/**
 * The processor time that the regular expressions of one look may take, in sum: they come from files of the host and run
 * in the daemon.
 * Invariants
 *  1. Every expression runs inside `each`: what it takes on a text cannot be told from how it is written.
 *  2. A look takes BUDGET_MS of processor time at most, however many rules there are. A busy machine is not the rules'
 *     fault: where others had the processor the look goes on, up to MAX_STOPS times.
 *  3. What was stopped is undecided, never false: inside a `not` false would hold.
 *  4. What makes looks overrun is given up for as long as its file stays as it is.
 */
import { closeSync, openSync } from 'node:fs'
import { createContext, Script, type Context } from 'node:vm'

/** More than ten times what any manifest of ours needs for a full screen. */
export const BUDGET_MS = 50
const MAX_STOPS = 20
/** Less than can be measured out. */
const NOTHING_US = 1_000
/** From so many overruns on, what took the time is given up; once may be a first look at a cold start. */
const OVERRUNS = 3
/** After so many all of it is: rules that are slow one after the other must not cost a look each. */
const MAX_OVERRUNS = 10

interface History {
  overruns: number
  readonly givenUp: Set<object>
  all: boolean
}

const histories = new WeakMap<object, History>()

function historyOf(owner: object): History {
  const known = histories.get(owner) ?? { overruns: 0, givenUp: new Set(), all: false }
  histories.set(owner, known)
  return known
}

const usedUs = (): number => {
  const { user, system } = process.cpuUsage()
  return user + system
}

/** Of one look. */
export class Allowance {
  #leftUs = BUDGET_MS * 1_000
  #stops = 0
  readonly #taken = new Map<object, number>()

  /**
   * Calls `test` for each item and answers the items that it could not decide in the time that is left. `test` may be
   * stopped anywhere and called again. `owner` is the manifest, or the part of one, that they are of.
   */
  each<T extends object>(owner: object, items: readonly T[], test: (item: T) => void): readonly T[] {
    const history = historyOf(owner)
    const undecided = new Set<T>()
    let at = 0
    let markUs = usedUs()
    const mark = (item: T): void => {
      const now = usedUs()
      this.#taken.set(item, (this.#taken.get(item) ?? 0) + now - markUs)
      markUs = now
    }
    const work = (): void => {
      for (; at < items.length; at++) {
        const item = items[at] as T
        if (history.all || history.givenUp.has(item)) {
          undecided.add(item)
          continue
        }
        test(item)
        mark(item)
      }
    }
    while (at < items.length && !this.#isOver()) {
      if (this.#run(work)) break
      mark(items[at] as T)
      if (this.#leftUs <= NOTHING_US) this.#overran(history)
    }
    for (const item of items.slice(at)) undecided.add(item)
    return [...undecided]
  }

  #isOver(): boolean {
    return this.#leftUs <= NOTHING_US || this.#stops >= MAX_STOPS
  }

  /** False when it was stopped. */
  #run(work: () => void): boolean {
    if (!canBeWatched()) {
      this.#stops = MAX_STOPS // nothing of this look is decided, and no pattern is to blame
      return false
    }
    const startUs = usedUs()
    try {
      watched(work, Math.max(1, Math.ceil(this.#leftUs / 1_000)))
      return true
    } catch (failure) {
      if ((failure as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw failure
      this.#stops++
      return false
    } finally {
      this.#leftUs -= usedUs() - startUs
    }
  }

  /** 4: the costliest, until the rest would have done with half of the time. */
  #overran(history: History): void {
    history.overruns++
    if (history.overruns >= MAX_OVERRUNS) history.all = true
    if (history.overruns < OVERRUNS) return
    const byCost = [...this.#taken].sort(([, a], [, b]) => b - a)
    let rest = byCost.reduce((sum, [, us]) => sum + us, 0)
    for (const [item, us] of byCost) {
      if (rest <= BUDGET_MS * 500) return
      history.givenUp.add(item)
      rest -= us
    }
  }
}

/** In words what became of the slow items of `owner`, undefined where every look had enough time. */
export function slowness<T extends object>(owner: object, nameOf: (item: T) => string): string | undefined {
  const { overruns, givenUp, all } = histories.get(owner) ?? { overruns: 0, givenUp: new Set<T>(), all: false }
  if (overruns === 0) return undefined
  const limit = `the ${BUDGET_MS} ms that a look may take`
  if (all) return `its patterns take longer than ${limit}: none of them is used any more`
  if (givenUp.size === 0) return `its patterns took longer than ${limit}, a look was cut short`
  const names = [...givenUp].map((it) => nameOf(it as T))
  return `not used any more, for taking longer than ${limit}: ${names.slice(0, 8).join(', ')}${names.length > 8 ? ', …' : ''}`
}

/** What the engine's watch opens for itself, and some more for other threads; without them it ends the process. */
const WATCH_DESCRIPTORS = 12

function canBeWatched(): boolean {
  const open: number[] = []
  try {
    while (open.length < WATCH_DESCRIPTORS) open.push(openSync('/dev/null', 'r'))
    return true
  } catch {
    return false
  } finally {
    for (const fd of open) closeSync(fd)
  }
}

let job: (() => void) | undefined
let watch: { readonly script: Script; readonly context: Context } | undefined

/** A script is the only synchronous work that the engine can be told to give up. */
function watched(it: () => void, timeout: number): void {
  watch ??= { script: new Script('run()'), context: createContext({ run: () => job?.() }) }
  job = it
  try {
    watch.script.runInContext(watch.context, { timeout })
  } finally {
    job = undefined
  }
}
