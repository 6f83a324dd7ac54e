/**
 * What the evidence of one look means, without memory of what was published. Pure; times are Clock.monotonic
 * milliseconds.
 * Order
 *  0. Somebody else in front of the terminal: nothing is known of the agent.
 *  1. A question on the screen: blocked, whatever else is said.
 *  2. The agent's own report (OSC 7501), unless newer contrary evidence lasts.
 *  3. A title or progress that says working or blocked, while it is fresh; where it is stale, the screen decides.
 *  Words of work over a screen that nothing is known of count only while something moves.
 *  4. The screen.
 *  5. Nothing positive: undefined. Never idle.
 */
import type { StateReport, TerminalEvidence } from '../../protocol/worker/messages.ts'
import type { AgentActivity, StateSource } from '../sessions/types.ts'
import type { Reading, Readings } from './readings.ts'

/** A spinner in a title turns at least once a second in every agent seen; three seconds without is no spinner. */
export const TITLE_FRESH_MS = 3_000
/** A report that the screen contradicts for so long is stale. Shorter would trust a screen drawn in pieces. */
export const CONTRARY_MS = 3_000
/** As above where believing the report would hide a question. */
export const CONTRARY_BLOCKED_MS = 1_000
/** As above where believing the report would call a working agent idle, or the question was seen and is gone. */
export const CONTRARY_SURE_MS = 500
/** A working agent draws something; one whose screen is idle and still for so long ended its turn without a report. */
export const STILL_MS = 60_000
/** As above where neither the screen nor the agent's input box is known: somebody else's picture may stand there. */
export const STRANGE_MS = 3_000

export type Identity = 'agent' | 'other' | 'unknown'

/** One look. */
export interface Sight {
  readonly now: number
  readonly watermark: number
  /** Taken inside a synchronized update: the screen may be half drawn. */
  readonly partial: boolean
  /** Title and progress as they are, to notice that they changed. */
  readonly told: string
  readonly readings: Readings
  readonly identity: Identity
  /** Foreground process group, where known. */
  readonly group: number | undefined
  readonly evidence: TerminalEvidence | undefined
  /** `app` of the reports that speak for this agent, ANY_APP for every one; undefined: its agent makes none. */
  readonly reportApp: string | undefined
}

/** How long a group of rules has said the same, without interruption as far as was looked. */
export interface Run {
  readonly state: AgentActivity
  /** First look that saw it. */
  readonly since: number
  /** It began after this: the look before. */
  readonly after: number
}

/** What earlier looks add to this one; kept by `remember`. */
export interface Trail {
  readonly lookedAt: number
  readonly watermark: number
  readonly told: string
  /** When title and output were last seen to change, for workers that do not say. */
  readonly titleAt: number
  readonly outputAt: number
  readonly titleRun: Run | undefined
  readonly screenRun: Run | undefined
  /** A question was last on the screen. */
  readonly questionAt: number
}

export const NO_TRAIL: Trail = {
  lookedAt: -Infinity,
  watermark: -1,
  told: '',
  titleAt: -Infinity,
  outputAt: -Infinity,
  titleRun: undefined,
  screenRun: undefined,
  questionAt: -Infinity,
}

const runOf = (before: Run | undefined, found: Reading | undefined, trail: Trail, now: number): Run | undefined =>
  found === undefined
    ? undefined
    : before?.state === found.state
      ? before
      : { state: found.state, since: now, after: trail.lookedAt }

/** Pure. The trail with this look on it. */
export function remember(trail: Trail, sight: Sight): Trail {
  const { now, readings, evidence } = sight
  // A half drawn screen ends no run and begins none.
  const screenRun = sight.partial ? trail.screenRun : runOf(trail.screenRun, readings.screen, trail, now)
  return {
    lookedAt: now,
    watermark: sight.watermark,
    told: sight.told,
    titleAt:
      (readings.title?.source === 'osc_progress' ? evidence?.progress_at : evidence?.title_at) ??
      (sight.told === trail.told ? trail.titleAt : now),
    outputAt: evidence?.output_at ?? (sight.watermark === trail.watermark ? trail.outputAt : now),
    titleRun: runOf(trail.titleRun, readings.title, trail, now),
    screenRun,
    questionAt: readings.screen?.question === true ? now : trail.questionAt,
  }
}

/** One source and what became of it. */
export interface Voice {
  readonly source: StateSource
  readonly says: AgentActivity | 'nothing'
  /** When it said so, undefined where nobody knows. */
  readonly at: number | undefined
  readonly counted: boolean
  readonly why: string
  readonly rule?: string
  readonly region?: string
}

export interface Verdict {
  /** undefined: nothing positive is known. */
  readonly state: AgentActivity | undefined
  readonly source: StateSource
  readonly rule?: Reading
  /** Set for a blocked state that shows a question: its kind as reported, else the rule that found it. */
  readonly why?: string
  /** Of a blocked state: when the agent reported that it asks, where it does. */
  readonly askedAt?: number
  readonly voices: readonly Voice[]
  /** When the same evidence will mean something else by its age alone; Infinity: never. */
  readonly turnsAt: number
}

