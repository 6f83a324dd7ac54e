/**
 * Writing to a session's terminal: one gate per session, typed outcomes, and the wait for what the program does with it.
 * Invariants
 *  1. Nothing is written for a call that was refused, gave up, or ran out of time before its turn.
 *  2. What was sent is seen through: the gate stays closed until the worker answered, whatever becomes of the caller.
 *  3. A wait counts only evidence observed after the boundary taken right before the write.
 *  4. Text is framed by what the picture that admitted it shows.
 */
import { firstOf, orAborted } from '../../platform/signals.ts'
import { Fault } from '../../protocol/fault.ts'
import { MAX_WAIT_MS } from '../../protocol/limits.ts'
import type { ActivityEvidence, ActivityReader } from './api.ts'
import { faults } from './faults.ts'
import type { Host } from './host.ts'
import { inputPlanOf } from './input-rules.ts'
import { checkText, longestLineBytes, MAX_COOKED_LINE_BYTES } from './input-text.ts'
import { closePaste, hasOpenPaste, writeThenSubmit, writeWhole } from './input-write.ts'
import { snapshotOf } from './observe.ts'
import type { Session } from './session.ts'
import type { AgentActivity } from './types.ts'

export interface InputRequest {
  readonly text: string
  /** The caller takes the risk of what is on the screen. */
  readonly force?: boolean
  /** Refused unless the program takes pastes now. */
  readonly paste?: boolean
}

export interface InputWait {
  readonly until: readonly AgentActivity[]
  readonly timeoutMs: number
}

const DEFAULT_UNTIL: readonly AgentActivity[] = ['idle', 'blocked']

/** Pure. The wait that was asked for, deduplicated in order. Throws session_input_invalid_wait. */
export function inputWait(wait: { until?: readonly AgentActivity[] | undefined; timeout_ms: number }): InputWait {
  const { until = DEFAULT_UNTIL, timeout_ms } = wait
  if (!Number.isSafeInteger(timeout_ms) || timeout_ms < 1 || timeout_ms > MAX_WAIT_MS)
    throw faults.session_input_invalid_wait({ problem: `timeout_ms must be between 1 and ${MAX_WAIT_MS}` })
  if (until.length === 0) throw faults.session_input_invalid_wait({ problem: 'until names no activity' })
  return { until: [...new Set(until)], timeoutMs: timeout_ms }
}

/** Resolves once the terminal took body and submit key. Faults as session.input. `signal` gives up before the write. */
export async function sendInput(
  host: Host,
  session: Session,
  request: InputRequest,
  signal: AbortSignal,
): Promise<void> {
  checkText(request.text, session.record.launch.input.text_policy)
  session.running()
  await inTurn(session, request.text, signal, () => admitAndWrite(host, session, request, signal, false))
}

/** As `sendInput`, then waits for an activity the program shows after it. One deadline covers everything. */
export async function sendAndWait(
  host: Host,
  session: Session,
  request: InputRequest,
  wait: InputWait,
  caller: AbortSignal,
): Promise<ActivityEvidence> {
  const { id } = session
  checkText(request.text, session.record.launch.input.text_policy)
  session.running()
  const { activity } = host
  if (activity === undefined)
    throw faults.session_input_wait_unsupported({ id, why: 'this daemon does not detect what agents do' })
  if (session.record.launch.input.submit_delay_ms > 0)
    throw faults.session_input_wait_unsupported({ id, why: 'its runtime needs a pause before the submit key' })
  using _place = host.waiters.enter(session)
  const deadline = new AbortController()
  using _timer = host.kernel.clock.after(wait.timeoutMs, () => deadline.abort(faults.session_input_timeout({ id })))
  using either = firstOf(caller, deadline.signal)
  const { signal } = either
  await admit(host, session, request, signal, true, false)
  // The write may outlive this call (2): its end closes the gate, the call itself ends with the deadline.
  const sent = inTurn(session, request.text, signal, () => admitAndWrite(host, session, request, signal, true))
  const boundary = await orAborted(sent, signal)
  return await activity.after(id, boundary, wait.until, signal)
}

/** Runs `write` after every earlier input of the session, or not at all when `signal` aborts before (1). */
function inTurn<T>(session: Session, text: string, signal: AbortSignal, write: () => Promise<T>): Promise<T> {
  return session.enqueueInput(() => {
    signal.throwIfAborted()
    return write()
  }, Buffer.byteLength(text))
}

/** Answers the boundary behind which evidence of what the program did with the input lies. */
async function admitAndWrite(
  host: Host,
  session: Session,
  request: InputRequest,
  signal: AbortSignal,
  waits: boolean,
): Promise<bigint> {
  const { text, force = false, paste = false } = request
  const rules = inputPlanOf(session.record.launch.input)
  if (!force) refuseCookedLine(host, session, text)
  const wantsPaste = (paste || rules.bracketedPaste) && text !== ''
  let programPastes = await admit(host, session, request, signal, waits, wantsPaste || hasOpenPaste(session))
  if (hasOpenPaste(session)) {
    await closePaste(host, session, programPastes, rules.submitDelayMs, signal)
    programPastes = await admit(host, session, request, signal, waits, wantsPaste)
  }
  if (paste && text !== '' && !programPastes)
    throw faults.session_input_rejected({
      problem: 'the program does not take pastes now, so each line break would be an Enter of its own',
    })
  signal.throwIfAborted() // 1
  session.running()
  const { activity } = host
  const boundary = boundaryOf(activity, session.id) // 3
  const framed = wantsPaste && programPastes
  if (activity !== undefined && rules.composer === 'required' && !force && text !== '')
    await writeThenSubmit(host, session, text, rules, framed, activity)
  else await writeWhole(host, session, text, rules, framed)
  activity?.accepted(session.id)
  return boundary
}

/**
 * Admits the input at what the terminal shows now. Answers whether its program takes pastes on that very picture;
 * false where nobody wants to know (4).
 */
async function admit(
  host: Host,
  session: Session,
  { text, force = false }: InputRequest,
  signal: AbortSignal,
  waits: boolean,
  wantsPaste: boolean,
): Promise<boolean> {
  try {
    const admission = { waits, force, key: text === '' }
    const picture = await host.activity?.admit(session.id, admission, signal)
    if (!wantsPaste) return false
    return (picture ?? (await orAborted(snapshotOf(session), signal))).bracketed_paste
  } catch (failure) {
    throw unreadable(session, failure)
  }
}

/** A terminal that cannot be looked at takes no input: what its session is, or a worker that does not answer. */
function unreadable(session: Session, failure: unknown): unknown {
  if (!(failure instanceof Fault) || failure.code !== 'session_terminal_unavailable') return failure
  try {
    session.running()
  } catch (state) {
    return state
  }
  return faults.session_runtime_reconnecting({ id: session.id }, failure)
}

const boundaryOf = (activity: ActivityReader | undefined, id: string): bigint => activity?.boundary(id) ?? 0n

/**
 * The kernel keeps at most a line of a terminal in line mode and drops the rest in silence; sending it in pieces does
 * not help (FC-30b8).
 */
function refuseCookedLine(host: Host, session: Session, text: string): void {
  const longest = longestLineBytes(text)
  if (longest <= MAX_COOKED_LINE_BYTES || !host.lineMode(session.info.pid)) return
  throw faults.session_input_rejected({
    problem: `a line of ${longest} bytes is over the ${MAX_COOKED_LINE_BYTES} a terminal in line mode keeps; the rest would be lost`,
  })
}
