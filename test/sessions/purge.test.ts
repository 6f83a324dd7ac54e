import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { resolvePaths } from '../../kernel/paths.ts'
import { purgeFiles } from '../../plugins/sessions/purge.ts'
import { sessionLogName, sessionOfLog } from '../../protocol/worker/files.ts'
import { envBelow, privateRoot } from '../harness/kernel.ts'

const id = `s-${'0'.repeat(26)}`
const places = () => resolvePaths(envBelow(privateRoot()), { uid: 0, platform: 'linux', tmpdir: '/tmp' })

test('what is not there is no error; a directory that cannot be listed is one', async () => {
  const paths = places()
  await purgeFiles(paths, id)
  mkdirSync(paths.state, { recursive: true })
  writeFileSync(paths.logs, 'not a directory')
  await expect(purgeFiles(paths, id)).rejects.toMatchObject({ code: 'ENOTDIR' })
})

test('a log and its rotated files are told to be of their session, others of none', () => {
  const name = sessionLogName(id)
  expect([name, `${name}.3`, `${name}x`, join('a', name), 'pohunekd.jsonl'].map(sessionOfLog)).toEqual([
    id,
    id,
    undefined,
    undefined,
    undefined,
  ])
})
