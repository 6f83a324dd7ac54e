/**
 * A CLI command as data: what it takes, what it needs, and one function that runs it against a context. The parser,
 * --help, completions and both CLI bundles read the same objects; nothing keeps a second list.
 */
import type { Fault } from './fault.ts'
import type { Contract, MethodName, ParamsInput, Result } from './contract.ts'

export interface Argument {
  readonly name: string
  readonly about: string
  readonly optional?: boolean
  /** Takes all that follow; the last one only. */
  readonly repeat?: boolean
  /** Completed with live session ids. */
  readonly session?: boolean
  readonly choices?: readonly string[]
}

export interface Flag {
  /** Long name without dashes. */
  readonly name: string
  readonly about: string
  /** Placeholder of the value in help; a flag without one takes no value. */
  readonly value?: string
  readonly repeat?: boolean
  readonly aliases?: readonly string[]
  readonly short?: string
  /** The value is a decimal integer in this range. */
  readonly integer?: { readonly minimum: number; readonly maximum: number }
  readonly choices?: readonly string[]
  readonly hidden?: boolean
}

/** Parsed arguments and flags of one call. */
export interface Input {
  argument(name: string): string | undefined
  /** Everything an argument that repeats was given. */
  arguments(name: string): readonly string[]
  has(flag: string): boolean
  /** Last value of a flag. */
  value(flag: string): string | undefined
  values(flag: string): readonly string[]
  integer(flag: string): number | undefined
}

/** Human output; every text in it is untrusted and escaped by the renderer. */
export type Block =
  | { readonly table: { readonly columns: readonly string[]; readonly rows: readonly (readonly string[])[] } }
  | { readonly fields: readonly (readonly [name: string, value: string])[] }
  | { readonly line: string }
  /** Text of a terminal: escaped only when it goes to one. */
  | { readonly stream: string }
  /** Rows of a screen, as `stream`; a terminal is spared the blank ones at the end. */
  | { readonly screen: readonly string[] }
  /** Our own text, printed as it is. */
  | { readonly verbatim: string }

export interface Outcome {
  /** `ok` of the JSON envelope. */
  readonly ok: unknown
  readonly human: readonly Block[]
  /** Lines for stderr, human form only. */
  readonly notes?: readonly string[]
  /** Default 0. */
  readonly exitCode?: number
}

export interface CallOptions {
  /** Deadline of the answer, milliseconds. */
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
  /** For calls that only wait: when the daemon goes, the next one is asked for the rest of the time. */
  readonly lasting?: boolean
  /** For calls that change nothing: asked once more where the daemon went before it answered. */
  readonly again?: boolean
}

export interface CommandContext {
  /** Sends one request; throws the typed error of the answer. */
  call(method: string, params: unknown, options?: CallOptions): Promise<unknown>
  /** Session id behind a target: an id, `local/<id>`, a unique display name or a unique id prefix. */
  session(target: string): Promise<string>
  /** All sessions that match every filter of session.list, however many, ordered by the daemon. */
  sessions(filters: readonly unknown[]): Promise<readonly unknown[]>
  /** All of standard input as UTF-8. */
  readInput(): Promise<string>
  /** Throws cli_usage where this process cannot attach. */
  checkAttach(): void
  /** Writes a session's output to standard output from an offset on as it comes, until its program ended. */
  follow(sessionId: string, afterOffset: string): Promise<void>
  /** Attaches this terminal; answers the exit code of the attach contract. */
  attach(sessionId: string): Promise<number>
  readonly env: Readonly<Record<string, string | undefined>>
  /** undefined when the directory was deleted. */
  readonly cwd: string | undefined
  readonly home: string | undefined
  /** Size of the terminal this runs in, undefined without one. */
  readonly terminal: { readonly cols: number; readonly rows: number } | undefined
  /** Resolves `.`, `..` and doubled slashes of a path against a directory. */
  resolvePath(base: string, path: string): string
}

/** `call` with the types of one contract. */
export type TypedCall<C extends Contract> = <M extends MethodName<C>>(
  method: M,
  params: ParamsInput<C['methods'][M]>,
  options?: CallOptions,
) => Promise<Result<C['methods'][M]>>

export interface Command {
  /** Words that select it, e.g. ['session', 'list']. */
  readonly path: readonly string[]
  /** Other spellings of the last word. */
  readonly aliases?: readonly string[]
  readonly about: string
  /** More lines for --help. */
  readonly details?: readonly string[]
  /** Whole command lines for --help, each with what it does behind a tab. */
  readonly examples?: readonly string[]
  readonly arguments: readonly Argument[]
  readonly flags: readonly Flag[]
  /** Sets of flags and arguments of which one at most may be given. */
  readonly exclusive?: readonly (readonly string[])[]
  readonly hidden?: boolean
  /** Takes --json. */
  readonly json: boolean
  /** Plugin whose methods it calls; a daemon without it is answered with the plugin's name. */
  readonly plugin?: string
  /** Pure. A usage problem that the flags alone do not show; nothing was dialled yet. */
  readonly check?: (input: Input) => string | undefined
  /** What SIGINT and SIGTERM mean to a call whose outcome is unknown once it is sent; undefined: the usual end. */
  readonly interrupted?: (input: Input) => Fault | undefined
  run(context: CommandContext, input: Input): Promise<Outcome>
}

export const JSON_FLAG: Flag = { name: 'json', about: 'print one JSON document' }
