// Facts from /proc about the processes of a run. Linux only; elsewhere the memory and CPU lines are left out.
import { readFileSync, readdirSync } from 'node:fs'

const read = (path) => {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return undefined
  }
}

/** Proportional and private memory of a process in MB. */
export function memory(pid) {
  const text = read(`/proc/${pid}/smaps_rollup`)
  if (text === undefined) throw new Error(`no smaps_rollup of process ${pid}`)
  const kB = (name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0)
  return { pss: kB('Pss') / 1024, private: (kB('Private_Clean') + kB('Private_Dirty')) / 1024 }
}

const statFields = (pid) =>
  read(`/proc/${pid}/stat`)
    ?.replace(/^.*\) /s, '')
    .split(' ')
export const parentOf = (pid) => Number(statFields(pid)?.[1] ?? 0)
export const isAlive = (pid) => {
  const state = statFields(pid)?.[0]
  return state !== undefined && state !== 'Z' && state !== 'X'
}

/** CPU time a process has used, in milliseconds (clock ticks of 10 ms). */
export function cpuMs(pid) {
  const fields = statFields(pid)
  return fields === undefined ? 0 : (Number(fields[11]) + Number(fields[12])) * 10
}

/** Processes whose arguments or environment name `path`: what was started below a private root, and nothing else. */
export function processesNaming(path) {
  const found = []
  for (const name of readdirSync('/proc')) {
    const pid = Number(name)
    if (!Number.isInteger(pid) || pid === process.pid) continue
    const argv = read(`/proc/${pid}/cmdline`) ?? ''
    if (!argv.includes(path) && !(read(`/proc/${pid}/environ`) ?? '').includes(path)) continue
    if (isAlive(pid)) found.push({ pid, argv: argv.split('\0').filter((it) => it !== '') })
  }
  return found
}
