/**
 * Whether text may go into a terminal now, and what its agent did after it. A prompt that is sent at a question accepts
 * what is preselected in every agent seen, so what cannot be read refuses.
 */
import { delay, type Clock } from '../../kernel/clock.ts'
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

export interface GateOptions {
  readonly sessions: SessionService
  readonly trackers: Trackers
  readonly manifests: Manifests
  readonly clock: Clock
  readonly signal: AbortSignal
}

export type Refusal = 'blocked' | 'busy' | { readonly noPrompt: string }

/** Pure. The agent's own prompt is on the screen, and no question. */
export function showsComposer({ screen, title, knowsIdleScreen }: Readings): boolean {
  if (screen !== undefined) return screen.state === 'idle'
  return !knowsIdleScreen && title?.state === 'idle'
}

/** Pure. Why text may not be sent at what one look found; undefined: it may. */
export function refusalOf(look: Look, plan: InputPlan): Refusal | undefined {
  const { verdict, memory } = look.decision
  if (verdict.state === 'blocked' || memory.shown?.activity === 'blocked') return 'blocked'
  if (plan.composer === 'none') return undefined
  if (look.sight.identity !== 'agent') return { noPrompt: look.front.why }
  if (verdict.state === 'working') return plan.whileWorking === 'refuse' ? 'busy' : undefined
  if (verdict.state === undefined) return { noPrompt: 'nothing known is on its screen' }
  if (memory.shown?.activity === 'working') return { noPrompt: 'its turn may not be over' }
  if (showsComposer(look.sight.readings)) return undefined
  if (!look.sight.readings.knowsIdleScreen && look.sight.readings.screen === undefined) return undefined
  return { noPrompt: 'it says that it rests, and its prompt is not on the screen' }
}

export function activityGate(options: GateOptions): ActivityReader {
  const { sessions, trackers, manifests } = options
  return {
    async admit(id, { waits, force }) {
      const plan = sessions.inputPlan(id)
      // Text that only goes to a plain program is nobody's question.
      const cares = waits || (!force && (plan.composer === 'required' || plan.textPolicy === 'hermes_safe_text'))
      const tracker = trackers.tracker(id)
      if (!cares || sessions.runtime(id) === undefined) return
      const look = tracker && (await settled(tracker, options))
      if (look === undefined) {
        if (force || plan.composer === 'none' || sessions.runtime(id) === undefined) return
        throw faults.session_input_no_prompt({ id, what: 'no usable detection manifest reads its screen' })
      }
      const refusal = refusalOf(look, plan)
      if (refusal === undefined) return
      if (refusal === 'blocked') {
        const { why } = look.decision.verdict
        const what = why === undefined ? {} : { what: why }
        throw waits ? faults.session_agent_blocked({ id, ...what }) : faults.session_input_blocked({ id, ...what })
      }
      if (force) return
      throw refusal === 'busy'
        ? faults.session_input_busy({ id })
        : faults.session_input_no_prompt({ id, what: refusal.noPrompt })
    },

    showsPrompt(id, picture: TerminalSnapshot) {
      const session = sessions.get(id)
      const found = session && manifests.of(session.agent, session.agent_base)
      return found !== undefined && showsComposer(readPicture(found.manifest, picture))
    },

    boundary: () => trackers.revision,

    after: (id, boundary, until, signal) => firstAfter(options, id, boundary, until, signal),

    accepted: (id) => trackers.tracker(id)?.accepted(),
  }
}

/** A look whose evidence agrees with what is published, or the last one before time is up. */
async function settled(tracker: Tracker, { clock, signal }: GateOptions): Promise<Look | undefined> {
  const until = clock.monotonic() + SETTLE_MS
  for (;;) {
    const look = await tracker.look()
    if (look === undefined) return undefined
    const { verdict, memory, againMs } = look.decision
    const isOpen = memory.pending !== undefined && verdict.state !== 'blocked'
    const left = until - clock.monotonic()
    if (!isOpen || left <= 0) return look
    await delay(clock, Math.min(againMs ?? left, left), signal)
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
