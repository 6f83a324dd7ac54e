/**
 * System calls Node has no door to, through koffi. Loaded on first use, so that the CLI and the worker, which never
 * call these, pay neither its start time nor its memory.
 */
import { createRequire } from 'node:module'

type Call = (...args: unknown[]) => number
interface Koffi {
  load(path: string | null): { func(name: string, result: string, args: string[]): unknown }
  errno(): number
}

export interface Native {
  flock: Call
  getsockopt: Call
  tcgetattr: Call
  /** syscall(2) with six arguments; unused ones are 0. */
  syscall: Call
  socket: Call
  sendto: Call
  /** errno of the last failed call. */
  errno: () => number
}

export const EINTR = 4
export const EPERM = 1
export const ESRCH = 3
export const EAGAIN = 11

let loaded: Native | undefined

/** koffi takes 5 to 8 ms to find out which of its files to load (measured); the usual one is asked for by name first. */
function load(): Koffi {
  // A CommonJS bundle has no import.meta.url, an ES module no __filename.
  const require = createRequire(typeof __filename === 'string' ? __filename : import.meta.url)
  const machine = `${process.platform}-${process.arch}`
  try {
    return require(`@koromix/koffi-${machine}/${machine.replace('-', '_')}/koffi.node`) as Koffi
  } catch {
    return require('koffi') as Koffi
  }
}

/** The calls, loaded with the first use. Throws when koffi has no file for this machine. */
export function native(): Native {
  if (loaded !== undefined) return loaded
  const koffi = load()
  const c = koffi.load(null)
  loaded = {
    flock: c.func('flock', 'int', ['int', 'int']) as Call,
    getsockopt: c.func('getsockopt', 'int', ['int', 'int', 'int', 'void *', 'void *']) as Call,
    tcgetattr: c.func('tcgetattr', 'int', ['int', 'void *']) as Call,
    syscall: c.func('syscall', 'long', ['long', 'long', 'long', 'long', 'long', 'long', 'long']) as Call,
    socket: c.func('socket', 'int', ['int', 'int', 'int']) as Call,
    sendto: c.func('sendto', 'long', ['int', 'void *', 'size_t', 'int', 'void *', 'uint']) as Call,
    errno: () => koffi.errno(),
  }
  return loaded
}
