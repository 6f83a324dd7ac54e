import { expect, test } from 'vitest'
import { exhaustionIn } from '../../kernel/exhaustion.ts'
import { coreFaults } from '../../protocol/fault.ts'

const errno = (code: string, cause?: unknown): Error => Object.assign(new Error(code, { cause }), { code })
const circle = new Error('round')
circle.cause = circle

test.each([
  ['EMFILE itself', errno('EMFILE'), 'client_file_descriptors_exhausted'],
  ['ENFILE itself', errno('ENFILE'), 'system_file_descriptors_exhausted'],
  [
    'a fault that says what could not be read',
    coreFaults.io_error({ what: 'x', problem: 'y' }, errno('EMFILE')),
    'client_file_descriptors_exhausted',
  ],
  [
    'a cause of a cause',
    new Error('a', { cause: new Error('b', { cause: errno('ENFILE') }) }),
    'system_file_descriptors_exhausted',
  ],
  ['another system error', errno('ENOSPC'), undefined],
  ['a fault without a cause', coreFaults.io_error({ what: 'x', problem: 'EMFILE' }), undefined],
  ['a circle of causes', circle, undefined],
  ['no error at all', 'EMFILE', undefined],
])('%s', (_, failure, code) => {
  const found = exhaustionIn(failure)
  expect(found?.code).toBe(code)
  if (found !== undefined)
    expect(found.toBody()).toMatchObject({ class: 'runtime', recover: expect.any(String) as string })
})
