/** Workers of other releases: what the private protocol's window lets a daemon adopt, and what becomes of the others. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { otherRelease, type Release } from '../fixtures/other-release.ts'
import { run } from '../harness/cli.ts'
import { runs } from '../harness/processes.ts'
import { bin } from '../harness/roots.ts'
import { refused, type Session } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import type { Answer } from '../harness/wire.ts'
import { world, type World } from '../harness/world.ts'

/** A world whose daemon and session are of another release, the daemon gone by SIGKILL, the session asked `old` before. */
async function startedBy(release: Release): Promise<{ w: World; session: Session; older: string }> {
  const { daemon: older } = await otherRelease(release)
  const w = await world({ daemon: false })
  await w.start({ program: older })
  const session = await w.child(['lines_in'], { name: 'kept' })
  await session.untilScreen('ready')
  await session.input('old')
  await session.untilScreen('got:old')
  await w.daemon.kill()
  return { w, session, older }
}

const preflight = async (w: World): Promise<{ code: number | null; report: Answer; stderr: string }> => {
  const { code, stdout, stderr } = await run(bin('pohunekd'), ['upgrade-preflight', '--json'], {
    env: w.roots.env(),
    cwd: w.roots.work,
  })
  return { code, report: JSON.parse(stdout), stderr }
}

const warnings = (w: World): string[] =>
  readFileSync(join(w.roots.state, 'pohunek/logs/pohunekd.jsonl'), 'utf8')
    .split('\n')
    .filter((it) => it.includes('session runtime is'))

test.each<[string, Release]>([
  ['said in its journal', { worker: { minimum: 6, maximum: 6 } }],
  ['not said in its journal', { worker: { minimum: 5, maximum: 6 }, unsaidProtocol: true }],
])('FC-90fd: a worker of the previous private protocol, %s, is adopted and serves everything', async (_, release) => {
  const { w, session } = await startedBy(release)
  const worker = session.worker()
  const judged = await preflight(w)
  expect([judged.code, judged.report.sessions]).toEqual([
    0,
    [{ session_id: session.id, verdict: 'adoptable', code: null, detail: null, name: 'kept' }],
  ])

  await w.start()
  expect(await session.info()).toMatchObject({ pid: session.pid, state: 'running', runtime: { state: 'live' } })
  expect(session.worker()).toMatchObject({ pid: worker.pid, startIdentity: worker.startIdentity })
  expect((await session.output()).bytes.toString()).toContain('got:old')
  await session.input('new')
  await session.untilScreen('got:new')
  await session.call('session.resize', { cols: 100, rows: 30 })
  const attached = await session.attach()
  await attached.until('got:new')
  attached.write('typed\r')
  await attached.until('got:typed')
  expect(attached.ended).toBe(false)

  const beside = await w.child(['lines_in'])
  await beside.untilScreen('ready')
  expect(await session.stop()).toBe(true)
  expect((await session.ended()).state).toBe('stopped')
  await until('its program is gone', () => !runs(session.pid))
  expect((await beside.info()).runtime.state).toBe('live')
})

test('a worker that journals in the previous schema is adopted, and its end is imported from the journal', async () => {
  const { w, session } = await startedBy({ journal: 3 })
  expect(session.journals()).toMatchObject([{ schema_version: 3, phase: 'live' }])
  expect((await preflight(w)).code).toBe(0)
  await w.start()
  expect((await session.info()).runtime.state).toBe('live')
  await w.daemon.kill()
  const worker = session.worker()
  process.kill(session.pid, 'SIGKILL')
  await until('the end is journaled', () => session.journals().some((it) => it.phase === 'terminal'))
  process.kill(worker.pid, 'SIGKILL')
  await until('the worker is gone', () => !runs(worker.pid))
  await w.start()
  expect(await session.info()).toMatchObject({ state: 'failed', exit_code: 137, runtime: { state: 'terminal' } })
})

test.each<[string, Release, RegExp]>([
  ['older', { worker: { minimum: 4, maximum: 5 } }, /speaks? (private protocol )?4\.\.=5/],
  ['newer', { worker: { minimum: 8, maximum: 9 } }, /speaks? (private protocol )?8\.\.=9/],
  ['newer journal', { journal: 5 }, /schema 5, this daemon reads 3 and 4/],
])('FC-90fd: a worker with %s versions only is told as incompatible and left alone', async (_, release, words) => {
  const { w, session, older } = await startedBy(release)
  const worker = session.worker()
  const { code, report, stderr } = await preflight(w)
  expect(code).toBe(1)
  expect(report.sessions).toEqual([
    {
      session_id: session.id,
      verdict: 'would_not_be_adopted',
      code: 'worker_protocol_incompatible',
      detail: expect.stringMatching(words) as string,
      name: 'kept',
    },
  ])
  expect(stderr).toMatch(/^pohunekd: 1 session would not come through the upgrade whole\n {2}→ /)

  await w.start()
  expect((await session.info()).runtime).toMatchObject({
    state: 'incompatible',
    loss_reason: 'worker_protocol_incompatible',
  })
  expect((await w.call('session.list')).map((it: Answer) => it.id)).toEqual([session.id])
  expect(warnings(w)).toEqual([expect.stringMatching(words)])
  const { entries } = await w.call('session.runtime_inventory')
  expect(entries).toContainEqual(expect.objectContaining({ claimed_session_id: session.id, status: 'incompatible' }))
  for (const [method, params] of [
    ['session.stop', session.id],
    ['session.input', { session_id: session.id, text: 'x' }],
    ['session.resize', { session_id: session.id, cols: 90, rows: 20 }],
    ['session.attach', { session_id: session.id }],
  ] as const) {
    const fault = await refused(w.call(method, params))
    expect([method, fault.code, fault.body.recover]).toEqual([
      method,
      'worker_protocol_incompatible',
      expect.anything(),
    ])
  }
  expect((await refused(session.screen())).code).toBe('session_terminal_unavailable')
  expect(session.worker()).toMatchObject({ pid: worker.pid, startIdentity: worker.startIdentity })
  expect(runs(session.pid)).toBe(true)

  // The release that started it takes it over again as if nothing had been.
  await w.daemon.stop()
  await w.start({ program: older })
  await session.input('again')
  await session.untilScreen('got:again')
  expect(await session.info()).toMatchObject({ pid: session.pid, runtime: { state: 'live' } })
})

test('FC-90fd: a session that is incompatible can be removed, which ends its worker and program', async () => {
  const { w, session } = await startedBy({ worker: { minimum: 4, maximum: 5 } })
  const worker = session.worker()
  await w.start()
  expect((await session.info()).runtime.state).toBe('incompatible')
  expect(await session.remove()).toMatchObject({ removed: true })
  await until('worker and program are gone', () => !runs(session.pid) && !runs(worker.pid))
  expect(await w.call('session.list')).toEqual([])
})