const REPORTED: Readonly<Record<string, AgentActivity>> = {
  working: 'working',
  blocked: 'blocked',
  idle: 'idle',
  done: 'idle',
  error: 'idle',
}

/** Pure. `trail` has this look on it already. */
export function weigh(trail: Trail, sight: Sight): Verdict {
  const { now, readings, identity } = sight
  const report = weighReport(trail, sight)
  const title = weighTitle(trail, sight)
  const screen = readings.screen
  const at = { report: sight.evidence?.report?.at, title: trail.titleAt, screen: trail.screenRun?.since }
  const verdict = (
    chosen: 'report' | 'title' | 'screen' | 'none',
    reason: { readonly report: string; readonly title: string; readonly screen: string },
    turnsAt = Infinity,
  ): Verdict => ({
    ...chosenState(chosen, sight, report.says),
    ...(report.stands && report.says === 'blocked' && at.report !== undefined ? { askedAt: at.report } : {}),
    voices: [
      ...(report.says === undefined && report.why === ''
        ? []
        : [
            {
              source: 'report',
              says: report.says ?? 'nothing',
              at: at.report,
              counted: chosen === 'report',
              why: reason.report,
            } as const,
          ]),
      voice(readings.title?.source ?? 'osc_title', readings.title, at.title, chosen === 'title', reason.title),
      voice('screen', screen, at.screen, chosen === 'screen', reason.screen),
    ],
    turnsAt,
  })
  const all = (why: string) => ({ report: report.why === '' ? why : report.why, title: why, screen: why })

  if (identity !== 'agent')
    return verdict(
      'none',
      all(identity === 'other' ? 'another program is in front' : 'it is not known who is in front'),
    )
  if (screen?.question === true)
    return verdict('screen', { ...all('a question is on the screen'), screen: 'a question outranks everything' })
  if (report.stands)
    return verdict(
      'report',
      { ...all('the report of the agent outranks it'), report: 'the agent says so itself' },
      report.turnsAt,
    )
  const lost = report.why
  const { says, isFresh, freshUntil } = title
  const leftAt = says === 'working' ? leftBehindAt(trail, sight) : Infinity
  if (now >= leftAt)
    return verdict('none', {
      report: lost,
      title: 'nothing moves, and nothing known is on the screen',
      screen: 'no rule matches',
    })
  if (says === 'working' || says === 'blocked') {
    const challenged = screen !== undefined && screen.state !== says
    const stale = challenged && !isFresh && (says === 'working' || screenIsNewer(trail))
    if (stale)
      return verdict('screen', {
        report: lost,
        title: `not set again for ${TITLE_FRESH_MS} ms while the screen says otherwise`,
        screen: 'newer than the title',
      })
    return verdict(
      'title',
      { report: lost, title: challenged ? 'fresh' : 'nothing contradicts it', screen: 'the title outranks it' },
      challenged && isFresh ? freshUntil : leftAt,
    )
  }
  if (screen !== undefined)
    return verdict('screen', {
      report: lost,
      title: 'an idle title alone proves nothing',
      screen: 'best matching rule',
    })
  if (says === 'idle' && !readings.knowsIdleScreen)
    return verdict('title', { report: lost, title: 'the manifest has no idle screen', screen: 'no rule matches' })
  return verdict('none', { report: lost, title: 'an idle title alone proves nothing', screen: 'no rule matches' })

  /** A title that stopped changing loses to a screen that came after it. */
  function screenIsNewer({ screenRun }: Trail): boolean {
    const changedAt = sight.evidence?.title_changed_at ?? trail.titleAt
    return screenRun !== undefined && screenRun.since > changedAt && now - screenRun.since >= CONTRARY_BLOCKED_MS
  }
}

function chosenState(
  chosen: 'report' | 'title' | 'screen' | 'none',
  { readings, evidence }: Sight,
  reported: AgentActivity | undefined,
): Pick<Verdict, 'state' | 'source' | 'rule' | 'why'> {
  if (chosen === 'none') return { state: undefined, source: 'process' }
  if (chosen === 'report')
    return {
      state: reported,
      source: 'report',
      ...(reported === 'blocked' ? { why: evidence?.report?.kind ?? 'report' } : {}),
    }
  const rule = chosen === 'title' ? readings.title : readings.screen
  return {
    state: rule?.state,
    source: chosen === 'screen' ? 'screen' : (readings.title?.source ?? 'osc_title'),
    ...(rule === undefined ? {} : { rule }),
    ...(rule?.question === true
      ? { why: evidence?.report?.state === 'blocked' ? (evidence.report.kind ?? rule.rule) : rule.rule }
      : {}),
  }
}

