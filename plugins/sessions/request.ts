/** Pure checks of what a caller asks for; nothing has happened when one of these refuses. */
import { isAbsolute } from 'node:path'
import { coreFaults } from '../../protocol/fault.ts'
import {
  MAX_SESSION_NAME_BYTES,
  METADATA_MAX_KEYS,
  METADATA_MAX_KEY_BYTES,
  METADATA_MAX_TOTAL_BYTES,
  METADATA_MAX_VALUE_BYTES,
  SCROLLBACK_ROWS,
  TERMINAL_MAX_CELLS,
  TERMINAL_MIN_COLS,
} from '../../protocol/limits.ts'
import { CONTROL_CHARACTER, utf8Bytes } from '../../protocol/scalars.ts'
import type { LaunchTarget } from './api.ts'

const refuse = (problem: string): Error => coreFaults.bad_request({ problem })

/**
 * A display name: NFC, trimmed, undefined when blank (blank clears). Two spellings of one name are one name.
 * Throws bad_request when it is over MAX_SESSION_NAME_BYTES or has a control character.
 */
export function displayName(name: string | null | undefined): string | undefined {
  const text = (name ?? '').normalize('NFC').trim()
  if (text === '') return undefined
  if (CONTROL_CHARACTER.test(text)) throw refuse('name must not contain control characters')
  if (utf8Bytes(text) > MAX_SESSION_NAME_BYTES) throw refuse(`name is over ${MAX_SESSION_NAME_BYTES} bytes`)
  return text
}

export interface Size {
  readonly cols: number
  readonly rows: number
}

/** Terminal size in cells; a width below two columns is raised to it. Throws bad_request naming the limit. */
export function terminalSize(size: Size): Size {
  if (size.cols === 0 || size.rows === 0) throw refuse('cols and rows must not be zero')
  const cols = Math.max(size.cols, TERMINAL_MIN_COLS)
  if (cols * (size.rows + SCROLLBACK_ROWS) > TERMINAL_MAX_CELLS) {
    throw refuse(
      `a terminal of ${size.cols}x${size.rows} is too large: cols x (rows + ${SCROLLBACK_ROWS} scrollback rows) must not exceed ${TERMINAL_MAX_CELLS}`,
    )
  }
  return { cols, rows: size.rows }
}

/** Metadata after `changes` (null removes a key). Throws bad_request naming the limit that would be broken. */
export function changedMetadata(
  current: Readonly<Record<string, string>>,
  changes: Readonly<Record<string, string | null>>,
): Record<string, string> {
  const merged = new Map(Object.entries(current))
  for (const [key, value] of Object.entries(changes)) {
    if (value === null) merged.delete(key)
    else merged.set(key, value)
  }
  if (merged.size > METADATA_MAX_KEYS) throw refuse(`metadata has over ${METADATA_MAX_KEYS} keys`)
  for (const [key, value] of merged) {
    if (key === '' || CONTROL_CHARACTER.test(key))
      throw refuse('metadata keys must not be empty or contain control characters')
    if (utf8Bytes(key) > METADATA_MAX_KEY_BYTES) throw refuse(`metadata key is over ${METADATA_MAX_KEY_BYTES} bytes`)
    if (utf8Bytes(value) > METADATA_MAX_VALUE_BYTES)
      throw refuse(`metadata value of ${JSON.stringify(key)} is over ${METADATA_MAX_VALUE_BYTES} bytes`)
  }
  const result = Object.fromEntries(merged)
  if (utf8Bytes(JSON.stringify(result)) > METADATA_MAX_TOTAL_BYTES)
    throw refuse(`metadata is over ${METADATA_MAX_TOTAL_BYTES} bytes in total`)
  return result
}

/** The client resolves `~` and relative paths: only it knows its own directory (FC-5e81). */
export function absoluteCwd(cwd: string | undefined): string | undefined {
  if (cwd === undefined) return undefined
  if (!isAbsolute(cwd) || cwd.includes('\0')) {
    throw refuse(
      `cwd must be an absolute path (resolve ~ and relative paths before sending), got ${JSON.stringify(cwd.slice(0, 200))}`,
    )
  }
  return cwd
}

/** Targets served by the worktrees plugin; without it they are refused rather than ignored. */
export function withoutWorktrees(params: Readonly<LaunchTarget>): void {
  for (const key of ['project', 'repo', 'branch', 'base_branch', 'reuse_branch'] as const) {
    if (params[key] !== undefined) throw refuse(`${key} needs the worktrees plugin, which this daemon does not serve`)
  }
}
