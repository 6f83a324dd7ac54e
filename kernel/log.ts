/** JSON logs (pino) with the size rules of the contract. No prompt, terminal byte, environment value or secret. */
import { pino, stdTimeFunctions, type Logger } from 'pino'
import { RotatingFile } from '../platform/rotating-file.ts'

export type Log = Pick<Logger, 'debug' | 'info' | 'warn' | 'error'> & { child(bindings: Record<string, unknown>): Log }

const MIB = 1_048_576
/** <state>/logs/pohunekd.jsonl[.1-.7]: 256 MiB in total. */
export const DAEMON_LOG_LIMITS = { maxFileBytes: 32 * MIB, maxFiles: 8 } as const

export interface LogOptions {
  file: string
  maxFileBytes: number
  /** Files of the family, the one being written included. */
  maxFiles: number
  level: 'debug' | 'info' | 'warn' | 'error'
  /** Program name in each event, e.g. `pohunekd`. */
  name: string
}

export interface OpenLog extends Disposable {
  readonly log: Log
  /** Events lost to a full disk or a refused rotation. */
  readonly lost: number
}

/**
 * Opens a rotating log. Writes are synchronous: one write(2) an event, so nothing is lost when the process dies.
 * Callers never pass secrets, prompts or terminal bytes; nothing is redacted by guessing.
 * Throws Fault path_not_private when the file is a symlink, foreign or writable by others.
 */
export function openLog(options: LogOptions): OpenLog {
  const file = new RotatingFile(options)
  let open = true
  const write = (line: string): void => {
    if (open && !file.write(line) && Buffer.byteLength(line) > options.maxFileBytes) {
      file.write(oversizeWarning(options.name, Buffer.byteLength(line)))
    }
  }
  const logger = pino(
    { name: options.name, level: options.level, base: { pid: process.pid }, timestamp: stdTimeFunctions.isoTime },
    { write },
  )
  return {
    log: logger,
    get lost() {
      return file.lost
    },
    [Symbol.dispose]() {
      open = false
      file[Symbol.dispose]()
    },
  }
}

/** Stands for an event larger than one file: small, valid, and says what is missing. */
function oversizeWarning(name: string, bytes: number): string {
  const event = {
    level: 40,
    time: new Date().toISOString(),
    pid: process.pid,
    name,
    bytes,
    msg: 'a log event was too large and is left out',
  }
  return `${JSON.stringify(event)}\n`
}
