/** What every hook of this program has beside tapable: failures that say who failed, and informing that goes on. */
import { Fault, messageOf } from '../protocol/fault.ts'
import type { AsyncSeriesHook, SyncHook } from 'tapable'

/** A tap that failed, by plugin and hook; the failure itself is the cause. */
export class TapFailure extends Error {
  readonly plugin: string
  readonly hook: string
  constructor(plugin: string, hook: string, cause: unknown) {
    super(`${plugin}: ${hook}: ${messageOf(cause)}`, { cause })
    this.name = 'TapFailure'
    this.plugin = plugin
    this.hook = hook
  }
}

/** The Fault a failing tap threw, for a caller; any other failure as it is. */
export const faultOf = (failure: unknown): unknown =>
  failure instanceof TapFailure && failure.cause instanceof Fault ? failure.cause : failure

type Tap = (...args: unknown[]) => unknown

/**
 * Makes every failure of `hook` a TapFailure. Taps of an awaited hook may be sync or return a promise (`tap`,
 * `tapPromise`); `tapAsync` is left as it is. Call it before the first tap.
 */
export function named<A extends unknown[]>(hook: AsyncSeriesHook<A>, hookName: string): AsyncSeriesHook<A> {
  hook.intercept({
    name: hookName,
    register: (tap) => {
      if (tap.type === 'async') return tap
      const fn = tap.fn as Tap
      const failed = (failure: unknown): never => {
        throw new TapFailure(tap.name, hookName, failure)
      }
      const wrapped: Tap = (...args) => {
        try {
          const done = fn(...args)
          return tap.type === 'promise' ? Promise.resolve(done).catch(failed) : done
        } catch (failure) {
          return tap.type === 'promise' ? Promise.reject(new TapFailure(tap.name, hookName, failure)) : failed(failure)
        }
      }
      return { ...tap, fn: wrapped }
    },
  })
  return hook
}

/**
 * Makes `hook` one that only informs: a throwing tap is reported and the next one still runs, and `call` never throws.
 * Call it before the first tap, where the hook is made.
 */
export function informing<A extends unknown[]>(
  hook: SyncHook<A>,
  hookName: string,
  report: (failure: TapFailure) => void,
): SyncHook<A> {
  hook.intercept({
    name: hookName,
    register: (tap) => {
      const fn = tap.fn as Tap
      const wrapped: Tap = (...args) => {
        try {
          fn(...args)
        } catch (failure) {
          report(new TapFailure(tap.name, hookName, failure))
        }
      }
      return { ...tap, fn: wrapped }
    },
  })
  return hook
}
