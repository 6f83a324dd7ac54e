/** All hold still, and everything must be as it was meant: outputs, inputs, screens, processes, files. */
import type { Client } from '../../client/index.ts'
import { programOf, show, carrying, type Seen } from '../harness/processes.ts'
import { until } from '../harness/wait.ts'
import { clientOf } from './clients.ts'
import { findings } from './inputs.ts'
import type { Stage, Subject } from './stage.ts'
import { View } from './view.ts'

const SETTLE_MS = 20_000
const POLL_MS = 100
/** Fills the highest screen and its scrollback. */
const TAIL_BYTES = 262_144
/** Rows compared of terminals that have another height than the session. */
const COMMON_ROWS = 18
/** Warm workers a daemon keeps by default. */
const SPARES = 1
const WAYS = ['daemon', 'direct'] as const

/** Compares; what is wrong becomes a violation. Needs a daemon that is ready. */
export async function checkpoint(stage: Stage): Promise<void> {
  using client = clientOf(stage)
  const claim = async (holds: () => Promise<unknown>): Promise<void> => {
    try {
      await holds()
    } catch (failure) {
      stage.violation((failure as Error).message)
    }
  }
  await stage.hold()
  for (const subject of stage.subjects) {
    await claim(() => outputComplete(subject, client))
    await claim(() => inputsArrived(subject))
    await claim(() => screensAgree(stage, subject, client))
    await claim(() => sameRuntime(subject, client))
  }
  await claim(() => nothingElse(stage))
  for (const subject of stage.subjects) subject.release()
  stage.release()
}

async function outputComplete(subject: Subject, client: Client): Promise<void> {
  const { id, output } = subject
  const written = await subject.hold()
  await until(`all ${written} bytes of ${id} are read`, () => output.next === written, {
    deadlineMs: SETTLE_MS,
    show: () => `${output.next} are`,
  })
  const { runtime_end_offset: end } = await client.call('session.output', { session_id: id, max_bytes: 1 })
  if (Number(end) !== written) throw new Error(`${id} wrote ${written} bytes, its output ends at ${end}`)
}

async function inputsArrived(subject: Subject): Promise<void> {
  const sources = Object.values(subject.sources)
  let found = findings(subject.read, sources)
  await until(
    `the inputs of ${subject.id} arrived once and in order`,
    () => {
      found = findings(subject.read, sources)
      return found.problems.length === 0
    },
    { deadlineMs: SETTLE_MS, pollMs: POLL_MS, show: () => found.problems.join('\n') },
  )
  for (const source of sources) source.settled()
}

/** The daemon's screen, a fresh repaint by either way, and what the attached readers see: all as the output makes it. */
async function screensAgree(stage: Stage, { id, output, views }: Subject, client: Client): Promise<void> {
  await until(`both readers of ${id} are back`, () => views.size === WAYS.length, { deadlineMs: SETTLE_MS })
  const screen = await client.call('session.screen', { session_id: id })
  const { cols, rows } = screen.dimensions
  const right = new View(cols, rows)
  right.write(output.tail(TAIL_BYTES))
  await right.shown()
  const agree = (who: string, got: readonly string[], wanted: readonly string[]): void => {
    const at = [...(got.length > wanted.length ? got : wanted).keys()].find((row) => got[row] !== wanted[row])
    if (at === undefined) return
    throw new Error(`${who} of ${id} (${cols}x${rows}), row ${at}:\n  ${got[at]}\nand not\n  ${wanted[at]}`)
  }
  const told = [...screen.visible_lines.map((it) => it.trimEnd()), cursorLine(screen.cursor)]
  agree('session.screen', told, [...right.rows(), cursorLine(right.cursor)])
  /** A stream shows the right thing once it arrived. */
  const shows = async (who: string, view: () => View | undefined, look: (view: View) => string[]): Promise<void> => {
    const probe = async (): Promise<true> => {
      const it = view()
      if (it === undefined) throw new Error('it is gone')
      await it.shown()
      agree(who, look(it), look(right))
      return true
    }
    await until(`the ${who} agrees`, probe, { deadlineMs: SETTLE_MS, pollMs: POLL_MS })
    stage.screens++
  }
  for (const way of WAYS) {
    const reader = (): View | undefined => views.get(way)
    await shows(`${way} reader`, reader, (it) => it.above(COMMON_ROWS))
    const fresh = new View(cols, rows)
    const { stream } = await client.attachRaw(id, { direct: way === 'direct' }, fresh.taker())
    const repaint = (): View => fresh
    await shows(`repaint by ${way} attach`, repaint, (it) => [...it.cells(), cursorLine(it.cursor)])
    stream.close()
    fresh.close()
  }
  right.close()
}

const cursorLine = ({ row, col }: { row: number; col: number }): string => `the cursor in row ${row}, column ${col}`

async function sameRuntime(subject: Subject, client: Client): Promise<void> {
  const info = await client.call('session.inspect', subject.id)
  const changed = subject.changed(info)
  if (changed !== undefined) throw new Error(changed)
  if (info.runtime?.state !== 'live') throw new Error(`${subject.id} is ${info.runtime?.state}, not live`)
}

/** No process, job or socket but those of the daemon, the sessions and one warm worker. */
async function nothingElse(stage: Stage): Promise<void> {
  await until('nothing but the sessions is there', () => strays(stage).length === 0, {
    deadlineMs: SETTLE_MS,
    pollMs: POLL_MS,
    show: () => strays(stage).join('\n'),
  })
}

function strays({ world, subjects }: Stage): string[] {
  const seen = carrying(world.roots.base)
  const of = (program: ReturnType<typeof programOf>): Seen[] => seen.filter((it) => programOf(it) === program)
  const workers = new Map(of('worker').map((it) => [it.argv[it.argv.indexOf('--session-id') + 1] ?? '', it]))
  const spares = [...workers].filter(([id]) => subjects.every((it) => it.id !== id)).map(([, it]) => it)
  const programs = of('other').filter((it) => subjects.every(({ pid }) => pid !== it.pid))
  const files = (['runtime', 'state'] as const).flatMap((root) =>
    world.files(root).filter((path) => {
      const [id] = /s-[0-9A-Z]{26}/.exec(path) ?? []
      return id !== undefined && !workers.has(id)
    }),
  )
  return [
    ...subjects.filter(({ id }) => !workers.has(id)).map(({ id }) => `no worker for ${id}`),
    ...(workers.size === of('worker').length ? [] : [`two workers for one session: ${show(of('worker'))}`]),
    ...(of('daemon').length === 1 ? [] : [`${of('daemon').length} daemons: ${show(of('daemon'))}`]),
    ...(spares.length <= SPARES ? [] : [`spare workers: ${show(spares)}`]),
    ...[...programs, ...of('cli')].map((it) => `process ${show([it])}`),
    ...files.map((it) => `file ${it}`),
  ]
}