function voice(
  source: StateSource,
  reading: Reading | undefined,
  at: number | undefined,
  counted: boolean,
  why: string,
): Voice {
  if (reading === undefined) return { source, says: 'nothing', at: undefined, counted: false, why: 'no rule matches' }
  return {
    source,
    says: reading.state,
    at: at === undefined || !Number.isFinite(at) ? undefined : at,
    counted,
    why,
    rule: reading.rule,
    region: reading.region,
  }
}

/** When the word of work that stands over a screen no rule knows is worth nothing; Infinity while it is not so. */
function leftBehindAt(trail: Trail, { readings, partial }: Sight, saidAt = -Infinity): number {
  // Without rules for the screen the title is all there is.
  if (partial || readings.screen !== undefined || !readings.knowsIdleScreen) return Infinity
  const moved = Math.max(trail.outputAt, saidAt, readings.title?.state === 'working' ? trail.titleAt : -Infinity)
  return moved + (readings.composer === true ? STILL_MS : STRANGE_MS)
}

function weighTitle(
  trail: Trail,
  { now, readings }: Sight,
): { says: AgentActivity | undefined; isFresh: boolean; freshUntil: number } {
  const freshUntil = trail.titleAt + TITLE_FRESH_MS
  return { says: readings.title?.state, isFresh: now < freshUntil, freshUntil }
}

/** In a plain shell whoever is in front speaks for itself: an agent that was typed there, for one. */
export const ANY_APP = '*'

interface ReportWeight {
  readonly says: AgentActivity | undefined
  readonly stands: boolean
  /** Why it does not stand; empty when there is none. */
  readonly why: string
  readonly turnsAt: number
}

function weighReport(trail: Trail, sight: Sight): ReportWeight {
  const report = sight.evidence?.report
  const out = (why: string, says?: AgentActivity): ReportWeight => ({ says, stands: false, why, turnsAt: Infinity })
  if (report === undefined) return out('')
  const says = Object.hasOwn(REPORTED, report.state) ? REPORTED[report.state] : undefined
  const { reportApp } = sight
  if (reportApp === undefined || (reportApp !== ANY_APP && report.app !== reportApp))
    return out('it speaks for another program', says)
  if (says === undefined) return out('its word is not known')
  if (report.group !== undefined && sight.group !== undefined && report.group !== sight.group)
    return out('who said it is no longer in front', says)
  const staleAt = contradictedAt(says, report, trail, sight)
  return sight.now >= staleAt
    ? out(
        sight.readings.screen === undefined ? 'nothing known is on the screen' : 'newer evidence contradicts it',
        says,
      )
    : { says, stands: true, why: '', turnsAt: staleAt }
}

/** When a report is worth nothing because other evidence says otherwise; Infinity while nothing does. */
function contradictedAt(says: AgentActivity, report: StateReport, trail: Trail, sight: Sight): number {
  const { screenRun: screen, titleRun } = trail
  const title = sight.readings.title?.state
  const newer = (run: Run | undefined): boolean => run !== undefined && run.after >= report.at
  const times: number[] = []
  if (says === 'working') {
    if (screen?.state === 'blocked' && newer(screen)) times.push(screen.since + CONTRARY_BLOCKED_MS)
    if (titleRun?.state === 'blocked' && newer(titleRun)) times.push(titleRun.since + CONTRARY_BLOCKED_MS)
    if (screen?.state === 'idle') {
      if (newer(screen)) times.push(screen.since + CONTRARY_MS)
      times.push(Math.max(screen.since, trail.outputAt, report.at) + STILL_MS)
    }
    times.push(leftBehindAt(trail, sight, report.at))
  } else if (says === 'blocked') {
    // Some agents draw the question up to a second after they said so: only what lasts longer contradicts.
    const wasShown = trail.questionAt >= report.at
    if (screen !== undefined && screen.state !== 'blocked')
      times.push(wasShown ? screen.since + CONTRARY_SURE_MS : Math.max(screen.since, report.at) + CONTRARY_MS)
    else if (screen === undefined && titleRun?.state === 'working' && newer(titleRun))
      times.push(Math.max(titleRun.since, report.at) + CONTRARY_MS)
  } else {
    if (screen !== undefined && screen.state !== 'idle') {
      if (newer(screen)) times.push(screen.since + CONTRARY_SURE_MS)
      // A spinner that goes on turning after the report is none that was left behind.
      else if (trail.outputAt > report.at + CONTRARY_MS - CONTRARY_BLOCKED_MS) times.push(report.at + CONTRARY_MS)
    }
    if (title === 'working' && trail.titleAt > report.at + CONTRARY_SURE_MS) times.push(trail.titleAt)
    if (title === 'blocked' && (sight.evidence?.title_changed_at ?? -Infinity) > report.at) times.push(sight.now)
  }
  return Math.min(Infinity, ...times)
}
