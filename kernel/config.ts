/** <config>/config.toml: optional, every key has a default, unknown keys are refused with file and key. */
import { isAbsolute, join, normalize } from 'node:path'
import { parse, TomlError } from 'smol-toml'
import * as v from 'valibot'
import { catalogue } from '../protocol/fault.ts'
import {
  INPUT_STALL_MS,
  INPUT_STARTUP_GRACE_MS,
  INPUT_SUBMIT_DELAY_MS,
  MAX_OUTPUT_HISTORY_BYTES,
  MAX_SUBSCRIBER_QUEUE_BYTES,
  OUTPUT_HISTORY_BYTES,
  STOP_GRACE_MS,
  SUBSCRIBER_QUEUE_BYTES,
  SWEEP_GRACE_MS,
  TERMINAL_RETENTION_MS,
  TURN_WAIT_CEILING_MS,
  TURN_WAIT_DEFAULT_MS,
} from '../protocol/limits.ts'
import { NOTIFICATION_KINDS } from '../protocol/words.ts'
import type { Paths } from './paths.ts'
import { readPrivate } from './secure-files.ts'

export interface DaemonConfig {
  readonly supervisor: 'auto' | 'detached' | 'systemd'
  /** Plugins left out of this run, by name. */
  readonly without: readonly string[]
  readonly workers: {
    /** Warm workers kept for the next session.new. */
    readonly spares: number
    readonly outputHistoryBytes: number
    readonly subscriberQueueBytes: number
    readonly terminalRetentionMs: number
    readonly stopGraceMs: number
    readonly sweepGraceMs: number
  }
  readonly environment: {
    /** Names passed from the daemon's environment to sessions beside the contract's default list; `X_*` is a prefix. */
    readonly allowlist: readonly string[]
    /** Directories searched for programs before PATH. */
    readonly searchPath: readonly string[]
  }
  readonly input: {
    readonly startupGraceMs: number
    readonly submitDelayMs: number
    readonly writeStallTimeoutMs: number
  }
  readonly waits: {
    /** Of session.wait_turn without a timeout. */
    readonly turnDefaultMs: number
    readonly turnCeilingMs: number
  }
  readonly notify: {
    /** Argument vector that gets each new notification as JSON on stdin; empty: none. */
    readonly command: readonly string[]
    readonly timeoutMs: number
    /** Kinds it is run for; empty: all that reach the inbox. */
    readonly kinds: readonly string[]
  }
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error'
}

const configFaults = catalogue({
  config_invalid: {
    class: 'configuration',
    say: (d: { file: string; line: number | undefined; key: string | undefined; problem: string }) =>
      `${d.file}${d.line === undefined ? '' : ` line ${d.line}`}${d.key === undefined ? '' : `, ${d.key}`}: ${d.problem}`,
    recover: (d: { file: string }) => `correct ${d.file}, or move it away to use the defaults`,
  },
})

/** A configuration is a page of text; anything larger is not one. */
const MAX_CONFIG_BYTES = 65_536
const MAX_DURATION_MS = 7 * 24 * 3_600_000
const MAX_SPARES = 16
const MIN_HISTORY_BYTES = 65_536
const MAX_TURN_WAIT_MS = 24 * 3_600_000
const MAX_NOTIFY_MS = 300_000
const NOTIFY_TIMEOUT_MS = 10_000

const whole = (minimum: number, maximum: number, fallback: number) =>
  v.optional(v.pipe(v.number(), v.integer(), v.minValue(minimum), v.maxValue(maximum)), fallback)
const durationMs = (fallback: number) => whole(0, MAX_DURATION_MS, fallback)
const pluginName = v.pipe(v.string(), v.regex(/^[a-z][a-z0-9-]*$/, 'not a plugin name'))
const variable = v.pipe(
  v.string(),
  v.regex(/^[A-Za-z_][A-Za-z0-9_]*\*?$/, 'not a variable name or PREFIX_*'),
  v.maxLength(128),
)
const directory = v.pipe(
  v.string(),
  v.check((path) => isAbsolute(path) && normalize(path) === path, 'not an absolute path in its shortest form'),
)

