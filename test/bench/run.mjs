// `npm run bench`: our figures beside tmux's (or another peer's) in one run, alternating, as medians.
//   --quick           smaller payloads and fewer rounds, under two minutes
//   --only F1,F3      only these lines
//   --only R4         memory over --minutes M of mixed load (default 10; 480 is the whole working day)
//   --rounds N        rounds of the slow measurements (default 5)
//   --json            rows as JSON on stdout instead of the table
// It is not a test: it judges against the targets, it never fails by time. Everything runs in private roots below the
// temporary directory, with an environment built from empty, and is ended and removed afterwards.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { activity, fanOut, waiters } from './activity.mjs'
import { echo } from './echo.mjs'
import { flat } from './flat.mjs'
import { filled, fleet } from './fleet.mjs'
import { requests } from './requests.mjs'
import { Root, bin, projectRoot } from './roots.mjs'
import { attach, coldStart, create, list } from './starts.mjs'
import { median, now, show } from './stats.mjs'
import { store } from './store.mjs'
import { lines, longLines, rows, verdict } from './targets.mjs'
import { throughput } from './throughput.mjs'
import { Tmux, tmuxVersion } from './tmux.mjs'
import { trees } from './trees.mjs'

const { values: options } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    only: { type: 'string' },
    minutes: { type: 'string' },
    rounds: { type: 'string' },
  },
})
const only = options.only?.split(',').map((it) => it.trim())
const unknown = only?.filter((it) => !lines.includes(it)) ?? []
if (unknown.length > 0) {
  process.stderr.write(`no such line: ${unknown.join(', ')}; there are ${lines.join(', ')}\n`)
  process.exit(2)
}
const say = (text) => process.stderr.write(`${text}\n`)
const limitMs = options.quick ? 115_000 : 460_000

class Bench {
  quick = options.quick
  results = []
  /** Set once something was left out for want of time. */
  cut = false
  #roots = new Set()
  #base
  #product
  #tmux
  #hasTmux = tmuxVersion() !== undefined

  wants(line) {
    return only === undefined ? !longLines.includes(line) : only.includes(line)
  }

  /** False once a run took so long that what is left of it must be left out. */
  hasTime() {
    this.cut ||= now() - began >= limitMs
    return !this.cut
  }

  /** Rounds of a slow measurement: `full` at most, or what --rounds asks for. */
  rounds(full) {
    if (options.rounds !== undefined) return Math.max(1, Number(options.rounds) || 1)
    return this.quick ? Math.min(full, 2) : full
  }

  /** Minutes of a load that is measured over time. */
  get minutes() {
    return Number(options.minutes) || (this.quick ? 2 : 10)
  }

  root() {
    const root = new Root()
    this.#roots.add(root)
    return root
  }

  async drop(root) {
    await root.destroy()
    this.#roots.delete(root)
  }

  /** The root both sides share: programs, payloads, tmux's socket. */
  base() {
    this.#base ??= this.root()
    return { root: this.#base }
  }

  /** Our daemon in the shared root, or undefined when there is no product to measure. Shape: { root, wire } */
  product() {
    this.#product ??= this.#startProduct()
    return this.#product
  }

  async #startProduct() {
    if (!existsSync(bin('pohunekd'))) return undefined
    try {
      const { root } = this.base()
      const { wire } = await root.start()
      return { root, wire }
    } catch (problem) {
      say(`ours cannot be measured: ${problem.message}`)
      return undefined
    }
  }

