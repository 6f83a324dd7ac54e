/** <config>/attach.conf: key=value lines, # comments (contract/environment.md §2). */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { RECONNECT, type Reconnect } from '../../client/reconnect.ts'

/** Pure. Values that are no non-negative number are reported in `problems` and leave the default. */
export function parseAttachConfig(text: string): { reconnect: Reconnect; problems: string[] } {
  const problems: string[] = []
  const reconnect = { ...RECONNECT }
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
    return { reconnect: RECONNECT, problems: missing ? [] : [`attach.conf: ${(failure as Error).message}`] }
  }
}
