/** What runs on the machine, read from /proc: the only witness the leak checks believe. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { until } from './wait.ts'

export interface Seen {
  readonly pid: number
  readonly ppid: number
  readonly state: string
  readonly startIdentity: string
  readonly argv: readonly string[]
}

const read = (path: string): string => {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return '' // gone, or not ours to read
  }
}

/** One process, zombies included; undefined when there is none. */
export function look(pid: number): Seen | undefined {
  const stat = read(`/proc/${pid}/stat`)
  if (stat === '') return undefined
  // The command name may hold spaces and parentheses: fields start behind the last one.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return {
    pid,
    state: fields[0] ?? '?',
    ppid: Number(fields[1]),
    startIdentity: fields[19] ?? '',
    argv: read(`/proc/${pid}/cmdline`).split('\0').slice(0, -1),
  }
}

/** True while exactly a process of this pid runs; a zombie does not run. */
export const runs = (pid: number): boolean => {
  const seen = look(pid)
  return seen !== undefined && seen.state !== 'Z' && seen.state !== 'X'
}

const pids = (): number[] =>
  readdirSync('/proc')
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid > 0)

/** Every running process whose environment or arguments name `mark`, except this one. */
export function carrying(mark: string): Seen[] {
  return pids().flatMap((pid) => {
    if (pid === process.pid) return []
    if (!read(`/proc/${pid}/environ`).includes(mark) && !read(`/proc/${pid}/cmdline`).includes(mark)) return []
    const seen = look(pid)
    return seen !== undefined && runs(pid) ? [seen] : []
  })
}

export const programOf = (seen: Seen): 'daemon' | 'worker' | 'cli' | 'other' => {
  // /proc/<pid>/cmdline: the script of a node program is one of the first arguments.
  const head = seen.argv.slice(0, 4).join(' ')
  if (/pohunek-sessiond/.test(head)) return 'worker'
  if (/pohunekd/.test(head)) return 'daemon'
  if (/pohunek/.test(head)) return 'cli'
  return 'other'
}

export const show = (all: readonly Seen[]): string =>
  all.map((it) => `${it.pid} (parent ${it.ppid}, ${it.state}) ${it.argv.join(' ').slice(0, 200)}`).join('\n')

/** Open descriptors of a process, as link targets. */
export function descriptors(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      try {
        return [readlinkSync(`/proc/${pid}/fd/${fd}`)]
      } catch {
        return []
      }
    })
  } catch {
    return []
  }
}

/** Resident bytes that belong to this process alone or in part (PSS). */
export function pssBytes(pid: number): number {
  const line = /^Pss:\s+(\d+) kB/m.exec(read(`/proc/${pid}/smaps_rollup`))
  return Number(line?.[1] ?? 0) * 1024
}

/** CPU time used so far, user and system, in milliseconds. */
export function cpuMs(pid: number): number {
  const stat = read(`/proc/${pid}/stat`)
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) * 10
}

/** Ends exactly the processes that carry `mark`; answers what was there. */
export async function endCarrying(mark: string): Promise<Seen[]> {
  const found = carrying(mark)
  for (let round = 0; round < 50; round++) {
    const left = carrying(mark)
    if (left.length === 0) break
    for (const it of left) {
      try {
        process.kill(it.pid, 'SIGCONT')
        process.kill(it.pid, 'SIGKILL')
      } catch {
        // went by itself
      }
    }
    await until('a killed process is gone', () => left.every((it) => !runs(it.pid)), { deadlineMs: 5_000 })
  }
  return found
}
