/** runtime.toml: what a runtime package says about its agent (contract/runtime-packages.md §1). Strict. Pure. */
import * as v from 'valibot'
import { RUNTIME_ID, utf8Bytes } from '../../protocol/scalars.ts'
import type { InputPlan } from '../sessions/api.ts'
import { brokenRule } from './descriptor-rules.ts'
import { faults } from './faults.ts'
import { readStrict, type TomlProblem } from './toml.ts'
import { toVersionPolicy, VersionProbe, type VersionPolicy } from './version.ts'

export const MAX_DESCRIPTOR_BYTES = 65_536
const MAX_ARGS = 64
const MAX_ARG_BYTES = 1_024
const MAX_NAME_BYTES = 64
const MAX_PATH_BYTES = 4_096
/** Between body and submit key; longer would hold the session's input for no reason. */
export const MAX_SUBMIT_DELAY_MS = 10_000
const MAX_STARTUP_GRACE_MS = 120_000
const MAX_STORE_DEPTH = 4
const MAX_RELOCATIONS = 16

const text = (maxBytes: number) =>
  v.pipe(
    v.string(),
    v.minLength(1, 'is empty'),
    v.check((it) => !it.includes('\0'), 'must not contain NUL'),
    v.check((it) => utf8Bytes(it) <= maxBytes, `is over ${maxBytes} bytes`),
  )
const wholeMs = (maximum: number) =>
  v.pipe(
    v.number(),
    v.integer('is not a whole number'),
    v.minValue(0, 'is negative'),
    v.maxValue(maximum, `is over ${maximum}`),
  )
const args = v.pipe(v.array(text(MAX_ARG_BYTES)), v.maxLength(MAX_ARGS, `has over ${MAX_ARGS} items`))
const isComponent = (part: string): boolean => /^[A-Za-z0-9._-]+$/.test(part) && part !== '.' && part !== '..'
/** Names below a directory that cannot leave it. */
const relative = v.pipe(
  text(MAX_PATH_BYTES),
  v.check((it) => it.split('/').every(isComponent), 'is not a relative path of plain components'),
)
const component = v.pipe(text(255), v.check(isComponent, 'is not one plain path component'))
const variable = v.pipe(
  text(128),
  v.regex(/^[A-Z][A-Z0-9_]*$/, 'is not an upper-case variable name'),
  v.check((it) => !it.startsWith('POHUNEK_'), 'is a name of ours'),
)

const Existence = v.variant('check', [
  v.strictObject({ check: v.literal('none') }),
  v.strictObject({
    check: v.literal('file'),
    root_env: variable,
    root_home: relative,
    dir: relative,
    file_name: v.pipe(text(255), v.regex(/^[^/]*$/, 'is not one plain path component')),
    name_match: v.picklist(['exact', 'ends_with']),
    max_depth: v.pipe(v.number(), v.integer('is not a whole number'), v.minValue(0), v.maxValue(MAX_STORE_DEPTH)),
    // How the agent moves its store: the contract says that it may be declared and leaves the names open.
    store_env: v.optional(variable),
    relocating_args: v.optional(v.pipe(v.array(text(128)), v.maxLength(MAX_RELOCATIONS)), []),
    relocating_settings: v.optional(
      v.strictObject({
        file: relative,
        keys: v.pipe(v.array(text(128)), v.minLength(1), v.maxLength(MAX_RELOCATIONS)),
      }),
    ),
  }),
])

