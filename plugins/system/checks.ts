/** What every daemon needs, as checks of daemon.doctor. Plugins add their own beside these. */
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import { METADATA_LOG } from '../../kernel/paths.ts'
import type { Diagnostics, Finding, Kernel } from '../../kernel/plugin.ts'

type Check = Parameters<Diagnostics['add']>[0]

const OLDEST_NODE = [20, 19] as const

const canAccess = (path: string, mode: number): boolean => {
  try {
    accessSync(path, mode)
    return true
  } catch {
    return false
  }
}

/** First executable `name` in the directories; undefined when there is none. */
function findProgram(name: string, directories: readonly string[]): string | undefined {
  return directories.map((directory) => join(directory, name)).find((path) => canAccess(path, constants.X_OK))
}

function git(searchPath: readonly string[]): Finding {
  const found = findProgram('git', searchPath)
  if (found !== undefined) return { status: 'ok', detail: found }
  return { status: 'warn', detail: 'git was not found on PATH; install it to use projects and worktrees' }
}

function writable(path: string): Finding {
  if (canAccess(path, constants.W_OK | constants.X_OK)) return { status: 'ok', detail: path }
  return {
    status: 'fail',
    detail: `${path} is missing or cannot be written; make it a directory of mode 0700 of this user`,
  }
}

function store(quarantined: readonly unknown[]): Finding {
  if (quarantined.length === 0) return { status: 'ok', detail: 'every stored record was read' }
  return {
    status: 'warn',
    detail: `${quarantined.length} stored lines could not be read and were set aside; see the daemon log and ${METADATA_LOG}.quarantine`,
  }
}

function runtimeDirectory(paths: Kernel['paths']): Finding {
  if (!paths.runtimeIsFallback) return { status: 'ok', detail: paths.runtime }
  return {
    status: 'warn',
    detail: `XDG_RUNTIME_DIR is unset; ${paths.runtime} is used, set the variable to a private directory`,
  }
}

/** Pure. */
function nodeVersion(version: string): Finding {
  const [major = 0, minor = 0] = version.replace(/^v/, '').split('.').map(Number)
  const isEnough = major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1])
  if (isEnough) return { status: 'ok', detail: version }
  return { status: 'fail', detail: `${version} is too old; install Node ${OLDEST_NODE.join('.')} or newer` }
}

/** The checks of this daemon's own needs, by the names of contract/types.md. */
export function systemChecks({ paths, config, tables, env }: Kernel): Check[] {
  const searchPath = [...config.environment.searchPath, ...(env.PATH ?? '').split(delimiter)].filter((it) => it !== '')
  return [
    { name: 'bin:git', required: false, run: () => git(searchPath) },
    { name: 'node', required: true, run: () => nodeVersion(process.version) },
    { name: 'runtime_dir', required: false, run: () => runtimeDirectory(paths) },
    { name: 'socket_dir_writable', required: true, run: () => writable(paths.runtime) },
    { name: 'state_dir_writable', required: true, run: () => writable(paths.state) },
    { name: 'data_dir_writable', required: true, run: () => writable(paths.data) },
    { name: 'log_dir_writable', required: true, run: () => writable(paths.logs) },
    { name: 'schema_version', required: true, run: () => store(tables.quarantined) },
  ]
}
