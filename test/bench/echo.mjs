// F3, F4: from a key to its echo, in an idle session and while another session of the same server floods.
import { rmSync, writeFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { READY, echoing, flooding } from './programs.mjs'
import { bin } from './roots.mjs'
import { median, now, percentile } from './stats.mjs'
import { Terminal } from './terminal.mjs'

const SIZE = { cols: 200, rows: 50 }
/** Characters that no repaint and no control sequence of either side contains. */
const KEYS = '@#=~_!%&'

export async function echo(bench) {
  const { root } = bench.base()
  const argv = echoing(root.path)
  root.profile('echo', argv)
  const product = await bench.product()
  const peer = bench.tmux()
  const clients = {}
  const errors = []
  const open = async (name, make) => {
    try {
      const client = await make()
      await client.until(READY, 10_000)
      clients[name] = client
    } catch (problem) {
      errors.push(`${name}: ${problem.message}`)
    }
  }
  const sessions = []
  if (product !== undefined) {
    // A session of its own for each way, so that no echo also goes to the other clients.
    const session = async () => {
      const made = await product.wire.call('session.new', { agent: 'echo', ...SIZE })
      sessions.push(made)
      return made.id
    }
    await open('direct', async () => product.wire.attach(await session(), { way: 'direct', ...SIZE }))
    await open('daemon', async () => product.wire.attach(await session(), { way: 'daemon', ...SIZE }))
    await open(
      'client',
      async () => new Terminal(bin('pohunek'), ['attach', await session()], { env: root.env, ...SIZE }),
    )
  }
  if (peer !== undefined) {
    peer.session('echo', argv, SIZE)
    await open('peer', async () => peer.attach('echo', SIZE))
  }
  await pause(300)

  let count = 0
  const key = async (client) => {
    const char = KEYS[count++ % KEYS.length]
    const seen = client.until(char, 5_000)
    const began = now()
    client.write(char)
    return (await seen) - began
  }
  const report = (line, times) => {
    for (const name of ['direct', 'daemon', 'client']) {
      const problems = errors.filter((it) => it.startsWith(`${name}:`) || it.startsWith('peer:'))
      const note =
        name === 'direct' && clients.direct?.way === 'daemon' ? ['no direct way offered: through the daemon'] : []
      bench.report(`${line}.${name}.p50`, { ours: times[name], peer: times.peer, errors: problems }, note, median)
      bench.report(`${line}.${name}.p99`, { ours: times[name], peer: times.peer, errors: [] }, [], (it) =>
        percentile(it, 0.99),
      )
    }
  }
  const empty = () => ({ direct: [], daemon: [], client: [], peer: [] })
  const keys = bench.quick ? 100 : 500
  const order = (round) => {
    const names = Object.keys(clients)
    return names.map((_, index) => names[(index + round) % names.length])
  }
  const press = async (name, times, gapMs) => {
    if (clients[name] === undefined) return
    try {
      times[name].push(await key(clients[name]))
    } catch (problem) {
      errors.push(`${name}: ${problem.message}`)
      delete clients[name]
    }
    await pause(gapMs)
  }

  if (bench.wants('F3')) {
    const times = empty()
    const warm = empty()
    for (let round = 0; round < 20; round++) for (const name of order(round)) await press(name, warm, 2)
    for (let round = 0; round < keys; round++) for (const name of order(round)) await press(name, times, 2)
    report('F3', times)
  }
  /** Keys beside a session that writes `text` over and over, on one side at a time. */
  const besideFlood = async (name, text) => {
    const path = root.file(`${name}.out`, text)
    const flags = { ours: `${root.path}/${name}.ours`, peer: `${root.path}/${name}.peer` }
    let flooder
    if (product !== undefined) {
      root.profile(name, flooding(root.path, `${name}-ours`, path, flags.ours))
      flooder = await product.wire.call('session.new', { agent: name, ...SIZE })
    }
    peer?.session(name, flooding(root.path, `${name}-peer`, path, flags.peer), SIZE)
    const times = empty()
    const blocks = bench.quick ? 4 : 10
    for (let block = 0; block < blocks; block++) {
      for (const side of block % 2 === 0 ? ['ours', 'peer'] : ['peer', 'ours']) {
        const names = order(block).filter((it) => (it === 'peer') === (side === 'peer'))
        if (names.length === 0) continue
        writeFileSync(flags[side], '')
        await pause(150)
        for (let i = 0; i < keys / blocks; i++) for (const it of names) await press(it, times, 2)
        rmSync(flags[side])
        await pause(250)
      }
    }
    peer?.drop(name)
    if (flooder !== undefined) await product.wire.call('session.remove', flooder.id)
    return times
  }
  if (bench.wants('F4')) {
    // What `yes` prints is the hardest flood for a terminal; long lines load the machine as much and the parser less.
    report('F4', await besideFlood('flood', 'y\n'.repeat(2_000_000)))
    if (!bench.quick) {
      const lines = await besideFlood('lines', 'a flood of output that goes on and on\n'.repeat(100_000))
      bench.report('F4.lines.p50', { ours: lines.direct, peer: lines.peer, errors: [] })
      bench.report('F4.lines.p99', { ours: lines.direct, peer: lines.peer, errors: [] }, [], (it) =>
        percentile(it, 0.99),
      )
    }
  }
  for (const client of Object.values(clients)) await client.close()
  for (const it of sessions) await product.wire.call('session.remove', it.id)
  if (peer !== undefined) peer.drop('echo')
}
