/** Random plans: requests of every method of the build, the private protocol, hooks, frames, terminal input, noise. */
import fc, { type Arbitrary } from 'fast-check'
import { plugins } from '../../main/plugins.ts'
import type { Contract, Method } from '../../protocol/contract.ts'
import { MAX_LINE_BYTES } from '../../protocol/limits.ts'
import { MAX_FRAME_HEADER_BYTES, MAX_FRAME_PAYLOAD_BYTES } from '../../protocol/worker/frames.ts'
import { WorkerRequest } from '../../protocol/worker/messages.ts'
import type { Schema } from '../../protocol/contract.ts'
import type { Connection, Edit, Piece, Plan } from './plan.ts'
import { valuesOf } from './schema.ts'

/** What the daemon under fire serves, by name. */
export const methods: ReadonlyMap<string, Method> = new Map(
  plugins.flatMap((it) => Object.entries((it.contract as Contract).methods)),
)

/** They end the session under fire or start another one, which costs more than all the rest. */
const COSTLY = /^session\.(new|stop|remove.*|fork|resume)$/
/** Lines around the bound of a line. */
const EDGES = [-1, 0, 1, 2].map((it) => MAX_LINE_BYTES + it)
const MAX_WAIT_MS = 20

const edits: Arbitrary<Edit[]> = fc.array(
  fc.record({
    op: fc.constantFrom<Edit['op']>('flip', 'insert', 'delete', 'double', 'cut'),
    at: fc.nat(1_000).map((it) => it / 1_000),
    byte: fc.nat(255),
  }),
  { minLength: 1, maxLength: 4 },
)

/** As it is, or damaged. */
const sent = (value: Arbitrary<unknown>): Arbitrary<Piece> =>
  value.chain((it) =>
    fc.oneof(
      { weight: 5, arbitrary: fc.constant<Piece>({ kind: 'json', value: it, edits: [], end: true }) },
      { weight: 2, arbitrary: edits.map((all): Piece => ({ kind: 'json', value: it, edits: all, end: true })) },
      { weight: 1, arbitrary: fc.boolean().map((end): Piece => ({ kind: 'json', value: it, edits: [], end })) },
    ),
  )

const id = fc.oneof(
  { weight: 12, arbitrary: fc.nat(1e9).map((it) => `f-${it}`) },
  { weight: 1, arbitrary: fc.string({ maxLength: 140 }) },
)
const version = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom({ minimum: 3, maximum: 4 }, { minimum: 4, maximum: 4 }) },
  { weight: 3, arbitrary: fc.constant({ minimum: 3, maximum: 3 }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom<unknown>(
      4,
      null,
      { minimum: 5, maximum: 9 },
      { minimum: 4 },
      { minimum: 4, maximum: 3 },
    ),
  },
)
const origin = fc.constantFrom(
  { origin_session_id: '@victim', origin_daemon_id: 'd-1' },
  { origin_session_id: '@victim' },
  { origin_session_id: '', origin_daemon_id: '' },
)

/** Waiting calls are answered soon: a run has many of them. */
function hurried(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(hurried)
  return Object.fromEntries(
    Object.entries(value).map(([key, it]) =>
      /^(wait|timeout)_ms$/.test(key) && typeof it === 'number' && it > MAX_WAIT_MS && it <= 60_000
        ? [key, MAX_WAIT_MS]
        : [key, hurried(it)],
    ),
  )
}

const request = (name: string, method: Method): Arbitrary<unknown> =>
  fc
    .tuple(version, id, valuesOf(method.params), fc.option(origin, { nil: {}, freq: 8 }))
    .map(([v, requestId, params, from]) => ({ v, id: requestId, method: name, params: hurried(params), ...from }))

const requests = fc.oneof(
  ...[...methods].map(([name, method]) => ({ weight: COSTLY.test(name) ? 1 : 10, arbitrary: request(name, method) })),
  { weight: 4, arbitrary: fc.record({ v: version, id, method: fc.string(), params: fc.jsonValue({ maxDepth: 3 }) }) },
  { weight: 2, arbitrary: fc.record({ v: version, id, method: fc.constant('subscribe') }) },
)

const envelopeNoise: Arbitrary<unknown> = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom<unknown>({ attach: 'no-such-stream' }, { attach: '' }, { attach: 1 }, [], {}, null, 0, ''),
)

const bytes: Arbitrary<Piece> = fc
  .uint8Array({ minLength: 1, maxLength: 200 })
  .map((it) => ({ kind: 'bytes', base64: Buffer.from(it).toString('base64') }))
