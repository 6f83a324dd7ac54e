/** The three streaming APIs the agents speak: how a request is read and how an answer is written. */
import { randomUUID } from 'node:crypto'
import type { Answer, Ask, Tool } from './script.ts'

export interface Out {
  event(name: string | undefined, data: unknown): void
  /** Waits; false once the client has gone. */
  pace(ms: number): Promise<boolean>
}
export interface Format {
  matches: RegExp
  read(body: Body): Omit<Ask, 'model' | 'stream'>
  write(out: Out, answer: Answer, ask: Ask): Promise<void>
  error(status: number): unknown
}
/** A request of somebody else's API, looked at with care. */
export type Body = Record<string, unknown>

/** Before each token of an answer without a pace of its own. */
const TOKEN_MS = 5
const short = (): string => randomUUID().replaceAll('-', '').slice(0, 24)
const list = (it: unknown): Body[] => (Array.isArray(it) ? (it as Body[]) : [])
const texts = (content: unknown): string[] =>
  typeof content === 'string'
    ? [content]
    : list(content).flatMap((it) => (typeof it['text'] === 'string' ? [it['text']] : []))
const schemaOf = (it: unknown): Tool['schema'] => it as Tool['schema']

/** Agents put notes of their own beside what was typed. */
const NOTE =
  /^\s*<(system-reminder|environment_context|user_instructions|permissions instructions|turn_aborted|skills_instructions|apps_instructions|plugins_instructions|collaboration_mode|personality_spec|local-command|command-name|task-notification|INSTRUCTIONS)|^\s*(# AGENTS\.md instructions|\[Request interrupted by user)/i

/** Pure. The last part that is not a note: an interrupted prompt can stand before it. */
function typed(parts: string[]): string {
  return (
    parts
      .filter((it) => !NOTE.test(it))
      .map((it) => it.replace(/<system-reminder>[\s\S]*?<\/system-reminder>/g, ''))
      .filter((it) => it.trim() !== '')
      .at(-1) ?? ''
  )
}

/** Goes over the messages; what was typed last counts, and the tool results since. */
class Turn {
  prompt = ''
  results = 0
  said(parts: string[], beside = 0): void {
    this.results += beside
    const text = typed(parts)
    if (text === '' || beside > 0) return
    this.prompt = text
    this.results = 0
  }
}

async function writeTokens(out: Out, answer: Answer, token: (text: string) => void): Promise<boolean> {
  for (const it of answer.tokens ?? []) {
    if (!(await out.pace(answer.delayMs ?? TOKEN_MS))) return false
    token(it)
  }
  return true
}

const messages: Format = {
  matches: /\/messages$/,
  read(body) {
    const turn = new Turn()
    for (const it of list(body['messages'])) {
      if (it['role'] === 'user')
        turn.said(texts(it['content']), list(it['content']).filter((part) => part['type'] === 'tool_result').length)
    }
    const tools = list(body['tools']).map((it) => ({ name: String(it['name']), schema: schemaOf(it['input_schema']) }))
    const output = (body['output_config'] ?? {}) as { format?: { schema?: unknown } }
    const json = output.format?.schema
    return { ...turn, tools, json, aux: json !== undefined || tools.length === 0, unasked: false }
  },
  async write(out, answer, ask) {
    const send = (type: string, data: object): void => out.event(type, { type, ...data })
    const usage = { input_tokens: 100, output_tokens: 1, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
    const message = { id: `msg_${short()}`, type: 'message', role: 'assistant', model: ask.model, content: [] }
    send('message_start', { message: { ...message, stop_reason: null, stop_sequence: null, usage } })
    if (answer.call !== undefined) {
      const { name, input } = answer.call
      send('content_block_start', {
        index: 0,
        content_block: { type: 'tool_use', id: `toolu_${short()}`, name, input: {} },
      })
      send('content_block_delta', {
        index: 0,
        delta: { type: 'input_json_delta', partial_json: JSON.stringify(input) },
      })
    } else {
      send('content_block_start', { index: 0, content_block: { type: 'text', text: '' } })
      const token = (text: string): void =>
        send('content_block_delta', { index: 0, delta: { type: 'text_delta', text } })
      if (!(await writeTokens(out, answer, token))) return
    }
    send('content_block_stop', { index: 0 })
    const stop_reason = answer.call === undefined ? 'end_turn' : 'tool_use'
    send('message_delta', { delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 10 } })
    send('message_stop', {})
  },
  error: (status) => ({ type: 'error', error: { type: 'api_error', message: `test failure ${status}` } }),
}

const openAiError = (status: number): unknown => ({
  error: { message: `test failure ${status}`, type: 'server_error', code: null, param: null },
})

const responses: Format = {
  matches: /\/responses$/,
  read(body) {
    const turn = new Turn()
    let rules = ''
    for (const it of list(body['input'])) {
      if (/_output$/.test(String(it['type']))) turn.results++
      else if (it['role'] === 'user') turn.said(texts(it['content']))
      else if (it['role'] === 'developer') rules += texts(it['content']).join('\n')
    }
    const tools = list(body['tools']).map((it) => ({ name: String(it['name']), schema: schemaOf(it['parameters']) }))
    const format = (body['text'] as { format?: { type?: string; schema?: unknown } } | undefined)?.format
    const json = format?.type === 'json_schema' ? format.schema : undefined
    const policy = rules.slice(rules.lastIndexOf('Approval policy is currently'))
    return {
      ...turn,
      tools,
      json,
      aux: json !== undefined || tools.length === 0,
      unasked: policy.startsWith('Approval policy is currently never'),
    }
  },
  async write(out, answer, ask) {
    let sequence_number = 0
    const send = (type: string, data: object): void =>
      out.event(type, { type, sequence_number: sequence_number++, ...data })
    const id = `resp_${short()}`
    const response = (status: string, output: unknown[]): object => ({
      id,
      object: 'response',
      created_at: 0,
      status,
      model: ask.model,
      output,
      error: null,
      usage: status === 'completed' ? { input_tokens: 100, output_tokens: 10, total_tokens: 110 } : null,
    })
    send('response.created', { response: response('in_progress', []) })
    let item: Body
    if (answer.call !== undefined) {
      const { name, input } = answer.call
      item = {
        type: 'function_call',
        id: `fc_${short()}`,
        status: 'completed',
        call_id: `call_${short()}`,
        name,
        arguments: JSON.stringify(input),
      }
      send('response.output_item.added', { output_index: 0, item: { ...item, status: 'in_progress', arguments: '' } })
    } else {
      const text = (answer.tokens ?? []).join('')
      const part = { type: 'output_text', text, annotations: [] }
      item = { type: 'message', id: `msg_${short()}`, status: 'completed', role: 'assistant', content: [part] }
      const where = { item_id: item['id'], output_index: 0, content_index: 0 }
      send('response.output_item.added', { output_index: 0, item: { ...item, status: 'in_progress', content: [] } })
      send('response.content_part.added', { ...where, part: { ...part, text: '' } })
      const token = (delta: string): void => send('response.output_text.delta', { ...where, delta })
      if (!(await writeTokens(out, answer, token))) return
      send('response.output_text.done', { ...where, text })
    }
    send('response.output_item.done', { output_index: 0, item })
    send('response.completed', { response: response('completed', [item]) })
  },
  error: openAiError,
}

const chat: Format = {
  matches: /\/chat\/completions$/,
  read(body) {
    const turn = new Turn()
    for (const it of list(body['messages'])) {
      if (it['role'] === 'tool') turn.results++
      else if (it['role'] === 'user') turn.said(texts(it['content']))
    }
    const tools = list(body['tools']).map((it) => {
      const made = (it['function'] ?? {}) as { name?: string; parameters?: unknown }
      return { name: String(made.name), schema: schemaOf(made.parameters) }
    })
    return { ...turn, tools, json: undefined, aux: tools.length === 0, unasked: false }
  },
  async write(out, answer, ask) {
    const head = { id: `chatcmpl-${short()}`, object: 'chat.completion.chunk', created: 0, model: ask.model }
    const send = (delta: object, finish_reason: string | null = null): void =>
      out.event(undefined, { ...head, choices: [{ index: 0, delta, finish_reason }] })
    send({ role: 'assistant', content: '' })
    if (answer.call !== undefined) {
      const made = { name: answer.call.name, arguments: JSON.stringify(answer.call.input) }
      send({ tool_calls: [{ index: 0, id: `call_${short()}`, type: 'function', function: made }] })
    } else if (!(await writeTokens(out, answer, (content) => send({ content })))) return
    send({}, answer.call === undefined ? 'stop' : 'tool_calls')
    const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 }
    out.event(undefined, { ...head, choices: [], usage })
    out.event(undefined, '[DONE]')
  },
  error: openAiError,
}

export const FORMATS: readonly Format[] = [messages, responses, chat]
