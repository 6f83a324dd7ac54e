/** Releases of agents: how a probe's first line names one and which ones a runtime supports. Pure. */
import * as v from 'valibot'
import { utf8Bytes } from '../../protocol/scalars.ts'

/** Numbers of MAJOR.MINOR.PATCH. */
export type Release = readonly [number, number, number]

export interface VersionPolicy {
  readonly args: readonly string[]
  /** First supported release and the first that is not any more. */
  readonly min: Release
  readonly below: Release
  /** Template of the line with `{version}` and maybe ` {annotation}` at its end; undefined: a bare release. */
  readonly line?: string
  readonly timeoutMs: number
  /** The line may stand on standard error when standard output stays empty. */
  readonly acceptStderr: boolean
}

export const PROBE_TIMEOUT_MS = 2_000
/** A caller of session.new waits for it. */
const MAX_PROBE_TIMEOUT_MS = 10_000
const MAX_LINE_BYTES = 256
const MAX_TEMPLATE = 128

const releaseText = v.pipe(
  v.string(),
  v.check((it) => parseRelease(it) !== undefined, 'is not MAJOR.MINOR.PATCH'),
)
const common = {
  args: v.pipe(
    v.array(
      v.pipe(
        v.string(),
        v.minLength(1),
        v.check((it) => !it.includes('\0') && utf8Bytes(it) <= 1_024, 'is over 1024 bytes or has NUL'),
      ),
    ),
    v.minLength(1, 'has no item'),
    v.maxLength(4, 'has over 4 items'),
  ),
  min: releaseText,
  below: releaseText,
  timeout_ms: v.optional(
    v.pipe(v.number(), v.integer(), v.minValue(100), v.maxValue(MAX_PROBE_TIMEOUT_MS)),
    PROBE_TIMEOUT_MS,
  ),
  accept_stderr: v.optional(v.boolean(), false),
}
export const VersionProbe = v.variant('parser', [
  v.strictObject({ parser: v.literal('semver-v1'), ...common }),
  v.strictObject({ parser: v.literal('semver-line-v1'), line: v.string(), ...common }),
  v.strictObject({ parser: v.literal('hermes-v1') }),
])
export type VersionProbe = v.InferOutput<typeof VersionProbe>

const HERMES: VersionPolicy = {
  args: ['--version'],
  min: [0, 20, 0],
  below: [1, 0, 0],
  line: 'Hermes Agent v{version} {annotation}',
  timeoutMs: PROBE_TIMEOUT_MS,
  acceptStderr: false,
}

/** First rule of the grammar that a probe breaks; `key` is relative to its table. */
export function brokenProbe(probe: VersionProbe): { key: string; problem: string } | undefined {
  if (probe.parser === 'hermes-v1') return undefined
  const { min, below } = toVersionPolicy(probe)
  if (compare(min, below) >= 0) return { key: 'below', problem: 'is not above min' }
  if (probe.parser === 'semver-v1') return undefined
  const problem = brokenTemplate(probe.line)
  return problem === undefined ? undefined : { key: 'line', problem }
}

function brokenTemplate(line: string): string | undefined {
  if (!/^[\x20-\x7e]*$/.test(line) || line.length < 1 || line.length > MAX_TEMPLATE)
    return `is not 1 to ${MAX_TEMPLATE} printable ASCII characters`
  if (line !== line.trim()) return 'begins or ends with a space'
  const parts = line.replace(/ \{annotation\}$/, '').split('{version}')
  const [prefix, suffix] = parts
  if (parts.length !== 2 || prefix === undefined || suffix === undefined) return 'does not name {version} once'
  if (/[{}]/.test(prefix + suffix)) return 'has other braces'
  if (prefix + suffix === '') return 'has no literal character'
  if (/[0-9.]$/.test(prefix)) return 'has a digit or dot before {version}'
  return /^[0-9.+-]/.test(suffix) ? 'has a digit, dot or sign behind {version}' : undefined
}

export function toVersionPolicy(probe: VersionProbe): VersionPolicy {
  if (probe.parser === 'hermes-v1') return HERMES
  return {
    args: probe.args,
    min: parseRelease(probe.min) ?? [0, 0, 0],
    below: parseRelease(probe.below) ?? [0, 0, 0],
    ...(probe.parser === 'semver-line-v1' ? { line: probe.line } : {}),
    timeoutMs: probe.timeout_ms,
    acceptStderr: probe.accept_stderr,
  }
}

/** ASCII digits without leading zeros, no suffix. */
export function parseRelease(text: string): Release | undefined {
  const found = /^(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})$/.exec(text)
  return found === null ? undefined : [Number(found[1]), Number(found[2]), Number(found[3])]
}

/** The release that the first line of an output names in the form of the policy, undefined when it names none. */
export function releaseIn(output: string, { line }: Pick<VersionPolicy, 'line'>): Release | undefined {
  const first = (output.split('\n', 1)[0] ?? '').replace(/\r$/, '')
  if (utf8Bytes(first) > MAX_LINE_BYTES) return undefined
  if (line === undefined) return parseRelease(first.trim())
  const annotated = line.endsWith(' {annotation}')
  const [prefix = '', suffix = ''] = line.replace(/ \{annotation\}$/, '').split('{version}')
  if (!first.startsWith(prefix)) return undefined
  const rest = first.slice(prefix.length)
  const version = /^[0-9.]*/.exec(rest)?.[0] ?? ''
  const tail = rest.slice(version.length)
  const isExact = tail === suffix || (annotated && tail.startsWith(`${suffix} `) && tail.length > suffix.length + 1)
  return isExact ? parseRelease(version) : undefined
}

export const isSupported = (release: Release, { min, below }: VersionPolicy): boolean =>
  compare(release, min) >= 0 && compare(release, below) < 0

export const releaseName = (release: Release): string => release.join('.')
export const rangeName = ({ min, below }: VersionPolicy): string => `[${releaseName(min)}, ${releaseName(below)})`

function compare(a: Release, b: Release): number {
  return a[0] - b[0] || a[1] - b[1] || a[2] - b[2]
}
