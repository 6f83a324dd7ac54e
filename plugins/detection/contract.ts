/** Wire surface of detection (contract/methods.md, events.md). Data only: the CLI and the client import this. */
import * as v from 'valibot'
import { contract } from '../../protocol/contract.ts'
import { Dec, Int, SessionId, Timestamp } from '../../protocol/scalars.ts'
import { AGENT_ACTIVITIES } from '../../protocol/words.ts'
import { AgentActivity, RuntimeIdentity, StateSource } from '../sessions/types.ts'
import { faults } from './faults.ts'
import { REGION_KINDS } from './regions.ts'

const RegionKind = v.picklist(REGION_KINDS)

/** Raised by sessions when the terminal is looked at. */
const looking = [
  { code: 'session_not_found', class: 'runtime' },
  { code: 'session_terminal_unavailable', class: 'runtime' },
  { code: 'session_has_no_managed_terminal', class: 'runtime' },
  { code: 'worker_feature_unavailable', class: 'runtime' },
  { code: 'worker_operation_failed', class: 'runtime' },
  { code: 'worker_invalid_request', class: 'runtime' },
  { code: 'worker_protocol_incompatible', class: 'runtime' },
] as const

export const EvidenceVoice = v.object({
  source: StateSource,
  says: v.picklist([...AGENT_ACTIVITIES, 'nothing']),
  /** Since it says so; left out where that is not known. */
  age_ms: v.optional(Int),
  counted: v.boolean(),
  /** Why it counted or did not. */
  why: v.string(),
  rule: v.optional(v.string()),
  region: v.optional(v.string()),
})

export const SessionExplanation = v.object({
  session_id: SessionId,
  /** Left out: nothing positive is known. */
  activity: v.optional(AgentActivity),
  source: v.optional(StateSource),
  since: v.optional(Timestamp),
  rule: v.optional(v.object({ id: v.string(), region: v.string() })),
  revision: v.optional(Dec),
  /** Found and not believed yet. */
  pending: v.optional(v.object({ activity: v.optional(AgentActivity), for_ms: Int })),
  /** What this look found, strongest first. */
  sources: v.array(EvidenceVoice),
  identity: v.object({
    in_front: v.picklist(['agent', 'other', 'unknown']),
    why: v.string(),
    foreground_group: v.optional(Int),
  }),
  manifest: v.optional(
    v.object({
      file: v.string(),
      /** Digest of its text. */
      revision: v.string(),
      /** Why the text in the file is not the one in use. */
      problem: v.optional(v.string()),
    }),
  ),
  /** The newest last. */
  transitions: v.array(
    v.object({
      activity: v.optional(AgentActivity),
      source: StateSource,
      at: Timestamp,
      rule: v.optional(v.string()),
    }),
  ),
})
export type SessionExplanation = v.InferOutput<typeof SessionExplanation>

export default contract({
  name: 'detection',
  methods: {
    'session.detection': {
      about: 'The regions of the terminal that the detection manifest of the agent reads, as they are now.',
      params: v.strictObject({ session_id: SessionId }),
      result: v.strictObject({
        session_id: v.string(),
        supported_regions: v.array(RegionKind),
        previews: v.array(v.strictObject({ kind: RegionKind, region: v.string(), text: v.string() })),
      }),
      effect: 'reads',
      faults: [...looking, faults.session_detection_response_too_large],
    },
    'session.explain': {
      about: 'Ours: looks at the terminal and tells which evidence leads to the activity that is shown.',
      params: v.strictObject({ session_id: SessionId }),
      result: SessionExplanation,
      effect: 'reads',
      faults: looking,
    },
  },
  events: {
    agent_state: {
      about: 'The activity of an agent changed, or the same was reached again by a turn too quick to be seen.',
      payload: v.object({
        session_id: SessionId,
        activity: AgentActivity,
        source: StateSource,
        runtime: RuntimeIdentity,
        /** Another value for each daemon process. */
        activity_epoch: v.string(),
        /** Grows within the epoch. */
        revision: Dec,
      }),
    },
  },
})
