/**
 * Envelopes of the public protocol (contract/protocol.md §2). Pure: bytes in, values or bytes out.
 * JSON rules beside the contract: a repeated key means its last value, numbers are IEEE doubles (an overflowing one is
 * infinite and so no integer), a byte order mark is not JSON, and nesting deeper than MAX_NESTING is refused unparsed.
 */
import { coreFaults, type ErrorBody, type Fault } from './fault.ts'
import { MAX_LINE_BYTES } from './limits.ts'
import { CONTROL_CHARACTER, utf8Bytes } from './scalars.ts'
import type { VersionRange } from './version.ts'

/** Answers to a line whose id cannot be read carry this one. */
export const INVALID_REQUEST_ID = 'invalid-request'
/** Deeper values would exhaust the stack of whoever walks them; the deepest shape of the contract has eight levels. */
const MAX_NESTING = 64
/** Longest message of an error body; a caller's own text may be quoted in it and must not make a line of 1 MiB. */
const MAX_MESSAGE_CHARS = 4_096
const U32_MAX = 4_294_967_295
const ID = /^[A-Za-z0-9._:-]{1,128}$/

export interface OriginMarkers {
  readonly sessionId: string
  readonly daemonId: string
}

export interface Request {
  readonly v: VersionRange
  readonly id: string
  readonly method: string
  readonly params: unknown
  readonly origin: OriginMarkers | undefined
}

/** A line that is no request: what to answer it with. */
export interface Refusal {
  readonly id: string
  readonly error: Fault
}
export type Decoded = { readonly request: Request } | { readonly refusal: Refusal }

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Parses one line. Throws Fault bad_request for invalid UTF-8, invalid JSON and too deep nesting. */
export function parseLine(line: Uint8Array): unknown {
  if (nesting(line) > MAX_NESTING) throw bad(`the line nests deeper than ${MAX_NESTING} levels`)
  let text: string
  try {
    text = decoder.decode(line)
  } catch {
    throw bad('the line is not valid UTF-8')
  }
  try {
    return JSON.parse(text) as unknown
  } catch {
    throw bad(text.trim() === '' ? 'the line is blank' : 'the line is not valid JSON')
  }
}

/** Checks a parsed line against the request envelope; unknown keys, a half origin pair and bad grammar are refused. */
export function decodeRequest(value: unknown): Decoded {
  if (!isRecord(value)) return { refusal: { id: INVALID_REQUEST_ID, error: bad('a request is one JSON object') } }
  const id = typeof value.id === 'string' && ID.test(value.id) ? value.id : undefined
  const problem = envelopeProblem(value, id)
  if (problem !== undefined) return { refusal: { id: id ?? INVALID_REQUEST_ID, error: bad(problem) } }
  const origin =
    value.origin_session_id === undefined
      ? undefined
      : { sessionId: value.origin_session_id as string, daemonId: value.origin_daemon_id as string }
  return {
    request: {
      v: value.v as VersionRange,
      id: id as string,
      method: value.method as string,
      params: value.params ?? null,
      origin,
    },
  }
}

/** The value of a one-key line such as `{"attach":"a-1"}`, with its key; undefined for every other value. */
export function preludeOf(value: unknown): { key: string; value: string } | undefined {
  if (!isRecord(value)) return undefined
  const [key, ...others] = Object.keys(value)
  if (key === undefined || others.length > 0) return undefined
  const held = value[key]
  return typeof held === 'string' && held !== '' ? { key, value: held } : undefined
}

/** A success line with its newline. Throws Fault serialize_failed when it does not fit or is not JSON. */
export function encodeOk(v: number, id: string, result: unknown): string {
  let body: string | undefined
  try {
    body = JSON.stringify(result ?? null)
  } catch (failure) {
    throw serializeFailed('the result is not JSON', failure)
  }
  if (body === undefined) throw serializeFailed('the result is not JSON')
  const line = `{"v":${v},"id":${JSON.stringify(id)},"ok":${body}}\n`
  if (isTooLong(line)) throw serializeFailed(`the result does not fit a line of ${MAX_LINE_BYTES} bytes`)
  return line
}

