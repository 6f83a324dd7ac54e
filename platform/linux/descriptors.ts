import { closeSync, readFileSync, readdirSync, readlinkSync } from 'node:fs'
import { attempt } from './proc.ts'

const O_CLOEXEC = 0o2000000

interface Descriptor {
  fd: number
  /** As readlink of /proc/self/fd/<fd> tells it. */
  target: string
  closeOnExec: boolean
}

/**
 * Closes what the starter of this process left open beyond stdio: a lock, a pipe or a terminal of a caller's script
 * would else be held for the life of the daemon and of its workers. To be called first in main, before anything is
 * opened; `keep` lists descriptors passed on purpose. Answers what was closed.
 */
export function closeInherited(keep: readonly number[] = []): number[] {
  const all = readdirSync('/proc/self/fd').flatMap((name): Descriptor[] => {
    const fd = Number(name)
    if (fd <= 2) return []
    const target = attempt(() => readlinkSync(`/proc/self/fd/${fd}`))
    const info = attempt(() => readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))
    const flags = info === undefined ? undefined : /^flags:\s+([0-7]+)$/m.exec(info)?.[1]
    if (target === undefined || flags === undefined) return []
    return [{ fd, target, closeOnExec: (parseInt(flags, 8) & O_CLOEXEC) !== 0 }]
  })
  return inherited(all)
    .filter((fd) => !keep.includes(fd))
    .filter((fd) => attempt(() => (closeSync(fd), true)) === true)
}

/**
 * Pure. Node marks low inherited descriptors close-on-exec at its start, so the flag alone does not tell. Of its own it
 * has at that time only event descriptors, /dev/null, and pipes of which it holds both ends.
 */
export function inherited(all: readonly Descriptor[]): number[] {
  const ends = new Map<string, number>()
  for (const { target } of all) ends.set(target, (ends.get(target) ?? 0) + 1)
  return all
    .filter(({ target, closeOnExec }) => {
      if (!closeOnExec || target.startsWith('socket:')) return true
      if (target.startsWith('pipe:')) return ends.get(target) === 1
      return target.startsWith('/') && target !== '/dev/null'
    })
    .map(({ fd }) => fd)
}
