/** The claim of a starter: who has it, and what stands in its place. */
import { existsSync, mkdirSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { claimStart } from '../../cli/start-claim.ts'
import { privateRoot } from '../harness/kernel.ts'

test('one starter has it until it lets it go', () => {
  const runtime = privateRoot()
  const first = claimStart(runtime)
  expect(claimStart(runtime)).toBeUndefined()
  first?.[Symbol.dispose]()
  expect(existsSync(join(runtime, 'daemon.starting'))).toBe(false)
})

test.each([
  ['', true],
  ['nobody\n', true],
  ['4194303\n', false],
])('what names nobody (%j) is waited for a moment, then taken away', (content, waits) => {
  const runtime = privateRoot()
  const path = join(runtime, 'daemon.starting')
  writeFileSync(path, content)
  expect(claimStart(runtime)).toBeUndefined()
  expect(existsSync(path)).toBe(waits)
  if (waits) {
    utimesSync(path, new Date(), new Date(Date.now() - 2_000))
    expect(claimStart(runtime)).toBeUndefined()
  }
  using claim = claimStart(runtime)
  expect(claim).toBeDefined()
})

test.each([-3_600_000, 3_600_000])(
  'a claim of a starter whose pid is taken is not kept by a clock set by %i ms',
  (ms) => {
    const runtime = privateRoot()
    const path = join(runtime, 'daemon.starting')
    writeFileSync(path, `${process.pid}\n`)
    expect(claimStart(runtime)).toBeUndefined()
    expect(existsSync(path)).toBe(true)
    utimesSync(path, new Date(), new Date(Date.now() + ms))
    expect(claimStart(runtime)).toBeUndefined()
    using claim = claimStart(runtime)
    expect(claim).toBeDefined()
  },
)

test('a link is taken away, a directory gone past', () => {
  const runtime = privateRoot()
  const path = join(runtime, 'daemon.starting')
  symlinkSync('/nowhere', path)
  expect(claimStart(runtime)).toBeUndefined()
  expect(claimStart(runtime)?.[Symbol.dispose]()).toBeUndefined()
  mkdirSync(path)
  using claim = claimStart(runtime)
  expect(claim).toBeDefined()
  expect(existsSync(path)).toBe(true)
})
