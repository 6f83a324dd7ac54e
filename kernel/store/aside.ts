/** What a start puts beside a record log before it touches it: the backup of an old schema, and damaged lines. */
import { closeSync, constants, fchmodSync, fsyncSync, linkSync } from 'node:fs'
import { dirname } from 'node:path'
import { crashPoint } from '../crash-points.ts'
import { openPrivate, readPrivate, removeFile, syncDirectory, writeAll } from '../secure-files.ts'

const NEWLINE = Buffer.from('\n')
/** Under one fixed name: what a start that died left is replaced by the next one, and never heaps up. */
const stagedPath = (file: string): string => `${file}.backup-in-progress`

/**
 * Byte-exact copy as `<file>.pre-schema-<old>` (0600, fsynced), never overwritten: an interrupted migration starts
 * again from it. When other bytes have that name, `.2`, `.3` … is added. Answers the path. Throws system errors, e.g. of
 * a full disk; then nothing is left of the copy.
 */
export function writeBackup(file: string, oldest: number, bytes: Buffer): string {
  const staged = stagedPath(file)
  for (let number = 1; ; number++) {
    const path = `${file}.pre-schema-${oldest}${number === 1 ? '' : `.${number}`}`
    const present = readPrivate(path, Number.MAX_SAFE_INTEGER)
    if (present?.equals(bytes) === true) return path
    if (present !== undefined) continue
    try {
      writeStaged(staged, bytes)
      crashPoint('migrate.backup.staged')
      linkSync(staged, path) // unlike rename, refuses to take the place of a file that came meanwhile
      crashPoint('migrate.backup.linked')
    } finally {
      removeFile(staged)
    }
    syncDirectory(dirname(file))
    return path
  }
}

/** Removes the unfinished copy of a start that died. */
export const removeUnfinishedBackup = (file: string): boolean => removeFile(stagedPath(file))

function writeStaged(path: string, bytes: Buffer): void {
  removeFile(path) // never written through: it may be linked as the backup already
  const fd = openPrivate(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL)
  try {
    fchmodSync(fd, 0o600)
    writeAll(fd, bytes)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

/**
 * Appends damaged lines to `<file>.quarantine`, durable before the log loses them. Lines that are its end already were
 * put there by a start that died before the log was rewritten; a fragment that such a start left is kept as a line.
 */
export function appendQuarantine(file: string, lines: readonly { bytes: Buffer }[]): void {
  const path = `${file}.quarantine`
  const content = Buffer.concat(lines.flatMap(({ bytes }) => [bytes, NEWLINE]))
  const before = readPrivate(path, Number.MAX_SAFE_INTEGER) ?? NEWLINE
  if (before.length >= content.length && before.subarray(-content.length).equals(content)) return
  const addition = before.at(-1) === NEWLINE[0] ? content : Buffer.concat([NEWLINE, content])
  const fd = openPrivate(path, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT)
  try {
    writeAll(fd, addition)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  syncDirectory(dirname(file))
}
