/**
 * What goes into the terminal once an input is admitted: the body, a pause, and the submit key.
 * Invariants
 *  1. Where a runtime says how its agent is typed at (composer), the key follows only after a new look: what the agent
 *     shows may have changed since the text was admitted, and the key answers whatever is on the screen.
 *  2. A paste that was begun and not finished is closed before anything else is written.
 */
import { ulid } from 'ulid'
import { delay } from '../../kernel/clock.ts'
import type { ActivityReader, InputPlan } from './api.ts'
import { faults } from './faults.ts'
import type { Host } from './host.ts'
import { bodyFragment, inputFragments, PASTE_END, SUBMIT, type Fragment } from './input-text.ts'
import type { Session } from './session.ts'
import { workerFault } from './worker-faults.ts'

/** A write is answered by its own stall bound; this is for a worker that does not answer at all. */
const ANSWER_MS = 15_000

/** Sessions whose program was left inside a paste of ours. */
const openPastes = new WeakSet<Session>()

export const hasOpenPaste = (session: Session): boolean => openPastes.has(session)

/**
 * Ends the paste that was left open, where the program still takes pastes, and gives it the runtime's pause to take it
 * in. Rejects as a write, or with the signal's reason.
 */
export async function closePaste(
  host: Host,
  session: Session,
  programPastes: boolean,
  pauseMs: number,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted()
  if (programPastes) {
    await write(host, session, [{ bytes: Buffer.from(PASTE_END).toString('base64'), delay_after_ms: 0 }])
    openPastes.delete(session)
    await delay(host.kernel.clock, pauseMs, signal)
  } else openPastes.delete(session)
}

/** Body and key as one plan of the worker. Rejects with the faults of a write. */
export async function writeWhole(
  host: Host,
  session: Session,
  text: string,
  rules: InputPlan,
  framed: boolean,
): Promise<void> {
  await writeBody(host, session, inputFragments(text, { ...rules, bracketedPaste: framed }, framed), framed)
}

/**
 * The body, the pause and, if the agent's input box is what is there then, the key. Rejects with the faults of a write,
 * session_input_unsubmitted, or what an ended or replaced runtime is.
 */
export async function writeThenSubmit(
  host: Host,
  session: Session,
  text: string,
  rules: InputPlan,
  framed: boolean,
  activity: ActivityReader,
): Promise<void> {
  const { id } = session
  const runtime = session.record.worker.runtime_id
  await writeBody(host, session, [bodyFragment(text, framed, 0)], framed)
  const why = await keyRefusal(host, session, text, rules.submitDelayMs, activity) // 1
  if (session.removed || session.phase === 'ended' || session.phase === 'lost') session.running()
  if (session.record.worker.runtime_id !== runtime) throw faults.session_runtime_changed({ id })
  if (why !== undefined) throw faults.session_input_unsubmitted({ id, why })
  await write(host, session, [SUBMIT])
}

/** An agent on a busy machine shows a paste late, and takes a key that comes before for a part of it. */
const RESTED_MS = 150
const LOOK_MS = 50
/** An agent that paints all the time, as one that works, is not waited for longer. */
const MOST_REST_MS = 1_500

/** Resolves `pauseMs` after the body, and once what it made the program print has come to rest. */
async function takenIn(host: Host, session: Session, pauseMs: number, signal: AbortSignal): Promise<void> {
  const { clock } = host.kernel
  const began = clock.monotonic()
  let printed = { offset: session.progress.outputOffset, at: began }
  for (;;) {
    const now = clock.monotonic()
    const { outputOffset: offset } = session.progress
    if (offset !== printed.offset) printed = { offset, at: now }
    const isOver = now - printed.at >= RESTED_MS || now - began >= pauseMs + MOST_REST_MS
    if (now - began >= pauseMs && isOver) return
    await delay(clock, LOOK_MS, signal)
  }
}

/** The text stands there: only the end of the daemon cuts the pause short. */
async function keyRefusal(
  host: Host,
  session: Session,
  text: string,
  pauseMs: number,
  activity: ActivityReader,
): Promise<string | undefined> {
  const { signal } = host.scope
  try {
    await takenIn(host, session, pauseMs, signal)
    const why = await activity.refusesKey(session.id, text, signal)
    return why ?? (session.link?.alive === true ? undefined : 'the connection to its terminal is lost')
  } catch {
    return signal.aborted ? 'the daemon stops' : 'its terminal cannot be read'
  }
}

async function writeBody(host: Host, session: Session, fragments: readonly Fragment[], framed: boolean): Promise<void> {
  try {
    await write(host, session, fragments)
  } catch (failure) {
    if (framed) openPastes.add(session) // 2
    throw failure
  }
}

async function write(host: Host, session: Session, fragments: readonly Fragment[]): Promise<void> {
  const link = session.running()
  const pausesMs = fragments.reduce((sum, it) => sum + it.delay_after_ms, 0)
  const deadlineMs = 2 * host.kernel.config.input.writeStallTimeoutMs + pausesMs + ANSWER_MS
  const plan = { write_id: `w-${ulid()}`, fragments: [...fragments] }
  try {
    await link.request('write_plan', { scope: session.scopeOf(link), plan }, deadlineMs)
  } catch (failure) {
    throw workerFault(session.id, failure, { write: true, invalidState: 'session_not_running' })
  }
}
