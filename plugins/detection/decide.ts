/**
 * From looks to published activity: what is believed only once it lasts, and when to look again. Pure; times are
 * Clock.monotonic milliseconds.
 * Invariants
 *  1. Idle and blocked are published only with positive evidence of this very look.
 *  2. Idle is published only after looks that all said so and saw no output between them, or after the cap.
 *  3. Everything that is pending has a time for its next look: nothing waits for output or for a client.
 *  4. An agent that rests costs no look.
 */
import type { AgentActivity, StateSource } from '../sessions/types.ts'
import { NO_TRAIL, remember, weigh, type Sight, type Trail, type Verdict } from './weigh.ts'

const LOOK_MS = 100
/** Looks after the first that have to agree. */
const IDLE_LOOKS = 3
/** An idle screen beside output that never rests (a clock, a cursor drawn by hand) is believed after this. */
const IDLE_CAP_MS = 700
const BLOCKED_MS = 100
/** A question is not answered by a flicker of something else. */
const UNBLOCKED_MS = 500
const ABSENT_MS = 1_000
/** Output of a working agent whose screen no rule knows keeps it working for this long. */
const OUTPUT_MS = 1_500
/** Accepted input and output without a state between them: perhaps a turn too quick to be seen, unless it starts by then. */
const QUICK_TURN_MS = 3_000
/** Timers may fire a little early against another clock. */
const SLACK_MS = 5

export interface Shown {
  readonly activity: AgentActivity
  readonly source: StateSource
  /** Published at. */
  readonly at: number
  readonly rule: { readonly id: string; readonly region: string } | undefined
}

interface Pending {
  readonly to: AgentActivity | undefined
  readonly since: number
  /** Looks after the first that agreed and saw no output. */
  readonly looks: number
  /** Looks after the first, output or not. */
  readonly seen: number
  readonly countedAt: number
  readonly watermark: number
}

export interface Memory {
  readonly trail: Trail
  /** What is published, undefined: nothing. */
  readonly shown: Shown | undefined
  readonly pending: Pending | undefined
  /** Reports of working so far; undefined before the first look. */
  readonly workingReports: number | undefined
  /** Input reached the terminal and no turn was seen since. */
  readonly accepted: { readonly at: number; readonly watermark: number } | undefined
}

export const NO_MEMORY: Memory = {
  trail: NO_TRAIL,
  shown: undefined,
  pending: undefined,
  workingReports: undefined,
  accepted: undefined,
}

export interface Publication {
  readonly activity: AgentActivity | undefined
  readonly source: StateSource
  readonly fresh: boolean
  readonly why?: string
  /** Of the same again: input was taken and something was printed, which may be the echo; no turn is proven. */
  readonly unproven?: true
  /** What was shown was a question, and keys were sent to it. */
  readonly answered?: true
  /** Of blocked: when the agent reported that it asks, where it does; each question has a report of its own. */
  readonly askedAt?: number
  /** Of idle: when the agent reported that what it did failed. */
  readonly failedAt?: number
}

export interface Decision {
  readonly memory: Memory
  readonly verdict: Verdict
  /** In order; usually none. */
  readonly publish: readonly Publication[]
  /** Look again after so many milliseconds even if nothing happens; undefined: rest. */
  readonly againMs: number | undefined
}

/** Pure. `seen` is one look, not earlier than the one before. */
export function decide(before: Memory, seen: Sight): Decision {
  // A program that stays inside an update it never ends has drawn what there is.
  const sight = { ...seen, partial: seen.partial && seen.watermark !== before.trail.watermark }
  const trail = remember(before.trail, sight)
  const verdict = weigh(trail, sight)
  const reports = sight.evidence?.working_reports
  const turns = reports !== undefined && before.workingReports !== undefined ? reports - before.workingReports : 0
  const known: Memory = { ...before, trail, workingReports: reports ?? before.workingReports }
  const settled = settle(known, verdict, sight)
  return quickTurns(before, nextQuestion(before, settled, verdict, sight, turns), verdict, sight, turns)
}

