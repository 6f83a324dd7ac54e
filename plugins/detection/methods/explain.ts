/** session.explain: one look, with everything that was weighed. Terminal text is not part of it. */
import type { Clock } from '../../../kernel/clock.ts'
import type { Handler } from '../../../kernel/plugin.ts'
import { sessionFaults, type SessionService } from '../../sessions/api.ts'
import type contract from '../contract.ts'
import type { SessionExplanation } from '../contract.ts'
import { slownessOf, type AgentManifest } from '../manifests.ts'
import type { Look, Tracker } from '../tracker.ts'
import type { Trackers } from '../trackers.ts'

export interface ExplainOptions {
  readonly sessions: Pick<SessionService, 'get'>
  readonly trackers: Trackers
  readonly clock: Clock
}

/** Throws session_not_found and what a look at the terminal throws. A session that does not run is explained as such. */
export const explain =
  ({ sessions, trackers, clock }: ExplainOptions): Handler<(typeof contract.methods)['session.explain']> =>
  async ({ session_id: id }) => {
    const session = sessions.get(id)
    if (session === undefined) throw sessionFaults.session_not_found({ id })
    const tracker = trackers.tracker(id)
    const look = await tracker?.look()
    if (tracker === undefined || look === undefined) {
      const why =
        tracker === undefined || trackers.tracker(id) !== tracker
          ? 'no program of the session can be looked at'
          : `no usable detection manifest reads the screen of ${session.agent}`
      return { session_id: id, sources: [], identity: { in_front: 'unknown', why }, transitions: past(tracker, clock) }
    }
    return {
      session_id: id,
      ...shownOf(id, tracker, trackers, clock),
      ...lookOf(look, clock),
      transitions: past(tracker, clock),
    }
  }

function shownOf(
  id: string,
  { memory }: Tracker,
  trackers: Trackers,
  clock: Clock,
): Pick<SessionExplanation, 'activity' | 'source' | 'since' | 'rule' | 'revision'> {
  const { shown } = memory
  const evidence = trackers.current(id)
  if (shown === undefined || evidence === undefined) return {}
  return {
    activity: shown.activity,
    source: shown.source,
    since: wallTime(shown.at, clock),
    ...(shown.rule === undefined ? {} : { rule: { ...shown.rule } }),
    revision: String(evidence.revision),
  }
}

function lookOf(
  { sight, decision, manifest, front }: Look,
  clock: Clock,
): Pick<SessionExplanation, 'pending' | 'sources' | 'identity' | 'manifest'> {
  const age = (at: number): number => Math.max(0, Math.round(clock.monotonic() - at))
  const { pending } = decision.memory
  return {
    ...(pending === undefined
      ? {}
      : {
          pending: {
            ...(pending.to === undefined ? {} : { activity: pending.to }),
            for_ms: Math.round(sight.now - pending.since),
          },
        }),
    sources: decision.verdict.voices.map(({ source, says, at, counted, why, rule, region }) => ({
      source,
      says,
      ...(at === undefined ? {} : { age_ms: age(at) }),
      counted,
      why,
      ...(rule === undefined ? {} : { rule }),
      ...(region === undefined ? {} : { region }),
    })),
    identity: {
      in_front: front.identity,
      why: front.why,
      ...(front.group === undefined ? {} : { foreground_group: front.group }),
    },
    manifest: {
      file: manifest.file,
      revision: manifest.revision,
      ...problemOf(manifest),
    },
  }
}

function problemOf({ problem, manifest }: AgentManifest): { readonly problem?: string } {
  const told = [problem, slownessOf(manifest)].filter((it) => it !== undefined)
  return told.length === 0 ? {} : { problem: told.join('; ') }
}

const past = (tracker: Tracker | undefined, clock: Clock): SessionExplanation['transitions'] =>
  (tracker?.transitions ?? []).map(({ at, activity, source, rule }) => ({
    ...(activity === undefined ? {} : { activity }),
    source,
    at: wallTime(at, clock),
    ...(rule === undefined ? {} : { rule }),
  }))

/** Wall time of a monotonic one, as far as the clocks went together since. */
const wallTime = (at: number, clock: Clock): string =>
  new Date(Math.round(clock.now() - (clock.monotonic() - at))).toISOString()
