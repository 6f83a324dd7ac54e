/** A daemon with detection, and agents that do what their test says. */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { processes } from '../../platform/index.ts'
import type { Processes } from '../../platform/processes.ts'
import { definePlugin } from '../../kernel/plugin.ts'
import { Detection, type ActivityChange } from '../../plugins/detection/api.ts'
import { detectionPlugin } from '../../plugins/detection/plugin.ts'
import { packagesPlugin } from '../../plugins/packages/plugin.ts'
import { contract } from '../../protocol/contract.ts'
import { REPOSITORY } from '../harness/roots.ts'
import { Session } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import type { Answer } from '../harness/wire.ts'
import { station, type Station, type StationOptions } from '../sessions/station.ts'

export const STUB = join(REPOSITORY, 'test/detection/stub.mjs')

const PROCESS = `[process]
cmdline = ['^\\S+ \\S*stub\\S*( |$)']
`

export const MANIFEST = `
${PROCESS}

[[rules]]
id = "spinner"
state = "working"
priority = 1000
region = "osc_title"
regex = '^[⠋⠙⠹] '

${readFileSync(join(REPOSITORY, 'test/detection/acting-rules.toml'), 'utf8')}`

const descriptor = (more: string): string => `
schema = 1
runtime_api = 1
id = "pohunek.runtime.stub"
version = "1.0.0"

[runtime]
id = "stub"
name = "Stub"
program = "${process.execPath}"
args = []
detect_manifest = "detect.toml"

[input]
bracketed_paste = false
submit_delay_ms = 0
text_policy = "unrestricted"
${more}

[resume]
supported = false

[fork]
supported = false

[native_reference]
strategy = "none"

[reports]
osc_7501_app = "stub"
`

/** How the stub's screen is read where it draws what `runtime` draws. */
export function manifestLike(runtime: string): string {
  const text = readFileSync(join(REPOSITORY, 'runtime-packages', runtime, 'detect.toml'), 'utf8')
  return text.replace(/^\[process\]\n(?:comm = .*\n)?cmdline = \[[^]*?\n\]\n/m, PROCESS)
}

/** A whole screen: what is above the composer's place, then what stands in it. */
export const screen = (...rows: string[]): string => `\x1b[2J\x1b[H${rows.join('\r\n')}`
export const COMPOSER = screen('an answer', '', '> ')
export const WORKING = screen('an answer', '', '* Pondering (3s, esc to interrupt)', '> ')
export const QUESTION = screen('an answer', '', 'Allow this?', '1. Yes', '2. No')
export const UNKNOWN = screen('=== something quite new ===', '[ ok ]')
export const title = (text: string): string => `\x1b]2;${text}\x07`
export const report = (state: string, more = ''): string => `\x1b]7501;state=${state}:app=stub${more}\x1b\\`

/** One agent as its test drives it. */
export class Stub {
  readonly socket: Socket
  readonly heard: Answer[] = []
  constructor(socket: Socket) {
    this.socket = socket
    let pending = ''
    socket.on('data', (chunk: Buffer) => {
      pending += chunk.toString()
      for (let at = pending.indexOf('\n'); at >= 0; at = pending.indexOf('\n')) {
        this.heard.push(JSON.parse(pending.slice(0, at)))
        pending = pending.slice(at + 1)
      }
    })
    socket.on('error', () => undefined) // its agent was killed
  }
  get typed(): string {
    return this.heard.map((it) => it.typed ?? '').join('')
  }
  async pid(): Promise<number> {
    return (await until('the agent says its pid', () => this.heard.find((it) => it.pid !== undefined))).pid
  }
  /** Resolves once the agent did it. */
  async order(order: string, value: unknown): Promise<void> {
    const before = this.heard.filter((it) => it.did === order).length
    this.socket.write(`${JSON.stringify({ [order]: value })}\n`)
    if (order === 'exit') return
    await until(`the agent did ${order}`, () => this.heard.filter((it) => it.did === order).length > before)
  }
  write(...texts: string[]): Promise<void> {
    return this.order('write', texts.join(''))
  }
}

