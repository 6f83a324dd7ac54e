/** What a daemon takes over from the one before it: which moments were told, and which reports were held. */
import { reset, type State } from './moment.ts'
import { isProjector } from './rank.ts'
import { isOver } from './sessions.ts'
import type { WindowEdges, Windows } from './windows.ts'

/** Before anything is observed: what was told and still stands is not told again. */
export function recallTold({ marks, sessions, work }: WindowEdges, stateOf: (sessionId: string) => State): void {
  for (const mark of marks.values()) {
    const { session_id: sessionId, moment: kind } = mark
    const session = sessions.get(sessionId)
    if (session === undefined || isOver(session)) {
      work.run('an old mark could not be taken away', marks.clear(sessionId, kind))
      continue
    }
    const state = stateOf(sessionId)
    const { heard, id, record_id: recordId, asked_at: askedAt, source } = mark
    Object.assign(state[kind], {
      told: true,
      heard,
      ...(id === undefined ? {} : { id }),
      ...(recordId === undefined ? {} : { recordId }),
      ...(askedAt === undefined ? {} : { askedAt }),
      ...(source === undefined ? {} : { source }),
    })
    // The mark goes with the next work: this turn is the one that was told.
    if (kind === 'turn') state.inTurn = false
  }
}

/** Held again for a whole window; what was told or recorded before the daemon died is taken for that. */
export async function restoreHeld(
  { held, inbox, sessions, marks, policy, add }: WindowEdges,
  windows: Windows,
  stateOf: (sessionId: string) => State,
): Promise<void> {
  for (const it of [...held.values()]) {
    const { session_id: sessionId, beside } = it
    if (beside !== undefined) await add(beside)
    const session = sessions.get(sessionId)
    const state = stateOf(sessionId)
    const moment = state[it.moment]
    const recorded = inbox.get(it.id) !== undefined
    const isGone = session === undefined ? it.counts : isOver(session)
    const isOutdated = isGone || moment.held !== undefined || state.activity === 'working'
    const told = it.told === true || (moment.told && moment.id === it.id)
    if (recorded || (told && it.record === undefined)) {
      if (!isGone) Object.assign(moment, { told: true, id: it.id, ...(recorded ? { recordId: it.id } : {}) })
      await marks.keep(sessionId, it.moment, moment)
      await held.delete(it.id)
    } else if (isOutdated) windows.discard({ ...it, told })
    else {
      if (!told) reset(moment)
      moment.heard ||= !isProjector(it.provider)
      windows.hold(state, moment, { ...it, ...(told ? { told } : {}) }, policy.debounceMs)
    }
  }
}