/** Truncated, overlong and surrogate sequences, a byte order mark, NULs, blank lines. */
const badText: Arbitrary<Piece> = fc
  .constantFrom(
    '22c3280a',
    '22eda080220a',
    '22f0288c28220a',
    'c0800a',
    'efbbbf7b7d0a',
    '00000a',
    '0d0a',
    '0a',
    '0a0a0a0a',
    '7b0a',
  )
  .map((hex) => ({ kind: 'bytes', base64: Buffer.from(hex, 'hex').toString('base64') }))
const deep: Arbitrary<Piece> = fc.record({
  kind: fc.constant('deep' as const),
  open: fc.constantFrom<'[' | '{"a":'>('[', '{"a":'),
  depth: fc.oneof(fc.integer({ min: 60, max: 70 }), fc.constantFrom(1_000, 20_000, 150_000)),
  closed: fc.boolean(),
})
const fill: Arbitrary<Piece> = fc.record({
  kind: fc.constant('fill' as const),
  byte: fc.constantFrom(0x20, 0x61, 0x7b, 0xff),
  count: fc.oneof({ weight: 3, arbitrary: fc.nat(5_000) }, { weight: 1, arbitrary: fc.constantFrom(...EDGES) }),
  end: fc.boolean(),
})
const sized = (value: Readonly<Record<string, unknown>>, sizes: readonly number[]): Arbitrary<Piece> =>
  fc.constantFrom(...sizes).map((size) => ({ kind: 'sized', value, bytes: size }))
const health = { v: { minimum: 3, maximum: 4 }, id: 'f-sized', method: 'daemon.health', params: null }

const noise = (sizedLine: Arbitrary<Piece>): { weight: number; arbitrary: Arbitrary<Piece> }[] => [
  { weight: 4, arbitrary: sent(envelopeNoise) },
  { weight: 4, arbitrary: bytes },
  { weight: 3, arbitrary: badText },
  { weight: 2, arbitrary: deep },
  { weight: 2, arbitrary: fill },
  { weight: 1, arbitrary: sizedLine },
]

const burst = (value: unknown): Arbitrary<Piece> =>
  fc.integer({ min: 2, max: 400 }).map((times) => ({ kind: 'burst', value, times }))

const publicPieces = fc.oneof(
  { weight: 24, arbitrary: sent(requests) },
  { weight: 1, arbitrary: burst(health) },
  ...noise(sized(health, EDGES)),
)

const scope = { lease_id: '@lease', session_id: '@session', worker_id: '@worker', runtime_id: '@runtime' }
/** The program of the lone worker is what the others need: only its end is left out here. */
const workerRequests = fc.oneof(
  ...WorkerRequest.options
    .filter((it) => !/^(stop|acknowledge_terminal)$/.test(it.entries.type.literal))
    .map((it) =>
      fc
        .tuple(valuesOf(it as unknown as Schema, ''), fc.nat(1e9), fc.integer({ min: 0, max: 9 }))
        .map(([value, n, keep]) => {
          if (typeof value !== 'object' || value === null || Array.isArray(value) || keep === 0) return value
          const given = value as Record<string, unknown>
          return {
            ...(hurried(given) as object),
            request_id: `f-${n}`,
            ...('scope' in given ? { scope } : {}),
            ...('lease_id' in given ? { lease_id: '@lease' } : {}),
          }
        }),
    ),
)
const negotiate = {
  type: 'negotiate',
  request_id: 'f-sized',
  daemon_instance_id: 'd-fuzz',
  minimum_version: 6,
  maximum_version: 7,
}
const hooks = fc.record({
  type: fc.constantFrom(
    'identity_report',
    'identity_release',
    'subagent_start',
    'subagent_stop',
    'notification_create',
  ),
  session_id: fc.string(),
  evidence: fc.jsonValue({ maxDepth: 2 }),
})
const privatePieces = fc.oneof(
  { weight: 14, arbitrary: sent(workerRequests) },
  { weight: 4, arbitrary: sent(hooks) },
  { weight: 1, arbitrary: burst(negotiate) },
  ...noise(sized(negotiate, [65_535, 65_536, 65_537, ...EDGES])),
)

