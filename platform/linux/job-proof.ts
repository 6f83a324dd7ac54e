/** Judges a job record against what runs. Pure but for the questions it asks `facts`. */
import type { ProcessIdentity, Processes } from '../processes.ts'
import type { JobState } from '../supervisor.ts'
import type { JobRecord } from './job-file.ts'

export type ProofFacts = Pick<Processes, 'identify' | 'isRunning' | 'argv' | 'bootId'> & { pids(): number[] }

/**
 * Running only with the same boot, pid, start identity and arguments. Another boot, a free pid, a zombie, or a younger
 * process on the pid prove that the recorded one is gone; everything else is a mismatch.
 */
export function judge(record: JobRecord, facts: ProofFacts): JobState {
  if (record.boot_id !== facts.bootId()) return { state: 'ended' }
  if (record.pid === undefined || record.start_identity === undefined) return search(record, facts)
  const recorded: ProcessIdentity = { pid: record.pid, startIdentity: record.start_identity }
  const now = facts.identify(recorded.pid)
  if (now === undefined) return { state: 'ended' }
  if (now.startIdentity !== recorded.startIdentity) {
    // Start identities grow within a boot: a younger process has the pid only since the recorded one gave it back.
    if (BigInt(now.startIdentity) > BigInt(recorded.startIdentity)) return { state: 'ended' }
    return { state: 'mismatch', reason: `process ${recorded.pid} is older than the recorded worker` }
  }
  if (!facts.isRunning(recorded)) return { state: 'ended' }
  const argv = facts.argv(recorded.pid)
  if (argv === undefined) {
    return facts.isRunning(recorded)
      ? { state: 'mismatch', reason: `the arguments of process ${recorded.pid} cannot be read` }
      : { state: 'ended' }
  }
  if (!argumentsMatch(record, argv)) {
    return { state: 'mismatch', reason: `process ${recorded.pid} does not have the recorded arguments` }
  }
  return { state: 'running', process: recorded }
}

/** The daemon died between the spawn and its record: the arguments, which name session and generation, tell it apart. */
function search(record: JobRecord, facts: ProofFacts): JobState {
  const found = facts.pids().flatMap((pid) => {
    const process = facts.identify(pid)
    const argv = process === undefined ? undefined : facts.argv(pid)
    return process !== undefined && argv !== undefined && argumentsMatch(record, argv) && facts.isRunning(process)
      ? [process]
      : []
  })
  const [process, ...more] = found
  if (process === undefined) return { state: 'ended' }
  if (more.length > 0) return { state: 'mismatch', reason: `${found.length} processes have the recorded arguments` }
  return { state: 'running', process }
}

/**
 * Until a worker was ready its executable may be a script whose interpreter put other words in front, so only the
 * arguments after the first are compared; from then on all of argv as it was observed.
 */
function argumentsMatch({ argv, ready }: JobRecord, found: readonly string[]): boolean {
  const wanted = ready ? argv : argv.slice(1)
  if (wanted.length === 0 || found.length < wanted.length) return false
  const skipped = found.length - wanted.length
  return (!ready || skipped === 0) && wanted.every((argument, index) => argument === found[skipped + index])
}
