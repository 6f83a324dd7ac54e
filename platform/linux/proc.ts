/** Reading /proc. Absent, gone and unreadable all answer undefined: a process may end between any two reads. */
import { readFileSync, readdirSync, readlinkSync } from 'node:fs'

export interface Stat {
  command: string
  /** One letter: R, S, D, T, Z (zombie), X (dead) … */
  state: string
  parent: number
  group: number
  session: number
  /** Foreground process group of the controlling terminal, -1 without one. */
  foreground: number
  /** Field 22: clock ticks between boot and start. */
  startIdentity: string
  /** Its end has begun: it runs no more code, although it is no zombie yet. Its memory, and with it argv, may be gone. */
  exiting?: true
  /** Threads, when there are more than one. */
  threads?: number
  /** Its first thread has ended, others run on: a zombie by its state, a running process by what it does. */
  headless?: true
}

const PF_EXITING = 0x4

/** Parses /proc/<pid>/stat. The command may hold spaces and parentheses, so fields are counted after its last ')'. */
export function parseStat(text: string): Stat | undefined {
  const open = text.indexOf('(')
  const close = text.lastIndexOf(')')
  if (open < 0 || close < open) return undefined
  const [state, parent, group, session, , foreground, ...rest] = text
    .slice(close + 2)
    .trim()
    .split(' ')
  const startIdentity = rest[13] // field 22; `rest` starts at field 9
  const flags = Number(rest[0]) // field 9
  const threads = Number(rest[11]) // field 20
  if (state === undefined || foreground === undefined || startIdentity === undefined || !/^\d+$/.test(startIdentity))
    return undefined
  return {
    command: text.slice(open + 1, close),
    state,
    parent: Number(parent),
    group: Number(group),
    session: Number(session),
    foreground: Number(foreground),
    startIdentity,
    ...((flags & PF_EXITING) === 0 ? {} : { exiting: true }),
    ...(threads > 1 ? { threads } : {}),
  }
}

/** Facts of a process now; undefined when there is none. */
export function readStat(pid: number): Stat | undefined {
  if (!Number.isInteger(pid) || pid <= 0) return undefined
  const text = attempt(() => readFileSync(`/proc/${pid}/stat`, 'latin1'))
  const stat = text === undefined ? undefined : parseStat(text)
  if (stat?.threads === undefined || isAlive(stat) || !threadsOf(pid).some((tid) => runsOn(pid, tid))) return stat
  return { ...stat, headless: true }
}

/** Pure. False for a zombie and for a process whose end has begun. */
export const isAlive = (stat: Stat): boolean =>
  stat.headless === true || (stat.exiting !== true && stat.state !== 'Z' && stat.state !== 'X' && stat.state !== 'x')

const threadsOf = (pid: number): number[] => (attempt(() => readdirSync(`/proc/${pid}/task`)) ?? []).map(Number)

const SIGKILL_PENDING = 0x100n

/** False for a thread that is ending with its process, which sends each of them a SIGKILL. */
function runsOn(pid: number, tid: number): boolean {
  const own = attempt(() => readFileSync(`/proc/${pid}/task/${tid}/stat`, 'latin1'))
  const stat = own === undefined ? undefined : parseStat(own)
  if (stat === undefined || !isAlive(stat)) return false
  const status = attempt(() => readFileSync(`/proc/${pid}/task/${tid}/status`, 'latin1'))
  const pending = status === undefined ? undefined : /^SigPnd:\s+([0-9a-f]+)/m.exec(status)?.[1]
  return pending !== undefined && (BigInt(`0x${pending}`) & SIGKILL_PENDING) === 0n
}

/**
 * The environment block; of a process without its first thread, which shows none or withholds it, that of another thread.
 * Throws what the system refused.
 */
export function readEnviron(pid: number): Buffer {
  let refusal: unknown
  try {
    const block = readFileSync(`/proc/${pid}/environ`)
    if (block.length > 0) return block
  } catch (failure) {
    if (couldNotLook(failure)) throw failure
    refusal = failure
  }
  const living = readStat(pid)?.headless === true ? threadsOf(pid).find((tid) => runsOn(pid, tid)) : undefined
  if (living !== undefined) return readFileSync(`/proc/${pid}/task/${living}/environ`)
  if (refusal !== undefined) throw refusal
  return Buffer.alloc(0)
}

/** All process ids now, in the order of /proc. */
export function allPids(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
}

/** argv, undefined when unreadable, gone, or without one (kernel threads, zombies). */
export function readArgv(pid: number): string[] | undefined {
  const bytes = attempt(() => readFileSync(`/proc/${pid}/cmdline`))
  if (bytes === undefined || bytes.length === 0) return undefined
  const text = bytes.toString('utf8')
  return (text.endsWith('\0') ? text.slice(0, -1) : text).split('\0')
}

/**
 * Short name, and where the kernel put the program and its stack: exec draws new places, whatever a program makes of its
 * arguments or title. With the file beside them, for kernels that do not.
 */
export function readProgram(pid: number): { command: string; image: string } | undefined {
  const text = attempt(() => readFileSync(`/proc/${pid}/stat`, 'latin1'))
  const stat = text === undefined ? undefined : parseStat(text)
  if (text === undefined || stat === undefined) return undefined
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ') // from field 3 on
  // An update replaces the file of a program that runs; it is the same program still.
  const file = attempt(() => readlinkSync(`/proc/${pid}/exe`))?.replace(/ \(deleted\)$/, '') ?? ''
  return { command: stat.command, image: `${fields[23]}:${fields[25]}:${file}` } // fields 26 and 28
}

/** Real user id. Not the owner of /proc/<pid>, which is root for a process that may not be dumped. */
export function readUid(pid: number): number | undefined {
  const status = attempt(() => readFileSync(`/proc/${pid}/status`, 'latin1'))
  const uid = status === undefined ? undefined : /^Uid:\s+(\d+)/m.exec(status)?.[1]
  return uid === undefined ? undefined : Number(uid)
}

/** Whether a NUL-separated environment block has exactly `entry` (`NAME=value`). */
export function hasEntry(environ: Buffer, entry: string): boolean {
  const wanted = Buffer.from(entry)
  for (let at = environ.indexOf(wanted); at >= 0; at = environ.indexOf(wanted, at + 1)) {
    const end = at + wanted.length
    if ((at === 0 || environ[at - 1] === 0) && (end === environ.length || environ[end] === 0)) return true
  }
  return false
}

/** Value of the first `name=` entry of a NUL-separated environment block. */
export function readEntry(environ: Buffer, name: string): string | undefined {
  const prefix = `${name}=`
  const entry = environ
    .toString('utf8')
    .split('\0')
    .find((it) => it.startsWith(prefix))
  return entry?.slice(prefix.length)
}

/** Undefined for what is gone or withheld. Throws when this process could not look: that says nothing about the other. */
export function attempt<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (failure) {
    if (couldNotLook(failure)) throw failure
    return undefined // the caller decides what not knowing means
  }
}
const CANNOT_LOOK: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOMEM'])

/** Pure. The reading failed for want of something of ours, not because the other is gone or withheld. */
export const couldNotLook = (failure: unknown): boolean =>
  CANNOT_LOOK.has((failure as NodeJS.ErrnoException).code ?? '')
