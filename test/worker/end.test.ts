/** Ends: exit truth, stops, what is left behind, the journal. */
import * as fs from 'node:fs'
import { expect, test } from 'vitest'
import { bash, marked, sh, startWorker, until } from './harness.ts'

const stat = (pid: number): string => {
  try {
    return fs.readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]?.[0] ?? ''
  } catch {
    return ''
  }
}

test('FC-823d: a background job that keeps the terminal open does not delay the end', async () => {
  const worker = await startWorker()
  await worker.initialize(bash('trap "" HUP; sleep 300 & echo done; exit 7'))
  const began = performance.now()
  const { exit } = await worker.exited()
  expect(performance.now() - began).toBeLessThan(2_500)
  expect(exit).toMatchObject({ code: 7, stopped_by_user: false })
  expect((await worker.everything()).toString()).toBe('done\r\n')
  expect(stat(worker.childPid)).toBe('')
  expect(marked(worker.runtimeId)).toEqual([])
})

test('FC-823d: a helper in a session of its own that holds the terminal is ended, and the force close is told', async () => {
  const worker = await startWorker()
  await worker.initialize(
    bash('setsid bash -c "trap \\"\\" HUP TERM; while :; do sleep 0.05; done" & sleep 0.3; exit 3'),
  )
  const { exit } = await worker.exited()
  expect(exit).toMatchObject({ code: 3 })
  expect(marked(worker.runtimeId)).toEqual([])
})

test('FC-47fa: a stop ends every marked descendant, also one in a session of its own', async () => {
  const worker = await startWorker()
  await worker.initialize(
    bash('setsid sleep 9999 & (setsid setsid sleep 9998 >/dev/null 2>&1 </dev/null &) ; echo up; sleep 9997'),
  )
  await worker.shows('up')
  await until('three sleepers', () => marked(worker.runtimeId).length >= 3)
  const { exit } = await worker.stop()
  expect(exit).toMatchObject({ stopped_by_user: true })
  expect(marked(worker.runtimeId)).toEqual([])
  await worker.exited()
})

test('FC-0145: a program that stopped itself can still be ended', async () => {
  const worker = await startWorker()
  await worker.initialize(['/bin/cat'])
  await worker.type('\x1a')
  // A session leader without a shell above it is orphaned: the kernel drops the key's stop. Stopped from outside it stays so.
  process.kill(worker.childPid, 'SIGSTOP')
  await until('it is stopped', () => stat(worker.childPid) === 'T')
  const { exit } = await worker.stop()
  expect(exit).toMatchObject({ stopped_by_user: true })
  expect(stat(worker.childPid)).toBe('')
})

test('FC-e0e3: a program that ignores HUP and TERM is killed after the grace; a second stop joins the first', async () => {
  const worker = await startWorker()
  await worker.initialize(bash('trap "" HUP TERM INT; echo armed; while :; do sleep 0.1; done'))
  await worker.shows('armed')
  const began = performance.now()
  const [one, two] = await Promise.all([worker.stop(), worker.stop()])
  const took = performance.now() - began
  expect(took).toBeGreaterThan(450)
  expect(took).toBeLessThan(5_000)
  expect(one['exit']).toEqual(two['exit'])
  expect(one['exit']).toMatchObject({ signal: 9, stopped_by_user: true })
  expect((await worker.stop())['exit']).toEqual(one['exit'])
  expect(marked(worker.runtimeId)).toEqual([])
})

test('FC-e0e3: members of the group that outlive the leader are ended', async () => {
  const worker = await startWorker()
  await worker.initialize(
    bash('bash -c "trap \\"\\" HUP TERM; while :; do sleep 0.1; done" & sleep 0.3; echo leaving; exit 0'),
  )
  const { exit } = await worker.exited()
  expect(exit).toMatchObject({ code: 0 })
  expect(marked(worker.runtimeId)).toEqual([])
})

test('a graceful program ends by itself within the grace', async () => {
  const worker = await startWorker()
  await worker.initialize(bash('trap "echo bye; exit 4" TERM; trap "" HUP; echo armed; while :; do sleep 0.05; done'))
  await worker.shows('armed')
  const { exit } = await worker.stop()
  expect(exit).toMatchObject({ code: 4, stopped_by_user: true })
  expect((await worker.everything()).toString()).toContain('bye')
})

