/**
 * Files and directories that belong to this user alone. No symlink is followed at the last part of a path, no foreign
 * owner is trusted, and every refusal says what was found and how to mend it.
 */
import { randomBytes } from 'node:crypto'
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  unlinkSync,
  writeSync,
  type Stats,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { makeDirectories } from './directories.ts'
import { platformFaults } from './faults.ts'

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants

const me = (): number => process.geteuid?.() ?? -1
const octal = (mode: number): string => (mode & 0o7777).toString(8).padStart(4, '0')
const quoted = (path: string): string => `'${path.replaceAll("'", `'\\''`)}'`
const errno = (failure: unknown): string | undefined => (failure as NodeJS.ErrnoException).code

/**
 * Makes `path` a directory of mode 0700 owned by this user; missing parents are made the same way. An existing one is
 * checked, never changed. With `base`, every part below `base` is held to that rule, else only `path` itself.
 * Throws Fault path_not_private.
 */
export function privateDir(path: string, base = dirname(path)): void {
  const parts: string[] = []
  for (let at = path; at !== base && dirname(at) !== at; at = dirname(at)) parts.unshift(at)
  makeDirectories(base)
  for (const part of parts) {
    try {
      mkdirSync(part, { mode: 0o700 })
    } catch (failure) {
      if (errno(failure) !== 'EEXIST') throw failure
    }
    checkPrivateDir(part)
  }
}

/** Throws Fault path_not_private unless `path` is a real directory of this user with mode 0700. */
export function checkPrivateDir(path: string): void {
  const found = lstatSync(path)
  const refuse = (what: string, fix?: string): never => {
    throw platformFaults.path_not_private({ path, found: what, ...(fix === undefined ? {} : { fix }) })
  }
  if (found.isSymbolicLink()) refuse('it is a symbolic link')
  if (!found.isDirectory()) refuse('it is not a directory')
  if (found.uid !== me()) refuse(`it belongs to uid ${found.uid}, not ${me()}`, `chown ${me()} ${quoted(path)}`)
  if ((found.mode & 0o777) !== 0o700) refuse(`its mode is ${octal(found.mode)}, not 0700`, `chmod 0700 ${quoted(path)}`)
}

/** Throws Fault path_not_private unless this is a regular file of this user that nobody else may write. */
export function checkOwnFile(path: string, found: Stats): void {
  const refuse = (what: string, fix?: string): never => {
    throw platformFaults.path_not_private({ path, found: what, ...(fix === undefined ? {} : { fix }) })
  }
  if (!found.isFile()) refuse('it is not a regular file')
  if (found.uid !== me()) refuse(`it belongs to uid ${found.uid}, not ${me()}`, `chown ${me()} ${quoted(path)}`)
  if ((found.mode & 0o022) !== 0)
    refuse(`its mode is ${octal(found.mode)}, others may write it`, `chmod 0600 ${quoted(path)}`)
}

/** Runs `openIt`, which opens `path` with O_NOFOLLOW, and checks what was opened; the descriptor is closed on refusal. */
export function asOwned(path: string, openIt: () => number): number {
  let fd: number
  try {
    fd = openIt()
  } catch (failure) {
    if (errno(failure) === 'ELOOP')
      throw platformFaults.path_not_private({ path, found: 'it is a symbolic link' }, failure)
    throw failure
  }
  try {
    checkOwnFile(path, fstatSync(fd))
    return fd
  } catch (failure) {
    closeSync(fd)
    throw failure
  }
}

/** Opens a file of this user, 0600 when `flags` create it. An existing one that others may read is made private. */
export function openPrivate(path: string, flags: number): number {
  const fd = asOwned(path, () => openSync(path, flags | O_NOFOLLOW | O_NONBLOCK, 0o600))
  if ((fstatSync(fd).mode & 0o077) !== 0) fchmodSync(fd, 0o600)
  return fd
}

/**
 * Whole content of a file of this user, undefined when there is none.
 * Throws Fault path_not_private (symlink, owner, writable by others) or file_too_large.
 */
export function readPrivate(path: string, maxBytes: number): Buffer | undefined {
  let fd: number
  try {
    fd = asOwned(path, () => openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK))
  } catch (failure) {
    if (errno(failure) === 'ENOENT') return undefined
    throw failure
  }
  try {
    const { size } = fstatSync(fd)
    if (size > maxBytes) throw platformFaults.file_too_large({ path, bytes: size, maxBytes })
    const bytes = Buffer.alloc(size)
    let filled = 0
    while (filled < size) {
      const count = readSync(fd, bytes, filled, size - filled, filled)
      if (count === 0) break
      filled += count
    }
    return bytes.subarray(0, filled)
  } finally {
    closeSync(fd)
  }
}

// Leading dot: never mistaken for a record of the directory. Random: two writers never meet.
const temporaryName = (path: string): string =>
  join(dirname(path), `.${basename(path)}.${randomBytes(6).toString('hex')}`)

/** Replaces `path` by `bytes` (0600): temporary file, fsync, rename, fsync of the directory. After a failure the old file stands. */
export async function writeAtomic(path: string, bytes: Uint8Array | string): Promise<void> {
  const temporary = temporaryName(path)
  try {
    const file = await open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
    try {
      await file.writeFile(bytes)
      await file.sync()
    } finally {
      await file.close()
    }
    renameSync(temporary, path)
  } catch (failure) {
    removeFile(temporary)
    throw failure
  }
  const directory = await open(dirname(path), O_RDONLY | O_DIRECTORY)
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}

/**
 * `writeAtomic` without giving the thread back. `durable: false` leaves out both fsyncs: for files that mean nothing
 * after a reboot.
 */
export function writeAtomicSync(path: string, bytes: Uint8Array | string, { durable = true } = {}): void {
  const temporary = temporaryName(path)
  const content = typeof bytes === 'string' ? Buffer.from(bytes) : bytes
  try {
    const fd = openSync(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
    try {
      writeAll(fd, content)
      if (durable) fsyncSync(fd)
    } finally {
      closeSync(fd)
    }
    renameSync(temporary, path)
  } catch (failure) {
    removeFile(temporary)
    throw failure
  }
  if (durable) syncDirectory(dirname(path))
}

/** Writes every byte: one write(2) may take only some. Throws what the system refused. */
export function writeAll(fd: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length;) done += writeSync(fd, bytes, done)
}

/** Makes the names in a directory durable. */
export function syncDirectory(path: string): void {
  const fd = openSync(path, O_RDONLY | O_DIRECTORY)
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

/** Unlinks a file; false when there was none. */
export function removeFile(path: string): boolean {
  try {
    unlinkSync(path)
    return true
  } catch (failure) {
    if (errno(failure) === 'ENOENT') return false
    throw failure
  }
}