const wrongValue = fc.constantFrom<unknown>(null, 0, -1, 1e9, 0.5, '', 'x', [], {}, true)
const size = fc.oneof({ weight: 2, arbitrary: fc.integer({ min: 1, max: 200 }) }, { weight: 1, arbitrary: wrongValue })
const header = fc.oneof(
  fc.record(
    {
      version: fc.constantFrom(6, 7, 0, -1),
      stream_id: fc.constantFrom('@stream', 'x'),
      runtime_id: fc.constantFrom('@instance', 'r-1'),
      kind: fc.constantFrom('open', 'open', 'open', 'input', 'input', 'close', 'output', 'exit', 'nonsense'),
      token: fc.constantFrom('@token', '@token', 'no-such-token', ''),
      mode: fc.constantFrom('attach', 'detector', 'observation', 'none'),
      after_offset: fc.constantFrom(0, -1, 1e15, 0.5),
      write_id: fc.string({ maxLength: 130 }),
      attach: fc.constantFrom<unknown>(
        { dimensions: { columns: 80, rows: 24 } },
        { dimensions: { columns: 0, rows: 1e9 } },
        1,
      ),
    },
    { requiredKeys: ['kind', 'stream_id', 'runtime_id', 'version'] },
  ),
  fc.jsonValue({ maxDepth: 2 }),
)
const lie = fc.oneof(
  { weight: 8, arbitrary: fc.constant(0) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(-1, 1, 7, MAX_FRAME_HEADER_BYTES, MAX_FRAME_PAYLOAD_BYTES, 2 ** 31, 2 ** 32 - 1),
  },
)
const payload = fc.uint8Array({ maxLength: 100 }).map((it) => Buffer.from(it).toString('base64'))
const frame: Arbitrary<Piece> = fc.record({
  kind: fc.constant('frame' as const),
  header,
  payload,
  headerLie: lie,
  payloadLie: lie,
})
/** Opens a stream with a good token, but for the size it tells. */
const opening: Arbitrary<Piece> = fc
  .option(fc.record({ dimensions: fc.option(fc.record({ columns: size, rows: size }), { freq: 6 }) }), {
    nil: undefined,
  })
  .map((attach) => ({
    kind: 'frame',
    header: {
      ...{ version: 7, stream_id: '@stream', runtime_id: '@instance', kind: 'open', token: '@token', mode: 'attach' },
      after_offset: 0,
      ...(attach && { attach }),
    },
    payload: '',
    headerLie: 0,
    payloadLie: 0,
  }))
const typing: Arbitrary<Piece> = fc.record({
  kind: fc.constant('frame' as const),
  header: fc.record(
    {
      version: fc.constant(7),
      stream_id: fc.constant('@stream'),
      runtime_id: fc.constant('@instance'),
      kind: fc.constantFrom('input', 'input', 'close', 'open'),
      write_id: fc.oneof(fc.string({ maxLength: 200 }), wrongValue),
    },
    { requiredKeys: ['kind'] },
  ),
  payload,
  headerLie: lie,
  payloadLie: lie,
})
const framePieces = fc.oneof(
  { weight: 3, arbitrary: opening },
  { weight: 4, arbitrary: typing },
  { weight: 5, arbitrary: frame },
  { weight: 1, arbitrary: bytes },
)

/** What a terminal sends: keys, mouse, pasted text, answers to queries nobody asked, noise. */
const typed = fc.oneof(
  bytes,
  fc
    .constantFrom(
      '\x1b[200~',
      '\x1b[201~',
      '\x1b[?1;2c',
      '\x1b[24;80R',
      '\x1b]11;rgb:0/0/0\x07',
      '\x1b[<0;1;1M',
      '\x1b',
      '\x1b[',
    )
    .map((it): Piece => ({ kind: 'bytes', base64: Buffer.from(it).toString('base64') })),
  fc.constantFrom<Piece>({ kind: 'fill', byte: 0x61, count: 70_000, end: false }),
)

const connection = (
  to: Connection['to'],
  pieces: Arbitrary<Piece>,
  maxLength: number,
  ends: readonly Connection['end'][],
): Arbitrary<Connection> =>
  fc.record({
    to: fc.constant(to),
    pieces: fc.array(pieces, { minLength: 1, maxLength }),
    chunk: fc.oneof(
      { weight: 1, arbitrary: fc.integer({ min: 1, max: 64 }) },
      { weight: 3, arbitrary: fc.constantFrom(1_000, 65_536, 4_000_000) },
    ),
    reads: fc.oneof({ weight: 4, arbitrary: fc.constant(true) }, { weight: 1, arbitrary: fc.constant(false) }),
    end: fc.constantFrom(...ends),
  })

const LINE_ENDS = ['answered', 'answered', 'answered', 'close', 'reset'] as const

export const plans: Arbitrary<Plan> = fc.array(
  fc.oneof(
    { weight: 8, arbitrary: connection('daemon', publicPieces, 8, LINE_ENDS) },
    { weight: 3, arbitrary: connection('worker', privatePieces, 6, LINE_ENDS) },
    { weight: 3, arbitrary: connection('leased', privatePieces, 6, ['answered', 'answered', 'reset']) },
    { weight: 2, arbitrary: connection('worker', framePieces, 4, ['close', 'reset']) },
    { weight: 2, arbitrary: connection('attach', typed, 4, ['close', 'reset']) },
    { weight: 2, arbitrary: connection('direct', typed, 4, ['close', 'reset']) },
  ),
  { minLength: 1, maxLength: 4 },
)
