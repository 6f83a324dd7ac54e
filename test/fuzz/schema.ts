/** Values for the schemas of contracts: mostly what a schema takes, sometimes what it refuses. */
import fc, { type Arbitrary } from 'fast-check'
import type { Schema } from '../../protocol/contract.ts'

/** What this module reads of a valibot schema. */
interface Shape {
  readonly kind: string
  readonly type: string
  readonly pipe?: readonly Shape[]
  readonly requirement?: unknown
  readonly entries?: Readonly<Record<string, Shape>>
  readonly wrapped?: Shape
  readonly item?: Shape
  readonly value?: Shape
  readonly options?: readonly unknown[]
  readonly literal?: unknown
}

/** Strings that break what is not careful: control bytes, lone surrogates, paths, options, prototypes, long ones. */
const ODD_STRINGS = [
  '',
  ' ',
  '\u0000',
  '\u001b[2J',
  '\ud800',
  '\u202e',
  '../../etc/passwd',
  '/dev/null',
  '--help',
  '$(id)',
  '__proto__',
  'constructor',
  'toString',
  'ä'.repeat(70),
  'x'.repeat(129),
  'y'.repeat(5_000),
  '18446744073709551616',
  '-0',
  '00',
] as const
const ODD_NUMBERS = [0, -0, -1, 1, 2, 0.5, 65_535, 65_536, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 53, -(2 ** 53), 1e308]
const NOBODY = 's-01ARZ3NDEKTSV4RRFFQ69G5FAV'

/** Good values of a key; what a method means by it cannot be read from its schema. */
const KNOWN: Readonly<Record<string, readonly string[]>> = {
  session_id: ['@victim', '@victim', '@victim', NOBODY],
  stream_id: ['@stream', 'a-1'],
  agent: ['no-such-agent', 'claude', '@victim'],
  worker_instance_id: ['@instance'],
  runtime_generation: ['@generation'],
  cwd: ['/', '/no/such/directory'],
}

const wrong: Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(null, true, [], {}, '', 0, -1, [[]], { __proto__x: 1 }),
  fc.constantFrom<unknown>(...ODD_STRINGS, ...ODD_NUMBERS),
  fc.jsonValue({ maxDepth: 2 }),
)

const oddly = (good: Arbitrary<unknown>): Arbitrary<unknown> =>
  fc.oneof({ weight: 12, arbitrary: good }, { weight: 1, arbitrary: wrong })

/** Values for `schema` under `key`; params that are a bare string are session ids. */
export const valuesOf = (schema: Schema, key = 'session_id'): Arbitrary<unknown> => shaped(schema, key)

function shaped(shape: Shape, key: string): Arbitrary<unknown> {
  // The last schema of a pipe knows the most; the actions behind it bound it.
  const schema = shape.pipe?.findLast((it) => it.kind === 'schema') ?? shape
  return oddly(plain(schema, shape.pipe?.filter((it) => it.kind === 'validation') ?? [], key))
}

function plain(shape: Shape, checks: readonly Shape[], key: string): Arbitrary<unknown> {
  switch (shape.type) {
    case 'object':
    case 'strict_object':
    case 'loose_object':
      return objects(shape.entries ?? {})
    case 'optional':
    case 'nullable':
    case 'nullish':
      return fc.option(shaped(shape.wrapped as Shape, key), { nil: null, freq: 4 })
    case 'string':
      return strings(key)
    case 'number':
      return numbers(checks)
    case 'boolean':
      return fc.boolean()
    case 'array':
      return fc.array(shaped(shape.item as Shape, key), { maxLength: 3 })
    case 'record':
      return fc.dictionary(fc.string({ maxLength: 6 }), shaped(shape.value as Shape, ''), { maxKeys: 3 })
    case 'picklist':
      return fc.constantFrom(...(shape.options ?? []))
    case 'literal':
      return fc.constant(shape.literal)
    case 'union':
    case 'variant':
      return fc.oneof(...(shape.options as readonly Shape[]).map((it) => shaped(it, key)))
    case 'null':
    case 'null_':
      return fc.constant(null)
    default:
      return wrong
  }
}

function objects(entries: Readonly<Record<string, Shape>>): Arbitrary<unknown> {
  const keys = Object.keys(entries)
  const required = keys.filter((it) => !/^(optional|nullish)$/.test((entries[it] as Shape).type))
  const values = fc.record(Object.fromEntries(keys.map((key) => [key, shaped(entries[key] as Shape, key)])), {
    requiredKeys: required,
  })
  const more = fc.dictionary(fc.string({ maxLength: 4 }), wrong, { maxKeys: 2 })
  return fc.oneof(
    { weight: 20, arbitrary: values },
    { weight: 1, arbitrary: fc.tuple(values, more).map(([some, others]) => ({ ...some, ...others })) },
    { weight: 1, arbitrary: fc.record(Object.fromEntries(keys.map((key) => [key, wrong])), { requiredKeys: [] }) },
  )
}

function strings(key: string): Arbitrary<string> {
  const odd = fc.oneof(fc.constantFrom(...ODD_STRINGS), fc.string({ maxLength: 24, unit: 'binary' }))
  const known = KNOWN[key]
  if (known !== undefined)
    return fc.oneof({ weight: 8, arbitrary: fc.constantFrom(...known) }, { weight: 1, arbitrary: odd })
  return fc.oneof({ weight: 1, arbitrary: odd }, { weight: 2, arbitrary: fc.constantFrom('0', '1', 'name', 'text\r') })
}

function numbers(checks: readonly Shape[]): Arbitrary<number> {
  const bound = (type: string, otherwise: number): number => {
    const requirement = checks.find((it) => it.type === type)?.requirement
    return typeof requirement === 'number' ? requirement : otherwise
  }
  const [min, max] = [bound('min_value', -2), bound('max_value', 70_000)]
  return fc.oneof(
    { weight: 3, arbitrary: fc.integer({ min, max: Math.min(max, min + 300) }) },
    { weight: 1, arbitrary: fc.constantFrom(min - 1, min, max, max + 1) },
    { weight: 1, arbitrary: fc.constantFrom(...ODD_NUMBERS) },
  )
}
