/** Host profiles: <config>/agents/<name>.toml (contract/environment.md §2). Reading is strict; nothing is guessed. */
import { lstatSync } from 'node:fs'
import { join } from 'node:path'
import { parse, TomlError } from 'smol-toml'
import * as v from 'valibot'
import { readPrivate } from '../../kernel/secure-files.ts'
import { Fault, messageOf } from '../../protocol/fault.ts'
import { FILE_NAME, RUNTIME_ID } from '../../protocol/scalars.ts'
import { faults } from './faults.ts'

const MAX_PROFILE_BYTES = 65_536
const MAX_ARGS = 256
/** Between body and submit key; longer would hold the session's input for no reason. */
const MAX_SUBMIT_DELAY_MS = 10_000

const text = v.pipe(
  v.string(),
  v.check((it) => !it.includes('\0'), 'must not contain NUL'),
)
const args = v.pipe(v.array(text), v.maxLength(MAX_ARGS))

const Profile = v.strictObject({
  base: v.pipe(v.string(), v.regex(RUNTIME_ID, 'is not a runtime id')),
  program: v.optional(v.pipe(text, v.minLength(1))),
  args: v.optional(args),
  env: v.optional(v.record(v.pipe(v.string(), v.regex(/^[^=\0]+$/, 'is not a variable name')), text), {}),
  input_rules: v.optional(
    v.strictObject({
      bracketed_paste: v.optional(v.boolean()),
      submit_delay_ms: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(MAX_SUBMIT_DELAY_MS))),
    }),
    {},
  ),
  resume: v.optional(
    v.union([
      v.strictObject({ resumable: v.literal(false) }),
      v.strictObject({ reference_kind: v.picklist(['id', 'path']), args, fork_args: v.optional(args) }),
    ]),
  ),
  manifest: v.optional(v.pipe(v.string(), v.regex(FILE_NAME, 'is not a manifest name'))),
  package: v.optional(text),
  digest: v.optional(v.pipe(v.string(), v.regex(/^sha256:[0-9a-f]{64}$/, 'is not a digest'))),
})
export type Profile = v.InferOutput<typeof Profile>

/**
 * The profile of that name, undefined when there is none. `name` has passed the name guard. Throws invalid_profile
 * naming the file and, where one is to blame, the key; never a value.
 */
export function readProfile(directory: string, name: string): Profile | undefined {
  const file = join(directory, `${name}.toml`)
  let bytes: Buffer | undefined
  try {
    bytes = readPrivate(file, MAX_PROFILE_BYTES)
    if (bytes === undefined) return undefined
    checkTree(directory)
  } catch (failure) {
    if (isAbsent(failure)) return undefined
    throw faults.invalid_profile({ file, problem: messageOf(failure) }, failure)
  }
  return parseProfile(bytes, file)
}

/** Whoever can write the directory chooses what runs: it has to be the user's alone. */
function checkTree(directory: string): void {
  const found = lstatSync(directory)
  const me = process.geteuid?.()
  if (!found.isDirectory()) throw new Error(`${directory} is not a directory`)
  if (found.uid !== me) throw new Error(`${directory} belongs to uid ${found.uid}, not ${me}`)
  if ((found.mode & 0o022) !== 0) throw new Error(`others may write ${directory}`)
}

const isAbsent = (failure: unknown): boolean =>
  !(failure instanceof Fault) && ['ENOENT', 'ENOTDIR'].includes(String((failure as NodeJS.ErrnoException).code))

/** Pure. `file` is only named in faults. */
export function parseProfile(bytes: Uint8Array, file: string): Profile {
  let raw: unknown
  try {
    raw = parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch (failure) {
    const problem =
      failure instanceof TomlError ? `line ${failure.line}: ${failure.message.split('\n')[0]}` : 'is not UTF-8 text'
    throw faults.invalid_profile({ file, problem }, failure)
  }
  const parsed = v.safeParse(Profile, raw)
  if (!parsed.success) {
    const [issue] = parsed.issues
    const key = v.getDotPath(issue)
    const problem =
      issue.expected === 'never'
        ? 'unknown key'
        : issue.input === undefined
          ? 'is missing'
          : issue.type === 'strict_object' || issue.type === 'union'
            ? 'has the wrong shape'
            : withoutValue(issue.message)
    throw faults.invalid_profile({ file, ...(key === null ? {} : { key }), problem })
  }
  const { package: pinned, digest } = parsed.output
  if ((pinned === undefined) !== (digest === undefined)) {
    throw faults.invalid_profile({
      file,
      key: pinned === undefined ? 'package' : 'digest',
      problem: 'package and digest belong together',
    })
  }
  return parsed.output
}

/** Validation messages may quote what was found; a profile may hold secrets. */
const withoutValue = (message: string): string => message.replace(/ but received .*$/s, '')
