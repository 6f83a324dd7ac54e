/**
 * The file under the tables: appends, and replaces itself when compacted.
 * Invariants
 *  1. Bytes up to `#length` are whole, durable lines. What a failed write left behind them is cut off before anything
 *     else is written.
 *  2. Replacing is temporary file, fsync, rename, fsync of the directory: at any moment the name means one whole log.
 */
import { constants } from 'node:fs'
import { open, rename, type FileHandle } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { platformFaults } from '../../platform/faults.ts'
import { crashPoint } from '../crash-points.ts'
import { METADATA_LOG } from '../paths.ts'
import { checkOwnFile, removeFile, syncDirectory } from '../secure-files.ts'

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_RDONLY, O_RDWR, O_TRUNC } = constants

export class LogFile {
  readonly path: string
  /** Crash points are counted in the log of sessions: other plugins write logs of their own whenever they like. */
  readonly #counts: boolean
  #handle: FileHandle
  #length: number
  /** Set while junk may stand behind `#length`. */
  #dirtyTail = false
  /** Set while a crash could bring the replaced file back: an append to the new one would be lost with it. */
  #dirtyName = false

  private constructor(path: string, handle: FileHandle, length: number) {
    this.path = path
    this.#counts = basename(path) === METADATA_LOG
    this.#handle = handle
    this.#length = length
  }

  get length(): number {
    return this.#length
  }

  /** Opens or creates (0600). Throws Fault path_not_private for a symlink, a foreign owner or one others may write. */
  static async open(path: string): Promise<{ file: LogFile; bytes: Buffer }> {
    const handle = await openChecked(path, O_RDWR | O_CREAT)
    try {
      const bytes = await handle.readFile()
      if (bytes.length === 0) syncDirectory(dirname(path)) // the name of a new file must outlive a crash too
      return { file: new LogFile(path, handle, bytes.length), bytes }
    } catch (failure) {
      await handle.close()
      throw failure
    }
  }

  /** Cuts everything behind `length` off. */
  async truncate(length: number): Promise<void> {
    await this.#handle.truncate(length)
    await this.#handle.datasync()
    this.#length = length
  }

  /** Appends and makes durable. When it throws, the file is as before. */
  async append(bytes: Buffer): Promise<void> {
    if (this.#dirtyTail) {
      await this.truncate(this.#length)
      this.#dirtyTail = false
    }
    if (this.#dirtyName) await this.#syncName()
    try {
      if (this.#counts) crashPoint('store.append.before')
      await writeAt(this.#handle, bytes, this.#length)
      if (this.#counts) crashPoint('store.append.unsynced')
      await this.#handle.datasync()
      if (this.#counts) crashPoint('store.append.after')
      this.#length += bytes.length
    } catch (failure) {
      this.#dirtyTail = true // 1
      await this.truncate(this.#length).then(
        () => (this.#dirtyTail = false),
        () => undefined, // tried again before the next append
      )
      throw failure
    }
  }

  /** Starts a replacement beside the file; a leftover of an earlier one is thrown away. */
  async replacement(): Promise<Replacement> {
    const path = replacementPath(this.path)
    removeFile(path)
    return new Replacement(path, await openChecked(path, O_RDWR | O_CREAT | O_EXCL | O_TRUNC))
  }

  /** Puts the replacement, whole and durable, in place of the file. When it throws before the rename, the file stays. */
  async replaceBy(replacement: Replacement): Promise<void> {
    const { handle, length } = await replacement.finish()
    await rename(replacement.path, this.path)
    const old = this.#handle
    this.#handle = handle
    this.#length = length
    this.#dirtyTail = false
    this.#dirtyName = true
    try {
      await old.close()
      await this.#syncName()
    } catch {
      // The log is replaced either way. The next append makes the name durable first, or fails and says so.
    }
  }

  async #syncName(): Promise<void> {
    const directory = await open(dirname(this.path), O_RDONLY | O_DIRECTORY)
    try {
      await directory.sync()
    } finally {
      await directory.close()
    }
    this.#dirtyName = false
  }

  async close(): Promise<void> {
    await this.#handle.close()
  }
}

export class Replacement {
  readonly path: string
  readonly #handle: FileHandle
  #length = 0

  constructor(path: string, handle: FileHandle) {
    this.path = path
    this.#handle = handle
  }

  async write(text: string): Promise<void> {
    const bytes = Buffer.from(text)
    await writeAt(this.#handle, bytes, this.#length)
    this.#length += bytes.length
  }

  /** Brings the bulk to the disk early, so that the moment of replacing is short. */
  async sync(): Promise<void> {
    await this.#handle.sync()
  }

  async finish(): Promise<{ handle: FileHandle; length: number }> {
    await this.#handle.sync()
    return { handle: this.#handle, length: this.#length }
  }

  async discard(): Promise<void> {
    await this.#handle.close()
    removeFile(this.path)
  }
}

export const replacementPath = (path: string): string => `${path}.compacting`

async function openChecked(path: string, flags: number): Promise<FileHandle> {
  const handle = await open(path, flags | O_NOFOLLOW, 0o600).catch((failure: NodeJS.ErrnoException) => {
    if (failure.code === 'ELOOP')
      throw platformFaults.path_not_private({ path, found: 'it is a symbolic link' }, failure)
    throw failure
  })
  try {
    const found = await handle.stat()
    checkOwnFile(path, found)
    if ((found.mode & 0o077) !== 0) await handle.chmod(0o600)
    return handle
  } catch (failure) {
    await handle.close()
    throw failure
  }
}

async function writeAt(handle: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let done = 0; done < bytes.length;) {
    done += (await handle.write(bytes, done, bytes.length - done, position + done)).bytesWritten
  }
}
