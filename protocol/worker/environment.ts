/** Rules of a program's environment that daemon and worker both keep (contract/environment.md §1). Pure. */
import {
  ENVIRONMENT_MAX_ENTRIES,
  ENVIRONMENT_MAX_NAME_BYTES,
  ENVIRONMENT_MAX_TOTAL_BYTES,
  ENVIRONMENT_MAX_VALUE_BYTES,
} from '../limits.ts'
import { utf8Bytes } from '../scalars.ts'

/** Names the worker's runtime to its program and everything that program starts. */
export const INSTANCE_MARKER = 'POHUNEK_WORKER_INSTANCE_ID'
/** Names the session to its program and everything that program starts. */
export const SESSION_MARKER = 'POHUNEK_SESSION_ID'

/**
 * Never reach a program, whoever sets or allows them: they speak for a service manager or for another session. `X_*`
 * is a prefix.
 */
const ALWAYS_REMOVED = [
  'NOTIFY_SOCKET',
  'WATCHDOG_*',
  'INVOCATION_ID',
  'JOURNAL_STREAM',
  'MANAGERPID',
  'SYSTEMD_EXEC_PID',
  'XPC_SERVICE_NAME',
  'XPC_FLAGS',
  '__CFBundleIdentifier',
  'LaunchInstanceID',
  'POHUNEK_*',
] as const

/** True when `name` is one of `patterns`, of which `X_*` stands for every name with that prefix. */
export const matches = (name: string, patterns: readonly string[]): boolean =>
  patterns.some((pattern) => (pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern))

export const isRemoved = (name: string): boolean => matches(name, ALWAYS_REMOVED)

/** What breaks the bounds (bytes of UTF-8, name and value alone), in words, or undefined. Never quotes a value. */
export function environmentProblem(entries: Readonly<Record<string, string>>): string | undefined {
  const names = Object.keys(entries)
  if (names.length > ENVIRONMENT_MAX_ENTRIES)
    return `${names.length} environment entries, at most ${ENVIRONMENT_MAX_ENTRIES}`
  let total = 0
  for (const name of names) {
    const value = entries[name] ?? ''
    const nameBytes = utf8Bytes(name)
    const valueBytes = utf8Bytes(value)
    if (name === '' || name.includes('=') || name.includes('\0'))
      return `environment name ${JSON.stringify(name.slice(0, ENVIRONMENT_MAX_NAME_BYTES))} is not usable`
    if (nameBytes > ENVIRONMENT_MAX_NAME_BYTES)
      return `environment name of ${nameBytes} bytes, at most ${ENVIRONMENT_MAX_NAME_BYTES}`
    if (value.includes('\0')) return `environment value of ${name} holds a NUL byte`
    if (valueBytes > ENVIRONMENT_MAX_VALUE_BYTES)
      return `environment value of ${name} has ${valueBytes} bytes, at most ${ENVIRONMENT_MAX_VALUE_BYTES}`
    total += nameBytes + valueBytes
  }
  return total > ENVIRONMENT_MAX_TOTAL_BYTES
    ? `environment of ${total} bytes, at most ${ENVIRONMENT_MAX_TOTAL_BYTES}`
    : undefined
}
