/**
 * The base environment of a session's program (contract/environment.md §1): built from empty out of an allow list,
 * never inherited. Pure.
 */
import { isRemoved, matches } from '../../protocol/worker/environment.ts'

/** `X_*` stands for every name with that prefix. */
const DEFAULT_ALLOWLIST = [
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

/**
 * The programs' wrappers move these aside before node starts, because they slow each of our own processes down; the
 * session's program gets them back under their own names.
 */
const PASSED_ON = {
  POHUNEK_PASS_NODE_EXTRA_CA_CERTS: 'NODE_EXTRA_CA_CERTS',
  POHUNEK_PASS_NODE_OPTIONS: 'NODE_OPTIONS',
} as const

export type Environment = Readonly<Record<string, string>>

export interface BaseEnvironment {
  readonly daemon: Readonly<Record<string, string | undefined>>
  readonly allowlist: readonly string[]
  readonly tmpdir: string
}

/** What of the daemon's environment its programs get, with the session's own TMPDIR and a terminal's names. */
export function baseEnvironment({ daemon, allowlist, tmpdir }: BaseEnvironment): Environment {
  const allowed = [...DEFAULT_ALLOWLIST, ...allowlist]
  const base: Record<string, string> = {}
  for (const [name, value] of Object.entries(daemon)) {
    if (value !== undefined && matches(name, allowed) && !isRemoved(name)) base[name] = value
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
