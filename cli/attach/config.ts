/** <config>/attach.conf: key=value lines, # comments (contract/environment.md §2). */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Reconnect {
  /** Bound of one interruption, milliseconds; 0 turns reconnecting off. */
  readonly windowMs: number
  /** Least time between two attempts. */
  readonly intervalMs: number
  /** Attempts that reached a daemon and did not bring the stream back. */
  readonly maxAttempts: number
}

export const DEFAULTS: Reconnect = { windowMs: 20_000, intervalMs: 500, maxAttempts: 3 }

/** Pure. Values that are no non-negative number are reported in `problems` and leave the default. */
export function parseAttachConfig(text: string): { reconnect: Reconnect; problems: string[] } {
  const problems: string[] = []
  const reconnect = { ...DEFAULTS }
  text.split('\n').forEach((raw, at) => {
    const line = raw.replace(/#.*/, '').trim()
    if (line === '') return
    const [, key, value = ''] = /^([A-Za-z_]+)\s*=\s*(.*)$/.exec(line) ?? []
    const number = /^\d+(\.\d+)?$/.test(value) ? Number(value) : Number.NaN
    if (key === undefined || Number.isNaN(number)) problems.push(`line ${at + 1}: not <key>=<number>`)
    else if (key === 'attach_reconnect_seconds') reconnect.windowMs = number * 1000
    else if (key === 'attach_reconnect_interval_seconds') reconnect.intervalMs = number * 1000
    else if (key === 'attach_reconnect_max_attempts') reconnect.maxAttempts = Math.floor(number)
    else problems.push(`line ${at + 1}: unknown key ${key}`)
  })
  return { reconnect, problems }
}

export function loadAttachConfig(config: string): { reconnect: Reconnect; problems: string[] } {
  try {
    return parseAttachConfig(readFileSync(join(config, 'attach.conf'), 'utf8'))
  } catch (failure) {
    const missing = (failure as NodeJS.ErrnoException).code === 'ENOENT'
    return { reconnect: DEFAULTS, problems: missing ? [] : [`attach.conf: ${(failure as Error).message}`] }
  }
}

/** One interruption so far. */
export interface Interruption {
  readonly sinceMs: number
  readonly attempts: number
}

/** Pure. Milliseconds until the next attempt, or that there is none. */
export function nextAttempt(conf: Reconnect, now: Interruption): number | 'give_up' {
  if (now.sinceMs >= conf.windowMs || now.attempts >= conf.maxAttempts) return 'give_up'
  return conf.intervalMs
}
