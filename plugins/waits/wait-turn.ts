/** session.wait_turn: the next turn event of some sessions, from the journal or as it is recorded. */
import type { Params, ResultInput } from '../../protocol/contract.ts'
import type { SessionInfo } from '../sessions/types.ts'
import type contract from './contract.ts'
import type { TurnTarget } from './contract.ts'
import { cursorText, parseCursor, type Cursor } from './cursor.ts'
import { faults } from './faults.ts'
import type { TurnEvent, TurnJournal } from './journal.ts'
import type { Turns } from './turns.ts'
import { isOver, type Sources } from './wait.ts'
import { until } from './wakeups.ts'

type WaitTurn = Params<(typeof contract.methods)['session.wait_turn']>
type WaitTurnResult = ResultInput<(typeof contract.methods)['session.wait_turn']>

export interface TurnSources extends Sources {
  readonly journal: TurnJournal
  readonly turns: Turns
  readonly limits: { readonly turnDefaultMs: number; readonly turnCeilingMs: number }
}

/** Throws session_not_found, session_wait_limit_exceeded, session_waiter_limit_reached. */
export async function waitTurn(sources: TurnSources, request: WaitTurn, signal: AbortSignal): Promise<WaitTurnResult> {
  const { sessions, journal, clock, limits } = sources
  const ids = [...new Set(request.session_ids)]
  const ms = request.timeout_ms ?? limits.turnDefaultMs
  if (ms > limits.turnCeilingMs) throw faults.session_wait_limit_exceeded({ ms, max: limits.turnCeilingMs })
  for (const id of ids) if (sessions.get(id) === undefined) throw faults.session_not_found({ id })
  using _place = sessions.waiter()
  const start = here(sources)
  const from = request.after === undefined ? start : placeOf(request.after, journal)
  if (from === undefined) return result(sources, ids, start, { reason: 'cursor_reset' })
  const wanted = (it: TurnEvent): boolean =>
    ids.includes(it.session_id) && (request.kinds === undefined || request.kinds.includes(it.event))
  return await until<WaitTurnResult>({
    look: () => {
      if (from.seq + 1 < journal.first) return result(sources, ids, from, { reason: 'cursor_reset' })
      const event = journal.find(from.seq, wanted)
      if (event !== undefined) return result(sources, ids, from, { reason: 'event', event })
      const infos = ids.map((id) => sessions.get(id))
      // The end of a program and its event are told one after the other; the event is on its way then.
      return infos.every((it) => it === undefined || isOver(it.state)) && journal.isQuiet
        ? result(sources, ids, from, { reason: 'targets_ended' })
        : undefined
    },
    late: () => result(sources, ids, from, { reason: 'timeout' }),
    ms,
    after: (after, run) => clock.after(after, run),
    wake: (look) => sources.turns.listen(ids, look),
    signal,
  })
}

function here({ journal, clock }: TurnSources, seq = journal.last): Cursor {
  return { ...journal.place(seq), atMs: clock.monotonic() }
}

/** undefined for a cursor that means nothing here: another journal's, no cursor at all, or one from the future. */
function placeOf(text: string, journal: TurnJournal): Cursor | undefined {
  const cursor = parseCursor(text)
  return cursor !== undefined && journal.isPlace(cursor) ? cursor : undefined
}

function result(
  sources: TurnSources,
  ids: readonly string[],
  from: Cursor,
  { reason, event }: { reason: WaitTurnResult['reason']; event?: TurnEvent },
): WaitTurnResult {
  return {
    reason,
    ...(event === undefined
      ? {}
      : { event: { session_id: event.session_id, kind: event.event, at: new Date(event.at_ms).toISOString() } }),
    cursor: cursorText(here(sources, event?.seq)),
    targets: ids.flatMap((id) => {
      sources.detection.glance(id)
      const info = sources.sessions.get(id)
      return info === undefined ? [] : [target(sources, info, from)]
    }),
  }
}

function target({ sessions, turns, clock }: TurnSources, info: SessionInfo, from: Cursor): TurnTarget {
  const { outputAtMs, outputAtMonotonicMs: printedMs } = sessions.progress(info.id) ?? {}
  const startedAtMs = turns.startedAtMs(info.id)
  return {
    session_id: info.id,
    state: info.state,
    ...(info.activity === undefined ? {} : { activity: info.activity }),
    ...(outputAtMs === undefined ? {} : { last_output_at: new Date(outputAtMs).toISOString() }),
    // A cursor of a later time than now is one of another boot: what was printed in this one came after it.
    output_advanced: printedMs !== undefined && (printedMs > from.atMs || from.atMs > clock.monotonic()),
    ...(startedAtMs === undefined ? {} : { turn_started_at: new Date(startedAtMs).toISOString() }),
  }
}
