import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parseDescriptor } from '../../plugins/packages/descriptor.ts'
import { officialSet, officialDirectory } from '../../plugins/packages/official.ts'
import { shellDescriptor } from '../../plugins/packages/runtimes.ts'

test('the runtimes of this build are read, and the shell that is compiled in is the one of its file', () => {
  const { runtimes, problems } = officialSet(officialDirectory())
  expect(problems).toEqual([])
  expect([...runtimes.keys()]).toEqual(['claude', 'codex', 'hermes', 'pi', 'shell'])
  const file = join(officialDirectory(), 'shell/runtime.toml')
  expect(parseDescriptor(readFileSync(file), file)).toEqual(shellDescriptor)
})
