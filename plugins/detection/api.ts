/** The only door other plugins use to reach what agents are doing. */
import type { SyncHook } from 'tapable'
import { token } from '../../kernel/plugin.ts'
import type { ActivityEvidence } from '../sessions/api.ts'
import type { AgentActivity } from '../sessions/types.ts'

/** One published observation. The same activity again is `fresh: false` (a turn may have passed quicker than it could be seen). */
export interface ActivityChange {
  readonly sessionId: string
  /** undefined: nothing positive is known any more. */
  readonly now: ActivityEvidence | undefined
  readonly before: AgentActivity | undefined
  /** What was shown before is another activity than now. */
  readonly fresh: boolean
  /** Out of a question, or from one to the next: somebody sent keys to the program since the question was there. */
  readonly answered?: boolean
  /** The program itself, or its screen, showed a question its owner has to answer. */
  readonly why?: string
  /** When the agent reported, on the machine's monotonic clock, that it asks; each question has a report of its own. */
  readonly askedAt?: number
  /** Beside `fresh: false`: input was taken and something printed since; that a turn ran is not proven. */
  readonly unproven?: true
  /** Into rest: the agent reported, at this time of the machine's monotonic clock, that what it did failed. */
  readonly failedAt?: number
}

export interface DetectionService {
  readonly hooks: {
    /** Told after SessionInfo shows it and before the event is published. Informs, in order. */
    readonly changed: SyncHook<[ActivityChange]>
  }
  /** Last published evidence of a session that runs. */
  current(id: string): ActivityEvidence | undefined
  /** Before somebody reads what is shown of a session: takes back at once that an agent rests which has ended. Cheap. */
  glance(id: string): void
}

export const Detection = token<DetectionService>('detection')
