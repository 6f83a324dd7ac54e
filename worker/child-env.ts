/**
 * The environment of the session's program, built from empty (contract/environment.md §1). Pure.
 * Order: base -> TERM and COLORTERM defaults -> profile entries -> reserved markers.
 */
import { environmentProblem, INSTANCE_MARKER, isRemoved, SESSION_MARKER } from '../protocol/worker/environment.ts'

const BACKGROUND_LABEL_MAX_BYTES = 160
const BACKGROUND_PROGRAM_MAX_BYTES = 64
const HOOK_TRACE_MAX_BYTES = 1_048_576

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
    [SESSION_MARKER]: markers.sessionId,
    POHUNEK_WORKER_ID: markers.workerId,
    [INSTANCE_MARKER]: markers.workerInstanceId,
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
  const entries = Object.create(null) as Record<string, string> // a name such as __proto__ is one like others
  for (const source of [
    base,
    { TERM: base['TERM'] ?? 'xterm-256color', COLORTERM: base['COLORTERM'] ?? 'truecolor' },
    profile,
  ]) {
    for (const [name, value] of Object.entries(source)) if (!isRemoved(name)) entries[name] = value
  }
  const problem = environmentProblem(entries)
  if (problem !== undefined) throw new RangeError(problem)
  return Object.entries({ ...entries, ...markers }).map(([name, value]) => `${name}=${value}`)
}
