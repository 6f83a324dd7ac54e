// R4: what hours of use leave in memory. Clients list, read, draw, type, attach, come and go, sessions are made and
// removed, two programs write without end. Behind the warm-up and at the end everything rests for a while, and each
// process's private memory then is compared. Garbage that V8 has not collected by then counts: the machine does not have
// it. Its part of what is shared is left out: that part changes with how many other processes of Node there are.
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { memory } from './proc.mjs'
import { END, echoing, idle, payload } from './programs.mjs'
import { workerOf } from './roots.mjs'
import { now } from './stats.mjs'

/** Share of the whole that is no more than warming up. */
const WARM_UP = 0.3
/** An idle V8 collects some seconds after the last work, if it thinks it worth the while. */
const REST_MS = 15_000
const ROUND_MS = 40
const BYTES_A_TURN = 100_000
/** More than a ring of output holds. */
const PAST_BYTES = 11_000_000

/** Writes the beginning of the file again and again while the flag exists, somewhat below 1 MB a second. */
const writing = (root, name, file, flag) => [
  '/bin/sh',
  root.file(
    `${name}.sh`,
    `while :; do if [ -e '${flag}' ]; then head -c ${BYTES_A_TURN} '${file}'; fi; sleep 0.1; done\n`,
    0o700,
  ),
]

export async function flat(bench) {
  const root = bench.root()
  const { wire } = await root.start()
  // What a terminal keeps of its past is bounded and no growth: it is full before anything is compared.
  const file = Object.fromEntries(['ascii', 'screen'].map((kind) => [kind, payload(root.path, kind, PAST_BYTES).path]))
  const behind = ([shell, script]) => ['/bin/sh', '-c', `cat '${file.ascii}'; exec ${shell} '${script}'`]
  root.profile('echo', behind(echoing(root.path)))
  root.profile('idle', idle)
  const flag = join(root.path, 'write')
  for (const kind of ['ascii', 'screen']) root.profile(kind, writing(root, kind, file[kind], flag))
  const open = (agent) => wire.call('session.new', { agent, cols: 120, rows: 40 })
  const sessions = {
    'echo session': await open('echo'),
    'idle session': await open('idle'),
    'writer of text': await open('ascii'),
    'writer of screens': await open('screen'),
  }
  const subscriber = await root.connect()
  await subscriber.call('subscribe')

  const watched = { daemon: root.daemonPid() }
  for (const [name, it] of Object.entries(sessions)) watched[name] = workerOf(it)
  const counts = { rounds: 0, attached: 0, created: 0 }
  const length = bench.minutes * 60_000
  const loadFor = async (ms) => {
    writeFileSync(flag, '')
    await mixed(wire, Object.values(sessions), now() + ms, counts)
    rmSync(flag)
    await pause(REST_MS)
    return Object.fromEntries(Object.entries(watched).map(([name, pid]) => [name, memory(pid).private]))
  }
  const warm = await loadFor(WARM_UP * length)
  const end = await loadFor((1 - WARM_UP) * length)
  const growth = Object.keys(watched).map((name) => {
    const [before, after] = [warm[name], end[name]]
    return { name, before, after, percent: (100 * (after - before)) / before }
  })
  bench.report('R4', { ours: [Math.max(...growth.map((it) => it.percent))], peer: [], errors: [] }, [
    `${bench.minutes} min, ${counts.rounds} rounds, ${counts.attached} attaches, ${counts.created} sessions made and removed`,
    ...growth.map(
      (it) => `${it.name} ${it.before.toFixed(1)} to ${it.after.toFixed(1)} MB (${it.percent.toFixed(1)} %)`,
    ),
  ])
  await bench.drop(root)
}

async function mixed(wire, sessions, untilMs, counts) {
  const [echo] = sessions
  for (; now() < untilMs; counts.rounds++) {
    const { id } = sessions[counts.rounds % sessions.length]
    await wire.call('session.list')
    await wire.call('session.inspect', id)
    await wire.call('session.screen', { session_id: id })
    await wire.call('session.output', { session_id: id, max_bytes: 65_536 })
    await wire.call('session.set_metadata', { session_id: id, metadata: { round: String(counts.rounds) } })
    if (counts.rounds % 10 === 0) await attachTo(wire, id, counts.rounds % 20 === 0 ? 'daemon' : 'direct')
    if (counts.rounds % 10 === 5) await typeInto(wire, echo.id)
    if (counts.rounds % 5 === 0) counts.attached++
    if (counts.rounds % 25 === 0) {
      const made = await wire.call('session.new', { agent: 'idle', cols: 80, rows: 24 })
      await wire.call('session.remove', made.id)
      counts.created++
    }
    await pause(ROUND_MS)
  }
}

async function attachTo(wire, id, way) {
  const stream = await wire.attach(id, { way, cols: 120, rows: 40 })
  const until = now() + 5_000
  while (stream.total === 0 && now() < until) await pause(2)
  stream.close()
}

async function typeInto(wire, id) {
  const stream = await wire.attach(id, { cols: 120, rows: 40 })
  const text = `${END}${counter++}`
  const echoed = stream.until(text, 10_000)
  stream.write(`${text}\r\n`)
  await echoed
  stream.close()
}
let counter = 0
