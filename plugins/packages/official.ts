/** The runtimes that come with this build: one directory each. One that is broken is left out. */
import { createHash } from 'node:crypto'
import { closeSync, fstatSync, openSync, readdirSync, readSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { messageOf } from '../../protocol/fault.ts'
import type { ManifestSource, RuntimeDefinition } from './api.ts'
import { SHELL_RUNTIME } from './descriptor-rules.ts'
import { MAX_DESCRIPTOR_BYTES, parseDescriptor } from './descriptor.ts'
import { faults } from './faults.ts'
import { shellDescriptor } from './runtimes.ts'

export const MAX_MANIFEST_BYTES = 262_144

export interface OfficialRuntime extends RuntimeDefinition {
  /** undefined when its file is missing. */
  readonly manifest: ManifestSource | undefined
}

export interface OfficialSet {
  /** Shell is always there, and costs no more than its own manifest. */
  get(id: string): OfficialRuntime | undefined
  /** By runtime id, in their order. */
  readonly runtimes: ReadonlyMap<string, OfficialRuntime>
  /** What is wrong with the files, naming each. */
  readonly problems: readonly string[]
}

declare const __dirname: string

/** <installation>/runtime-packages, beside the bundles' dist/ or, from sources, at the root. */
export function officialDirectory(): string {
  // A bundle is CommonJS: there the build leaves this undefined.
  const source = import.meta.url as string | undefined
  const root = source === undefined ? dirname(__dirname) : dirname(dirname(dirname(fileURLToPath(source))))
  return join(root, 'runtime-packages')
}

/**
 * The runtimes of `directory`, read once, when one other than shell is first asked for: reading all takes 5 to 10 ms of
 * processor time (measured), which a daemon that starts a shell does not wait for. Never throws; `told` hears each
 * problem.
 */
export function officialSet(directory: string, told: (problem: string) => void = () => undefined): OfficialSet {
  let shell: OfficialRuntime | undefined
  let all: Pick<OfficialSet, 'runtimes' | 'problems'> | undefined
  const shellRuntime = (): OfficialRuntime => (shell ??= loadShell(join(directory, SHELL_RUNTIME)))
  const loaded = (): Pick<OfficialSet, 'runtimes' | 'problems'> => {
    if (all === undefined) {
      all = loadAll(directory, shellRuntime())
      for (const problem of all.problems) told(problem)
    }
    return all
  }
  return {
    get: (id) => (id === SHELL_RUNTIME ? shellRuntime() : loaded().runtimes.get(id)),
    get runtimes() {
      return loaded().runtimes
    },
    get problems() {
      return loaded().problems
    },
  }
}

function loadAll(directory: string, shell: OfficialRuntime): Pick<OfficialSet, 'runtimes' | 'problems'> {
  const found = new Map<string, OfficialRuntime>()
  const problems: string[] = []
  for (const name of directoriesIn(directory, problems)) {
    try {
      const runtime = loadRuntime(join(directory, name), name)
      found.set(name, runtime)
      if (runtime.manifest === undefined) problems.push(`${join(directory, name)}: its detection manifest is missing`)
    } catch (failure) {
      problems.push(messageOf(failure))
    }
  }
  found.set(SHELL_RUNTIME, shell)
  return { runtimes: new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1))), problems }
}

/** The shell as it is compiled in, with the manifest of its directory where there is one. */
function loadShell(directory: string): OfficialRuntime {
  const manifest = readManifestFile(join(directory, shellDescriptor.runtime.detectManifest))
  const digest = digestOf([JSON.stringify(shellDescriptor), manifest?.text ?? ''])
  return { id: SHELL_RUNTIME, descriptor: shellDescriptor, digest, manifest }
}

/** undefined also for one that cannot be read: reading all runtimes tells why. */
function readManifestFile(file: string): ManifestSource | undefined {
  try {
    const bytes = read(file, MAX_MANIFEST_BYTES)
    return bytes && manifestSource(file, bytes)
  } catch {
    return undefined
  }
}

function directoriesIn(directory: string, problems: string[]): string[] {
  try {
    return readdirSync(directory, { withFileTypes: true })
      .filter((it) => it.isDirectory())
      .map((it) => it.name)
  } catch (failure) {
    problems.push(`${directory}: ${messageOf(failure)}`)
    return []
  }
}

function loadRuntime(directory: string, name: string): OfficialRuntime {
  const file = join(directory, 'runtime.toml')
  const bytes = read(file, MAX_DESCRIPTOR_BYTES)
  if (bytes === undefined) throw faults.package_descriptor_invalid({ file, problem: 'is missing' })
  const descriptor = parseDescriptor(bytes, file)
  if (descriptor.runtime.id !== name)
    throw faults.package_descriptor_invalid({ file, key: 'runtime.id', problem: `is not ${name}, its directory` })
  const manifestFile = join(directory, descriptor.runtime.detectManifest)
  const manifest = read(manifestFile, MAX_MANIFEST_BYTES)
  return {
    id: name,
    descriptor,
    digest: digestOf([bytes, manifest ?? '']),
    manifest: manifest && manifestSource(manifestFile, manifest),
  }
}

/** Throws package_descriptor_invalid for what is not UTF-8: a rule with a letter replaced would be another rule. */
export function manifestSource(file: string, bytes: Buffer): ManifestSource {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (failure) {
    throw faults.package_descriptor_invalid({ file, problem: 'is not UTF-8 text' }, failure)
  }
  return { file, text, revision: digestOf([bytes]) }
}

/** sha256, each part behind its length so that no two lists are one text. */
export function digestOf(parts: readonly (string | Uint8Array)[]): string {
  const hash = createHash('sha256')
  for (const part of parts) {
    const bytes = Buffer.from(part)
    hash.update(`${bytes.length}:`).update(bytes)
  }
  return `sha256:${hash.digest('hex')}`
}

/** Content of a file of this installation, undefined when there is none. Throws package_descriptor_invalid. */
function read(file: string, maxBytes: number): Buffer | undefined {
  let fd: number | undefined
  try {
    fd = openSync(file, 'r')
    const found = fstatSync(fd)
    if (!found.isFile()) throw faults.package_descriptor_invalid({ file, problem: 'is not a regular file' })
    if (found.size > maxBytes) {
      throw faults.package_descriptor_invalid({ file, problem: `has ${found.size} bytes, at most ${maxBytes}` })
    }
    const bytes = Buffer.alloc(found.size)
    return bytes.subarray(0, readSync(fd, bytes, 0, found.size, 0))
  } catch (failure) {
    if ((failure as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    if ((failure as NodeJS.ErrnoException).code?.startsWith('E') !== true) throw failure
    throw faults.package_descriptor_invalid({ file, problem: messageOf(failure) }, failure)
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}
