/** Records of a daemon that is not running, as if nobody had touched the sessions for years. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Roots } from '../harness/roots.ts'

const LONG_AGO = '2020-01-01T00:00:00.000Z'

const logOf = (roots: Roots): string => join(roots.data, 'pohunek/metadata.jsonl')

/** Lets the last activity of all sessions, or of one, be years ago. */
export function ageSessions(roots: Roots, id?: string): void {
  const file = logOf(roots)
  if (!existsSync(file)) return
  const lines = readFileSync(file, 'utf8')
    .split('\n')
    .map((it) =>
      id === undefined || it.includes(id) ? it.replace(/"updated_at":"[^"]*"/g, `"updated_at":"${LONG_AGO}"`) : it,
    )
  writeFileSync(file, lines.join('\n'))
}

/** Sessions whose removal is recorded and not finished: the next daemon owes it. */
export function owedRemovals(roots: Roots): Set<string> {
  const owed = new Set<string>()
  if (!existsSync(logOf(roots))) return owed
  for (const line of readFileSync(logOf(roots), 'utf8').split('\n')) {
    let raw: Record<string, unknown>
    try {
      raw = JSON.parse(line) as Record<string, unknown>
    } catch {
      continue // the last line may be torn
    }
    const changes = raw['kind'] === '$batch' ? (raw['changes'] as Record<string, unknown>[]) : [raw]
    for (const it of changes) {
      if (it['kind'] !== 'session') continue
      if (it['intent'] === 'remove') owed.add(it['key'] as string)
      else owed.delete(it['key'] as string)
    }
  }
  return owed
}
