/**
 * What the fake model does, chosen by the prompt: its first line that begins with one of these words. Any other prompt
 * is echoed in short. After a tool result it says `done`.
 *
 *   say X          answers X
 *   slow N         a token a second, N seconds long
 *   long N         N lines at once
 *   hang           takes the request and never answers
 *   fail CODE [N]  an API error, for the first N requests of this turn when given
 *   bash CMD       a tool call that runs a shell command
 *   background CMD the same, left running in the background where the agent's tool can
 *   ask QUESTION   the agent's tool for asking its user
 */

export interface Tool {
  name: string
  /** JSON schema of its input. */
  schema: { properties?: Record<string, unknown> } | undefined
}

/** What a request asks for, read out of a wire format. */
export interface Ask {
  /** The last prompt the user typed. */
  prompt: string
  /** Tool results since. */
  results: number
  tools: Tool[]
  model: string
  stream: boolean
  /** A side question of the agent itself, e.g. for a title. */
  aux: boolean
  /** The schema a side question wants its answer in. */
  json: unknown
  /** Commands are run unasked in this session. */
  unasked: boolean
}

export interface Answer {
  tokens?: string[]
  /** Milliseconds before each token. */
  delayMs?: number
  call?: { name: string; input: Record<string, unknown> }
  /** HTTP status of an error. */
  error?: number
  hang?: boolean
}

interface Step extends Omit<Answer, 'call' | 'error'> {
  call?: { tool: 'bash' | 'background' | 'ask'; text: string }
  fail?: { code: number; times: number }
}

const number = (text: string | undefined, fallback: number): number => {
  const value = Number.parseInt(text ?? '', 10)
  return Number.isFinite(value) && value >= 0 ? value : fallback
}
const count = (length: number, line: (n: number) => string): string[] => Array.from({ length }, (_, n) => line(n + 1))
const words = (text: string): string[] => text.match(/\s*\S+/g) ?? ['']

const SCRIPT: Record<string, (rest: string) => Step> = {
  say: (rest) => ({ tokens: words(rest || 'ok') }),
  slow: (rest) => ({ tokens: count(number(rest, 10), (n) => `tick ${n}\n`), delayMs: 1_000 }),
  long: (rest) => ({ tokens: count(number(rest, 200), (n) => `line ${n}\n`), delayMs: 0 }),
  hang: () => ({ hang: true }),
  fail: (rest) => {
    const [code, times] = rest.split(/\s+/)
    return { fail: { code: number(code, 500), times: times === undefined ? Infinity : number(times, 1) } }
  },
  bash: (text) => ({ call: { tool: 'bash', text: text || 'true' } }),
  background: (text) => ({ call: { tool: 'background', text: text || 'sleep 30' } }),
  ask: (text) => ({ call: { tool: 'ask', text: text || 'Which one?' } }),
}

/** Pure. */
export function parseStep(prompt: string): Step {
  for (const line of prompt.split(/\r\n|\r|\n/)) {
    const [, word = '', rest = ''] = /^\s*([a-z]+)(?:\s+(.*))?$/i.exec(line) ?? []
    const make = Object.hasOwn(SCRIPT, word.toLowerCase()) ? SCRIPT[word.toLowerCase()] : undefined
    if (make !== undefined) return make(rest.trim())
  }
  return { tokens: words(`echo: ${prompt.trim().slice(0, 200) || '(nothing)'}`) }
}

/** One conversation partner; remembers how often it failed which prompt. */
export class Script {
  readonly #failed = new Map<string, number>()

  answer(ask: Ask): Answer {
    if (ask.aux) return { tokens: [ask.json === undefined ? 'Test session' : JSON.stringify(sample(ask.json))] }
    const { fail, call, ...step } = parseStep(ask.prompt)
    if (fail !== undefined) {
      const times = this.#failed.get(ask.prompt) ?? 0
      if (times >= fail.times) return { tokens: ['recovered'] }
      this.#failed.set(ask.prompt, times + 1)
      return { error: fail.code }
    }
    if (ask.results > 0) return { tokens: ['done'] }
    if (call === undefined) return step
    const made = toolCall(call.tool, call.text, ask)
    return made === undefined ? { tokens: [`no tool for ${call.tool}`] } : { call: made }
  }
}

function toolCall(tool: 'bash' | 'background' | 'ask', text: string, ask: Ask): Answer['call'] | undefined {
  const options = [
    { label: 'Red', description: 'The red one' },
    { label: 'Blue', description: 'The blue one' },
  ]
  const description = 'Run a test command'
  const inputs: Record<typeof tool, Record<string, (tool: Tool) => Record<string, unknown>>> = {
    bash: {
      Bash: () => ({ command: text, description }),
      // Inside its sandbox codex runs a command unasked; it asks when the call asks to leave it.
      exec_command: (it) => ({
        cmd: text,
        yield_time_ms: 30_000,
        ...(it.schema?.properties?.['sandbox_permissions'] !== undefined && !ask.unasked
          ? { sandbox_permissions: 'require_escalated', justification: 'May the test run this command?' }
          : {}),
      }),
      bash: () => ({ command: text }),
    },
    background: {
      Bash: () => ({ command: text, description, run_in_background: true }),
      exec_command: () => ({ cmd: text, yield_time_ms: 250 }),
      bash: () => ({ command: `(${text}) >/dev/null 2>&1 &` }),
    },
    ask: {
      AskUserQuestion: () => ({ questions: [{ question: text, header: 'Test', multiSelect: false, options }] }),
    },
  }
  for (const [name, input] of Object.entries(inputs[tool])) {
    const offered = ask.tools.find((it) => it.name === name)
    if (offered !== undefined) return { name, input: input(offered) }
  }
  return undefined
}

/** Pure. A value that fits a JSON schema well enough for a side question. */
export function sample(schema: unknown, name = ''): unknown {
  const it = (schema ?? {}) as {
    type?: string | string[]
    properties?: Record<string, unknown>
    enum?: unknown[]
    anyOf?: unknown[]
  }
  if (it.enum !== undefined) return it.enum[0]
  if (it.anyOf !== undefined) return sample(it.anyOf[0], name)
  const type = Array.isArray(it.type) ? it.type[0] : (it.type ?? (it.properties ? 'object' : 'string'))
  if (type === 'object')
    return Object.fromEntries(Object.entries(it.properties ?? {}).map(([key, value]) => [key, sample(value, key)]))
  if (type === 'array') return []
  if (type === 'boolean') return false
  if (type === 'number' || type === 'integer') return 0
  return 'Test session'
}
