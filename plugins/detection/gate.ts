/**
 * Whether text may go into a terminal now, and what its agent did after it. A prompt that is sent at a question accepts
 * what is preselected in every agent seen, so what cannot be read refuses.
 */
import { delay, type Clock } from '../../kernel/clock.ts'
import { firstOf, orAborted } from '../../platform/signals.ts'
import type { TerminalSnapshot } from '../../protocol/worker/messages.ts'
import {
  sessionFaults as faults,
  type ActivityEvidence,
  type ActivityReader,
  type InputPlan,
  type SessionService,
} from '../sessions/api.ts'
import type { AgentActivity } from '../sessions/types.ts'
import type { Manifests } from './manifests.ts'
import { readPicture, type Readings } from './readings.ts'
import type { Look, Tracker } from './tracker.ts'
import type { Trackers } from './trackers.ts'

/** A change that is pending is settled by then; see decide.ts. */
const SETTLE_MS = 1_300
/** Between two looks at a picture that is half drawn. */
const PARTIAL_MS = 50

export interface GateOptions {
  readonly sessions: SessionService
  readonly trackers: Trackers
  readonly manifests: Manifests
  readonly clock: Clock
  readonly signal: AbortSignal
}

export type Refusal = 'blocked' | 'busy' | { readonly noPrompt: string } | { readonly draft: string }

const DRAWING = 'it is in the middle of drawing'

/** Pure. The agent's own prompt is on the screen, ready for a text, and no question. */
export function showsPrompt({ screen, title, knowsIdleScreen, composer, asked }: Readings): boolean {
  if (asked !== undefined || composer === false) return false
  if (screen !== undefined) return screen.state === 'idle'
  return !knowsIdleScreen && title?.state === 'idle'
}

/** Pure. What is sent while a turn runs goes into the agent's input box; without one, to a screen that is known. */
const takesMore = ({ composer, screen, asked }: Readings): boolean =>
  asked === undefined && (composer ?? (screen?.state === 'working' || screen?.state === 'idle'))

/** Pure. Why text may not be sent at what one look found; undefined: it may. `key`: nothing but the submit key. */
export function refusalOf(look: Look, plan: InputPlan, key = false): Refusal | undefined {
  const { verdict, memory } = look.decision
  const { readings, partial, identity } = look.sight
  if (verdict.state === 'blocked' || memory.shown?.activity === 'blocked') return 'blocked'
  if (plan.composer === 'none') return undefined
  if (readings.asked !== undefined) return 'blocked'
  if (identity !== 'agent') return { noPrompt: look.front.why }
  if (partial) return { noPrompt: DRAWING }
  if (!key && readings.draft !== undefined) return { draft: readings.draft }
  if (verdict.state === 'working') {
    if (plan.whileWorking === 'refuse') return 'busy'
    return takesMore(readings) ? undefined : { noPrompt: 'it works, and its input box is not on the screen' }
  }
  // A text in the box may hide what else tells that the agent rests; the key sends that text.
  if (verdict.state === undefined && !(key && readings.composer === true))
    return { noPrompt: 'nothing known is on its screen' }
  if (memory.shown?.activity === 'working') return { noPrompt: 'its turn may not be over' }
  if (verdict.state === undefined || showsPrompt(readings)) return undefined
  if (!readings.knowsIdleScreen && readings.screen === undefined) return undefined
  return { noPrompt: 'it says that it rests, and its prompt is not on the screen' }
}

/** Pure. Why the key may not follow `text` into the input box; undefined: it may. */
export function keyRefusalOf({ sight, front, decision: { verdict, memory } }: Look, text: string): string | undefined {
  const { readings, partial, identity } = sight
  if (verdict.state === 'blocked' || memory.shown?.activity === 'blocked' || readings.asked !== undefined)
    return 'a question is on its screen'
  if (identity !== 'agent') return front.why
  if (partial) return DRAWING
  if (readings.composer === false) return 'its input box is not on the screen'
  return isGlued(readings.draft ?? '', text) ? 'it came behind another text' : undefined
}

/**
 * Pure. Something came into the box after the look that admitted `text`. Agents break lines and show long texts in short,
 * so that only what ends with the whole text is sure.
 */
function isGlued(draft: string, text: string): boolean {
  const [all, own] = [draft, text].map((it) => it.replace(/\s+/gu, '')) as [string, string]
  return own !== '' && all.length > own.length && all.endsWith(own)
}

