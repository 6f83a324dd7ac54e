/** Synchronous output: all bytes are out when a call returns, whatever stands behind the descriptor. */
import { writeSync } from 'node:fs'
import { faults } from './errors.ts'

/** Whoever read our output left; the program ends quietly. */
export class OutputClosed extends Error {}

/** A pipe without a reader, a descriptor that was closed, a terminal that is gone. */
const NOBODY_READS: readonly (string | undefined)[] = ['EPIPE', 'ECONNRESET', 'EBADF', 'EIO']

// A full pipe that someone else made non-blocking is asked again this often.
const FULL_RETRY_MS = 2

/** Throws OutputClosed where nobody reads, io_error where it cannot be stored. */
function writeAll(fd: number, text: string | Uint8Array): void {
  let bytes = typeof text === 'string' ? Buffer.from(text) : text
  while (bytes.length > 0) {
    try {
      bytes = bytes.subarray(writeSync(fd, bytes))
    } catch (failure) {
      const { code } = failure as NodeJS.ErrnoException
      if (code === 'EAGAIN') sleep(FULL_RETRY_MS)
      else if (NOBODY_READS.includes(code)) throw new OutputClosed(code, { cause: failure })
      else if (code !== 'EINTR')
        throw faults.io_error(
          { what: fd === 1 ? 'standard output' : 'standard error', problem: problemOf(code) },
          failure,
        )
    }
  }
}

const problemOf = (code = 'it cannot be written'): string =>
  code === 'ENOSPC' || code === 'EDQUOT' ? 'no space left, what was printed is not complete' : code

/** Blocks the process. */
export function sleep(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

export const out = (text: string | Uint8Array): void => writeAll(1, text)

export function err(text: string): void {
  try {
    writeAll(2, text)
  } catch {
    // stderr is closed: there is nobody to tell
  }
}

/** Ends the process without the work of a Node shutdown; nothing may be buffered. */
export function leave(code: number): never {
  const { reallyExit } = process as unknown as { reallyExit(this: void, code: number): never }
  return reallyExit(code)
}
