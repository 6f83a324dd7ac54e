/** Random runs; a failure comes back as the smallest run found that still fails. */
import fc from 'fast-check'
import { messageOf } from '../../../protocol/fault.ts'
import { monotonicMs } from '../../harness/wait.ts'
import { Forest } from './forest.ts'
import { runsOf, told, type Step } from './steps.ts'

export interface BatchOptions {
  readonly seed: number
  /** Of a failure told before: only the way to its smallest run is gone. */
  readonly path?: string
  readonly runs: number
  readonly length: number
  /** No run begins after this. */
  readonly limitMs?: number
  readonly shrinkMs?: number
  readonly signal?: AbortSignal
  /** Hears of a failure before it is made smaller. */
  readonly failed?: (steps: readonly Step[], why: string) => void
}

export interface Outcome {
  readonly runs: number
  readonly failure?: {
    readonly steps: readonly Step[]
    readonly path: string
    readonly why: string
    readonly tail: string
  }
}

const SHRINK_MS = 180_000

/** Keeps its daemon over runs; after a failure the next run meets a fresh one. */
export class Woodland implements AsyncDisposable {
  #forest: Forest | undefined
  #tail = ''
  #playing: Promise<void> | undefined

  async batch(options: BatchOptions): Promise<Outcome> {
    const { seed, path, runs, length, limitMs, shrinkMs = SHRINK_MS, signal, failed } = options
    const startMs = monotonicMs()
    const aborted = (): boolean => signal?.aborted === true
    let firstMs: number | undefined
    const property = fc.asyncProperty(runsOf(length), async (steps) => {
      if (firstMs === undefined ? limitMs !== undefined && monotonicMs() - startMs > limitMs : false) return
      fc.pre(firstMs === undefined || monotonicMs() - firstMs < shrinkMs)
      if (aborted()) return
      try {
        await (this.#playing = this.#run(steps))
      } catch (failure) {
        // What fails because it is ended is none of the product's failures.
        if (aborted()) return
        if (firstMs === undefined) failed?.(steps, messageOf(failure))
        firstMs ??= monotonicMs()
        throw failure
      }
    })
    const details = await fc.check(property, { seed, numRuns: runs, ...(path === undefined ? {} : { path }) })
    if (!details.failed || details.counterexample === null) return { runs: details.numRuns }
    const [steps] = details.counterexample
    const why = messageOf(details.errorInstance)
    return {
      runs: details.numRuns,
      failure: { steps, path: details.counterexamplePath ?? '', why, tail: this.#tail },
    }
  }

  /** Takes one given run. */
  async play(steps: readonly Step[]): Promise<void> {
    await this.#run(steps)
  }

  async #run(steps: readonly Step[]): Promise<void> {
    const forest = (this.#forest ??= await Forest.start())
    try {
      await forest.run(steps)
    } catch (failure) {
      this.#tail = forest.tail()
      this.#forest = undefined
      await forest.end()
      throw failure
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#playing?.catch(() => undefined)
    await this.#forest?.end()
    this.#forest = undefined
  }
}

/** A failure for people: what is wrong, what was done, how to see it again. */
export function report(seed: number, { steps, path, why, tail }: NonNullable<Outcome['failure']>): string {
  return [
    why,
    '',
    `the smallest run that fails:\n${told(steps)}`,
    '',
    `again: npm run soak:worktrees -- --seed ${seed} --path ${path}`,
    ...(tail.trim() === '' ? [] : ['', 'the daemon said:', tail]),
  ].join('\n')
}
