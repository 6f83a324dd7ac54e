/**
 * The base environment of a session's program (contract/environment.md §1): built from empty out of an allow list,
 * never inherited. Pure.
 */
import {
  ENVIRONMENT_MAX_ENTRIES,
  ENVIRONMENT_MAX_NAME_BYTES,
  ENVIRONMENT_MAX_TOTAL_BYTES,
  ENVIRONMENT_MAX_VALUE_BYTES,
} from '../../protocol/limits.ts'
import { utf8Bytes } from '../../protocol/scalars.ts'

/** `X_*` stands for every name with that prefix. */
export const DEFAULT_ALLOWLIST = [
  'PATH',
  'HOME',
  'USER',
  'LOGNAME',
  'SHELL',
  'LANG',
  'LC_*',
  'TMPDIR',
  'SSH_AUTH_SOCK',
  'DISPLAY',
  'WAYLAND_DISPLAY',
  'DBUS_SESSION_BUS_ADDRESS',
  'XDG_*',
] as const

/** Removed even when an allow list names them: they belong to the process that was started by a service manager. */
export const ALWAYS_REMOVED = [
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

/**
 * The programs' wrappers move these aside before node starts, because they slow each of our own processes down; the
 * session's program gets them back under their own names.
 */
const PASSED_ON = {
  POHUNEK_PASS_NODE_EXTRA_CA_CERTS: 'NODE_EXTRA_CA_CERTS',
  POHUNEK_PASS_NODE_OPTIONS: 'NODE_OPTIONS',
} as const

export const matches = (name: string, patterns: readonly string[]): boolean =>
  patterns.some((pattern) => (pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern))

export type Environment = Readonly<Record<string, string>>

export interface BaseEnvironment {
  readonly daemon: Readonly<Record<string, string | undefined>>
  readonly allowlist: readonly string[]
  readonly tmpdir: string
}

export function baseEnvironment({ daemon, allowlist, tmpdir }: BaseEnvironment): Environment {
  const allowed = [...DEFAULT_ALLOWLIST, ...allowlist]
  const base: Record<string, string> = {}
  for (const [name, value] of Object.entries(daemon)) {
    if (value !== undefined && matches(name, allowed) && !matches(name, ALWAYS_REMOVED)) base[name] = value
  }
  for (const [from, to] of Object.entries(PASSED_ON)) {
    const value = daemon[from]
    if (value !== undefined && value !== '') base[to] = value
  }
  base['TMPDIR'] = tmpdir
  base['TERM'] = 'xterm-256color'
  base['COLORTERM'] = 'truecolor'
  return base
}

/** What breaks the contract's bounds, in words, or undefined. Names only, never values. */
export function environmentProblem(base: Environment, profile: Environment): string | undefined {
  const merged = { ...base, ...profile }
  const names = Object.keys(merged)
  if (names.length > ENVIRONMENT_MAX_ENTRIES) return `the environment has over ${ENVIRONMENT_MAX_ENTRIES} entries`
  let total = 0
  for (const name of names) {
    const value = merged[name] ?? ''
    if (name === '' || name.includes('=') || name.includes('\0') || value.includes('\0'))
      return 'an environment name or value is not valid'
    if (utf8Bytes(name) > ENVIRONMENT_MAX_NAME_BYTES)
      return `an environment name is over ${ENVIRONMENT_MAX_NAME_BYTES} bytes`
    if (utf8Bytes(value) > ENVIRONMENT_MAX_VALUE_BYTES)
      return `environment variable ${name} is over ${ENVIRONMENT_MAX_VALUE_BYTES} bytes`
    total += utf8Bytes(name) + utf8Bytes(value)
  }
  return total > ENVIRONMENT_MAX_TOTAL_BYTES
    ? `the environment is over ${ENVIRONMENT_MAX_TOTAL_BYTES} bytes in total`
    : undefined
}

/** Profile [env] without the reserved names: a profile cannot pretend to be another session. */
export function profileEnvironment(env: Environment): Environment {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('POHUNEK_')))
}

/** Environment of a worker process itself: only what finds directories. Nothing that changes how node starts. */
export function workerEnvironment(daemon: Readonly<Record<string, string | undefined>>): Environment {
  const kept = [
    'PATH',
    'HOME',
    'USER',
    'LOGNAME',
    'LANG',
    'LC_*',
    'TMPDIR',
    'XDG_RUNTIME_DIR',
    'XDG_CONFIG_HOME',
    'XDG_DATA_HOME',
    'XDG_STATE_HOME',
    'XDG_CACHE_HOME',
  ]
  const env: Record<string, string> = {}
  for (const [name, value] of Object.entries(daemon)) if (value !== undefined && matches(name, kept)) env[name] = value
  return env
}
