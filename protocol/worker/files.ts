/** Files a worker writes and its daemon reads (contract/environment.md §3 and §5). Pure. */
import { PATH_SAFE_SESSION_ID } from '../session-id.ts'

const LOG_NAME = /^pohunek-session-(.+?)\.jsonl(?:\.|$)/

/** Name of a session's log below <state>/logs; rotated ones have `.1`, `.2`, … behind it. */
export const sessionLogName = (sessionId: string): string => `pohunek-session-${sessionId}.jsonl`
/** Id of the session a log, rotated or not, belongs to; undefined for any other file. */
export function sessionOfLog(name: string): string | undefined {
  const [, id] = LOG_NAME.exec(name) ?? []
  return id !== undefined && PATH_SAFE_SESSION_ID.test(id) ? id : undefined
}
/** 4 MiB each, the one being written and `.1` to `.3`: 16 MiB a session. */
export const SESSION_LOG_LIMITS = { maxFileBytes: 4 * 1_048_576, maxFiles: 4 } as const

/** Number in a journal's `schema_version`. */
export const JOURNAL_SCHEMA = 4
/**
 * Schemas a daemon reads: ours and the one before. A journal of either is evidence only when it names the generation of
 * its worker, which is never inferred from anything else.
 */
export const READABLE_JOURNAL_SCHEMAS = [JOURNAL_SCHEMA - 1, JOURNAL_SCHEMA] as const
export const JOURNAL_PHASES = ['bootstrap', 'starting', 'live', 'terminal', 'never_initialized', 'faulted'] as const
export type JournalPhase = (typeof JOURNAL_PHASES)[number]

/** What a worker writes to its ready descriptor, or tells the service manager, once its socket accepts. */
export const READY_STATE = 'READY=1'
