/** The clients of a chaos run. Each goes on for ever over daemons that come and go, until the stage ends. */
import { Client, ClientError } from '../../client/index.ts'
import { pause } from '../harness/wait.ts'
import type { Random } from './random.ts'
import type { Stage, Subject } from './stage.ts'
import { View } from './view.ts'

const REQUEST_MS = 30_000
const RETRY_MS = 20
const OUTPUT_BYTES = 262_144
const OUTPUT_WAIT_MS = 1_000
const MAX_PAUSE_MS = 40
const MAX_PADDING = 12_000
/** One write of this size is never split on its way, so a broken connection tears no input. */
const MAX_TYPED_PADDING = 40
/** Between two tries of a reader to be somebody else: a terminal closed and opened again. */
const LEAVE_CHANCE = 0.01
/** No line of the programs wraps in the narrowest of these. */
const SIZES = { cols: [80, 200], rows: [20, 50] } as const
/** The terminals of readers; the newest one decides the session's size until somebody resizes it. */
const TERMINALS = { daemon: { cols: 160, rows: 48 }, direct: { cols: 100, rows: 30 } } as const

/** Refusals that come before a byte was written. */
const NOT_WRITTEN = new Set(['daemon_unreachable', 'session_runtime_reconnecting'])
/** Events that say a session is not what it was. */
const NEVER = new Set([
  'session_runtime_lost',
  'session_runtime_conflict',
  'session_stopped',
  'session_removed',
  'session_runtime_discovered',
])

export const clientOf = (stage: Stage): Client =>
  new Client({ socketPath: stage.world.roots.socket, env: {}, requestTimeoutMs: REQUEST_MS })

/** Does it again and again; after a failure with a new connection. */
async function endure(stage: Stage, who: string, step: (client: Client) => Promise<void>): Promise<void> {
  using client = clientOf(stage)
  while (!stage.ending.aborted) {
    try {
      await step(client)
    } catch (failure) {
      stage.met(who, failure)
      await pause(RETRY_MS)
    }
  }
}

/** Joins the output of a session by offsets. */
export async function follow(stage: Stage, subject: Subject): Promise<void> {
  const { id, runtime, output } = subject
  let wait = false
  await endure(stage, `output of ${id}`, async (client) => {
    const request = { session_id: id, runtime, after_offset: String(output.next), max_bytes: OUTPUT_BYTES }
    const answer = await client.call('session.output', wait ? { ...request, wait_ms: OUTPUT_WAIT_MS } : request, {
      signal: stage.ending,
    })
    const wrong = output.take(answer)
    if (wrong !== undefined) stage.violation(`${id}: ${wrong}`)
    wait = !answer.has_more
  })
}

/** Sends numbered inputs by session.input. */
export async function send(stage: Stage, { id, sources }: Subject, random: Random): Promise<void> {
  await endure(stage, `input to ${id}`, (client) =>
    stage.act(async () => {
      sources.i.opened()
      const input = sources.i.next(random.chance(0.2) ? random.between(0, MAX_PADDING) : 0)
      try {
        const { accepted } = await client.call('session.input', { session_id: id, text: input.text })
        input.outcome = accepted ? 'accepted' : 'refused'
      } catch (failure) {
        input.outcome = failure instanceof ClientError && NOT_WRITTEN.has(failure.code) ? 'refused' : 'unknown'
        throw failure
      }
      await pause(random.between(0, MAX_PAUSE_MS))
    }),
  )
}

/** An attached terminal, through the daemon or straight to the worker: reads, types, sometimes leaves and comes back. */
export async function attach(stage: Stage, subject: Subject, way: 'daemon' | 'direct', random: Random): Promise<void> {
  const { id, sources, views } = subject
  const source = way === 'direct' ? sources.x : sources.d
  const { cols, rows } = TERMINALS[way]
  await endure(stage, `${way} attach to ${id}`, async (client) => {
    const view = new View(cols, rows)
    let over = false
    const taker = view.taker(() => void (over = true))
    const { stream, direct } = await client.attachRaw(id, { cols, rows, direct: way === 'direct' }, taker)
    stage.attached[direct ? 'direct' : 'daemon']++
    views.set(way, view)
    source.opened()
    try {
      let leave = false
      while (!over && !leave && !stage.ending.aborted) {
        await stage.act(async () => {
          leave = random.chance(LEAVE_CHANCE)
          if (!leave) stream.write(Buffer.from(`${source.next(random.between(0, MAX_TYPED_PADDING)).text}\r`))
        })
        await pause(random.between(10, 120))
      }
    } finally {
      if (!stage.ending.aborted) source.closed()
      views.delete(way)
      stream.close()
      view.close()
    }
  })
}

/** Lists, inspects, resizes and draws the sessions. */
export async function meddle(stage: Stage, random: Random): Promise<void> {
  const { subjects } = stage
  await endure(stage, 'the meddler', async (client) => {
    await pause(random.between(10, 100))
    const subject = subjects[random.between(0, subjects.length)] as Subject
    const [cols, rows] = [random.between(...SIZES.cols), random.between(...SIZES.rows)]
    const does = random.between(0, 4)
    if (does === 0) {
      const all = await client.listSessions()
      for (const it of subjects)
        checked(
          stage,
          it,
          all.find((one) => one.id === it.id),
        )
      if (all.length !== subjects.length) stage.violation(`${all.length} sessions are listed: ${JSON.stringify(all)}`)
    } else if (does === 1) checked(stage, subject, await client.call('session.inspect', subject.id))
    else if (does === 2) await client.call('session.screen', { session_id: subject.id })
    else
      await stage.act(async () => {
        checked(stage, subject, (await client.call('session.resize', { session_id: subject.id, cols, rows })).session)
      })
    stage.calls++
  })
}

function checked(stage: Stage, subject: Subject, info: Parameters<Subject['changed']>[0] | undefined): void {
  const changed = info === undefined ? `${subject.id} is not listed` : subject.changed(info)
  if (changed !== undefined) stage.violation(changed)
}

/** Subscribes: no daemon may say that a session ended, is lost or doubtful. */
export async function listen(stage: Stage): Promise<void> {
  await endure(stage, 'the subscriber', async (client) => {
    for await (const event of client.subscribe({ signal: stage.ending }))
      if (NEVER.has(event.event)) stage.violation(`event ${JSON.stringify(event)}`)
  })
}
