/** The origin pair a managed child hands on with each request (contract/protocol.md §6). */
import { clientError } from './errors.ts'

export interface Origin {
  readonly sessionId: string
  readonly daemonId: string
}

const ID = /^[A-Za-z0-9._:-]{1,128}$/

/** Pure. Throws incomplete_origin_environment or invalid_origin_environment. */
export function originOf(env: Readonly<Record<string, string | undefined>>): Origin | undefined {
  const sessionId = env.POHUNEK_SESSION_ID
  const daemonId = env.POHUNEK_DAEMON_ID
  if (sessionId === undefined && daemonId === undefined) return undefined
  if (sessionId === undefined) throw clientError('incomplete_origin_environment', { missing: 'POHUNEK_SESSION_ID' })
  if (daemonId === undefined) throw clientError('incomplete_origin_environment', { missing: 'POHUNEK_DAEMON_ID' })
  if (!ID.test(sessionId)) throw clientError('invalid_origin_environment', { name: 'POHUNEK_SESSION_ID' })
  if (!ID.test(daemonId)) throw clientError('invalid_origin_environment', { name: 'POHUNEK_DAEMON_ID' })
  return { sessionId, daemonId }
}
