import { describe, expect, test } from 'vitest'
import { parseAttachConfig } from '../../cli/attach/config.ts'
import { exitCodeOf, lineOf, type Ending } from '../../cli/attach/ending.ts'
import { resetFrom } from '../../cli/attach/reset.ts'
import { RECONNECT, nextAttempt } from '../../client/reconnect.ts'

describe('attach.conf', () => {
  test('the contract’s keys', () => {
    const { reconnect, problems } = parseAttachConfig(
      '# c\nattach_reconnect_seconds = 3\nattach_reconnect_interval_seconds=0.25 # x\n\nattach_reconnect_max_attempts=7\n',
    )
    expect(reconnect).toEqual({ windowMs: 3_000, intervalMs: 250, maxAttempts: 7 })
    expect(problems).toEqual([])
  })
  test('what is wrong is told and leaves the default', () => {
    const { reconnect, problems } = parseAttachConfig(
      'attach_reconnect_seconds = soon\nother = 1\nnonsense\nattach_reconnect_max_attempts=-1',
    )
    expect(reconnect).toEqual(RECONNECT)
    expect(problems).toHaveLength(4)
  })
  test.each([
    [{ sinceMs: 0, attempts: 0 }, 500],
    [{ sinceMs: 19_999, attempts: 2 }, 500],
    [{ sinceMs: 20_000, attempts: 0 }, 'give_up'],
    [{ sinceMs: 0, attempts: 3 }, 'give_up'],
  ] as const)('%j: %s', (now, next) => expect(nextAttempt(RECONNECT, now)).toBe(next))
  test('zero seconds turn it off', () =>
    expect(nextAttempt({ ...RECONNECT, windowMs: 0 }, { sinceMs: 0, attempts: 0 })).toBe('give_up'))
})

describe('FC-3d17: exit codes of attach', () => {
  const session = (state: string, exit_code?: number): Ending => ({
    kind: 'ended',
    session: { id: 's-1', state, exit_code } as never,
  })
  test.each<[string, Ending, number]>([
    ['detached', { kind: 'detached' }, 0],
    ['status 0', session('done', 0), 0],
    ['status 3', session('failed', 3), 3],
    ['killed', session('stopped', 137), 137],
    ['not observed', session('failed'), 1],
    ['could not attach', { kind: 'refused', failure: { msg: 'x' } }, 125],
    ['dropped', { kind: 'dropped', failure: { msg: 'x' } }, 126],
    ['SIGTERM', { kind: 'signal', signal: 'SIGTERM' }, 143],
    ['SIGHUP', { kind: 'signal', signal: 'SIGHUP' }, 129],
    ['removed by somebody', { kind: 'removed', byMenu: false }, 126],
    ['removed by the menu', { kind: 'removed', byMenu: true }, 0],
  ])('%s', (_, ending, code) => expect(exitCodeOf(ending)).toBe(code))
  test('the line says how it ended', () => {
    expect(lineOf(session('failed', 3), 's-1')).toBe('[session s-1 ended with exit status 3]')
    expect(lineOf(session('stopped', 143), 's-1')).toBe('[session s-1 was stopped (SIGTERM)]')
    expect(lineOf(session('failed'), 's-1')).toContain('not observed')
  })
})

test.each([true, false])('FC-75bf: the reset names every mode that outlives a program (alternate: %s)', (alternate) => {
  for (const part of [
    '\x1b[<u',
    '\x1b[>4;0m',
    '?1000l',
    '?1002l',
    '?1003l',
    '?1006l',
    '?1004l',
    '?2004l',
    '?1049l',
    '?25h',
    '?1l',
    '\x1b>',
    '?7h',
    '\x1b[r',
    '?6l',
    '\x1b[0m',
    '?2026l',
  ]) {
    expect(resetFrom({ alternate })).toContain(part)
  }
})
