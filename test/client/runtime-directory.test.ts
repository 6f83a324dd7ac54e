/** A runtime directory somebody else could have made is trusted by no client. */
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { checkRuntimeDirectory } from '../../client/runtime-directory.ts'
import { privateRoot } from '../harness/kernel.ts'

const refusal = (runtime: string): string | undefined => {
  try {
    checkRuntimeDirectory({ runtime, runtimeIsFallback: true })
    return undefined
  } catch (failure) {
    return `${(failure as { code: string }).code}: ${(failure as Error).message}`
  }
}

test('only a real directory of this user with mode 0700 is', () => {
  const root = privateRoot()
  const [own, open, link, file] = ['own', 'open', 'link', 'file'].map((it) => join(root, it)) as [
    string,
    string,
    string,
    string,
  ]
  for (const it of [own, open]) mkdirSync(it, { mode: 0o700 })
  chmodSync(open, 0o755)
  symlinkSync(own, link)
  writeFileSync(file, '')
  expect([join(root, 'none'), own].map(refusal)).toEqual([undefined, undefined])
  expect([open, link, file].map(refusal)).toEqual([
    `runtime_directory_unsafe: ${open} has mode 0755, not 0700`,
    `runtime_directory_unsafe: ${link} is not a directory`,
    `runtime_directory_unsafe: ${file} is not a directory`,
  ])
  expect(refusal('/proc/1')).toMatch(process.geteuid?.() === 0 ? /has mode/ : /belongs to another user/)
  expect(() => checkRuntimeDirectory({ runtime: open, runtimeIsFallback: false })).not.toThrow()
})
