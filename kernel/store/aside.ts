/** What a start puts beside a record log before it touches it: the backup of an old schema, and damaged lines. */
import { closeSync, constants, fsyncSync, linkSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { openPrivate, readPrivate, removeFile, syncDirectory, writeAtomic } from '../secure-files.ts'

const NEWLINE = Buffer.from('\n')

/**
 * Byte-exact copy as `<file>.pre-schema-<old>` (0600, fsynced), never overwritten: an interrupted migration starts
 * again from it. When other bytes have that name, `.2`, `.3` … is added. Answers the path.
 */
export async function writeBackup(file: string, oldest: number, bytes: Buffer): Promise<string> {
  const staged = `${file}.backup-in-progress`
  for (let number = 1; ; number++) {
    const path = `${file}.pre-schema-${oldest}${number === 1 ? '' : `.${number}`}`
    const present = readPrivate(path, Number.MAX_SAFE_INTEGER)
    if (present?.equals(bytes) === true) return path
    if (present !== undefined) continue
    await writeAtomic(staged, bytes)
    linkSync(staged, path) // unlike rename, refuses to take the place of a file that came meanwhile
    removeFile(staged)
    syncDirectory(dirname(file))
    return path
  }
}

/** Appends damaged lines to `<file>.quarantine`, durable before the log loses them. */
export function appendQuarantine(file: string, lines: readonly { bytes: Buffer }[]): void {
  const fd = openPrivate(`${file}.quarantine`, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT)
  try {
    const content = Buffer.concat(lines.flatMap(({ bytes }) => [bytes, NEWLINE]))
    for (let done = 0; done < content.length;) done += writeSync(fd, content, done)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  syncDirectory(dirname(file))
}
