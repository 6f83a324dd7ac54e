/** Plays a plan against a target and answers what was wrong with the answers. */
import type { Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { until } from '../harness/wait.ts'
import { wrongAnswer, wrongWorkerLine } from './judge.ts'
import { LIMITS } from './limits.ts'
import { dial, lease } from './lone.ts'
import { render, type Connection, type Names, type Piece, type Plan } from './plan.ts'
import type { Target } from './target.ts'

const LAST = 'f-last'
const MAX_SHOWN = 400
const MAX_WRITES = 64
const REQUEST = { v: { minimum: 3, maximum: 4 }, id: LAST, method: 'daemon.health', params: null }
const NEGOTIATE = {
  type: 'negotiate',
  request_id: LAST,
  daemon_instance_id: 'd-fuzz',
  minimum_version: 6,
  maximum_version: 7,
}

/** One socket: everything it said, in lines when it is one that speaks lines. */
class Talk {
  readonly socket: Socket
  readonly lines: Buffer[] = []
  ended = false
  /** What is behind the last newline; at the end of a connection nothing may be. */
  rest: Buffer = Buffer.alloc(0)

  constructor(socket: Socket, lines: boolean) {
    this.socket = socket
    socket.on('error', () => undefined) // 'close' follows
    // Its half-close says as much: nothing more comes.
    for (const event of ['end', 'close']) socket.on(event, () => (this.ended = true))
    socket.on('data', (chunk: Buffer) => {
      if (!lines) return
      let all = this.rest.length === 0 ? chunk : Buffer.concat([this.rest, chunk])
      for (let at = all.indexOf(10); at >= 0; at = all.indexOf(10)) {
        this.lines.push(all.subarray(0, at))
        all = all.subarray(at + 1)
      }
      this.rest = all
    })
  }

  answered(id: string): boolean {
    return this.lines.some((it) => it.includes(`"${id}"`))
  }

  get subscribed(): boolean {
    return this.lines.some((it) => it.includes('"ok":{"subscribed":true}'))
  }

  async write(bytes: Buffer): Promise<void> {
    if (this.ended || !this.socket.writable) return
    if (this.socket.write(bytes)) return
    // Who does not read its answers is not read either: then it is time to read.
    this.socket.resume()
    // A peer that reads no more is a finding only when it is not closed for it either.
    await until('what was written is taken', () => this.ended || !this.socket.writableNeedDrain, {
      deadlineMs: LIMITS.connectionMs,
      pollMs: 2,
    })
  }
}

/** Resolves with what is wrong, or undefined. Rejects when a connection is neither answered nor closed in time. */
export async function play(target: Target, plan: Plan): Promise<string | undefined> {
  const methodOf = methodsOf(plan)
  let leased: Promise<unknown> = Promise.resolve()
  const played = plan.map(async (it) => {
    if (it.to !== 'leased') return playOne(target, it, methodOf)
    // One controller at a time.
    const mine = leased.then(() => playOne(target, it, methodOf))
    leased = mine.catch(() => undefined)
    return mine
  })
  const settled = await Promise.allSettled(played)
  const failed = settled.find((it) => it.status === 'rejected')
  if (failed !== undefined) throw failed.reason
  return settled.flatMap((it) => (it.status === 'fulfilled' && it.value !== undefined ? [it.value] : []))[0]
}

/** Methods by request id; ids used twice are not judged by their method. */
function methodsOf(plan: Plan): (id: string) => string | undefined {
  const known = new Map<string, string | undefined>()
  for (const piece of plan.flatMap((it) => it.pieces)) {
    if (piece.kind !== 'json' || piece.edits.length > 0 || typeof piece.value !== 'object') continue
    const { id, method } = (piece.value ?? {}) as { id?: unknown; method?: unknown }
    if (typeof id === 'string' && typeof method === 'string') known.set(id, known.has(id) ? undefined : method)
  }
  return (id) => known.get(id)
}

interface Ready {
  readonly socket: Socket
  readonly names: Names
}

async function playOne(
  target: Target,
  plan: Connection,
  methodOf: (id: string) => string | undefined,
): Promise<string | undefined> {
  const { socket, names } = await open(target, plan)
  const first = plan.pieces.length === 0 ? undefined : render(plan.pieces[0] as Piece, names)[0]
  // A worker takes a connection that begins with a zero for frames, which are not answered.
  const opaque = plan.to === 'attach' || plan.to === 'direct' || (plan.to === 'worker' && first === 0)
  const talk = new Talk(socket, !opaque)
  try {
    if (!plan.reads) socket.pause()
    for (const piece of plan.pieces) await send(talk, plan, render(piece, names))
    socket.resume()
    await finish(talk, plan, opaque)
  } finally {
    socket.destroy()
  }
  const judge = plan.to === 'daemon' ? (it: Buffer) => wrongAnswer(it, methodOf) : wrongWorkerLine
  for (const line of talk.lines) {
    const wrong = judge(line)
    if (wrong !== undefined) return `${plan.to}: ${wrong}\n${line.subarray(0, MAX_SHOWN).toString()}`
  }
  return undefined
}

async function send(talk: Talk, { chunk }: Connection, bytes: Buffer): Promise<void> {
  // Small writes of a long piece would only measure the socket.
  const size = Math.max(chunk, Math.ceil(bytes.length / MAX_WRITES))
  for (let at = 0; at < bytes.length; at += size) {
    await talk.write(bytes.subarray(at, at + size))
    await turn()
  }
}

async function open(target: Target, { to, pieces }: Connection): Promise<Ready> {
  if (to === 'leased') {
    const { socket, scope } = await lease(target.lone, LIMITS.answerMs)
    const { lease_id = '', session_id = '', worker_id = '', runtime_id = '' } = scope
    const names = { '@lease': lease_id, '@session': session_id, '@worker': worker_id, '@runtime': runtime_id }
    return { socket, names }
  }
  const needsLine = to === 'attach' || to === 'direct' || pieces.some((it) => it.kind === 'frame')
  const names = needsLine ? await target.attachLine() : target.names
  const socket = await dial(to === 'worker' || to === 'direct' ? target.workerSocket : target.daemonSocket)
  const line = to === 'attach' ? names['@stream'] : to === 'direct' ? names['@token'] : undefined
  if (line !== undefined) socket.write(`${JSON.stringify({ attach: line })}\n`)
  return { socket, names }
}

async function finish(talk: Talk, { to, end }: Connection, opaque: boolean): Promise<void> {
  const { socket } = talk
  if (end === 'reset' || (opaque && end === 'answered')) return
  if (end === 'close') {
    socket.end()
    // An attached terminal may go on reading behind its half-close.
    if (!opaque) await closed(talk)
    return
  }
  await talk.write(Buffer.from(`\n${JSON.stringify(to === 'daemon' ? REQUEST : NEGOTIATE)}\n`))
  await until('the last request is answered or the connection is closed', () => over(talk), {
    deadlineMs: LIMITS.connectionMs,
    pollMs: 1,
    show: () => talk.lines.slice(-3).join('\n'),
  })
}

const over = (talk: Talk): boolean => talk.ended || talk.subscribed || talk.answered(LAST)
const closed = (talk: Talk): Promise<true> =>
  until('a half-closed connection is closed', () => (talk.ended || talk.subscribed) as true, {
    deadlineMs: LIMITS.connectionMs,
    pollMs: 1,
    show: () => talk.lines.slice(-3).join('\n'),
  })
