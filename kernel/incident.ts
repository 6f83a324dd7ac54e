import { randomBytes } from 'node:crypto'
import { coreFaults, type Fault } from '../protocol/fault.ts'
import type { Log } from './log.ts'

/** A failure that is our bug: logged with `facts` under an incident id, and told to the client by that id alone. */
export function asIncident(log: Log, failure: unknown, facts: Readonly<Record<string, unknown>>): Fault {
  const incident = `i-${randomBytes(5).toString('hex')}`
  log.error({ incident, ...facts, err: failure }, 'internal error')
  return coreFaults.internal_error({ incident }, failure)
}
