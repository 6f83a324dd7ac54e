/**
 * Files a project is configured with: those of the repository before those of the host (contract/environment.md "Project
 * config"). A repository is somebody else's text: nothing is read that is outside of its layer, no plain file, or too
 * large, and no other layer stands in for a file that is refused.
 */
import { lstat, open, realpath, stat } from 'node:fs/promises'
import { constants } from 'node:fs'
import { isAbsolute, join, relative } from 'node:path'
import { messageOf } from '../../protocol/fault.ts'
import { FILE_NAME } from '../../protocol/scalars.ts'
import type { ProjectInfo } from './contract-projects.ts'
import { faults } from './faults.ts'

export interface Layer {
  readonly layer: 'in_repo' | 'host'
  readonly directory: string
  /** The directory itself may not lead out of this one. */
  readonly within?: string
}

export interface LayerFile {
  readonly layer: Layer['layer']
  readonly file: string
  readonly text: string
}

/** Pure. The repository's first; a bare one has no files to be configured by. */
export const layersOf = (project: Pick<ProjectInfo, 'repo_root' | 'is_bare'>, config: string): readonly Layer[] => [
  ...(project.is_bare
    ? []
    : [{ layer: 'in_repo', directory: join(project.repo_root, '.pohunek'), within: project.repo_root } as const]),
  { layer: 'host', directory: config },
]

/** Pure. Throws invalid_name; what passes is one part of a path. */
export function checkName(what: 'prompt' | 'template' | 'action', name: string): void {
  if (!FILE_NAME.test(name) || name.length > 200) throw faults.invalid_name({ what, name })
}

/** Where a file was looked for, for messages. */
export const looked = (layers: readonly Layer[], path: string): string =>
  layers.map((it) => join(it.directory, path)).join(' or ')

/** The file of one layer, undefined when there is none. Throws path_escape, config_read_failed. */
export async function readLayer(
  { layer, directory, within }: Layer,
  path: string,
  maxBytes: number,
): Promise<LayerFile | undefined> {
  const file = join(directory, path)
  const unreadable = (problem: string, cause?: unknown): Error => faults.config_read_failed({ file, problem }, cause)
  try {
    const root = await resolved(directory)
    if (root === undefined) return undefined
    if (within !== undefined) {
      const outer = (await resolved(within)) ?? within
      if (!contains(outer, root)) throw faults.path_escape({ path: directory, root: within })
    }
    const real = await resolved(file)
    if (real === undefined) return undefined
    if (!contains(root, real)) throw faults.path_escape({ path: file, root: directory })
    const bytes = await readWhole(real, maxBytes)
    if (typeof bytes === 'string') throw unreadable(bytes)
    return { layer, file, text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) }
  } catch (failure) {
    if (failure instanceof TypeError) throw unreadable('is not UTF-8 text', failure)
    if ((failure as NodeJS.ErrnoException).code === 'ELOOP') throw unreadable('is a loop of links', failure)
    if (failure instanceof Error && 'syscall' in failure) throw unreadable(messageOf(failure), failure)
    throw failure
  }
}

/** The first layer that has the file. Throws path_escape, config_read_failed. */
export async function readFirst(
  layers: readonly Layer[],
  path: string,
  maxBytes: number,
): Promise<LayerFile | undefined> {
  for (const layer of layers) {
    const found = await readLayer(layer, path, maxBytes)
    if (found !== undefined) return found
  }
  return undefined
}

/** Canonical path, undefined when nothing has that name. A link to nothing is something. */
async function resolved(path: string): Promise<string | undefined> {
  try {
    return await realpath(path)
  } catch (failure) {
    const { code } = failure as NodeJS.ErrnoException
    if (code !== 'ENOENT' && code !== 'ENOTDIR') throw failure
    const link = await lstat(path).catch(() => undefined)
    if (link !== undefined) throw failure
    return undefined
  }
}

/** The bytes, or why they are not read. What is opened is what was looked at: nothing else can be put in its place. */
async function readWhole(real: string, maxBytes: number): Promise<Buffer | string> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
  const before = await stat(real)
  if (!before.isFile()) return 'is not a regular file'
  const file = await open(real, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  try {
    const opened = await file.stat()
    if (opened.dev !== before.dev || opened.ino !== before.ino || (await realpath(real)) !== real)
      return 'changed while it was read'
    const buffer = Buffer.alloc(Math.min(opened.size, maxBytes) + 1)
    let filled = 0
    while (filled < buffer.length) {
      const { bytesRead } = await file.read(buffer, filled, buffer.length - filled, filled)
      if (bytesRead === 0) break
      filled += bytesRead
    }
    if (filled > maxBytes || opened.size > maxBytes) return `is larger than ${maxBytes} bytes`
    return buffer.subarray(0, filled)
  } finally {
    await file.close()
  }
}

/** Pure. Both canonical. */
export function contains(root: string, path: string): boolean {
  const way = relative(root, path)
  return way === '' || (way !== '..' && !way.startsWith('../') && !isAbsolute(way))
}