export interface TheatreOptions extends StationOptions {
  /** More of [input] of the stub's runtime. */
  readonly input_rules?: string
  /** In place of MANIFEST. */
  readonly detect?: string
  readonly facts?: Processes
}

export class Theatre {
  readonly station: Station
  readonly #server: Server
  readonly #path: string
  /** In the order they connected. */
  readonly arrived: Stub[] = []
  #named = 0

  /** What other plugins were told. */
  readonly changes: readonly ActivityChange[]

  constructor(it: Station, path: string, changes: readonly ActivityChange[]) {
    this.station = it
    this.changes = changes
    this.#path = path
    this.#server = createServer((socket) => void this.arrived.push(new Stub(socket)))
    this.#server.listen(path)
    onTestFinished(() => {
      for (const { socket } of this.arrived) socket.destroy()
      this.#server.close()
    })
  }

  /** Where a stub has to connect to. */
  get socketPath(): string {
    return this.#path
  }

  profile(program: string, args: readonly string[], lines: readonly string[] = [], base = 'stub'): string {
    const name = `agent${++this.#named}`
    this.station.profile(name, [
      `base = "${base}"`,
      `program = ${JSON.stringify(program)}`,
      `args = ${JSON.stringify(args)}`,
      ...lines,
    ])
    return name
  }

  manifest(name: string, text: string): void {
    const directory = join(this.station.roots.config, 'pohunek/agents/manifests')
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    writeFileSync(join(directory, `${name}.toml`), text, { mode: 0o600 })
  }

  /** A session whose program, or something it starts, is a stub. */
  async agent(
    program: string = process.execPath,
    args: readonly string[] = [STUB, this.#path],
    lines: readonly string[] = [],
    base = 'stub',
    params: Record<string, unknown> = {},
  ): Promise<Session & { stub: Stub }> {
    const known = this.arrived.length
    const creating = this.station.create({ agent: this.profile(program, args, lines, base), ...params })
    creating.catch(() => undefined) // awaited below
    const stub = await until('the agent runs', () => this.arrived[known])
    const session = new Session(this.station, await creating)
    return Object.assign(session, { stub })
  }
}

/** A daemon with detection and one runtime, `stub`, beside shell. */
export async function theatre(options: TheatreOptions = {}): Promise<Theatre> {
  const { input_rules = '', detect = MANIFEST, facts = processes, ...more } = options
  const official = mkdtempSync('/tmp/pk-official-')
  mkdirSync(join(official, 'stub'), { recursive: true, mode: 0o700 })
  writeFileSync(join(official, 'stub/runtime.toml'), descriptor(input_rules), { mode: 0o600 })
  writeFileSync(join(official, 'stub/detect.toml'), detect, { mode: 0o600 })
  onTestFinished(() => rmSync(official, { recursive: true, force: true }))
  cpSync(join(REPOSITORY, 'runtime-packages/shell'), join(official, 'shell'), { recursive: true })
  const changes: ActivityChange[] = []
  const listener = definePlugin({
    contract: contract({ name: 'listener', methods: {}, events: {} }),
    needs: { detection: Detection },
    setup({ needs }) {
      needs.detection.hooks.changed.tap('listener', (change) => void changes.push(change))
      return { methods: {} }
    },
  })
  const it = await station({
    packages: packagesPlugin({ official }),
    plugins: [detectionPlugin(facts), listener],
    ...more,
  })
  return new Theatre(it, join(official, 'c.sock'), changes)
}

/** Waits until the session shows that activity. */
export async function shows(session: Session, activity: string | undefined, deadlineMs = 10_000): Promise<Answer> {
  let last: Answer
  return await until(
    `${session.id} is ${activity ?? 'unknown'}`,
    async () => {
      last = await session.info()
      return last.activity === activity ? last : undefined
    },
    { deadlineMs, show: () => last },
  )
}
