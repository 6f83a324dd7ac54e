// A1: what an agent's screen shows, until it is told. A2: many who wait for one event. A3: many who follow all events.
import { setTimeout as pause } from 'node:timers/promises'
import { cpuMs } from './proc.mjs'
import { Gate, Signal, acting, actingManifest, idle } from './programs.mjs'
import { now, percentile } from './stats.mjs'

const WAITERS = 100
const SUBSCRIBERS = 100
const EVENTS_A_SECOND = 1_000
/** One connection has one request running; so many make that rate with room to spare. */
const WRITERS = 64
const p99 = (values) => percentile(values, 0.99)

/** Words of the acting program, and what each is seen as. */
const TURN = [
  ['work', 'working'],
  ['ask', 'blocked'],
  ['work', 'working'],
  ['rest', 'idle'],
]

export async function activity(bench) {
  const root = bench.root()
  const gate = new Gate(`${root.path}/act.gate`)
  const done = new Signal(`${root.path}/act.done`)
  const { wire } = await root.start()
  root.profile('actor', acting(root.path, 'acting-agent', gate.path, done.path), {
    base: 'claude',
    more: 'manifest = "acting"\n',
  })
  root.manifest('acting', actingManifest('acting-agent'))
  const subscriber = await root.connect()
  const heard = new Map()
  subscriber.onEvent = (event, payload, at) => {
    if (event !== 'agent_state') return
    heard.get(payload.activity)?.(at)
    heard.delete(payload.activity)
  }
  await subscriber.call('subscribe')
  const told = (activity, withinMs = 10_000) =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${activity} was not told within ${withinMs} ms`)), withinMs)
      heard.set(activity, (at) => (clearTimeout(timer), resolve(at)))
    })
  await Promise.all([told('idle'), wire.call('session.new', { agent: 'actor', cols: 120, rows: 40 })])
  const figures = { working: [], blocked: [], idle: [] }
  for (let turn = 0; turn < (bench.quick ? 5 : 25); turn++) {
    for (const [word, activity] of TURN) {
      const shown = done.next()
      const heardAt = told(activity)
      gate.say(word)
      const drawnAt = await shown
      figures[activity].push((await heardAt) - drawnAt)
    }
  }
  gate.close()
  done.close()
  for (const [activity, times] of Object.entries(figures))
    bench.report(
      `A1.${activity}`,
      { ours: times, peer: [], errors: [] },
      [`p50 ${percentile(times, 0.5).toFixed(0)} ms`],
      p99,
    )
  await bench.drop(root)
}

export async function waiters(bench) {
  const root = bench.root()
  const gate = new Gate(`${root.path}/end.gate`)
  const done = new Signal(`${root.path}/end.done`)
  const { wire } = await root.start()
  root.profile('ending', [
    '/bin/sh',
    root.file('ending.sh', `read -r go < '${gate.path}'\necho done > '${done.path}'\n`),
  ])
  const connections = []
  for (let i = 0; i < WAITERS; i++) connections.push(await root.connect())
  const subscriber = await root.connect()
  let onEnd
  subscriber.onEvent = (event, { session }, at) => {
    if (event === 'session_updated' && session.state === 'done') onEnd(at)
  }
  await subscriber.call('subscribe')
  const fromEvent = []
  const fromEnd = []
  const spread = []
  for (let round = 0; round < bench.rounds(10); round++) {
    const { id } = await wire.call('session.new', { agent: 'ending', cols: 80, rows: 24 })
    const answers = connections.map(async (it) => {
      const { reason } = await it.call('session.wait_turn', { session_ids: [id], timeout_ms: 30_000 })
      if (reason !== 'event') throw new Error(`a wait ended with ${reason}`)
      return now()
    })
    // Answered behind the waits of the same moment: they stand.
    await pause(200)
    const told = new Promise((resolve) => (onEnd = resolve))
    const ended = done.next()
    gate.open()
    const endedAt = await ended
    const times = await Promise.all(answers)
    const last = Math.max(...times)
    spread.push(last - Math.min(...times))
    fromEvent.push(last - Math.min(await told, ...times))
    fromEnd.push(last - endedAt)
    await wire.call('session.remove', id)
  }
  gate.close()
  done.close()
  bench.report('A2', { ours: fromEvent, peer: [], errors: [] }, [
    'from the first sign of the event to the last answer',
    `${percentile(spread, 0.5).toFixed(1)} ms from the first answer to the last`,
  ])
  bench.report('A2.end', { ours: fromEnd, peer: [], errors: [] })
  await bench.drop(root)
}

export async function fanOut(bench) {
  const root = bench.root()
  const { wire } = await root.start()
  root.profile('idle', idle)
  const sessions = []
  const writers = []
  for (let i = 0; i < WRITERS; i++) {
    sessions.push(await wire.call('session.new', { agent: 'idle', cols: 80, rows: 24 }))
    writers.push(await root.connect())
  }
  const seconds = bench.quick ? 3 : 10
  const pid = root.daemonPid()
  /** Shape: { percent, sent }: daemon CPU while `seconds` of events are made. */
  const load = async () => {
    const before = cpuMs(pid)
    const began = now()
    let sent = 0
    await Promise.all(
      writers.map(async (writer, index) => {
        const { id } = sessions[index]
        for (let round = 0; ; round++) {
          const dueAt = began + ((round * WRITERS + index) * 1_000) / EVENTS_A_SECOND
          if (dueAt - began >= seconds * 1_000) return
          if (dueAt > now()) await pause(dueAt - now())
          await writer.call('session.set_metadata', { session_id: id, metadata: { round: String(round) } })
          sent++
        }
      }),
    )
    const tookMs = now() - began
    await pause(300)
    return { percent: (100 * (cpuMs(pid) - before)) / tookMs, sent, rate: (1_000 * sent) / tookMs }
  }
  const alone = await load()
  const counts = Array(SUBSCRIBERS).fill(0)
  let gaps = 0
  for (let i = 0; i < SUBSCRIBERS; i++) {
    const it = await root.connect()
    await it.call('subscribe')
    // Taking a hundred thousand lines a second apart would be the load of this process, not the daemon's.
    it.onBytes = (chunk) => {
      for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) counts[i]++
      if (chunk.includes('"subscription_gap"')) gaps++
    }
  }
  const loaded = await load()
  const until = now() + 5_000
  while (counts.some((it) => it < loaded.sent) && now() < until) await pause(10)
  const missing = counts.reduce((sum, it) => sum + Math.max(0, loaded.sent - it), 0)
  const errors = missing + gaps > 0 ? [`${missing} events missing, ${gaps} gaps told`] : []
  bench.report('A3', { ours: [loaded.percent], peer: [], errors }, [
    `${loaded.sent} events at ${loaded.rate.toFixed(0)}/s to each of ${SUBSCRIBERS}, ${missing} missing`,
    `${alone.percent.toFixed(0)} % for the same changes at ${alone.rate.toFixed(0)}/s without a subscriber`,
  ])
  await bench.drop(root)
}
