/**
 * The worker's log: the lines kernel/log.ts writes, into the same kind of file, without its library (pino costs a
 * worker's start 5 ms and its memory 1 MB). Nothing is opened before the first line, which most sessions
 * write at their end, and the file is not held open. Two generations of one session may write at once: each line is
 * written under the mutex of the family.
 */
import { dirname } from 'node:path'
import { makeDirectories } from '../platform/directories.ts'
import { fileMutex } from '../platform/file-mutex.ts'
import type { ProcessIdentity, Processes } from '../platform/processes.ts'
import { RotatingFile } from '../platform/rotating-file.ts'
import { SESSION_LOG_LIMITS } from '../protocol/worker/files.ts'

const LEVELS = { info: 30, warn: 40, error: 50 } as const

export interface WorkerLog {
  info(fields: Record<string, unknown>, message: string): void
  warn(fields: Record<string, unknown>, message: string): void
  error(fields: Record<string, unknown>, message: string): void
}

export interface WorkerLogOptions {
  /** <state>/logs/pohunek-session-<id>.jsonl */
  file: string
  /** In every line. */
  bindings: Record<string, unknown>
  processes: Processes
  /** This process. */
  self: ProcessIdentity
}

/** Callers never pass terminal bytes, prompts, environment values or tokens. A log that cannot be written ends nothing. */
export function workerLog({ file, bindings, processes, self }: WorkerLogOptions): WorkerLog {
  const exclusive = fileMutex(`${file}.lock`, { processes, self })
  const write = (level: keyof typeof LEVELS, fields: Record<string, unknown>, message: string): void => {
    const event = {
      level: LEVELS[level],
      time: new Date().toISOString(),
      pid: process.pid,
      name: 'pohunek-sessiond',
      ...bindings,
      ...fields,
      msg: message,
    }
    try {
      makeDirectories(dirname(file))
      exclusive(() => {
        using family = new RotatingFile({ file, ...SESSION_LOG_LIMITS })
        family.write(`${JSON.stringify(event)}\n`)
      })
    } catch {
      // a full disk, or a log that is somebody else's: the session goes on without
    }
  }
  return {
    info: (fields, message) => write('info', fields, message),
    warn: (fields, message) => write('warn', fields, message),
    error: (fields, message) => write('error', fields, message),
  }
}
