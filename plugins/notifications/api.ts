/** The only door other plugins use to reach the inbox and what waits in front of it. */
import type { SyncHook } from 'tapable'
import { token } from '../../kernel/plugin.ts'

export type TurnKind = 'turn_completed' | 'agent_blocked' | 'approval_required'

/** A report whose debounce window is over and which still holds. */
export interface SettledReport {
  /** The same again after a crash has the same id: it was told before. */
  readonly id: string
  readonly sessionId: string
  readonly kind: TurnKind
  /** Provider of the highest-ranking report of the moment. */
  readonly provider: string
  /** The projector of this daemon or an admitted provider hook, not a user. */
  readonly counts: boolean
  /** For taps that store it: the report is not forgotten before `work` settled, so a crash tells it again. */
  readonly until: (work: Promise<unknown>) => void
}

export interface NotificationService {
  readonly hooks: {
    /**
     * A window ended and its report was not taken back, whether or not the policy keeps a record of the kind. Told once
     * per moment, before the record is published, and again under the same id when the daemon died over it. Informs.
     */
    readonly settled: SyncHook<[SettledReport]>
  }
  /** Milliseconds reports are held, as the policy says now. */
  readonly debounceMs: () => number
  /** True while a session has a record the owner has not dealt with: retention keeps such sessions (FC-ef90). */
  hasUnread(sessionId: string): boolean
}

export const Notifications = token<NotificationService>('notifications')
