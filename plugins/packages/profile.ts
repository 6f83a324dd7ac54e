/** Host profiles: <config>/agents/<name>.toml (contract/environment.md §2). Reading is strict; nothing is guessed. */
import { lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import * as v from 'valibot'
import { readPrivate } from '../../kernel/secure-files.ts'
import { Fault, messageOf } from '../../protocol/fault.ts'
import { FILE_NAME, RUNTIME_ID } from '../../protocol/scalars.ts'
import type { ManifestSource } from './api.ts'
import { MAX_SUBMIT_DELAY_MS } from './descriptor.ts'
import { faults } from './faults.ts'
import { manifestSource, MAX_MANIFEST_BYTES } from './official.ts'
import { readStrict } from './toml.ts'

const MAX_PROFILE_BYTES = 65_536
const MAX_ARGS = 256

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
      composer: v.optional(v.picklist(['required', 'none'])),
      while_working: v.optional(v.picklist(['queue', 'steer', 'refuse'])),
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
  const read = readStrict(Profile, bytes)
  if (!('value' in read)) throw faults.invalid_profile({ file, ...read })
  const { package: pinned, digest } = read.value
  if ((pinned === undefined) !== (digest === undefined)) {
    throw faults.invalid_profile({
      file,
      key: pinned === undefined ? 'package' : 'digest',
      problem: 'package and digest belong together',
    })
  }
  return read.value
}

const MANIFESTS = 'manifests'

/** The detection manifest a profile names. Throws invalid_profile naming the profile's file and the key. */
export function readManifest(directory: string, manifest: string, profileFile: string): ManifestSource {
  const file = join(directory, MANIFESTS, `${manifest}.toml`)
  const refuse = (problem: string, cause?: unknown): never => {
    throw faults.invalid_profile({ file: profileFile, key: 'manifest', problem: `${file}: ${problem}` }, cause)
  }
  try {
    const bytes = readPrivate(file, MAX_MANIFEST_BYTES)
    if (bytes === undefined) return refuse('is missing')
    checkTree(join(directory, MANIFESTS))
    return manifestSource(file, bytes)
  } catch (failure) {
    if (failure instanceof Fault && failure.code === 'invalid_profile') throw failure
    if (failure instanceof Fault && failure.code === 'package_descriptor_invalid') return refuse('is not UTF-8 text')
    return refuse(isAbsent(failure) ? 'is missing' : messageOf(failure), failure)
  }
}

/** Names of the profiles in a directory, in their order; none when there is no such directory. */
export function profileNames(directory: string): readonly string[] {
  try {
    return readdirSync(directory)
      .filter((it) => it.endsWith('.toml'))
      .map((it) => it.slice(0, -'.toml'.length))
      .filter((it) => FILE_NAME.test(it))
      .sort()
  } catch {
    return []
  }
}
