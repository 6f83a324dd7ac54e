/** How much disk a directory takes. Bounded: what is not counted is said. */
import { lstat, opendir } from 'node:fs/promises'
import { join } from 'node:path'

const MAX_ENTRIES = 200_000
const BLOCK_BYTES = 512

export interface DiskUsage {
  /** On disk, the directories inside included; hard links count each time. */
  readonly bytes: number
  /** There is more than was looked at. */
  readonly partial: boolean
}

/** Undefined when nothing is there that can be read. Links are not followed. Rejects when the signal aborts. */
export async function diskUsage(root: string, signal: AbortSignal): Promise<DiskUsage | undefined> {
  let bytes = 0
  let seen = 0
  const folders = [root]
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    signal.throwIfAborted()
    const entries = await opendir(folder).catch(() => undefined)
    if (entries === undefined) {
      if (folder === root) return undefined
      continue // gone meanwhile, or closed to us
    }
    for await (const entry of entries) {
      if (++seen > MAX_ENTRIES) return { bytes, partial: true }
      const path = join(folder, entry.name)
      if (entry.isDirectory()) folders.push(path)
      bytes += ((await lstat(path).catch(() => undefined))?.blocks ?? 0) * BLOCK_BYTES
    }
  }
  return { bytes, partial: false }
}
