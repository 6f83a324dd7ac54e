/** Failures nobody took: what ends the daemon and what does not. */
import { EventEmitter } from 'node:events'
import { expect, test } from 'vitest'
import type { Log } from '../../kernel/log.ts'
import { takeFailures } from '../../main/failures.ts'

test('a rejection is an incident and the daemon goes on; an exception ends it', () => {
  const told: unknown[] = []
  const log = { error: (facts: unknown) => told.push(facts) } as unknown as Log
  const program = new EventEmitter()
  let ended = 0
  takeFailures(program, log, () => ended++)
  const [first, second] = [new Error('first'), new Error('second')]
  program.emit('unhandledRejection', first)
  expect([told, ended]).toEqual([
    [{ incident: expect.stringMatching(/^i-/), where: expect.any(String), err: first }],
    0,
  ])
  program.emit('uncaughtException', second)
  expect([told[1], ended]).toEqual([expect.objectContaining({ err: second }), 1])
})
