/** Synchronous output: all bytes are out when a call returns, whatever stands behind the descriptor. */
import { writeSync } from 'node:fs'

/** Whoever read our output left; the program ends quietly. */
export class OutputClosed extends Error {}

// A full pipe that someone else made non-blocking is asked again this often.
const FULL_RETRY_MS = 2

export function writeAll(fd: number, text: string | Uint8Array): void {
  let bytes = typeof text === 'string' ? Buffer.from(text) : text
  while (bytes.length > 0) {
    try {
      bytes = bytes.subarray(writeSync(fd, bytes))
    } catch (failure) {
      const { code } = failure as NodeJS.ErrnoException
      if (code === 'EAGAIN') sleep(FULL_RETRY_MS)
      else if (code !== 'EINTR') throw new OutputClosed(code, { cause: failure })
    }
  }
}

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