export function activityGate(options: GateOptions): ActivityReader {
  const { sessions, trackers, manifests } = options
  return {
    async admit(id, { waits, force, key }, caller) {
      const plan = sessions.inputPlan(id)
      // Text that only goes to a plain program is nobody's question, unless an agent in it said that it asks.
      const { activity, state_source: source } = sessions.get(id) ?? {}
      const isAsked = !force && activity === 'blocked' && source === 'report'
      const cares =
        waits || isAsked || (!force && (plan.composer === 'required' || plan.textPolicy === 'hermes_safe_text'))
      const tracker = trackers.tracker(id)
      if (!cares || sessions.runtime(id) === undefined) return undefined
      // What was sent before may stand there for a moment behind its Enter.
      const needsMore = (it: Look): boolean => isOpen(it) || (!key && !force && it.sight.readings.draft !== undefined)
      const look = tracker && (await settled(id, tracker, options, caller, needsMore))
      if (look === undefined) {
        if (force || plan.composer === 'none' || sessions.runtime(id) === undefined) return undefined
        throw faults.session_input_no_prompt({ id, what: 'no usable detection manifest reads its screen' })
      }
      const refusal = refusalOf(look, plan, key)
      if (refusal === undefined) return look.picture
      if (refusal === 'blocked') {
        const { why } = look.decision.verdict
        const what = why === undefined ? {} : { what: why }
        throw waits ? faults.session_agent_blocked({ id, ...what }) : faults.session_input_blocked({ id, ...what })
      }
      if (force) return look.picture
      if (refusal === 'busy') throw faults.session_input_busy({ id })
      throw 'draft' in refusal
        ? faults.session_input_draft({ id, draft: refusal.draft })
        : faults.session_input_no_prompt({ id, what: refusal.noPrompt })
    },

    async refusesKey(id, text, caller) {
      const tracker = trackers.tracker(id)
      const look = tracker && (await settled(id, tracker, options, caller, () => false))
      return look === undefined ? 'no usable detection manifest reads its screen' : keyRefusalOf(look, text)
    },

    showsPrompt(id, picture: TerminalSnapshot) {
      const session = sessions.get(id)
      const found = session && manifests.of(session.agent, session.agent_base)
      const isWhole = !picture.partial && picture.update_open !== true
      return found !== undefined && isWhole && showsPrompt(readPicture(found.manifest, picture))
    },

    glance: (id) => trackers.glance(id),

    boundary: () => trackers.revision,

    after: (id, boundary, until, signal) => firstAfter(options, id, boundary, until, signal),

    accepted: (id) => trackers.tracker(id)?.accepted(),
  }
}

/** Evidence does not agree with what is published yet. */
const isOpen = ({ decision: { memory, verdict } }: Look): boolean =>
  memory.pending !== undefined && verdict.state !== 'blocked'

/**
 * A look at a whole picture that needs no other, or the last one before time is up. Rejects with the reason of either
 * signal.
 */
async function settled(
  id: string,
  tracker: Tracker,
  { sessions, clock, signal }: GateOptions,
  caller: AbortSignal,
  needsMore: (look: Look) => boolean,
): Promise<Look | undefined> {
  using either = firstOf(signal, caller)
  const until = clock.monotonic() + SETTLE_MS
  for (;;) {
    // What was printed and is not in the picture is held back: an update that is not complete. Older workers do not say so.
    const printed = sessions.progress(id)?.outputOffset ?? 0
    const found = await orAborted(tracker.look(), either.signal)
    if (found === undefined) return undefined
    const partial = found.sight.partial || found.picture.update_open === true || found.picture.watermark < printed
    const look = { ...found, sight: { ...found.sight, partial } }
    const left = until - clock.monotonic()
    if (left <= 0 || !(partial || needsMore(look))) return look
    await delay(clock, Math.min(partial ? PARTIAL_MS : (look.decision.againMs ?? left), left), either.signal)
  }
}

function firstAfter(
  { trackers }: GateOptions,
  id: string,
  boundary: bigint,
  until: readonly AgentActivity[],
  signal: AbortSignal,
): Promise<ActivityEvidence> {
  return new Promise((resolve, reject) => {
    const given: { wait?: Disposable } = {}
    const end = (): void => {
      signal.removeEventListener('abort', abort)
      given.wait?.[Symbol.dispose]()
    }
    const abort = (): void => {
      end()
      reject(signal.reason as Error)
    }
    if (signal.aborted) return abort()
    signal.addEventListener('abort', abort, { once: true })
    given.wait = trackers.wait(id, boundary, {
      until,
      resolve: (evidence) => {
        end()
        resolve(evidence)
      },
      left: (how) => {
        end()
        reject(how === 'ended' ? faults.session_not_running({ id }) : faults.session_runtime_changed({ id }))
      },
    })
  })
}
