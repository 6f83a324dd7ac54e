/** Missing directories, made one by one. */
import { mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Makes `path` and its missing parents with `mode`. Node's own recursive mkdir never returns where a file system
 * answers ENOENT below a directory that is there, as /proc does. Throws the system's error.
 */
export function makeDirectories(path: string, mode = 0o700): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) return
  if (dirname(path) !== path) makeDirectories(dirname(path), mode)
  try {
    mkdirSync(path, { mode })
  } catch (failure) {
    const { code } = failure as NodeJS.ErrnoException
    if (code !== 'EEXIST' || !statSync(path).isDirectory()) throw failure // else it was made meanwhile
  }
}
