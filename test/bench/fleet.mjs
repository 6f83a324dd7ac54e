// F11, F13, F14, F15, R2: a daemon with 50 live and 1,000 stored sessions. F12: ten sessions with a full terminal.
import { spawn } from 'node:child_process'
import { setTimeout as pause } from 'node:timers/promises'
import { cpuMs, memory } from './proc.mjs'
import { idle, picture } from './programs.mjs'
import { workerOf } from './roots.mjs'
import { median, now } from './stats.mjs'
import { seed } from './seed.mjs'

const LIVE = 50
/** V8 collects once more some seconds after the last work; idle is what comes after that. */
const settled = (bench) => pause(bench.quick ? 9_000 : 12_000)
const figure = (...values) => ({ ours: values, peer: [], errors: [] })

export async function fleet(bench) {
  const product = await bench.product()
  if (product === undefined) return
  const root = bench.root()
  root.profile('idle', idle)
  await seed(bench, root, 1_000)
  let { wire } = await root.start()
  const sessions = []
  for (let i = 0; i < LIVE; i++) sessions.push(await wire.call('session.new', { agent: 'idle', cols: 80, rows: 24 }))
  await settled(bench)

  if (bench.wants('F11')) {
    const idleFile = root.file('idle.cjs', 'setInterval(() => {}, 1 << 30)\n')
    const bare = Array.from({ length: 3 }, () =>
      spawn(process.execPath, [idleFile], { env: root.env, stdio: 'ignore' }),
    )
    await pause(1_000)
    const workers = sessions.map((it) => memory(workerOf(it)))
    const peer = bare.map((it) => memory(it.pid).pss)
    for (const it of bare) it.kill('SIGKILL')
    bench.report('F11', { ours: workers.map((it) => it.pss), peer, errors: [] }, [
      `private ${median(workers.map((it) => it.private)).toFixed(1)} MB`,
      tmuxMemory(bench),
    ])
  }
  if (bench.wants('F13')) {
    await pause(bench.quick ? 1_000 : 25_000) // V8 goes on collecting for half a minute behind a fleet's start
    const pids = [root.daemonPid(), ...new Set([...sessions.map(workerOf), ...root.workers().map((it) => it.pid)])]
    const seconds = bench.quick ? 4 : 10
    const before = pids.map(cpuMs)
    await pause(seconds * 1_000)
    // One that ended meanwhile has no figure any more.
    const used = pids.map((pid, at) => Math.max(0, cpuMs(pid) - before[at]) / seconds)
    bench.report('F13', figure(used.reduce((sum, it) => sum + it, 0)), [
      `daemon ${used[0].toFixed(1)} ms/s, ${pids.length - 1} workers; clock ticks of 10 ms`,
    ])
  }
  if (bench.wants('F15') || bench.wants('F14')) {
    const before = memory(root.daemonPid()).pss
    const times = []
    for (let i = 0; i < 40; i++) {
      const began = now()
      const rows = await wire.call('session.list')
      times.push(now() - began)
      if (rows.length !== LIVE + 1_000) throw new Error(`session.list answered ${rows.length} rows`)
    }
    if (bench.wants('F15')) bench.report('F15', { ours: times, peer: [], errors: [] })
    await pause(2_000)
    if (bench.wants('F14'))
      bench.report('F14', figure(memory(root.daemonPid()).pss), [`${before.toFixed(1)} MB before 40 lists`])
  }
  if (bench.wants('R2')) {
    const times = []
    let answered = []
    for (let round = 0; round < bench.rounds(3); round++) {
      await root.stopDaemon('SIGKILL')
      await pause(200)
      const began = now()
      const started = await root.start()
      wire = started.wire
      answered.push(started.ms)
      for (;;) {
        const rows = new Map((await wire.call('session.list')).map((it) => [it.id, it]))
        const lost = sessions.filter((it) => rows.get(it.id)?.runtime?.state === 'lost')
        if (lost.length > 0) throw new Error(`${lost.length} sessions were lost`)
        if (sessions.every((it) => rows.get(it.id)?.runtime?.state === 'live')) break
        if (now() - began > 30_000) throw new Error('not all sessions were adopted after 30 s')
        await pause(5)
      }
      times.push(now() - began)
      await pause(500)
    }
    bench.report('R2', { ours: times, peer: [], errors: [] }, [
      `first answer after ${median(answered).toFixed(0)} ms; 1,000 more stored`,
    ])
  }
  await bench.drop(root)
}

/** What 50 idle sessions of the peer take, for comparison in a note. */
function tmuxMemory(bench) {
  const peer = bench.tmux()
  if (peer === undefined) return ''
  const before = memory(peer.serverPid()).pss
  for (let i = 0; i < LIVE; i++) peer.session(`idle-${i}`, idle, { cols: 80, rows: 24 })
  const after = memory(peer.serverPid()).pss
  for (let i = 0; i < LIVE; i++) peer.drop(`idle-${i}`)
  return `tmux server ${before.toFixed(1)} MB + ${((after - before) / LIVE).toFixed(2)} MB a session`
}

export async function filled(bench) {
  const product = await bench.product()
  if (product === undefined) return
  const { root, wire } = product
  root.profile('picture-full', picture(root.path, 'picture-full', 1_000))
  const sessions = []
  for (let i = 0; i < 10; i++)
    sessions.push(await wire.call('session.new', { agent: 'picture-full', cols: 200, rows: 50 }))
  await pause(1_500)
  // A read makes sure that the terminal has taken all of it.
  for (const it of sessions) await wire.call('session.screen', { session_id: it.id })
  await settled(bench)
  const workers = sessions.map((it) => memory(workerOf(it)))
  bench.report('F12', { ours: workers.map((it) => it.pss), peer: [], errors: [] }, [
    `private ${median(workers.map((it) => it.private)).toFixed(1)} MB`,
  ])
  for (const it of sessions) await wire.call('session.remove', it.id)
}
