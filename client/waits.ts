/** Calls that only wait, over daemons that go: each is asked of the next one for the rest of its time. */
import type { Caller, RequestOptions } from './caller.ts'
import { monotonicMs } from './clock.ts'
import type { MethodParams, MethodResult } from './methods.ts'
import { Lasting, type LastingOptions } from './reconnect.ts'

/** Methods that wait and change nothing. */
export type WaitingMethod = 'session.wait' | 'session.wait_turn' | 'session.output'
export type WaitOptions = LastingOptions & Pick<RequestOptions, 'timeoutMs'>

interface Request {
  readonly after?: string | undefined
  readonly timeout_ms?: number | undefined
  readonly wait_ms?: number | undefined
}

/**
 * Asks `method`, and the next daemon where the one that was asked goes. The time the request names is the bound of the
 * whole; a turn wait without one waits as long as the daemon that answers it says. Throws as the call does, and
 * daemon_unreachable when no daemon came back.
 */
export async function waitFor<M extends WaitingMethod>(
  client: Caller,
  method: M,
  params: MethodParams<M>,
  options: WaitOptions = {},
): Promise<MethodResult<M>> {
  const { signal } = options
  const lasting = new Lasting(client, options)
  const startMs = monotonicMs()
  const request: Request = params
  const { timeout_ms: boundMs = request.wait_ms ?? Infinity } = request
  const ask = (asked: Request): Promise<unknown> => {
    const { after } = asked
    const place = after === undefined ? undefined : (): string => wayOn(after)
    let again = false
    return lasting.run(
      () => {
        const sent = again ? rest(asked, monotonicMs() - startMs) : asked
        again = true
        return client.callAny(method, sent, { signal, timeoutMs: options.timeoutMs })
      },
      { left: () => boundMs - (monotonicMs() - startMs), place },
    )
  }
  if (method !== 'session.wait_turn' || request.after !== undefined) return (await ask(request)) as MethodResult<M>
  // Without a cursor only what comes after the call counts: the cursor of now says which that is, to any daemon.
  const now = (await ask({ ...request, timeout_ms: 1 })) as MethodResult<'session.wait_turn'>
  return (
    now.reason === 'timeout' && boundMs > 1 ? await ask({ ...request, after: now.cursor }) : now
  ) as MethodResult<M>
}

const wayOn = (cursor: string): string => `pohunek daemon start --detach; a wait --after ${cursor} misses nothing`

/** Pure. The request with what is left of its time: 1 ms at least, which still answers what is there. */
export function rest(request: Request, elapsedMs: number): Request {
  const left = (ms: number): number => Math.max(1, Math.ceil(ms - elapsedMs))
  const { timeout_ms, wait_ms } = request
  return {
    ...request,
    ...(timeout_ms === undefined ? {} : { timeout_ms: left(timeout_ms) }),
    ...(wait_ms === undefined ? {} : { wait_ms: left(wait_ms) }),
  }
}