/** An error line with its newline; always fits. */
export function encodeErr(v: number, id: string, body: ErrorBody): string {
  const { class: errorClass, code, msg, recover } = body
  const err = {
    class: errorClass,
    code,
    msg: clip(msg),
    ...(recover === undefined ? {} : { recover: clip(recover) }),
  }
  return `${JSON.stringify({ v, id, err })}\n`
}

/**
 * An event line with its newline, payload flattened. Throws when the payload carries an envelope key, and Fault
 * serialize_failed when it does not fit.
 */
export function encodeEvent(v: number, event: string, payload: Readonly<Record<string, unknown>>, id?: string): string {
  for (const key of ['v', 'event', 'id']) {
    if (Object.hasOwn(payload, key)) throw new Error(`event ${event}: the payload has the envelope key ${key}`)
  }
  const line = `${JSON.stringify({ v, event, ...(id === undefined ? {} : { id }), ...payload })}\n`
  if (isTooLong(line)) throw serializeFailed(`event ${event} does not fit a line of ${MAX_LINE_BYTES} bytes`)
  return line
}

const REQUEST_KEYS = new Set(['v', 'id', 'method', 'params', 'origin_session_id', 'origin_daemon_id'])

function envelopeProblem(value: Record<string, unknown>, id: string | undefined): string | undefined {
  for (const key of Object.keys(value)) {
    if (!REQUEST_KEYS.has(key)) return `unknown request key ${quote(key)}`
  }
  if (id === undefined) return 'id must be 1 to 128 characters of A-Z a-z 0-9 . _ : -'
  const range = rangeProblem(value.v)
  if (range !== undefined) return range
  if (typeof value.method !== 'string' || value.method === '' || CONTROL_CHARACTER.test(value.method)) {
    return 'method must be a non-empty string without control characters'
  }
  const { origin_session_id: session, origin_daemon_id: daemon } = value
  if ((session === undefined) !== (daemon === undefined)) return 'origin_session_id and origin_daemon_id go together'
  if (session !== undefined && !(isId(session) && isId(daemon))) return 'an origin id is not a valid id'
  return undefined
}

function rangeProblem(v: unknown): string | undefined {
  if (!isRecord(v)) return 'v must be an object {"minimum","maximum"}'
  for (const key of Object.keys(v)) {
    if (key !== 'minimum' && key !== 'maximum') return `unknown key ${quote(key)} in v`
  }
  if (!isVersion(v.minimum) || !isVersion(v.maximum)) return 'v.minimum and v.maximum must be integers from 1 to 2^32-1'
  if (v.minimum > v.maximum) return 'v.minimum is above v.maximum'
  return undefined
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isId = (value: unknown): value is string => typeof value === 'string' && ID.test(value)
const isVersion = (value: unknown): value is number =>
  typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= U32_MAX
const bad = (problem: string): Fault => coreFaults.bad_request({ problem })
const quote = (text: string): string => JSON.stringify(text.slice(0, 64))
const clip = (text: string): string =>
  text.length <= MAX_MESSAGE_CHARS ? text : `${text.slice(0, MAX_MESSAGE_CHARS)}…`
const serializeFailed = (problem: string, cause?: unknown): Fault => coreFaults.serialize_failed({ problem }, cause)

// A UTF-16 unit is at most three bytes of UTF-8, so most lines need no count. The newline is not part of the bound.
const isTooLong = (line: string): boolean => line.length * 3 > MAX_LINE_BYTES && utf8Bytes(line) - 1 > MAX_LINE_BYTES

/** Deepest nesting of brackets outside strings; cheap, and right for every valid JSON text. */
function nesting(line: Uint8Array): number {
  let depth = 0
  let deepest = 0
  let quoted = false
  for (let at = 0; at < line.length; at++) {
    const byte = line[at]
    if (quoted) {
      if (byte === 0x5c) at++
      else if (byte === 0x22) quoted = false
    } else if (byte === 0x22) quoted = true
    else if (byte === 0x5b || byte === 0x7b) deepest = Math.max(deepest, ++depth)
    else if (byte === 0x5d || byte === 0x7d) depth--
  }
  return deepest
}
