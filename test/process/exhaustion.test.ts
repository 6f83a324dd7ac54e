/** Descriptors and terminals run out, and come back. */
import { spawnSync } from 'node:child_process'
import { chmodSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { descriptors, runs } from '../harness/processes.ts'
import { bin } from '../harness/roots.ts'
import { refused } from '../harness/session.ts'
import { stays, until } from '../harness/wait.ts'
import { dial } from '../harness/wire.ts'
import { world, type World } from '../harness/world.ts'

/** A program that runs `words` before it becomes the daemon. */
function daemonAfter(w: World, words: string): string {
  const path = join(w.roots.work, 'daemon-after')
  writeFileSync(path, `#!/bin/sh\n${words}\nexec '${bin('pohunekd')}' "$@"\n`)
  chmodSync(path, 0o755)
  return path
}

const DESCRIPTORS = 64
const CODE = 'client_file_descriptors_exhausted'

/** Opens connections until the daemon has no descriptor left. `free` gives some back, all without a number. */
async function exhaust(w: World): Promise<{ free: (count?: number) => Promise<void> }> {
  const open: Socket[] = []
  const held = (): number => descriptors(w.daemon.pid).length
  const free = async (count = open.length): Promise<void> => {
    const before = held()
    for (const it of open.splice(0, count)) it.destroy()
    await until('they are given back', () => held() <= before - count, { show: () => `${before} ${held()}` })
  }
  onTestFinished(() => void open.splice(0).forEach((it) => it.destroy()))
  for (let before = held(); before < DESCRIPTORS; before = held()) {
    const socket = await dial(w.roots.socket)
    await until('it is accepted or refused', () => held() > before || socket.closed)
    if (socket.closed) break
    open.push(socket)
  }
  return { free }
}

async function scarce(): Promise<World> {
  const w = await world({ daemon: false, config: '[workers]\nspares = 0\n' })
  await w.start({ program: daemonAfter(w, `ulimit -n ${DESCRIPTORS}`) })
  return w
}

test('without a free descriptor: a typed refusal, live sessions go on, and everything is served again', async () => {
  const w = await scarce()
  const session = await w.child(['lines_in'])
  await session.untilScreen('ready')
  const attached = await session.attach()
  await attached.until('ready')
  const wire = await w.wire()
  const agent = w.profile('/bin/cat')
  const runtime = await session.identity()
  const { free } = await exhaust(w)
  for (const [method, params] of [
    ['session.new', { agent, cols: 80, rows: 24, cwd: w.roots.work }],
    ['session.output', { session_id: session.id, runtime, after_offset: '0', max_bytes: 10 }],
  ] as const) {
    const { body } = await refused(wire.call(method, params))
    expect(body).toMatchObject({ class: 'runtime', code: CODE, recover: expect.stringMatching(/ulimit -n/) as string })
  }
  await session.input('scarce')
  await attached.until('got:scarce')
  await session.untilScreen('got:scarce')
  expect(await session.call('session.rename', { name: 'kept' })).toMatchObject({ session: { name: 'kept' } })
  expect(await w.call('session.list')).toHaveLength(1)
  await free()
  const later = await w.child(['lines_in'])
  await later.untilScreen('ready')
  expect(await session.info()).toMatchObject({ name: 'kept', runtime: { state: 'live' } })
})

test('wherever a creation runs out of descriptors, nothing is left of it', { timeout: 90_000 }, async () => {
  const w = await scarce()
  const keeper = await w.child(['lines_in'])
  await keeper.untilScreen('ready')
  const wire = await w.wire()
  const agent = w.profile('/bin/cat')
  const traces = (): string[] => [
    ...w.files('runtime').filter((path) => !path.includes(keeper.id)),
    ...w.files('cache').filter((path) => !path.includes(keeper.id)),
    ...w.files('state').filter((path) => !path.includes(keeper.id) && !path.includes('logs/')),
  ]
  const first = traces()
  const answers: string[] = []
  // Each round leaves one descriptor more, until one is enough.
  for (let spare = 0; answers.at(-1) !== 'made'; spare++) {
    const { free } = await exhaust(w)
    if (spare > 0) await free(spare)
    answers.push(
      await wire.call('session.new', { agent, cols: 80, rows: 24, cwd: w.roots.work }, { deadlineMs: 40_000 }).then(
        () => 'made',
        (problem: { code?: string; message: string }) => problem.code ?? problem.message,
      ),
    )
    await free()
    if (answers.at(-1) === 'made') break
    await until('nothing of it runs', () => w.running('worker').length === 1, { deadlineMs: 20_000 })
    await until('nothing of it is in a file', () => traces().length === first.length, {
      show: () => ({ spare, traces: traces() }),
    })
  }
  expect(answers.length).toBeGreaterThan(3)
  expect(new Set(answers)).toEqual(new Set([CODE, 'made']))
  expect(await w.call('session.list')).toHaveLength(2)
})

test('a worker that dies while the daemon cannot look is told as lost once it can', { timeout: 60_000 }, async () => {
  const w = await scarce()
  const session = await w.child(['ignore'])
  await session.untilScreen('ready')
  const worker = session.worker().pid
  const { free } = await exhaust(w)
  // Takes the descriptors that the end of the worker's connection frees.
  const taking: Socket[] = []
  onTestFinished(() => void taking.forEach((it) => it.destroy()))
  for (let n = 0; n < 4; n++) {
    const socket = connect(w.roots.socket)
    socket.on('error', () => undefined)
    taking.push(socket)
  }
  process.kill(worker, 'SIGKILL')
  await until('the worker is gone', () => !runs(worker))
  await stays('no end is told that was not looked at', 1_500, async () => {
    const { state, exit_code } = await session.info()
    return exit_code === undefined && ['running', 'failed'].includes(state as string)
  })
  await free()
  for (const it of taking) it.destroy()
  await until('it is lost', async () => (await session.info()).runtime.state === 'lost', {
    deadlineMs: 30_000,
    show: () => w.log.join(''),
  })
  await until('its program is ended', () => !runs(session.pid))
})

/** Terminals of a machine that has two: a mount of its own for this daemon and its workers. */
const TWO_TERMINALS =
  'mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,max=2 devpts /dev/pts && mount --bind /dev/pts/ptmx /dev/ptmx'

const canMount = spawnSync('unshare', ['-m', 'sh', '-c', TWO_TERMINALS], { stdio: 'ignore' }).status === 0

test.skipIf(!canMount)(
  'without a free terminal: a typed refusal that leaves nothing, and one that ends makes room',
  async () => {
    const w = await world({ daemon: false })
    const inside = daemonAfter(w, TWO_TERMINALS)
    const program = join(w.roots.work, 'daemon-with-two-terminals')
    writeFileSync(program, `#!/bin/sh\nexec unshare -m '${inside}' "$@"\n`, { mode: 0o755 })
    await w.start({ program })
    const first = await w.child(['lines_in'])
    await first.untilScreen('ready')
    const second = await w.child(['lines_in'])
    await second.untilScreen('ready')
    const before = w.files('cache')
    for (let n = 0; n < 3; n++) {
      const { body } = await refused(w.child(['lines_in']))
      expect(body).toMatchObject({ class: 'runtime', code: 'pty_alloc_failed', recover: expect.any(String) as string })
    }
    expect(await w.call('session.list')).toHaveLength(2)
    await until('nothing is left of them', () => w.files('cache').length === before.length, {
      show: () => w.files('cache'),
    })
    await first.input('fine')
    await first.untilScreen('got:fine')
    await second.stop()
    const third = await until('there is room', async () => await w.child(['lines_in']))
    await third.untilScreen('ready')
  },
)
