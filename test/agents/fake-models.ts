/**
 * A stand-in for the model servers, on 127.0.0.1 only: real agents run offline against it and it keeps what they sent.
 * Anything but a turn gets an empty or a "not found" answer, which the agents take quietly.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Script, type Ask } from './script.ts'
import { FORMATS, type Body, type Out } from './wire-formats.ts'

/** A request of a turn, as it went on. */
export interface Turn {
  prompt: string
  /** Tool results the prompt had had then: 0 for the request it began with. */
  results: number
  at: number
  /** The whole answer was sent, or the client has gone. */
  endedAt?: number
}

export class FakeModels {
  readonly turns: Turn[] = []
  readonly port: number
  readonly #server: Server
  readonly #script: Script
  #told: (() => void)[] = []

  private constructor(server: Server, script: Script) {
    this.#server = server
    this.#script = script
    this.port = (server.address() as AddressInfo).port
    server.on('request', (request, response) => void this.#serve(request, response).catch(() => response.destroy()))
  }

  static async start(): Promise<FakeModels> {
    const server = createServer()
    // Streams that trickle for an hour are not late.
    server.requestTimeout = 0
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return new FakeModels(server, new Script())
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  /** Prompts that began a turn, in order: what was really received. */
  get prompts(): string[] {
    return this.turns.filter((it) => it.results === 0).map((it) => it.prompt)
  }

  /** `run` is called whenever a turn begins or ends. */
  onTurn(run: () => void): void {
    this.#told.push(run)
  }

  close(): void {
    this.#told = []
    this.#server.closeAllConnections()
    this.#server.close()
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const gone = new AbortController()
    response.on('close', () => gone.abort())
    const path = (request.url ?? '').split('?')[0] ?? ''
    const body = await bodyOf(request)
    const format = request.method === 'POST' ? FORMATS.find((it) => it.matches.test(path)) : undefined
    if (format === undefined) return other(path, response)
    const ask: Ask = {
      ...format.read(body),
      model: typeof body['model'] === 'string' ? body['model'] : 'test-model',
      stream: body['stream'] === true,
    }
    const turn: Turn = { prompt: ask.prompt, results: ask.results, at: performance.now() }
    if (!ask.aux) this.turns.push(turn)
    this.#tell()
    response.on('close', () => {
      turn.endedAt = performance.now()
      this.#tell()
    })
    const answer = this.#script.answer(ask)
    if (answer.hang) return
    if (answer.error !== undefined) return reply(response, answer.error, format.error(answer.error))
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
    const out: Out = {
      event(name, data) {
        if (gone.signal.aborted) return
        const text = typeof data === 'string' ? data : JSON.stringify(data)
        response.write(`${name === undefined ? '' : `event: ${name}\n`}data: ${text}\n\n`)
      },
      pace: (ms) => pause(ms, gone.signal),
    }
    await format.write(out, answer, ask)
    response.end()
  }

  #tell(): void {
    for (const run of this.#told) run()
  }
}

async function bodyOf(request: IncomingMessage): Promise<Body> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  try {
    return JSON.parse(Buffer.concat(chunks).toString()) as Body
  } catch {
    return {} // not one of ours; answered by its path
  }
}

function other(path: string, response: ServerResponse): void {
  if (/\/count_tokens$/.test(path)) return reply(response, 200, { input_tokens: 100 })
  if (/\/models$/.test(path)) return reply(response, 200, { object: 'list', data: [], models: [], has_more: false })
  if (path === '/') return reply(response, 200, {})
  reply(response, 404, { type: 'error', error: { type: 'not_found_error', message: `nothing at ${path}` } })
}

function reply(response: ServerResponse, status: number, json: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(json))
}

async function pause(ms: number, signal: AbortSignal): Promise<boolean> {
  if (ms > 0 && !signal.aborted) {
    await new Promise<void>((resolve) => {
      const end = (): void => {
        clearTimeout(timer)
        signal.removeEventListener('abort', end)
        resolve()
      }
      const timer = setTimeout(end, ms)
      signal.addEventListener('abort', end)
    })
  }
  return !signal.aborted
}