const File = v.strictObject({
  supervisor: v.optional(v.strictObject({ kind: v.optional(v.picklist(['auto', 'detached', 'systemd']), 'auto') }), {}),
  plugins: v.optional(v.strictObject({ without: v.optional(v.array(pluginName), []) }), {}),
  workers: v.optional(
    v.strictObject({
      spares: whole(0, MAX_SPARES, 1),
      output_history_bytes: whole(MIN_HISTORY_BYTES, MAX_OUTPUT_HISTORY_BYTES, OUTPUT_HISTORY_BYTES),
      subscriber_queue_bytes: whole(MIN_HISTORY_BYTES, MAX_SUBSCRIBER_QUEUE_BYTES, SUBSCRIBER_QUEUE_BYTES),
      terminal_retention_ms: durationMs(TERMINAL_RETENTION_MS),
      stop_grace_ms: durationMs(STOP_GRACE_MS),
      sweep_grace_ms: durationMs(SWEEP_GRACE_MS),
    }),
    {},
  ),
  environment: v.optional(
    v.strictObject({
      allowlist: v.optional(v.pipe(v.array(variable), v.maxLength(256)), []),
      search_path: v.optional(v.array(directory), []),
    }),
    {},
  ),
  input: v.optional(
    v.strictObject({
      startup_grace_ms: durationMs(INPUT_STARTUP_GRACE_MS),
      submit_delay_ms: durationMs(INPUT_SUBMIT_DELAY_MS),
      write_stall_timeout_ms: durationMs(INPUT_STALL_MS),
    }),
    {},
  ),
  waits: v.optional(
    v.strictObject({
      turn_default_ms: whole(1, MAX_TURN_WAIT_MS, TURN_WAIT_DEFAULT_MS),
      turn_ceiling_ms: whole(1, MAX_TURN_WAIT_MS, TURN_WAIT_CEILING_MS),
    }),
    {},
  ),
  notify: v.optional(
    v.strictObject({
      command: v.optional(v.pipe(v.array(v.pipe(v.string(), v.minLength(1))), v.maxLength(64)), []),
      timeout_ms: whole(1, MAX_NOTIFY_MS, NOTIFY_TIMEOUT_MS),
      kinds: v.optional(v.array(v.picklist(NOTIFICATION_KINDS)), []),
    }),
    {},
  ),
  log: v.optional(v.strictObject({ level: v.optional(v.picklist(['debug', 'info', 'warn', 'error']), 'info') }), {}),
})

/**
 * Reads the configuration; without a file, the defaults.
 * Throws Fault config_invalid (file, line, key), path_not_private (others may write it) or file_too_large.
 */
export function loadConfig(paths: Pick<Paths, 'config'>): DaemonConfig {
  const file = join(paths.config, 'config.toml')
  const text = readPrivate(file, MAX_CONFIG_BYTES)?.toString('utf8')
  return parseConfig(text ?? '', file)
}

/** Pure. `file` is only named in faults. */
export function parseConfig(text: string, file: string): DaemonConfig {
  const parsed = v.safeParse(File, readToml(text, file))
  if (!parsed.success) {
    const [issue] = parsed.issues
    const path = issue.path?.map((part) => String(part.key)) ?? []
    const problem = issue.expected === 'never' ? 'unknown key' : issue.message
    throw configFaults.config_invalid({ file, line: lineOf(text, path), key: path.join('.') || undefined, problem })
  }
  const { supervisor, plugins, workers, environment, input, waits, notify, log } = parsed.output
  return {
    supervisor: supervisor.kind,
    without: plugins.without,
    workers: {
      spares: workers.spares,
      outputHistoryBytes: workers.output_history_bytes,
      subscriberQueueBytes: workers.subscriber_queue_bytes,
      terminalRetentionMs: workers.terminal_retention_ms,
      stopGraceMs: workers.stop_grace_ms,
      sweepGraceMs: workers.sweep_grace_ms,
    },
    environment: { allowlist: environment.allowlist, searchPath: environment.search_path },
    input: {
      startupGraceMs: input.startup_grace_ms,
      submitDelayMs: input.submit_delay_ms,
      writeStallTimeoutMs: input.write_stall_timeout_ms,
    },
    waits: {
      turnDefaultMs: Math.min(waits.turn_default_ms, waits.turn_ceiling_ms),
      turnCeilingMs: waits.turn_ceiling_ms,
    },
    notify: { command: notify.command, timeoutMs: notify.timeout_ms, kinds: notify.kinds },
    logLevel: log.level,
  }
}

function readToml(text: string, file: string): unknown {
  try {
    return parse(text)
  } catch (failure) {
    if (!(failure instanceof TomlError)) throw failure
    const [problem] = failure.message.split('\n')
    throw configFaults.config_invalid(
      { file, line: failure.line, key: undefined, problem: problem ?? 'not TOML' },
      failure,
    )
  }
}

/** Line of `table.key` or `[table.key]`, or of its table; undefined where it is written in another way (dotted keys, inline tables). */
function lineOf(text: string, path: readonly string[]): number | undefined {
  const [table, key] = path
  const lines = text.split('\n')
  const own = lines.findIndex((line) => line.trim().startsWith(`[${table}.${key}]`))
  if (own >= 0) return own + 1
  const start = lines.findIndex((line) => line.trim().startsWith(`[${table}]`))
  if (start < 0) {
    const top = lines.findIndex((line) => line.split('=')[0]?.trim() === table)
    return top < 0 ? undefined : top + 1
  }
  for (let at = start + 1; at < lines.length && !lines[at]?.trim().startsWith('['); at++) {
    if (lines[at]?.split('=')[0]?.trim() === key) return at + 1
  }
  return start + 1
}
