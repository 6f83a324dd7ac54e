import { readdirSync } from 'node:fs'
import { expect, test } from 'vitest'
import { refused, Session } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import { station } from './station.ts'

const descriptors = (): number => readdirSync('/proc/self/fd').length

test('FC-d3bf: a full disk refuses what it cannot keep, and hides nothing that was observed', async () => {
  const diskFull = { now: false }
  const it = await station({ diskFull, allowErrors: true })
  const session = await it.program('/bin/cat', [], { name: 'before' })
  diskFull.now = true
  const before = it.traces()
  const error = await refused(it.create())
  expect(error.code).toBe('session_store_failed')
  await until('the refused creation left nothing', () => it.traces().length === before.length, {
    show: () => it.traces(),
  })
  expect((await refused(session.call('session.rename', { name: 'after' }))).code).toBe('session_store_failed')
  expect((await refused(session.stop())).code).toBe('session_store_failed')
  expect(await session.info()).toMatchObject({ name: 'before', state: 'running' })
  await session.input('still works')
  await session.untilScreen('still works')
  await session.input('\u0004')
  const client = await session.attach()
  client.write('\u0004')
  expect(await session.ended()).toMatchObject({ state: 'done', exit_code: 0 })
  diskFull.now = false
  await it.restart()
  expect(await session.info()).toMatchObject({ name: 'before', state: 'done', exit_code: 0 })
})

test('FC-cce3: neither failed nor finished sessions keep descriptors or terminals', async () => {
  const it = await station()
  it.profile('missing', ['base = "shell"', 'program = "/no/such/binary"'])
  it.profile('broken', ['base = "shell"', 'program = "/bin/true"', 'args = ["x"]'])
  await it.call('session.remove', (await it.create({ agent: 'broken' })).id)
  const fds = descriptors()
  for (let n = 0; n < 40; n++)
    expect((await refused(it.create({ agent: 'missing' }))).code).toBe('agent_binary_missing')
  const ids: string[] = []
  for (let n = 0; n < 20; n++) {
    const session = new Session(it, await it.create({ agent: 'broken' }))
    await session.ended()
    ids.push(session.id)
  }
  await until('no more workers than the bound are kept', () => it.workers().length <= 16)
  for (const id of ids) await it.call('session.remove', id)
  await until('descriptors are back', () => descriptors() <= fds, { show: () => `${descriptors()} of ${fds}` })
  // Terminals are held by workers alone: without one there is none.
  expect(it.traces()).toEqual([])
})

test('five restarts leave the same descriptors, timers and workers', async () => {
  const it = await station({ spares: 1 })
  const session = await it.program('/bin/cat', [])
  const settle = async (): Promise<[number, number]> => {
    await it.wire()
    await until('a spare is ready', () => it.workers().length === 2)
    await until(
      'it is connected',
      () => it.files('runtime').filter((path) => path.endsWith('control.sock')).length === 2,
    )
    return [descriptors(), it.workers().length]
  }
  await settle()
  await it.restart()
  await settle()
  const first = descriptors()
  for (let n = 0; n < 5; n++) {
    await it.restart()
    await settle()
    expect((await session.info()).runtime.state).toBe('live')
  }
  await until('the same descriptors', () => descriptors() <= first, { show: () => `${descriptors()} of ${first}` })
})

test('twenty live sessions are adopted together', async () => {
  const it = await station({ spares: 3 })
  const wires = await Promise.all(Array.from({ length: 20 }, () => it.connect()))
  it.profile('cat', ['base = "shell"', 'program = "/bin/cat"'])
  const made = await Promise.all(wires.map((wire) => wire.call('session.new', { agent: 'cat', cols: 80, rows: 24 })))
  await it.restart()
  const found = await it.call('session.list')
  expect(found.map((info: { pid: number }) => info.pid).sort()).toEqual(made.map((info) => info.pid).sort())
  expect(found.every((info: { runtime: { state: string } }) => info.runtime.state === 'live')).toBe(true)
})