  tmux() {
    if (this.#hasTmux) this.#tmux ??= new Tmux(this.base().root, 'peer').start()
    return this.#tmux
  }

  /** One row from samples of both sides. `figures`: { ours, peer, errors }; `of` makes one figure of many samples. */
  report(key, figures, notes = [], of = median) {
    const target = rows[key]
    const ours = of(figures.ours)
    const peer = of(figures.peer)
    const ratio = ours === undefined || peer === undefined ? undefined : ours / peer
    const result = {
      key,
      line: target.line,
      what: target.what,
      unit: target.unit,
      ours,
      peer,
      peer_name: target.peer,
      ratio,
      prototype: target.prototype,
      aim: target.aim,
      judged_by: target.judge,
      samples: { ours: figures.ours.length, peer: figures.peer.length },
      verdict: verdict(target, { ours, ratio }),
      notes: [...notes.filter((it) => it !== ''), ...figures.errors],
    }
    this.results.push(result)
    if (!options.json)
      say(`  ${result.line} ${result.what}: ${show(ours, result.unit)} against ${show(peer, result.unit)}`)
  }

  end() {
    this.#tmux?.stop()
    return Promise.all([...this.#roots].map((root) => root.destroy()))
  }

  endNow() {
    for (const root of this.#roots) root.destroyNow()
  }
}

function build() {
  if (existsSync(join(projectRoot, 'dist/version')) || !existsSync(join(projectRoot, 'main/pohunekd.ts'))) return
  say('no dist/ yet: building')
  execFileSync(process.execPath, [join(projectRoot, 'scripts/build.mjs')], { stdio: ['ignore', 2, 2] })
}

function table(results) {
  const two = (value) => (value === undefined ? '-' : value.toFixed(2))
  const target = (it, value) =>
    value === undefined ? '-' : it.judged_by === 'ratio' ? String(value) : `${value} ${it.unit}`
  const head = ['line', 'what', 'ours', 'peer', '(peer is)', 'ratio', 'prototype', 'aim', '']
  const body = results.map((it) => [
    it.line,
    it.what,
    show(it.ours, it.unit),
    show(it.peer, it.unit),
    it.peer === undefined ? '' : it.peer_name,
    two(it.ratio),
    target(it, it.prototype),
    target(it, it.aim),
    it.verdict,
  ])
  const widths = head.map((_, column) => Math.max(...[head, ...body].map((row) => row[column].length)))
  const right = new Set([2, 3, 5, 6, 7])
  const print = (row) =>
    row
      .map((cell, i) => (right.has(i) ? cell.padStart(widths[i]) : cell.padEnd(widths[i])))
      .join('  ')
      .trimEnd()
  const notes = results
    .filter((it) => it.notes.length > 0)
    .map((it) => `  ${it.line} ${it.what}: ${it.notes.join('; ')}`)
  return [print(head), ...body.map(print), ...(notes.length > 0 ? ['', 'Notes', ...notes] : [])].join('\n')
}

const began = now()
const bench = new Bench()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.once(signal, () => {
    bench.endNow()
    process.exit(130)
  })
}
build()
const peerVersion = tmuxVersion()
if (peerVersion === undefined) say('tmux is not on PATH: only our own figures are measured')
if (!existsSync(bin('pohunekd'))) say('bin/pohunekd is not there: only the peer is measured')

const steps = [
  { of: ['F9', 'F8'], run: requests },
  { of: ['F3', 'F4'], run: echo },
  { of: ['F7'], run: list },
  { of: ['F10'], run: attach },
  { of: ['F5'], run: create },
  { of: ['F6'], run: coldStart },
  { of: ['F12'], run: filled },
  { of: ['F11', 'F13', 'F14', 'F15', 'R2'], run: fleet },
  { of: ['R1', 'R3'], run: store },
  { of: ['F1', 'F2', 'F12b'], run: throughput },
  { of: ['A1'], run: activity },
  { of: ['A2'], run: waiters },
  { of: ['A3'], run: fanOut },
  { of: ['W1', 'W2'], run: trees },
  { of: ['R4'], run: flat },
]
const failures = []
try {
  for (const { of, run } of steps) {
    if (!of.some((line) => bench.wants(line))) continue
    if (!bench.hasTime()) failures.push(`${of.join(', ')}: skipped, the time of a run is over`)
    else
      try {
        await run(bench)
      } catch (problem) {
        failures.push(`${of.join(', ')}: ${problem.message}`)
      }
  }
} finally {
  await bench.end()
}
if (bench.cut) failures.push('what is missing above was left out: the time of a run was over')
const order = Object.keys(rows)
bench.results.sort((a, b) => order.indexOf(a.key) - order.indexOf(b.key))
const seconds = (now() - began) / 1000
const about = {
  node: process.version,
  tmux: peerVersion ?? null,
  cpu: `${cpus().length} x ${cpus()[0]?.model ?? 'unknown'}`,
  quick: options.quick,
  seconds: Math.round(seconds),
}
if (options.json) process.stdout.write(`${JSON.stringify({ about, rows: bench.results, failures }, null, 2)}\n`)
else {
  const facts = [
    about.node,
    about.tmux ?? 'no tmux',
    about.cpu,
    `${about.seconds} s`,
    ...(options.quick ? ['quick: smaller payloads'] : []),
  ]
  process.stdout.write(`\npohunek bench: ${facts.join(', ')}\n\n${table(bench.results)}\n`)
  if (failures.length > 0) process.stdout.write(`\nNot measured\n${failures.map((it) => `  ${it}`).join('\n')}\n`)
  process.stdout.write(
    `\nsmaller is better; ratio is ours / peer. aim: as wanted, ok: as the prototype or the aim, short: worse than both.\n`,
  )
}
// Sockets of ended peers may linger; everything of the run is gone.
process.exit(0)
