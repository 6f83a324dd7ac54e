/** A batch of random plans against one target; a failure comes back as the smallest plan found that still fails. */
import fc from 'fast-check'
import { messageOf } from '../../protocol/fault.ts'
import { monotonicMs } from '../harness/wait.ts'
import { plans } from './generate.ts'
import type { Plan } from './plan.ts'
import { play } from './play.ts'
import { Target } from './target.ts'

export interface BatchOptions {
  readonly seed: number
  /** Of a failure told before: only the way to its smallest plan is gone. */
  readonly path?: string
  readonly runs: number
  /** No run begins after this, and what was found is not made smaller for longer. */
  readonly limitMs?: number
  readonly signal?: AbortSignal
  /** Hears of a failure before it is made smaller. */
  readonly failed?: (plan: Plan, why: string) => void
}

/** Making a failure smaller ends after this; each try that fails costs a fresh daemon. */
const SHRINK_MS = 120_000

export interface Outcome {
  readonly runs: number
  /** Memory and descriptors after it, in words. */
  readonly figures: string
  readonly failure?: { readonly plan: Plan; readonly path: string; readonly why: string; readonly tail: string }
}

/** Keeps its target over batches; after a failure the next plan meets a fresh one. */
export class Fuzzer implements AsyncDisposable {
  #target: Target | undefined
  #tail = ''
  /** The plan being played: an interrupted check does not wait for it. */
  #playing: { readonly plan: Plan; readonly result: Promise<void> } | undefined

  async batch(options: BatchOptions): Promise<Outcome> {
    const { seed, path, runs, limitMs, signal, failed } = options
    let firstMs: number | undefined
    const property = fc.asyncProperty(plans, async (plan) => {
      fc.pre(firstMs === undefined || monotonicMs() - firstMs < SHRINK_MS)
      if (signal?.aborted) return
      this.#playing = { plan, result: this.#run(plan) }
      try {
        await this.#playing.result
      } catch (failure) {
        if (firstMs === undefined) failed?.(plan, messageOf(failure))
        firstMs ??= monotonicMs()
        throw failure
      }
    })
    const details = await fc.check(property, {
      seed,
      numRuns: runs,
      ...(path === undefined ? {} : { path }),
      ...(limitMs === undefined ? {} : { interruptAfterTimeLimit: limitMs }),
    })
    const late = await this.#lastFailure()
    if (!details.failed || details.counterexample === null) {
      if (late === undefined) return { runs: details.numRuns, figures: this.#figures() }
      return { runs: details.numRuns, figures: '', failure: { ...late, path: '', tail: this.#tail } }
    }
    const [plan] = details.counterexample
    const why = messageOf(details.errorInstance)
    const failure = { plan, path: details.counterexamplePath ?? '', why, tail: this.#tail }
    return { runs: details.numRuns, figures: '', failure }
  }

  async #lastFailure(): Promise<{ plan: Plan; why: string } | undefined> {
    const playing = this.#playing
    try {
      await playing?.result
    } catch (failure) {
      if (playing !== undefined) return { plan: playing.plan, why: messageOf(failure) }
    }
    return undefined
  }

  async #run(plan: Plan): Promise<void> {
    const target = (this.#target ??= await Target.start())
    try {
      const wrong = await play(target, plan)
      await target.check()
      if (wrong !== undefined) throw new Error(wrong)
    } catch (failure) {
      this.#tail = target.tail()
      this.#target = undefined
      await target.end()
      throw failure
    }
  }

  #figures(): string {
    return this.#target?.checkGrowth() ?? ''
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#target?.end()
    this.#target = undefined
  }
}

/** A failure for people: what is wrong, what was sent, how to see it again. */
export function report(seed: number, { plan, path, why, tail }: NonNullable<Outcome['failure']>): string {
  return [
    why,
    '',
    `the smallest plan that fails: ${JSON.stringify(plan, null, 1)}`,
    '',
    `again: npm run soak -- --seed ${seed} --path ${path}`,
    ...(tail.trim() === '' ? [] : ['', 'the daemon said:', tail]),
  ].join('\n')
}
