import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { privateDir, readPrivate, writeAtomic, writeAtomicSync } from '../../kernel/secure-files.ts'
import { temporary } from './fixtures/temporary.ts'

const asRoot = process.geteuid?.() === 0

test('missing parts are made private, whatever the umask', () => {
  const base = temporary()
  const before = process.umask(0)
  try {
    privateDir(join(base, 'a/b/c'), base)
    privateDir(join(base, 'x/y/z'))
  } finally {
    process.umask(before)
  }
  for (const path of ['a', 'a/b', 'a/b/c', 'x', 'x/y', 'x/y/z'])
    expect(statSync(join(base, path)).mode & 0o777).toBe(0o700)
  privateDir(join(base, 'a/b/c'), base)
})

test('a directory that is not exactly private is refused with what was found and how to mend it', () => {
  const base = temporary()
  const path = join(base, "it's")
  mkdirSync(path)
  chmodSync(path, 0o750)
  expect(() => privateDir(path)).toThrow(`${path} is not private to this user: its mode is 0750, not 0700`)
  expect(catching(() => privateDir(path))).toMatchObject({
    class: 'configuration',
    code: 'path_not_private',
    recover: `chmod 0700 '${base}/it'\\''s'`,
  })
  expect(statSync(path).mode & 0o777).toBe(0o750)
  mkdirSync(join(base, 'real'), { mode: 0o700 })
  symlinkSync(join(base, 'real'), join(base, 'link'))
  expect(() => privateDir(join(base, 'link'))).toThrow('symbolic link')
  expect(() => privateDir(join(base, 'link/below'), base)).toThrow('symbolic link')
  expect(existsSync(join(base, 'real/below'))).toBe(false)
  writeFileSync(join(base, 'file'), '')
  expect(() => privateDir(join(base, 'file'))).toThrow('not a directory')
})

test.runIf(asRoot)('a foreign owner is refused', async () => {
  const { chownSync } = await import('node:fs')
  const base = temporary()
  mkdirSync(join(base, 'd'), { mode: 0o700 })
  chownSync(join(base, 'd'), 4_321, 4_321)
  expect(() => privateDir(join(base, 'd'))).toThrow('it belongs to uid 4321, not 0')
  writeFileSync(join(base, 'f'), 'x', { mode: 0o600 })
  chownSync(join(base, 'f'), 4_321, 4_321)
  expect(catching(() => readPrivate(join(base, 'f'), 10))).toMatchObject({
    code: 'path_not_private',
    recover: `chown 0 '${base}/f'`,
  })
})

test.each(['async', 'sync'])('replacing a file is atomic and private: %s', async (way) => {
  const base = temporary()
  const path = join(base, 'f')
  writeFileSync(path, 'old')
  linkSync(path, join(base, 'other-name'))
  const write = async (text: string): Promise<void> =>
    way === 'async' ? writeAtomic(path, text) : writeAtomicSync(path, Buffer.from(text))
  await write('new')
  expect(readFileSync(path, 'utf8')).toBe('new')
  expect(statSync(path).mode & 0o777).toBe(0o600)
  // Written beside and renamed: whoever has the old file open keeps the old bytes.
  expect(readFileSync(join(base, 'other-name'), 'utf8')).toBe('old')
  symlinkSync('/etc/hostname', join(base, 'link'))
  expect(readdirSync(base).sort()).toEqual(['f', 'link', 'other-name'])
})

test('a replacement takes the place of a symlink instead of writing through it', async () => {
  const base = temporary()
  writeFileSync(join(base, 'victim'), 'victim')
  symlinkSync(join(base, 'victim'), join(base, 'f'))
  await writeAtomic(join(base, 'f'), 'mine')
  expect(readFileSync(join(base, 'victim'), 'utf8')).toBe('victim')
  expect(lstatSync(join(base, 'f')).isFile()).toBe(true)
})

test('a replacement that fails leaves the old file and no leftover', async () => {
  const base = temporary()
  mkdirSync(join(base, 'd/inside'), { recursive: true })
  await expect(writeAtomic(join(base, 'd'), 'x')).rejects.toThrow()
  expect(() => writeAtomicSync(join(base, 'd'), 'x')).toThrow()
  expect(readdirSync(base)).toEqual(['d'])
})

test('reading: none, whole, too large, symlink, writable by others, no regular file', () => {
  const base = temporary()
  expect(readPrivate(join(base, 'none'), 10)).toBeUndefined()
  writeFileSync(join(base, 'f'), '0123456789', { mode: 0o600 })
  expect(readPrivate(join(base, 'f'), 10)?.toString()).toBe('0123456789')
  expect(catching(() => readPrivate(join(base, 'f'), 9))).toMatchObject({ code: 'file_too_large' })
  symlinkSync(join(base, 'f'), join(base, 'link'))
  expect(catching(() => readPrivate(join(base, 'link'), 10))).toMatchObject({ code: 'path_not_private' })
  chmodSync(join(base, 'f'), 0o602)
  expect(catching(() => readPrivate(join(base, 'f'), 10))).toMatchObject({ recover: `chmod 0600 '${base}/f'` })
  expect(spawnSync('mkfifo', [join(base, 'fifo')]).status).toBe(0)
  // A pipe without a writer must not hold the reader.
  expect(catching(() => readPrivate(join(base, 'fifo'), 10))).toMatchObject({ code: 'path_not_private' })
})

function catching(run: () => unknown): unknown {
  try {
    run()
  } catch (failure) {
    return failure
  }
  throw new Error('nothing was thrown')
}