const Descriptor = v.strictObject({
  schema: v.literal(1),
  runtime_api: v.literal(1),
  id: v.pipe(text(128), v.regex(/^[a-z0-9](?!.*\.\.)[a-z0-9._-]*$/, 'is not a package id')),
  version: v.pipe(text(64), v.regex(/^\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?$/, 'is not MAJOR.MINOR.PATCH')),
  runtime: v.strictObject({
    id: v.pipe(v.string(), v.regex(RUNTIME_ID, 'is not a runtime id')),
    name: text(MAX_NAME_BYTES),
    program: text(MAX_PATH_BYTES),
    args,
    detect_manifest: component,
    prompt_arg: v.optional(v.boolean(), false),
    version_probe: v.optional(VersionProbe),
  }),
  input: v.strictObject({
    bracketed_paste: v.boolean(),
    submit_delay_ms: wholeMs(MAX_SUBMIT_DELAY_MS),
    submit_delay_configurable: v.optional(v.boolean(), false),
    text_policy: v.picklist(['unrestricted', 'hermes_safe_text']),
    ready: v.optional(v.picklist(['bracketed_paste', 'screen_idle'])),
    startup_grace_ms: v.optional(wholeMs(MAX_STARTUP_GRACE_MS)),
    composer: v.optional(v.picklist(['required', 'none']), 'none'),
    while_working: v.optional(v.picklist(['queue', 'steer', 'refuse']), 'queue'),
  }),
  resume: v.variant('supported', [
    v.strictObject({ supported: v.literal(true), reference_kind: v.picklist(['id', 'path']), args }),
    v.strictObject({ supported: v.literal(false) }),
  ]),
  fork: v.variant('supported', [
    v.strictObject({ supported: v.literal(true), args }),
    v.strictObject({ supported: v.literal(false) }),
  ]),
  native_reference: v.variant('strategy', [
    v.strictObject({ strategy: v.literal('none') }),
    v.strictObject({ strategy: v.literal('hook'), existence: v.optional(Existence) }),
    v.strictObject({
      strategy: v.literal('assigned'),
      launch_args: args,
      assign_fork: v.optional(v.boolean(), false),
      existence: Existence,
    }),
  ]),
  integration: v.optional(
    v.strictObject({
      handler: v.picklist(['codex-hook-v1', 'claude-hook-v1', 'hermes-hook-v1']),
      hook_schema: v.picklist(['identity-v1', 'identity-subagent-v1']),
    }),
  ),
  config_home: v.optional(v.strictObject({ env: variable, default: relative })),
  transcripts: v.optional(v.strictObject({ dir: relative, parser: v.picklist(['claude-v1', 'codex-v1']) })),
  reports: v.optional(
    v.strictObject({ osc_7501_app: v.optional(v.pipe(text(64), v.regex(/^[a-z0-9._-]+$/, 'is not an app name'))) }),
    {},
  ),
})
/** As written, before names become ours. */
export type DescriptorFile = v.InferOutput<typeof Descriptor>

export interface RuntimeDescriptor {
  readonly package: { readonly id: string; readonly version: string }
  readonly runtime: {
    readonly id: string
    readonly name: string
    /** Bare name or absolute path; LOGIN_SHELL for the built-in shell alone. */
    readonly program: string
    readonly args: readonly string[]
    readonly promptArg: boolean
    /** File beside the descriptor. */
    readonly detectManifest: string
    readonly versions?: VersionPolicy
  }
  readonly input: InputPlan
  /** The submit delay the host sets replaces the one of `input`. */
  readonly submitDelayConfigurable: boolean
  readonly resume: DescriptorFile['resume']
  readonly fork: DescriptorFile['fork']
  readonly nativeReference: DescriptorFile['native_reference']
  readonly integration?: NonNullable<DescriptorFile['integration']>
  readonly configHome?: { readonly env: string; readonly default: string }
  readonly transcripts?: NonNullable<DescriptorFile['transcripts']>
  /** Ours: how the agent tells its own state beside its screen. */
  readonly reports?: {
    /** Value of `app=` in OSC 7501 reports that speak for this agent. */
    readonly osc7501App?: string
  }
}

/** Throws package_descriptor_invalid naming `file` and, where one is to blame, the key. */
export function parseDescriptor(bytes: Uint8Array, file: string): RuntimeDescriptor {
  const read = readStrict(Descriptor, bytes)
  if (!('value' in read)) throw invalid(file, read)
  const broken = brokenRule(read.value)
  if (broken !== undefined) throw invalid(file, broken)
  return descriptorOf(read.value)
}

const invalid = (file: string, problem: TomlProblem): Error => faults.package_descriptor_invalid({ file, ...problem })

function descriptorOf(it: DescriptorFile): RuntimeDescriptor {
  const { runtime, input, reports } = it
  return {
    package: { id: it.id, version: it.version },
    runtime: {
      id: runtime.id,
      name: runtime.name,
      program: runtime.program,
      args: runtime.args,
      promptArg: runtime.prompt_arg,
      detectManifest: runtime.detect_manifest,
      ...(runtime.version_probe === undefined ? {} : { versions: toVersionPolicy(runtime.version_probe) }),
    },
    input: {
      bracketedPaste: input.bracketed_paste,
      submitDelayMs: input.submit_delay_ms,
      ready: input.ready ?? 'grace',
      ...(input.startup_grace_ms === undefined ? {} : { startupGraceMs: input.startup_grace_ms }),
      textPolicy: input.text_policy,
      composer: input.composer,
      whileWorking: input.while_working,
    },
    submitDelayConfigurable: input.submit_delay_configurable,
    resume: it.resume,
    fork: it.fork,
    nativeReference: it.native_reference,
    ...(it.integration === undefined ? {} : { integration: it.integration }),
    ...(it.config_home === undefined ? {} : { configHome: it.config_home }),
    ...(it.transcripts === undefined ? {} : { transcripts: it.transcripts }),
    reports: reports.osc_7501_app === undefined ? {} : { osc7501App: reports.osc_7501_app },
  }
}
