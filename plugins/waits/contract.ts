/** Wire surface of waits (contract/methods.md "session.wait", "session.wait_turn"). Keys the contract leaves open are ours. */
import * as v from 'valibot'
import { contract } from '../../protocol/contract.ts'
import { MAX_TURN_TARGETS } from '../../protocol/limits.ts'
import { Dec, Int, SessionId, Timestamp } from '../../protocol/scalars.ts'
import { TURN_KINDS } from '../../protocol/words.ts'
import { AgentActivity, RuntimeIdentity, SessionInfo, SessionState } from '../sessions/types.ts'
import { faults } from './faults.ts'

export const TurnKind = v.picklist(TURN_KINDS)
export type TurnKind = v.InferOutput<typeof TurnKind>

const positive = v.pipe(Int, v.minValue(1))

export const WaitReason = v.picklist([
  'state_matched',
  'activity_matched',
  'session_updated',
  'terminal_changed',
  'output_advanced',
  'runtime_changed',
  'timeout',
])
export type WaitReason = v.InferOutput<typeof WaitReason>

export const TurnTarget = v.object({
  session_id: SessionId,
  state: SessionState,
  activity: v.optional(AgentActivity),
  /** Left out while this daemon saw no output yet. */
  last_output_at: v.optional(Timestamp),
  /** The program printed since the cursor, or since the call without one. */
  output_advanced: v.boolean(),
  /** When the agent was last seen to start working; left out while it was not. */
  turn_started_at: v.optional(Timestamp),
})
export type TurnTarget = v.InferOutput<typeof TurnTarget>

export default contract({
  name: 'waits',
  methods: {
    'session.wait': {
      about: 'Waits for one change of one session; predicates combine with OR. A timeout is an answer too.',
      params: v.strictObject({
        session_id: SessionId,
        runtime: v.optional(RuntimeIdentity),
        after_updated_at: v.optional(Timestamp),
        after_terminal_watermark: v.optional(Dec),
        after_output_offset: v.optional(Dec),
        states: v.optional(v.pipe(v.array(SessionState), v.minLength(1))),
        activities: v.optional(v.pipe(v.array(AgentActivity), v.minLength(1))),
        /** Ours: an activity counts only when it was observed after this call. */
        fresh: v.optional(v.boolean()),
        timeout_ms: positive,
      }),
      result: v.object({
        reason: WaitReason,
        session: SessionInfo,
        terminal_watermark: v.optional(Dec),
        output_offset: v.optional(Dec),
      }),
      effect: 'reads',
      faults: Object.values(faults),
      dedicated: () => true,
    },
    'session.wait_turn': {
      about: 'Waits for the next turn event of one or more sessions behind a cursor, or newer than the call.',
      params: v.strictObject({
        session_ids: v.pipe(v.array(SessionId), v.minLength(1), v.maxLength(MAX_TURN_TARGETS)),
        kinds: v.optional(v.pipe(v.array(TurnKind), v.minLength(1))),
        /** The cursor of an earlier result. */
        after: v.optional(v.pipe(v.string(), v.maxLength(256))),
        timeout_ms: v.optional(positive),
      }),
      result: v.object({
        reason: v.picklist(['event', 'timeout', 'cursor_reset', 'targets_ended']),
        event: v.optional(v.object({ session_id: SessionId, kind: TurnKind, at: Timestamp })),
        cursor: v.string(),
        targets: v.array(TurnTarget),
      }),
      effect: 'reads',
      since: 4,
      faults: [faults.session_not_found, faults.session_wait_limit_exceeded, faults.session_waiter_limit_reached],
      dedicated: () => true,
    },
  },
  events: {},
})
