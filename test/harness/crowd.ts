/** A daemon that finds thousands of ended sessions in its store. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { until } from './wait.ts'
import { world, type World } from './world.ts'

const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

/** A session id of the daemon's own form, ordered by `index`. */
function idOf(index: number): string {
  let text = ''
  for (let rest = index, digit = 0; digit < 6; digit++, rest = Math.floor(rest / 32)) text = ALPHABET[rest % 32] + text
  return `s-01JSTQRED0${text.padStart(16, '0')}`
}

/** A world whose daemon finds `count` ended sessions, made of one it wrote itself; they are called n<index>. */
export async function crowded(
  count: number,
  metadata: Record<string, string> = {},
): Promise<{ it: World; ids: string[] }> {
  // Thousands of records are not removed one by one at the end.
  const it = await world({ end: 'kill' })
  const session = await it.sh('exit 0', { name: 'n-template', metadata })
  await session.ended()
  const store = join(it.roots.data, 'pohunek/metadata.jsonl')
  const lines = (): string[] => readFileSync(store, 'utf8').split('\n')
  await until('the end is stored', () =>
    lines().some((line) => line.includes(session.id) && /"(done|terminal)"/.test(line)),
  )
  await it.daemon.stop()
  const line = lines().findLast((record) => record.includes(session.id)) as string
  const ids = Array.from({ length: count }, (_, index) => idOf(index))
  const records = ids.map((id, index) => line.replaceAll(session.id, id).replaceAll('n-template', `n${index}`))
  writeFileSync(store, records.map((record) => `${record}\n`).join(''), { mode: 0o600 })
  await it.start()
  return { it, ids }
}
