/**
 * What becomes a turn event: settled reports of an agent, and the end of its program.
 * A turn_completed whose window ends while the agent works again is a stale stop and is dropped; the same is true of one
 * that saw it work inside the window, which its reporter took back by then (seed 000, "To follow agents across turns").
 */
import type { Clock } from '../../kernel/clock.ts'
import type { DetectionService } from '../detection/api.ts'
import type { NotificationService } from '../notifications/api.ts'
import type { SessionService } from '../sessions/api.ts'
import type { SessionInfo } from '../sessions/types.ts'
import type { TurnJournal } from './journal.ts'
import { isOver } from './wait.ts'
import { Lookers } from './wakeups.ts'

interface TurnsOptions {
  readonly sessions: SessionService
  readonly detection: DetectionService
  readonly notifications: NotificationService
  readonly journal: TurnJournal
  readonly clock: Clock
}

export class Turns {
  readonly #options: TurnsOptions
  /** When each agent that works was seen to start, wall time. */
  readonly #started = new Map<string, number>()
  readonly #lookers = new Lookers()

  constructor(options: TurnsOptions) {
    this.#options = options
    const { sessions, detection, notifications, journal, clock } = options
    notifications.hooks.settled.tap('waits', ({ id, sessionId, kind, counts, until }) => {
      if (!counts || sessions.get(sessionId) === undefined) return
      if (kind === 'turn_completed' && sessions.get(sessionId)?.activity === 'working') return
      until(journal.recordReport(sessionId, kind, id))
    })
    detection.hooks.changed.tap('waits', ({ sessionId, now, fresh }) => {
      if (now?.activity === 'working' && fresh) this.#started.set(sessionId, clock.now())
      else if (now === undefined) this.#started.delete(sessionId)
    })
    sessions.hooks.ended.tap('waits', (it) => this.#ended(it))
    sessions.hooks.removed.tap('waits', (it) => {
      this.#started.delete(it.id)
      this.#lookers.tell(it.id)
    })
    journal.listen((event) => this.#lookers.tell(event.session_id))
  }

  /** When a session that runs was last seen to start working, milliseconds of the wall clock. */
  startedAtMs(sessionId: string): number | undefined {
    return this.#started.get(sessionId)
  }

  /** Calls `look` after an event of one of the sessions, or the end or removal of one. */
  listen(sessionIds: readonly string[], look: () => void): Disposable {
    return this.#lookers.add(sessionIds, look)
  }

  /**
   * Ends that were stored and not recorded, because the daemon died in between. Only those after the journal's first
   * event: older ones may have been recorded and dropped since.
   */
  recordMissedEnds(): void {
    const { sessions, journal } = this.#options
    for (const it of sessions.list()) {
      if (isOver(it.state) && Date.parse(it.updated_at) > journal.completeSinceMs)
        journal.recordExit(it.id, it.runtime?.runtime_generation ?? '0')
    }
  }

  #ended(it: SessionInfo): void {
    this.#started.delete(it.id)
    this.#options.journal.recordExit(it.id, it.runtime?.runtime_generation ?? '0')
  }
}
