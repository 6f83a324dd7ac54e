/** What a creation says, checked and made plain. Pure. */
import { CONTROL_CHARACTER, utf8Bytes } from '../../protocol/scalars.ts'
import type { SessionInfo } from '../sessions/types.ts'
import { faults } from './faults.ts'
import { MAX_BODY_CHARS, MAX_TITLE_CHARS, plainLine, plainText } from './text.ts'
import type { CreateParams, NotificationKind, NotificationRecord } from './types.ts'

const MAX_SESSION_ID_BYTES = 512
const MAX_DEDUPE_KEY_BYTES = 512
const MAX_METADATA_ENTRIES = 8
const MAX_METADATA_VALUE_CHARS = 512
const METADATA_KEYS: ReadonlySet<string> = new Set([
  'action_url',
  'detail_url',
  'provider',
  'provider_event',
  'reason',
  'summary',
  'hook_event_id',
  'matcher',
  'tool_name',
])
const SECRET = /token|secret|password|passwd|api[_-]?key|authorization|cookie/i

/** A record that is not in the inbox yet. */
export type Draft = Omit<NotificationRecord, 'id' | 'status' | 'created_at'>

/** Reports of one moment of a session share a key: it waits for its owner, or its turn ended. */
export type MomentKind = 'attention' | 'turn'

export const momentOf = (kind: NotificationKind): MomentKind | undefined =>
  kind === 'agent_blocked' || kind === 'approval_required'
    ? 'attention'
    : kind === 'turn_completed'
      ? 'turn'
      : undefined

export const momentKey = (moment: MomentKind, sessionId: string): string => `${moment}:${sessionId}`

/**
 * The draft of a record. `session` is the one it names, when the daemon holds it: what is missing is taken from there.
 * Throws invalid_notification_session_id, _dedupe_key and _metadata.
 */
export function draftOf(params: CreateParams, session: SessionInfo | undefined): Draft {
  const { source, kind, severity, session_id, source_id, dedupe_key } = params
  if (session_id !== undefined) checkSessionId(session_id)
  if (dedupe_key !== undefined) checkDedupeKey(dedupe_key, kind, session_id)
  const metadata = metadataOf(params.metadata)
  const agentKind = params.agent_kind ?? session?.active_agent_base ?? session?.agent_base
  const projectId = params.project_id ?? session?.project_id
  return {
    source: {
      provider: plainLine(source.provider, 256) || '-',
      provider_event: plainLine(source.provider_event, 256) || '-',
      host_local_source_id: plainLine(source.host_local_source_id, 256) || '-',
    },
    kind,
    severity,
    title: plainLine(params.title, MAX_TITLE_CHARS) || kind.replaceAll('_', ' '),
    body: plainText(params.body, MAX_BODY_CHARS),
    ...(metadata === undefined ? {} : { metadata }),
    ...(session_id === undefined ? {} : { session_id }),
    ...(agentKind === undefined ? {} : { agent_kind: plainLine(agentKind, 128) }),
    ...(source_id === undefined ? {} : { source_id: plainLine(source_id, 512) }),
    ...(dedupe_key === undefined ? {} : { dedupe_key }),
    ...(projectId === undefined ? {} : { project_id: plainLine(projectId, 128) }),
  }
}

function checkSessionId(id: string): void {
  if (id === '' || utf8Bytes(id) > MAX_SESSION_ID_BYTES || CONTROL_CHARACTER.test(id)) {
    throw faults.invalid_notification_session_id({
      problem: `session_id is 1 to ${MAX_SESSION_ID_BYTES} bytes without control characters`,
    })
  }
}

function checkDedupeKey(key: string, kind: NotificationKind, sessionId: string | undefined): void {
  const refuse = (problem: string): never => {
    throw faults.invalid_notification_dedupe_key({ problem })
  }
  if (key === '' || utf8Bytes(key) > MAX_DEDUPE_KEY_BYTES || CONTROL_CHARACTER.test(key))
    refuse(`dedupe_key is 1 to ${MAX_DEDUPE_KEY_BYTES} bytes without control characters`)
  const moment = key.startsWith('attention:') ? 'attention' : key.startsWith('turn:') ? 'turn' : undefined
  if (moment === undefined) return
  if (momentOf(kind) !== moment) refuse(`a ${moment}: key does not go with the kind ${kind}`)
  if (sessionId === undefined || key !== momentKey(moment, sessionId))
    refuse(`a ${moment}: key names the session of session_id`)
}

function metadataOf(given: Readonly<Record<string, string>> | undefined): Record<string, string> | undefined {
  const entries = Object.entries(given ?? {})
  if (entries.length === 0) return undefined
  const refuse = (problem: string): never => {
    throw faults.invalid_notification_metadata({ problem })
  }
  if (entries.length > MAX_METADATA_ENTRIES) refuse(`metadata has at most ${MAX_METADATA_ENTRIES} keys`)
  return Object.fromEntries(
    entries.map(([key, value]) => {
      const name = JSON.stringify(plainLine(key, 64))
      if (SECRET.test(key)) refuse(`metadata key ${name} looks like a secret`)
      if (!METADATA_KEYS.has(key)) refuse(`metadata key ${name} is not supported`)
      if ([...value.slice(0, 2 * MAX_METADATA_VALUE_CHARS + 1)].length > MAX_METADATA_VALUE_CHARS)
        refuse(`metadata ${name} is at most ${MAX_METADATA_VALUE_CHARS} characters`)
      return [key, plainLine(value, MAX_METADATA_VALUE_CHARS)]
    }),
  )
}