/** Pure. Input reached the terminal at `now`. */
export const withAccepted = (memory: Memory, now: number): Memory => ({
  ...memory,
  accepted: { at: now, watermark: memory.trail.watermark },
})

/** Pure. The session's terminal cannot be seen any more: what was shown is taken back at once. */
export const unseen = (memory: Memory): { memory: Memory; publish: readonly Publication[] } => ({
  memory: { ...NO_MEMORY, workingReports: memory.workingReports },
  publish: memory.shown === undefined ? [] : [{ activity: undefined, source: 'process', fresh: true }],
})

function settle(memory: Memory, verdict: Verdict, sight: Sight): Decision {
  const { now } = sight
  const { shown } = memory
  const rest = (againAt: number, pending?: Pending): Decision => ({
    memory: { ...memory, pending },
    verdict,
    publish: [],
    againMs: wait(Math.min(againAt, verdict.turnsAt), now),
  })
  // Half a picture proves neither rest nor absence; the other half follows or the update's bound ends it.
  if (sight.partial && verdict.source !== 'report' && verdict.state !== 'working' && verdict.state !== 'blocked')
    return rest(now + 2 * LOOK_MS, memory.pending)
  const to = verdict.state
  if (to === shown?.activity) return rest(Infinity)
  const pending = continued(memory.pending, to, sight)
  const dueAt = dueOf(pending, shown, verdict, sight, memory.trail)
  if (now + SLACK_MS < dueAt) return rest(nextLook(pending, dueAt, now), pending)
  return {
    memory: {
      ...memory,
      pending: undefined,
      accepted: undefined,
      shown:
        to === undefined
          ? undefined
          : {
              activity: to,
              source: verdict.source,
              at: now,
              rule: verdict.rule && { id: verdict.rule.rule, region: verdict.rule.region },
            },
    },
    verdict,
    publish: [
      {
        activity: to,
        source: verdict.source,
        fresh: true,
        ...(isAnswered(shown, sight) ? { answered: true as const } : {}),
        ...questionOf(verdict),
        ...failure(shown, verdict, sight),
      },
    ],
    againMs: wait(verdict.turnsAt, now),
  }
}

/** The pending change with this look counted, or a new one: other evidence starts over. */
function continued(before: Pending | undefined, to: AgentActivity | undefined, { now, watermark }: Sight): Pending {
  if (before === undefined || before.to !== to) return { to, since: now, looks: 0, seen: 0, countedAt: now, watermark }
  const seen = before.seen + 1
  if (watermark !== before.watermark) return { ...before, looks: 0, seen, countedAt: now, watermark } // 2
  if (now + SLACK_MS < before.countedAt + LOOK_MS) return { ...before, seen }
  return { ...before, looks: before.looks + 1, seen, countedAt: now }
}

/** When the pending change is believed if every look until then agrees. */
function dueOf(pending: Pending, shown: Shown | undefined, verdict: Verdict, sight: Sight, trail: Trail): number {
  const { since } = pending
  switch (pending.to) {
    case 'working': {
      if (shown?.activity !== 'blocked') return since
      // What the screen said while a report of the question still stood counts.
      return (verdict.source === 'screen' ? (trail.screenRun?.since ?? since) : since) + UNBLOCKED_MS
    }
    case 'blocked':
      return since + BLOCKED_MS
    case 'idle': {
      if (pending.looks >= IDLE_LOOKS) return sight.now
      const still = pending.countedAt + (IDLE_LOOKS - pending.looks) * LOOK_MS
      // A cap reached by one late look has not seen what was between.
      return pending.seen >= IDLE_LOOKS ? Math.min(still, since + IDLE_CAP_MS) : still
    }
    case undefined: {
      // An agent that rested is gone as soon as somebody else is in front: nobody may take it for one that waits.
      if (sight.identity === 'other' && shown?.activity === 'idle') return since
      const keepsWorking = shown?.activity === 'working' && sight.identity === 'agent'
      return Math.max(since + ABSENT_MS, keepsWorking ? trail.outputAt + OUTPUT_MS : -Infinity)
    }
  }
}

