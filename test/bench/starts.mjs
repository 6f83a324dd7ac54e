// F5, F6, F7, F10: what a user waits for: a new session, the first session of a machine, a list, an attach.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { END, READY, Signal, idle, picture, reporting } from './programs.mjs'
import { bin } from './roots.mjs'
import { alternate, now } from './stats.mjs'
import { Terminal } from './terminal.mjs'
import { Tmux } from './tmux.mjs'

const SIZE = { cols: 80, rows: 24 }
/** A warm spare worker is made again behind a create; the next one must not meet that work. */
const SETTLE_MS = 400

/** Runs a program to its end; rejects with its stderr when it fails. Shape: { ms, stdout } */
export async function runToEnd(file, args, env) {
  const began = now()
  const child = spawn(file, args, { env, cwd: env.HOME, stdio: ['ignore', 'pipe', 'pipe'] })
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', (chunk) => (stdout += chunk))
  child.stderr.on('data', (chunk) => (stderr += chunk))
  const closed = once(child, 'close')
  const [code] = await once(child, 'exit')
  const ms = now() - began
  await closed
  if (code !== 0) throw new Error(`${args.join(' ')} left with ${code}: ${(stderr || stdout).trim().slice(0, 300)}`)
  return { ms, stdout }
}

export async function create(bench) {
  const { root } = bench.base()
  const signal = new Signal(`${root.path}/new.run`)
  const argv = reporting(root.path, 'report', signal.path)
  root.profile('report', argv)
  const product = await bench.product()
  const peer = bench.tmux()
  const control = await peer?.control()
  const quoted = argv.map((it) => `'${it}'`).join(' ')
  let count = 0

  const cli = async () => {
    const running = signal.next(15_000)
    const began = now()
    const ended = runToEnd(bin('pohunek'), ['session', 'new', '--agent', 'report', '--json'], root.env)
    const at = await Promise.race([running, ended.then(() => running)])
    const { stdout } = await ended
    await product.wire.call('session.remove', JSON.parse(stdout).ok.id)
    await pause(SETTLE_MS)
    return at - began
  }
  const request = async () => {
    const running = signal.next(15_000)
    const began = now()
    const made = await Promise.all([running, product.wire.call('session.new', { agent: 'report', ...SIZE })])
    await product.wire.call('session.remove', made[1].id)
    await pause(SETTLE_MS)
    return made[0] - began
  }
  const theirCli = async () => {
    const name = `new-${++count}`
    const running = signal.next(15_000)
    const began = now()
    const args = [...peer.base, 'new-session', '-d', '-s', name, '-x', '80', '-y', '24', ...argv]
    const ended = runToEnd('tmux', args, peer.env)
    const at = await Promise.race([running, ended.then(() => running)])
    await ended
    peer.drop(name)
    await pause(50)
    return at - began
  }
  const theirRequest = async () => {
    const name = `new-${++count}`
    const running = signal.next(15_000)
    const began = now()
    const [at] = await Promise.all([running, control.command(`new-session -d -s ${name} -x 80 -y 24 ${quoted}`)])
    await control.command(`kill-session -t ${name}`)
    await pause(50)
    return at - began
  }

  const rounds = bench.quick ? 4 : 15
  await pause(SETTLE_MS)
  bench.report('F5.cli', await alternate(rounds, { ours: product && cli, peer: peer && theirCli }))
  bench.report('F5.request', await alternate(rounds, { ours: product && request, peer: peer && theirRequest }))

  const burst = async () => {
    const wires = await Promise.all(Array.from({ length: 10 }, () => root.connect()))
    const running = wires.map(() => signal.next(20_000))
    const began = now()
    const made = await Promise.all(wires.map((wire) => wire.call('session.new', { agent: 'report', ...SIZE })))
    const at = Math.max(...(await Promise.all(running)))
    for (const it of made) await product.wire.call('session.remove', it.id)
    for (const wire of wires) wire.close()
    await pause(SETTLE_MS)
    return at - began
  }
  const theirBurst = async () => {
    const names = Array.from({ length: 10 }, () => `new-${++count}`)
    const running = names.map(() => signal.next(20_000))
    const began = now()
    await Promise.all(names.map((name) => control.command(`new-session -d -s ${name} -x 80 -y 24 ${quoted}`)))
    const at = Math.max(...(await Promise.all(running)))
    for (const name of names) await control.command(`kill-session -t ${name}`)
    return at - began
  }
  if (!bench.quick)
    bench.report('F5.burst', await alternate(bench.rounds(3), { ours: product && burst, peer: peer && theirBurst }))
  control?.close()
  signal.close()
}

