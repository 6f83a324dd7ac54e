import { appendFileSync, cpSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parseDescriptor } from '../../plugins/packages/descriptor.ts'
import { officialSet, officialDirectory } from '../../plugins/packages/official.ts'
import { shellDescriptor } from '../../plugins/packages/runtimes.ts'
import { privateRoot } from '../harness/kernel.ts'

test('the runtimes of this build are read, and the shell that is compiled in is the one of its file', () => {
  const { runtimes, problems } = officialSet(officialDirectory())
  expect(problems).toEqual([])
  expect([...runtimes.keys()]).toEqual(['claude', 'codex', 'hermes', 'pi', 'shell'])
  const file = join(officialDirectory(), 'shell/runtime.toml')
  expect(parseDescriptor(readFileSync(file), file)).toEqual(shellDescriptor)
})

test('the slow start of pi is waited for: over 3 s on a busy machine', () => {
  const { runtimes } = officialSet(officialDirectory())
  expect(runtimes.get('pi')?.descriptor.runtime.versions?.timeoutMs).toBe(10_000)
  expect(runtimes.get('hermes')?.descriptor.runtime.versions?.timeoutMs).toBe(2_000)
})

test('a runtime whose manifest is not UTF-8 is left out and told', () => {
  const directory = join(privateRoot(), 'official')
  cpSync(officialDirectory(), directory, { recursive: true })
  const file = join(directory, 'claude/detect.toml')
  appendFileSync(file, Buffer.from([0x23, 0xff]))
  const { runtimes, problems } = officialSet(directory)
  expect([...runtimes.keys()]).toEqual(['codex', 'hermes', 'pi', 'shell'])
  expect(problems).toEqual([expect.stringContaining(`${file}: is not UTF-8 text`)])
})
