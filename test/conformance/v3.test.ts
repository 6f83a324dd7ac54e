/** contract/protocol.md §9 as tables. Pure: the adapter; its place in dispatch is tested with the sockets. */
import { describe, expect, test } from 'vitest'
import { downgradeEvent, downgradeResult, upgradeParams } from '../../protocol/window/v3.ts'
import { plugins } from '../../main/plugins.ts'
import type { Contract } from '../../protocol/contract.ts'
import { testKernel } from '../harness/kernel.ts'
import { demo } from '../kernel/fixtures.ts'

const four = { runtime_generation: '1', worker_instance_id: 'w' }
const three = { runtime_generation: '1', runtime_id: 'w' }
/** Free-form values keep the v4 spelling. */
const free = { metadata: { worker_instance_id: 'mine' } }

describe('params', () => {
  const places: [string, unknown, unknown][] = [
    ['session.output', { session_id: 's', runtime: three }, { session_id: 's', runtime: four }],
    ['session.wait', { session_id: 's', runtime: three }, { session_id: 's', runtime: four }],
    ['session.report_native_id', { agent: 'a', ...three }, { agent: 'a', ...four }],
  ]
  test.each(places)('%s', (method, old, current) => {
    expect(upgradeParams(method, old)).toEqual(current)
    expect(() => upgradeParams(method, current)).toThrow(expect.objectContaining({ code: 'bad_request' }))
  })
  test.each([
    ['session.output', { session_id: 's', max_bytes: 1 }],
    ['session.output', null],
    ['session.output', 'text'],
    ['session.output', { runtime: null }],
    ['session.set_metadata', { session_id: 's', metadata: { runtime_id: 'x', worker_instance_id: 'y' } }],
    ['session.resize', { runtime_id: 'x' }],
  ])('%s without a place is left alone', (method, params) => expect(upgradeParams(method, params)).toEqual(params))
})

describe('results', () => {
  const places: [string, unknown, unknown][] = [
    [
      'session.list',
      [{ id: 's', runtime: four, ...free }, { id: 't' }],
      [{ id: 's', runtime: three, ...free }, { id: 't' }],
    ],
    ...['session.inspect', 'session.new', 'session.fork'].map((m): [string, unknown, unknown] => [
      m,
      { id: 's', runtime: four, ...free },
      { id: 's', runtime: three, ...free },
    ]),
    ...['session.resume', 'session.resize', 'session.set_metadata', 'session.rename', 'session.wait'].map(
      (m): [string, unknown, unknown] => [
        m,
        { session: { runtime: four, ...free } },
        { session: { runtime: three, ...free } },
      ],
    ),
    ['session.input', { accepted: true, runtime: four }, { accepted: true, runtime: three }],
    ...['session.screen', 'session.read', 'session.output'].map((m): [string, unknown, unknown] => [
      m,
      { a: 1, ...four },
      { a: 1, ...three },
    ]),
    [
      'session.runtime_inventory',
      { entries: [{ runtime_slot: 'x', ...four }, {}] },
      { entries: [{ runtime_slot: 'x', ...three }, {}] },
    ],
    ['session.stop', { stopped: true, ...four }, { stopped: true, ...four }],
  ]
  test.each(places)('%s', (method, current, old) => expect(downgradeResult(method, current)).toEqual(old))

  test('dropped keys and warnings', () => {
    const session = {
      id: 's',
      native_last_activity_at: 't',
      background: {},
      cwd_missing: true,
      warnings: ['fetch', 'base_branch_fallback', 'setup_script', 'hook', 'native_recovery', 'later'].map((kind) => ({
        kind,
        message: 'm',
      })),
    }
    expect(downgradeResult('session.inspect', session)).toEqual({
      id: 's',
      warnings: ['fetch', 'base_branch_fallback', 'setup_script', 'hook'].map((kind) => ({ kind, message: 'm' })),
    })
  })

  test('the input is not changed', () => {
    const result = { session: { runtime: { ...four }, background: {} } }
    downgradeResult('session.rename', result)
    expect(result).toEqual({ session: { runtime: four, background: {} } })
  })

  test('both spellings in one object are version_adapter_failed', () => {
    expect(() => downgradeResult('session.screen', { ...four, ...three })).toThrow(
      expect.objectContaining({ code: 'version_adapter_failed' }),
    )
  })
})

describe('events', () => {
  const sessionEvents = [
    'session_created',
    'session_updated',
    'session_stopped',
    'session_removed',
    'session_runtime_reconnected',
    'session_runtime_lost',
    'session_runtime_conflict',
  ]
  const places: [string, Record<string, unknown>, unknown][] = [
    ...['agent_state', 'subagent_state'].map((e): [string, Record<string, unknown>, unknown] => [
      e,
      { session_id: 's', runtime: four },
      { session_id: 's', runtime: three },
    ]),
    ...sessionEvents.map((e): [string, Record<string, unknown>, unknown] => [
      e,
      { session: { runtime: four, ...free } },
      { session: { runtime: three, ...free } },
    ]),
    ['session_runtime_discovered', { entry: { ...four } }, { entry: three }],
    [
      'session_native_recovered',
      { session: { runtime: four }, previous_worker_instance_id: 'p', worker_instance_id: 'w' },
      { session: { runtime: three }, previous_runtime_id: 'p', runtime_id: 'w' },
    ],
    ['attach_opened', { session_id: 's', stream_id: 'a' }, { session_id: 's', stream_id: 'a' }],
  ]
  test.each(places)('%s', (event, current, old) => expect(downgradeEvent(event, current)).toEqual(old))
})

test('contracts mark what protocol 3 lacks', () => {
  // contract/protocol.md §9
  const missing = (method: string): boolean => /^(package\.|session\.wait_turn$)/.test(method)
  const known = new Set(
    `agent_state subagent_state attach_opened attach_closed notification_created notification_updated
    notification_deleted session_created session_updated session_stopped session_removed session_runtime_reconnected
    session_runtime_lost session_runtime_conflict session_runtime_discovered session_native_recovered`.split(/\s+/),
  )
  for (const { contract } of plugins as readonly { contract: Contract }[]) {
    for (const [method, spec] of Object.entries(contract.methods))
      expect([method, (spec.since ?? 3) > 3]).toEqual([method, missing(method)])
    for (const [event, spec] of Object.entries(contract.events))
      expect([event, (spec.since ?? 3) === 3]).toEqual([event, known.has(event)])
  }
})

test('dispatch runs the adapters on version 3 and only there', async () => {
  const { call } = await testKernel([demo().bootable])
  expect(await call('demo.newer', null, { version: 4 })).toBe('new')
  await expect(call('demo.newer', null, { version: 3 })).rejects.toMatchObject({ code: 'method_not_found' })
  await expect(call('demo.local', null, { local: false })).rejects.toMatchObject({ code: 'local_only_method' })
})
