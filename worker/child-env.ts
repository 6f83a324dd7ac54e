/**
 * The environment of the session's program, built from empty (contract/environment.md §1). Pure.
 * Order: base -> TERM and COLORTERM defaults -> profile entries -> reserved markers.
 */
import {
  ENVIRONMENT_MAX_ENTRIES,
  ENVIRONMENT_MAX_NAME_BYTES,
  ENVIRONMENT_MAX_TOTAL_BYTES,
  ENVIRONMENT_MAX_VALUE_BYTES,
} from '../protocol/limits.ts'

/** Never reach the program, whoever set them: they speak for a service manager or for another session. */
const REMOVED = new Set([
  'NOTIFY_SOCKET',
  'INVOCATION_ID',
  'JOURNAL_STREAM',
  'MANAGERPID',
  'SYSTEMD_EXEC_PID',
  'XPC_SERVICE_NAME',
  'XPC_FLAGS',
  '__CFBundleIdentifier',
  'LaunchInstanceID',
])
const removed = (name: string): boolean =>
  REMOVED.has(name) || name.startsWith('WATCHDOG_') || name.startsWith('POHUNEK_')

export const BACKGROUND_LABEL_MAX_BYTES = 160
export const BACKGROUND_PROGRAM_MAX_BYTES = 64
export const HOOK_TRACE_MAX_BYTES = 1_048_576

export interface Markers {
  sessionId: string
  workerId: string
  workerInstanceId: string
  workerSocketPath: string
  hookProtocolVersion: number
  daemonSocketPath: string
  publicProtocolVersion: number
  daemonId: string
  referenceKind?: 'id' | 'path'
  hookTracePath: string
}

/** The reserved values, told to every program and not shadowable. */
export function markerEntries(markers: Markers): Record<string, string> {
  return {
    POHUNEK_ENV: '1',
    POHUNEK_SESSION_ID: markers.sessionId,
    POHUNEK_WORKER_ID: markers.workerId,
    POHUNEK_WORKER_INSTANCE_ID: markers.workerInstanceId,
    POHUNEK_WORKER_SOCKET_PATH: markers.workerSocketPath,
    POHUNEK_WORKER_HOOK_PROTOCOL_VERSION: String(markers.hookProtocolVersion),
    POHUNEK_SOCKET_PATH: markers.daemonSocketPath,
    POHUNEK_PROTOCOL_VERSION: String(markers.publicProtocolVersion),
    POHUNEK_DAEMON_ID: markers.daemonId,
    ...(markers.referenceKind === undefined ? {} : { POHUNEK_NATIVE_REFERENCE_KIND: markers.referenceKind }),
    POHUNEK_BACKGROUND_LABEL_MAX_BYTES: String(BACKGROUND_LABEL_MAX_BYTES),
    POHUNEK_BACKGROUND_PROGRAM_MAX_BYTES: String(BACKGROUND_PROGRAM_MAX_BYTES),
    POHUNEK_HOOK_TRACE_PATH: markers.hookTracePath,
    POHUNEK_HOOK_TRACE_MAX_BYTES: String(HOOK_TRACE_MAX_BYTES),
  }
}

/**
 * `NAME=value` entries of the program. Throws RangeError naming the entry (never its value) when base and profile
 * entries break a bound or cannot be an environment entry at all.
 */
export function childEnvironment(
  base: Readonly<Record<string, string>>,
  profile: Readonly<Record<string, string>>,
  markers: Readonly<Record<string, string>>,
): string[] {
  const entries = new Map<string, string>()
  for (const source of [
    base,
    { TERM: base['TERM'] ?? 'xterm-256color', COLORTERM: base['COLORTERM'] ?? 'truecolor' },
    profile,
  ]) {
    for (const [name, value] of Object.entries(source)) if (!removed(name)) entries.set(name, value)
  }
  check(entries)
  for (const [name, value] of Object.entries(markers)) entries.set(name, value)
  return [...entries].map(([name, value]) => `${name}=${value}`)
}

function check(entries: ReadonlyMap<string, string>): void {
  let total = 0
  for (const [name, value] of entries) {
    const nameBytes = Buffer.byteLength(name)
    const valueBytes = Buffer.byteLength(value)
    total += nameBytes + valueBytes + 2
    if (nameBytes === 0 || name.includes('=') || name.includes('\0'))
      throw new RangeError(`environment name ${JSON.stringify(name.slice(0, 128))} is not usable`)
    if (nameBytes > ENVIRONMENT_MAX_NAME_BYTES)
      throw new RangeError(`environment name of ${nameBytes} bytes, at most ${ENVIRONMENT_MAX_NAME_BYTES}`)
    if (value.includes('\0')) throw new RangeError(`environment value of ${name} holds a NUL byte`)
    if (valueBytes > ENVIRONMENT_MAX_VALUE_BYTES)
      throw new RangeError(
        `environment value of ${name} has ${valueBytes} bytes, at most ${ENVIRONMENT_MAX_VALUE_BYTES}`,
      )
  }
  if (entries.size > ENVIRONMENT_MAX_ENTRIES)
    throw new RangeError(`${entries.size} environment entries, at most ${ENVIRONMENT_MAX_ENTRIES}`)
  if (total > ENVIRONMENT_MAX_TOTAL_BYTES)
    throw new RangeError(`environment of ${total} bytes, at most ${ENVIRONMENT_MAX_TOTAL_BYTES}`)
}