export async function coldStart(bench) {
  const product = await bench.product()
  let count = 0
  const ours = async () => {
    const root = bench.root()
    const signal = new Signal(`${root.path}/cold.run`)
    root.profile('report', reporting(root.path, 'report', signal.path))
    const began = now()
    const { wire } = await root.start()
    const session = await wire.call('session.new', { agent: 'report', ...SIZE })
    const stream = await wire.attach(session.id, { way: 'daemon', ...SIZE })
    const at = await stream.until(READY, 15_000)
    stream.close()
    signal.close()
    await bench.drop(root)
    return at - began
  }
  const theirs = async () => {
    const { root } = bench.base()
    const signal = new Signal(`${root.path}/cold-${++count}.run`)
    const tmux = new Tmux(root, `cold${count}`)
    const began = now()
    const argv = reporting(root.path, `cold-${count}`, signal.path)
    let timer
    const seen = new Promise((resolve, reject) => {
      timer = setTimeout(() => reject(new Error('no output of the first session')), 10_000)
      const args = ['new-session', '-s', 'cold', '-x', '80', '-y', '24', ...argv]
      tmux.control(args, (line) => line.includes(READY) && resolve(now())).catch(reject)
    })
    const at = await seen
    clearTimeout(timer)
    tmux.stop()
    signal.close()
    return at - began
  }
  bench.report('F6', await alternate(bench.rounds(5), { ours: product && ours, peer: bench.tmux() && theirs }))

  const byCli = async () => {
    const root = bench.root()
    const signal = new Signal(`${root.path}/cold.run`)
    root.profile('report', reporting(root.path, 'report', signal.path))
    const running = signal.next(20_000)
    const began = now()
    const ended = runToEnd(bin('pohunek'), ['session', 'new', '--agent', 'report', '--json'], root.env)
    const at = await Promise.race([running, ended.then(() => running)])
    await ended
    signal.close()
    await bench.drop(root)
    return at - began
  }
  if (product !== undefined) bench.report('F6.cli', await alternate(bench.rounds(3), { ours: byCli }))
}

export async function list(bench) {
  const { root } = bench.base()
  root.profile('idle', idle)
  const product = await bench.product()
  const empty = root.file('empty.cjs', '')
  const sessions = []
  if (product !== undefined)
    for (let i = 0; i < 3; i++) sessions.push(await product.wire.call('session.new', { agent: 'idle', ...SIZE }))
  await pause(SETTLE_MS)
  const sides = (env) => ({
    ours:
      product &&
      (async () => {
        const { ms, stdout } = await runToEnd(bin('pohunek'), ['session', 'list', '--json'], env)
        if (JSON.parse(stdout).ok.length < 3) throw new Error('the list is not complete')
        return ms
      }),
    peer: async () => (await runToEnd(process.execPath, [empty], env)).ms,
  })
  const rounds = bench.quick ? 7 : 21
  bench.report('F7', await alternate(rounds, sides(root.env)), ['NODE_EXTRA_CA_CERTS unset'])
  const certificates = process.env.NODE_EXTRA_CA_CERTS
  if (certificates !== undefined && !bench.quick) {
    bench.report('F7.ca', await alternate(rounds, sides({ ...root.env, NODE_EXTRA_CA_CERTS: certificates })))
  }
  for (const it of sessions) await product.wire.call('session.remove', it.id)
}

export async function attach(bench) {
  await attachTo(bench, 'F10', 0)
  if (!bench.quick) await attachTo(bench, 'F10.history', 1_000)
}

/** One session with a full screen and `above` lines of scrollback, attached to again and again. */
async function attachTo(bench, row, above) {
  const { root } = bench.base()
  const name = `picture-${above}`
  const argv = picture(root.path, name, above)
  root.profile(name, argv)
  const product = await bench.product()
  const peer = bench.tmux()
  const size = { cols: 200, rows: 50 }
  const session = await product?.wire.call('session.new', { agent: name, ...size })
  peer?.session(name, argv, size)
  await pause(1_000)
  const timed = (make) => async () => {
    const began = now()
    const client = make()
    try {
      return (await client.until(END, 10_000)) - began
    } finally {
      await client.close()
      await pause(50)
    }
  }
  bench.report(
    row,
    await alternate(bench.quick ? 4 : 15, {
      ours: product && timed(() => new Terminal(bin('pohunek'), ['attach', session.id], { env: root.env, ...size })),
      peer: peer && timed(() => peer.attach(name, size)),
    }),
    above === 0 ? [] : ['our client paints the scrollback too, tmux the screen only'],
  )
  peer?.drop(name)
  if (session !== undefined) await product.wire.call('session.remove', session.id)
}