const nextLook = (pending: Pending, dueAt: number, now: number): number =>
  pending.to === 'idle' ? Math.min(dueAt, now + LOOK_MS) : dueAt

/** Keys were sent to the question that is shown. */
const isAnswered = (shown: Shown | undefined, { evidence }: Sight): boolean =>
  shown?.activity === 'blocked' && evidence?.keys_at !== undefined && evidence.keys_at > shown.at

/**
 * A question that was answered, and another one after work too short to be shown: the agent said that it worked, or its
 * screen showed something else for a moment.
 */
function nextQuestion(before: Memory, now: Decision, verdict: Verdict, sight: Sight, turns: number): Decision {
  const { memory } = now
  const stays = memory.shown?.activity === 'blocked' && before.shown === memory.shown && verdict.state === 'blocked'
  const worked = turns > 0 || before.pending?.to === 'working' || before.pending?.to === 'idle'
  if (!stays || !worked || !isAnswered(before.shown, sight)) return now
  // The answered one may stand there for a moment longer: the work is counted once there is another picture or report.
  const { report } = sight.evidence ?? {}
  if (report?.state === 'working' && (memory.trail.screenRun?.since ?? Infinity) <= report.at)
    return { ...now, memory: { ...memory, workingReports: before.workingReports } }
  return {
    ...now,
    memory: { ...memory, shown: memory.shown && { ...memory.shown, at: sight.now } },
    publish: [
      {
        activity: 'blocked',
        source: verdict.source,
        fresh: false,
        answered: true,
        ...questionOf(verdict),
      },
    ],
  }
}

/**
 * Turns that passed between two looks: the revision advances although the same is shown. Whoever waits for the state
 * behind an input is answered; only reports prove a turn, as what is printed may be the input itself.
 */
function quickTurns(before: Memory, now: Decision, verdict: Verdict, sight: Sight, turns: number): Decision {
  const { memory } = now
  const isIdle = memory.shown?.activity === 'idle' && before.shown?.activity === 'idle' && verdict.state === 'idle'
  if (!isIdle) return now
  if (turns > 0) {
    return {
      ...now,
      memory: { ...memory, accepted: undefined, shown: memory.shown && { ...memory.shown, at: sight.now } },
      publish: [
        { activity: 'working', source: 'report', fresh: true },
        { activity: 'idle', source: verdict.source, fresh: true, ...failure(before.shown, verdict, sight) },
      ],
    }
  }
  const { accepted } = memory
  if (accepted === undefined) return now
  const dueAt = accepted.at + QUICK_TURN_MS
  if (sight.now + SLACK_MS < dueAt)
    return { ...now, againMs: Math.min(now.againMs ?? Infinity, wait(dueAt, sight.now) ?? Infinity) }
  const passed = sight.watermark > accepted.watermark
  return {
    ...now,
    memory: { ...memory, accepted: undefined },
    publish: passed ? [{ activity: 'idle', source: verdict.source, fresh: false, unproven: true }] : [],
  }
}

const questionOf = ({ why, askedAt, state }: Verdict): Pick<Publication, 'why' | 'askedAt'> => ({
  ...(why === undefined ? {} : { why }),
  ...(askedAt === undefined || state !== 'blocked' ? {} : { askedAt }),
})

/** Only what the agent itself says now, and said since `shown` was: a line on a screen may be quoted in an answer. */
function failure(shown: Shown | undefined, verdict: Verdict, { evidence }: Sight): { readonly failedAt?: number } {
  const report = verdict.source === 'report' ? evidence?.report : undefined
  return report?.state === 'error' && report.at > (shown?.at ?? -Infinity) ? { failedAt: report.at } : {}
}

/** Milliseconds until `at`; undefined for never. */
const wait = (at: number, now: number): number | undefined => (at === Infinity ? undefined : Math.max(1, at - now))
