/** What a session target means (contract/cli.md, Global). Pure. */
import { ISSUED_SESSION_ID } from '../protocol/session-id.ts'
import { faults } from './errors.ts'

export interface Candidate {
  readonly id: string
  readonly name?: string | undefined
}

/** Characters of an id prefix beyond `s-`: shorter ones change meaning with the next session. */
const LEAST_PREFIX = 4

/** Splits `<host>/<target>`; throws cli_usage for more than one slash. */
export function splitTarget(text: string): { host: string | undefined; target: string } {
  const parts = text.split('/')
  if (parts.length > 2) throw faults.cli_usage({ problem: `a target has one / at most: ${JSON.stringify(text)}` })
  if (parts.length === 1) return { host: undefined, target: text }
  const [host, target] = parts as [string, string]
  if (host === '' || target === '')
    throw faults.cli_usage({ problem: `a target is <id> or <host>/<id>: ${JSON.stringify(text)}` })
  return { host, target }
}

/** An id in full needs no look-up. */
export const isFullId = (target: string): boolean => ISSUED_SESSION_ID.test(target) || /^ext-[0-9]+$/.test(target)

/** Exact id, then unique display name, then unique id prefix. Throws session_not_found, ambiguous_session_name. */
export function resolveTarget(target: string, sessions: readonly Candidate[]): string {
  if (sessions.some((it) => it.id === target)) return target
  // The daemon keeps names in NFC; what is typed may come decomposed.
  const name = target.normalize('NFC')
  const named = sessions.filter((it) => it.name === name)
  const found = named.length > 0 ? named : byPrefix(target, sessions)
  const [only] = found
  if (only === undefined) throw faults.session_not_found({ target, short: isShortPrefix(target, sessions) })
  if (found.length > 1) throw faults.ambiguous_session_name({ target, ids: found.map((it) => it.id) })
  return only.id
}

/** Too short for a prefix, yet the beginning of an id: whoever typed it should know why it means nothing. */
const isShortPrefix = (target: string, sessions: readonly Candidate[]): boolean =>
  target !== '' && sessions.some((it) => it.id.toLowerCase().startsWith(target.toLowerCase()))

function byPrefix(target: string, sessions: readonly Candidate[]): readonly Candidate[] {
  if (target.length < 's-'.length + LEAST_PREFIX || !/^s-/i.test(target)) return []
  const prefix = target.toLowerCase()
  return sessions.filter((it) => it.id.toLowerCase().startsWith(prefix))
}
