/** Whether an answer is one the contract allows. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as v from 'valibot'
import { coreFaults } from '../../protocol/fault.ts'
import { PROTOCOL_VERSION } from '../../protocol/version.ts'
import { REPOSITORY } from '../harness/roots.ts'
import { methods } from './generate.ts'

const CLASSES = new Set(['configuration', 'daemon', 'transport', 'runtime', 'discovery'])
/** A stack, a source place or a directory of the installation is nobody's business. */
const TRACE = /\n\s+at |node:internal|\.(?:cjs|mjs|ts|js):\d+|\bTypeError\b|\bRangeError\b|undefined is not/
const MAX_TEXT = 8_192
const WORKER_CODES = new Set([
  'worker_protocol_incompatible',
  'controller_busy',
  'identity_mismatch',
  'invalid_state',
  'invalid_request',
  'invalid_data_token',
  'write_outcome_unknown',
  'input_stalled',
  'pty_alloc_failed',
  'spawn_failed',
  'cwd_failed',
  'worker_feature_unavailable',
  'observation_limit_exceeded',
])

/** First column of the tables in the contract, and what the build adds to it. */
const codes = new Set<string>([
  ...Object.keys(coreFaults),
  ...[...methods.values()].flatMap((it) => it.faults.map(({ code }) => code)),
  ...[...readFileSync(join(REPOSITORY, 'docs/contract/errors.md'), 'utf8').matchAll(/^\| ([a-z_/, ]+)/gm)].flatMap(
    ([, names = '']) => names.split(/[ ,/]+/),
  ),
])

type Json = Record<string, unknown>

/** What is wrong with a line of the daemon; `methodOf`: the method of a request id, undefined when it is not known. */
export function wrongAnswer(line: Buffer, methodOf: (id: string) => string | undefined): string | undefined {
  const answer = parsed(line)
  if (answer === undefined) return 'it is no JSON object'
  if ('event' in answer) return typeof answer['event'] === 'string' ? undefined : 'an event without a name'
  const keys = Object.keys(answer).sort().join()
  if (keys !== 'id,ok,v' && keys !== 'err,id,v') return `its keys are ${keys}`
  const { v: version, id, ok, err } = answer
  if (version !== 3 && version !== PROTOCOL_VERSION) return `its version is ${String(version)}`
  const method = methodOf(String(id))
  const spec = method === undefined ? undefined : methods.get(method)
  if (err === undefined) {
    if (version !== PROTOCOL_VERSION || spec === undefined) return undefined
    const result = v.safeParse(spec.result, ok)
    return result.success ? undefined : `${method}: ${result.issues[0].message} at ${v.getDotPath(result.issues[0])}`
  }
  const problem = wrongBody(err as Json)
  if (problem !== undefined) return problem
  const { code } = err as { code: string }
  const listed = spec === undefined || code in coreFaults || spec.faults.some((it) => it.code === code)
  return listed ? undefined : `${method} does not list ${code}`
}

function wrongBody(body: Json): string | undefined {
  const { class: errorClass, code, msg, recover, ...others } = body
  if (Object.keys(others).length > 0) return `an error with ${Object.keys(others).join()}`
  if (!CLASSES.has(String(errorClass))) return `error class ${String(errorClass)}`
  if (typeof code !== 'string' || !codes.has(code)) return `error code ${String(code)}`
  if (/internal|panic/.test(code)) return `${code} for a bad request: ${String(msg)}`
  for (const text of [msg, recover ?? '']) {
    if (typeof text !== 'string' || text.length > MAX_TEXT) return `${code}: a text of the error is too long or none`
    if (TRACE.test(text)) return `${code}: the message shows the inside: ${text}`
  }
  return undefined
}

/** The same for a line of a worker. */
export function wrongWorkerLine(line: Buffer): string | undefined {
  const answer = parsed(line)
  if (answer === undefined) return 'it is no JSON object'
  if (answer['type'] !== 'error') return undefined
  const { code, message } = answer['error'] as Json
  if (!WORKER_CODES.has(String(code))) return `worker error code ${String(code)}: ${String(message)}`
  if (typeof message !== 'string' || message.length > MAX_TEXT || TRACE.test(message))
    return `${String(code)}: the message shows the inside: ${String(message).slice(0, 500)}`
  return undefined
}

function parsed(line: Buffer): Json | undefined {
  try {
    const value: unknown = JSON.parse(line.toString())
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : undefined
  } catch {
    return undefined
  }
}
