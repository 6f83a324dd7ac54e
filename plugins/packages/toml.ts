/** Strict reading of small TOML files: what is wrong is one key and one sentence, never a value that was found. Pure. */
import { parse, TomlError } from 'smol-toml'
import * as v from 'valibot'

/** A file that is not what it should be. */
export interface TomlProblem {
  /** Dotted, undefined where the file as a whole is to blame. */
  readonly key?: string
  readonly problem: string
}

/** The table in `bytes` held against `schema`, or why it is none. */
export function readStrict<S extends v.GenericSchema>(
  schema: S,
  bytes: Uint8Array,
): { readonly value: v.InferOutput<S> } | TomlProblem {
  let raw: unknown
  try {
    raw = parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch (failure) {
    if (!(failure instanceof TomlError)) return { problem: 'is not UTF-8 text' }
    return { problem: `line ${failure.line}: ${failure.message.split('\n')[0]}` }
  }
  const parsed = v.safeParse(schema, raw)
  if (parsed.success) return { value: parsed.output }
  const [issue] = parsed.issues
  const key = v.getDotPath(issue)
  return { ...(key === null ? {} : { key }), problem: inWords(issue) }
}

function inWords(issue: v.BaseIssue<unknown>): string {
  if (issue.expected === 'never') return 'unknown key'
  if (issue.input === undefined) return 'is missing'
  if (issue.type === 'strict_object' || issue.type === 'union') return 'has the wrong shape'
  // Validation messages may quote what was found; a profile may hold secrets.
  return issue.message.replace(/ but received .*$/s, '')
}
