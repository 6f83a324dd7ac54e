import { expect, test } from 'vitest'
import {
  endOf,
  isOver,
  owed,
  runtimeStateOf,
  step,
  storedPhase,
  type Cause,
  type Phase,
} from '../../plugins/sessions/machine.ts'

const check = (from: Phase, causes: Cause[], end: Phase): void => expect(causes.reduce(step, from)).toBe(end)

test('a normal life', () => check('creating', ['committed', 'stop_sent', 'child_exited'], 'ended'))
test('a program that ends by itself', () => check('creating', ['committed', 'child_exited'], 'ended'))
test('a lost connection that comes back', () => check('creating', ['committed', 'link_lost', 'adopted'], 'running'))
test('a worker that is gone', () => check('creating', ['committed', 'link_lost', 'worker_gone'], 'lost'))
test('a conflict that clears', () =>
  check('unreachable', ['evidence_conflicts', 'evidence_conflicts', 'adopted'], 'running'))
test('a stop that was not seen through', () =>
  check('creating', ['committed', 'stop_sent', 'link_lost', 'adopted', 'stop_sent', 'child_exited'], 'ended'))

test('nothing happens to a session that is over', () => {
  const causes: Cause[] = [
    'committed',
    'stop_sent',
    'child_exited',
    'link_lost',
    'adopted',
    'worker_gone',
    'evidence_conflicts',
    'no_common_protocol',
  ]
  for (const phase of ['ended', 'lost'] as const) {
    expect(isOver(phase)).toBe(true)
    for (const cause of causes) expect(() => step(phase, cause)).toThrow(phase)
  }
})

test('only a creation is committed', () => {
  for (const phase of ['running', 'unreachable', 'conflict'] as const) expect(() => step(phase, 'committed')).toThrow()
})

test.each([
  ['run', 'running', 'nothing'],
  ['stop', 'running', 'send_stop'],
  ['stop', 'unreachable', 'send_stop'],
  ['stop', 'conflict', 'nothing'],
  ['stop', 'ended', 'nothing'],
  ['remove', 'conflict', 'remove'],
  ['remove', 'ended', 'remove'],
] as const)('%s and %s owes %s', (intent, phase, action) => expect(owed(intent, phase)).toBe(action))

const exit = { stopped_by_user: false, exited_at_ms: 0, output_force_closed: false }
test.each([
  [{ ...exit, code: 0 }, 'run', 'done', 0],
  [{ ...exit, code: 3 }, 'run', 'failed', 3],
  [{ ...exit, signal: 15 }, 'run', 'failed', 143],
  [{ ...exit, signal: 15, stopped_by_user: true }, 'run', 'stopped', 143],
  [{ ...exit, code: 0 }, 'stop', 'stopped', 0],
  [exit, 'run', 'failed', undefined],
] as const)('the end %j of a session to %s is %s', (it, intent, state, exitCode) =>
  expect(endOf(it, intent)).toEqual({ state, exitCode }),
)

test('a stored session is over only when its runtime was', () => {
  expect(storedPhase('done', 'terminal')).toBe('ended')
  expect(storedPhase('failed', 'lost')).toBe('lost')
  for (const runtime of ['live', 'starting', 'reconnecting', 'conflict', 'incompatible'] as const)
    expect(storedPhase('running', runtime)).toBe('unreachable')
  expect(runtimeStateOf('unreachable')).toBe('reconnecting')
})
