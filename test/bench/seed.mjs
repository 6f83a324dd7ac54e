// Stored sessions for a root: one real session is run to its end by a daemon of its own, and its stored line is copied
// under new ids. So the records always have the present format, whatever it is.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'

let template

async function oneRecord(bench) {
  if (template !== undefined) return template
  const root = bench.root()
  root.profile('short', ['/bin/true'])
  const { wire } = await root.start()
  const { id } = await wire.call('session.new', { agent: 'short', cols: 80, rows: 24 })
  for (let round = 0; ; round++) {
    const { state, runtime } = await wire.call('session.inspect', id)
    if (['done', 'failed', 'stopped'].includes(state) && runtime?.state === 'terminal') break
    if (round > 500) throw new Error(`the sample session stays ${state}/${runtime?.state}`)
    await pause(20)
  }
  await pause(500)
  await root.stopDaemon()
  const lines = readFileSync(root.metadataPath(), 'utf8')
    .split('\n')
    .filter((it) => it.includes(id))
  const last = lines.at(-1)
  if (last === undefined) throw new Error('the sample session was not stored')
  await bench.drop(root)
  template = { id, line: last }
  return template
}

const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

/** A session id of the daemon's own form, ordered by `index`. */
export function sessionId(index) {
  let text = ''
  for (let rest = index, i = 0; i < 6; i++, rest = Math.floor(rest / 32)) text = ALPHABET[rest % 32] + text
  return `s-01JBENCH00${text.padStart(16, '0')}`
}

/** Writes `count` ended sessions into a root whose daemon has not run yet. Answers their ids. */
export async function seed(bench, root, count) {
  const { id, line } = await oneRecord(bench)
  const ids = Array.from({ length: count }, (_, index) => sessionId(index))
  const path = root.metadataPath()
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  writeFileSync(path, ids.map((it) => `${line.replaceAll(id, it)}\n`).join(''), { mode: 0o600 })
  return ids
}
