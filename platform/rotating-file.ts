/**
 * A family of line files with a size limit each: `<file>`, `<file>.1` … `<file>.<maxFiles - 1>`, newest first.
 * Invariants
 *  1. A line is written whole or not at all; a file never grows beyond `maxFileBytes`.
 *  2. Only regular files of this user are written, renamed or removed; a symlink is never followed nor replaced.
 *  3. A fragment a crash left behind never joins the next line.
 */
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  lstatSync,
  readdirSync,
  readSync,
  renameSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { openPrivate } from './private-files.ts'

const { O_APPEND, O_CREAT, O_RDWR } = constants
const NEWLINE = 10

export interface FamilyLimits {
  file: string
  maxFileBytes: number
  /** Files of the family, the one being written included. */
  maxFiles: number
}

export class RotatingFile implements Disposable {
  readonly #limits: FamilyLimits
  #fd: number
  #size: number
  /** Lines that could not be written (full disk, refused rotation) since the start. */
  lost = 0

  /** Throws Fault path_not_private when the file is a symlink, foreign or writable by others. */
  constructor(limits: FamilyLimits) {
    this.#limits = limits
    pruneFamily(limits)
    const opened = openForAppend(limits.file)
    this.#fd = opened.fd
    this.#size = opened.size
  }

  /** Appends one line, its newline included, rotating first when it would not fit. False when it is lost. */
  write(line: string): boolean {
    const bytes = Buffer.from(line)
    if (bytes.length > this.#limits.maxFileBytes || !this.#makeRoom(bytes.length)) return this.#lose()
    let done = 0
    try {
      while (done < bytes.length) done += writeSync(this.#fd, bytes, done)
      this.#size += bytes.length
      return true
    } catch {
      // 1. Full disk: a log must not take its process down, so the part written is taken back and the line counted.
      if (done > 0) attemptTruncate(this.#fd, this.#size)
      return this.#lose()
    }
  }

  [Symbol.dispose](): void {
    if (this.#fd >= 0) closeSync(this.#fd)
    this.#fd = -1
  }

  #lose(): false {
    this.lost += 1
    return false
  }

  #makeRoom(bytes: number): boolean {
    if (this.#fd < 0) return false
    if (this.#size + bytes <= this.#limits.maxFileBytes) return true
    try {
      if (rotate(this.#limits)) this.#reopen()
      else {
        ftruncateSync(this.#fd, 0) // 2. a name in the way stays; our own file starts anew
        this.#size = 0
      }
      return true
    } catch {
      return false // the caller counts the line; the next one tries again
    }
  }

  #reopen(): void {
    const opened = openForAppend(this.#limits.file)
    closeSync(this.#fd)
    this.#fd = opened.fd
    this.#size = opened.size
  }
}

/** Opens for appending and ends a fragment without newline, so that the next line stands alone (3). */
function openForAppend(file: string): { fd: number; size: number } {
  const fd = openPrivate(file, O_RDWR | O_APPEND | O_CREAT)
  try {
    const { size } = fstatSync(fd)
    const last = Buffer.alloc(1)
    if (size > 0 && readSync(fd, last, 0, 1, size - 1) === 1 && last[0] !== NEWLINE) {
      writeSync(fd, '\n')
      return { fd, size: size + 1 }
    }
    return { fd, size }
  } catch (failure) {
    closeSync(fd)
    throw failure
  }
}

/** Shifts the family by one; false, nothing changed, when one of its names is not a file of ours. */
function rotate({ file, maxFiles }: FamilyLimits): boolean {
  const names = [file, ...Array.from({ length: maxFiles - 1 }, (_, index) => `${file}.${index + 1}`)]
  if (names.some((name) => isForeign(name))) return false
  for (let index = names.length - 1; index >= 0; index--) {
    const from = names[index] as string
    const to = names[index + 1]
    if (lstatOrUndefined(from) === undefined) continue
    if (to === undefined) unlinkSync(from)
    else renameSync(from, to)
  }
  return true
}

/** Removes files of the family beyond the limits: more rotations than kept, or larger than one file may be. */
function pruneFamily({ file, maxFileBytes, maxFiles }: FamilyLimits): void {
  const name = basename(file)
  for (const entry of readdirSync(dirname(file))) {
    const number =
      entry === name
        ? 0
        : Number(/^\.([1-9]\d{0,3})$/.exec(entry.startsWith(name) ? entry.slice(name.length) : '')?.[1])
    if (Number.isNaN(number)) continue
    const path = join(dirname(file), entry)
    const found = lstatOrUndefined(path)
    if (found === undefined || isForeign(path)) continue
    if (number >= maxFiles || found.size > maxFileBytes) unlinkSync(path)
  }
}

function isForeign(path: string): boolean {
  const found = lstatOrUndefined(path)
  return found !== undefined && (!found.isFile() || found.uid !== process.geteuid?.())
}

function lstatOrUndefined(path: string) {
  return lstatSync(path, { throwIfNoEntry: false })
}

function attemptTruncate(fd: number, size: number): void {
  try {
    ftruncateSync(fd, size)
  } catch {
    // The fragment stays; openForAppend ends it at the next start.
  }
}
