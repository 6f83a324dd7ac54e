/**
 * What can be known before the fork about a program that will not run. forkpty reports an exec that failed only as
 * text on the terminal and exit status 1, which must never be told as a started session.
 */
import * as fs from 'node:fs'
import { resolve } from 'node:path'
import { MAX_ARGUMENT_BYTES } from '../protocol/limits.ts'
import { WorkerFailure } from './failure.ts'

const SHEBANG_BYTES = 256
const MAX_SHEBANG_DEPTH = 4

/** Throws WorkerFailure `cwd_failed` or `spawn_failed`, each naming the path at fault. */
export function checkLaunch(launch: { executable: string; args: readonly string[]; cwd: string }): void {
  checkDirectory(launch.cwd)
  for (const text of [launch.executable, ...launch.args]) {
    if (text.includes('\0')) throw new WorkerFailure('spawn_failed', 'an argument holds a NUL byte')
    if (Buffer.byteLength(text) > MAX_ARGUMENT_BYTES) {
      throw new WorkerFailure(
        'spawn_failed',
        `an argument of ${Buffer.byteLength(text)} bytes is over the system's limit of ${MAX_ARGUMENT_BYTES}`,
      )
    }
  }
  if (!launch.executable.startsWith('/'))
    throw new WorkerFailure('spawn_failed', `${launch.executable}: not an absolute path`)
  checkExecutable(launch.executable, launch.cwd, 0)
}

function checkDirectory(cwd: string): void {
  try {
    if (!cwd.startsWith('/')) throw new Error('not an absolute path')
    if (!fs.statSync(cwd).isDirectory()) throw new Error('not a directory')
    fs.accessSync(cwd, fs.constants.X_OK)
  } catch (failure) {
    throw new WorkerFailure('cwd_failed', `working directory ${cwd}: ${reason(failure)}`)
  }
}

function checkExecutable(path: string, cwd: string, depth: number): void {
  try {
    if (!fs.statSync(path).isFile()) throw new Error('not a regular file')
    fs.accessSync(path, fs.constants.X_OK)
  } catch (failure) {
    throw new WorkerFailure('spawn_failed', `${path}: ${reason(failure)}`)
  }
  if (isForeign(path)) throw new WorkerFailure('spawn_failed', `${path}: not a program for this machine`)
  const interpreter = shebang(path)
  if (interpreter === undefined) return
  if (depth >= MAX_SHEBANG_DEPTH) throw new WorkerFailure('spawn_failed', `${path}: too many levels of interpreters`)
  const target = resolve(interpreter.startsWith('/') ? '/' : cwd, interpreter)
  try {
    checkExecutable(target, cwd, depth + 1)
  } catch (failure) {
    if (depth > 0 || !(failure instanceof WorkerFailure)) throw failure
    throw new WorkerFailure('spawn_failed', `${path}: its interpreter ${failure.message}`)
  }
}

/** True for an ELF file of another word size, byte order or processor that no registered interpreter could take. */
function isForeign(path: string): boolean {
  const file = head(path)
  if (process.platform !== 'linux' || file === undefined || file.length < 20 || file.readUInt32BE(0) !== 0x7f454c46)
    return false
  const ours = head(process.execPath)
  if (
    ours === undefined ||
    (file[4] === ours[4] && file[5] === ours[5] && file.readUInt16LE(18) === ours.readUInt16LE(18))
  )
    return false
  try {
    return fs.readdirSync('/proc/sys/fs/binfmt_misc').every((it) => it === 'register' || it === 'status')
  } catch {
    return true // not mounted: nobody registered anything
  }
}

/** True for a file no shell can mean as a script: execvp hands it to /bin/sh when the kernel refuses its format. */
export function isBinary(path: string): boolean {
  return head(path)?.includes(0) === true
}

/** The interpreter a script names, undefined for anything else and for an executable we may not read. */
function shebang(path: string): string | undefined {
  const line = head(path)?.toString('latin1').split('\n', 1)[0] ?? ''
  return /^#![ \t]*([^ \t\r]+)/.exec(line)?.[1]
}

function head(path: string): Buffer | undefined {
  let fd: number
  try {
    fd = fs.openSync(path, 'r')
  } catch {
    return undefined // execute permission without read permission is legal
  }
  try {
    const bytes = Buffer.alloc(SHEBANG_BYTES)
    return bytes.subarray(0, fs.readSync(fd, bytes, 0, SHEBANG_BYTES, 0))
  } finally {
    fs.closeSync(fd)
  }
}

function reason(failure: unknown): string {
  const code = (failure as NodeJS.ErrnoException).code
  const words: Record<string, string> = {
    ENOENT: 'does not exist',
    EACCES: 'permission denied',
    ENOTDIR: 'a part of the path is not a directory',
    ELOOP: 'too many symbolic links',
    ENAMETOOLONG: 'the path is too long',
  }
  return words[code ?? ''] ?? (code === undefined ? (failure as Error).message : code)
}
