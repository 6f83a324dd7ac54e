// F1, F2, F12b: 50 MB of output with a client reading all of it, with none, and what a worker keeps afterwards.
import { setTimeout as pause } from 'node:timers/promises'
import { memory } from './proc.mjs'
import { END, Gate, READY, Signal, kinds, payload, printing } from './programs.mjs'
import { bin, workerOf } from './roots.mjs'
import { alternate, now } from './stats.mjs'
import { Terminal } from './terminal.mjs'

const SIZE = { cols: 200, rows: 50 }

export async function throughput(bench) {
  const bytes = bench.quick ? 10_000_000 : 50_000_000
  const { root } = bench.base()
  const gate = new Gate(`${root.path}/out.gate`)
  const done = new Signal(`${root.path}/out.done`)
  const product = await bench.product()
  const peer = bench.tmux()
  const programs = {}
  for (const kind of Object.keys(kinds)) {
    const { path, size } = payload(root.path, kind, bytes)
    programs[kind] = { size, argv: printing(root.path, `print-${kind}`, path, gate.path, done.path) }
    root.profile(`print-${kind}`, programs[kind].argv)
  }

  /** One attached run: from the open gate to the end mark at the client and the end of the program's writing. */
  const attached = async (client) => {
    await client.until(READY, 10_000)
    await pause(50)
    const seen = client.until(END)
    const written = done.next()
    const began = now()
    gate.open()
    return Math.max(await seen, await written) - began
  }
  const detached = async () => {
    await pause(60)
    const written = done.next()
    const began = now()
    gate.open()
    return (await written) - began
  }
  const ours = (kind, run) => async () => {
    const session = await product.wire.call('session.new', { agent: `print-${kind}`, ...SIZE })
    try {
      return await run(session)
    } finally {
      await product.wire.call('session.remove', session.id)
    }
  }
  let count = 0
  const theirs = (kind, run) => async () => {
    const name = `print-${++count}`
    peer.session(name, programs[kind].argv, SIZE)
    try {
      return await run(name)
    } finally {
      peer.drop(name)
    }
  }
  let way
  const stream = (kind, via) =>
    ours(kind, async (session) => {
      const client = await product.wire.attach(session.id, { way: via, ...SIZE })
      way ??= client.way
      try {
        return await attached(client)
      } finally {
        client.close()
      }
    })
  const atTerminal = async (client) => {
    try {
      return await attached(client)
    } finally {
      await client.close()
    }
  }
  const theirAttach = (kind) => peer && theirs(kind, (name) => atTerminal(peer.attach(name, SIZE)))
  const size = (kind) => (programs[kind].size === bytes ? '' : `${(programs[kind].size / 1e6).toFixed(1)} MB each side`)

  for (const kind of Object.keys(kinds)) {
    if (bench.hasTime() && bench.wants('F1')) {
      const figures = await alternate(bench.rounds(3), {
        ours: product && stream(kind, 'direct'),
        peer: theirAttach(kind),
      })
      bench.report(`F1.${kind}`, figures, [size(kind), way === undefined ? '' : `our stream: ${way}`])
    }
    if (bench.hasTime() && bench.wants('F2')) {
      const figures = await alternate(bench.rounds(3), {
        ours: product && ours(kind, detached),
        peer: peer && theirs(kind, detached),
      })
      bench.report(`F2.${kind}`, figures, [size(kind)])
    }
  }
  if (bench.hasTime() && bench.wants('F1') && product !== undefined && !bench.quick) {
    bench.report(
      'F1.proxied',
      await alternate(bench.rounds(2), { ours: stream('ascii', 'daemon'), peer: theirAttach('ascii') }),
    )
    const client = ours('ascii', (session) =>
      atTerminal(new Terminal(bin('pohunek'), ['attach', session.id], { env: root.env, ...SIZE })),
    )
    bench.report('F1.client', await alternate(bench.rounds(2), { ours: client, peer: theirAttach('ascii') }), [
      'our client passes every byte on, tmux paints what fits',
    ])
  }
  if (bench.wants('F12b') && product !== undefined) {
    const sessions = []
    for (const kind of Object.keys(kinds)) {
      const session = await product.wire.call('session.new', { agent: `print-${kind}`, ...SIZE })
      sessions.push({ kind, session })
      await detached()
    }
    await pause(bench.quick ? 5_000 : 12_000)
    const kept = sessions.map(({ kind, session }) => ({ kind, mb: memory(workerOf(session)).private }))
    bench.report('F12b', { ours: [Math.max(...kept.map((it) => it.mb))], peer: [], errors: [] }, [
      `largest of ${kept.map((it) => `${it.kind} ${it.mb.toFixed(1)}`).join(', ')} MB`,
    ])
    for (const { session } of sessions) await product.wire.call('session.remove', session.id)
  }
  gate.close()
  done.close()
}