test('the journal tells the end before anybody else does, and nothing it should not', async () => {
  const worker = await startWorker()
  expect(worker.journal()).toMatchObject({
    schema_version: 4,
    phase: 'bootstrap',
    session_id: worker.sessionId,
    worker_id: worker.workerId,
    generation: '1',
    worker_pid: worker.process.pid,
  })
  const base = worker.spec([])
  await worker.initialize(sh('printf "$TOPSECRET"; read x; exit 5'), {
    environment: { TOPSECRET: 'hunter2' },
    hook_schema: 'x-1',
    launch: { ...base.launch, reference_kind: 'id' },
  })
  expect(worker.journal()).toMatchObject({
    phase: 'live',
    runtime_id: worker.runtimeId,
    child: { pid: worker.childPid, process_group: worker.childPid },
    launch_identity: { provider: 'shell', reference_kind: 'id', native_reference: null },
    hook_schema: 'x-1',
    launch_daemon_id: 'd-test',
    dimensions: { columns: 80, rows: 24 },
  })
  await worker.type('keystrokes\r')
  await worker.exited()
  const journal = worker.journal()
  expect(journal).toMatchObject({
    phase: 'terminal',
    outcome: { exit_code: 5, signal: null, success: false, reason: 'exited', output_force_closed: false },
  })
  expect(Date.parse((journal['outcome'] as { exited_at: string }).exited_at)).toBeGreaterThan(Date.now() - 60_000)
  const text = JSON.stringify(journal)
  for (const secret of ['hunter2', 'TOPSECRET', 'keystrokes', worker.leaseId]) expect(text).not.toContain(secret)
  const file = `${worker.state}/workers/${worker.sessionId}/${worker.workerId}.json`
  expect(fs.statSync(file).mode & 0o777).toBe(0o600)
  expect(fs.statSync(`${worker.state}/workers/${worker.sessionId}`).mode & 0o777).toBe(0o700)
  expect(fs.readdirSync(`${worker.state}/workers/${worker.sessionId}`)).toEqual([`${worker.workerId}.json`])
})

test('an ended session is served until its end is acknowledged; then the socket and the process are gone', async () => {
  const worker = await startWorker()
  await worker.initialize(sh('echo last words; exit 0'))
  await worker.exited()
  worker.control.close()
  await until('the lease is free', async () =>
    worker.lease({ daemonId: 'd-next' }).then(
      () => true,
      () => false,
    ),
  )
  expect((await worker.inspect()).exit).toMatchObject({ code: 0 })
  expect((await worker.snapshot()).visible_lines[0]).toBe('last words')
  const late = await worker.attach(80, 24)
  await late.sees('last words')
  await until('the late client is closed', () => late.closed)
  await worker.control.request({ type: 'acknowledge_terminal', scope: worker.scope })
  await worker.gone()
  expect(worker.exitCode).toBe(0)
  expect(fs.existsSync(worker.socketPath)).toBe(false)
  expect(worker.journal()).toMatchObject({ phase: 'terminal' })
})

test('an end nobody takes over is kept for the retention time only', async () => {
  const worker = await startWorker()
  const { limits } = worker.spec([])
  await worker.initialize(sh('exit 0'), { limits: { ...limits, terminal_retention_ms: 100 } })
  await worker.gone()
})

test('SIGTERM ends the program gracefully, then the worker', async () => {
  const worker = await startWorker()
  await worker.initialize(bash('trap "exit 9" TERM; echo armed; while :; do sleep 0.05; done'))
  await worker.shows('armed')
  worker.process.kill('SIGHUP')
  await worker.inspect()
  worker.process.kill('SIGTERM')
  await worker.gone()
  expect(worker.journal()).toMatchObject({ phase: 'terminal', outcome: { reason: 'exited' } })
  expect(marked(worker.runtimeId)).toEqual([])
})

test('a program is not disturbed by its daemon going away', async () => {
  const worker = await startWorker()
  await worker.initialize(sh('echo one; read x; echo "got $x"; read y'))
  await worker.shows('one')
  worker.control.socket.destroy()
  await until('a new lease', async () =>
    worker.lease({ daemonId: 'd-2' }).then(
      () => true,
      () => false,
    ),
  )
  await worker.type('again\r')
  await worker.shows('got again')
  expect((await worker.inspect()).launch_daemon_id).toBe('d-test')
})
