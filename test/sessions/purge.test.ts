import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { resolvePaths } from '../../kernel/paths.ts'
import { purgeFiles } from '../../plugins/sessions/purge.ts'
import { sessionLogName, sessionOfLog } from '../../protocol/worker/files.ts'
import { envBelow, privateRoot } from '../harness/kernel.ts'

const id = `s-${'0'.repeat(26)}`
const places = () => resolvePaths(envBelow(privateRoot()), { uid: 0, platform: 'linux', tmpdir: '/tmp' })

test('what is not there is no error, also where a file took the place of a directory', async () => {
  const paths = places()
  await purgeFiles(paths, id)
  for (const it of [paths.logs, dirname(paths.sessionTmp(id)), dirname(paths.journals(id))]) {
    mkdirSync(dirname(it), { recursive: true })
    writeFileSync(it, 'not a directory')
  }
  await purgeFiles(paths, id)
})

/** The rights of root hide what a user meets. */
async function asUser(root: string, run: () => Promise<void>): Promise<void> {
  if (process.geteuid?.() !== 0) return run()
  execFileSync('chown', ['-R', '65534', root])
  process.seteuid?.(65534)
  try {
    await run()
  } finally {
    process.seteuid?.(0)
  }
}

test('a directory that a program made read-only goes with its session; a link in it is not followed', async () => {
  const root = privateRoot()
  const paths = resolvePaths(envBelow(root), { uid: 0, platform: 'linux', tmpdir: '/tmp' })
  const [module, elsewhere] = [join(paths.sessionTmp(id), 'mod/pkg'), join(root, 'elsewhere')]
  mkdirSync(module, { recursive: true })
  mkdirSync(elsewhere)
  writeFileSync(join(module, 'a.go'), '')
  symlinkSync(elsewhere, join(paths.sessionTmp(id), 'mod/link'))
  for (const it of [elsewhere, module, dirname(module)]) chmodSync(it, 0o555)
  await asUser(root, () => purgeFiles(paths, id))
  expect(existsSync(paths.sessionTmp(id))).toBe(false)
  expect(statSync(elsewhere).mode & 0o777).toBe(0o555)
})

test('what cannot be deleted is named', async () => {
  const root = privateRoot()
  const paths = resolvePaths(envBelow(root), { uid: 0, platform: 'linux', tmpdir: '/tmp' })
  const above = dirname(paths.sessionTmp(id))
  mkdirSync(paths.sessionTmp(id), { recursive: true })
  chmodSync(above, 0o555)
  await asUser(root, () =>
    expect(purgeFiles(paths, id)).rejects.toMatchObject({ code: 'io_error', message: expect.stringContaining(above) }),
  )
  chmodSync(above, 0o700)
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
