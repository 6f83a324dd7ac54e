/**
 * What a worker is as a systemd unit: its name, its definition, and how the manager's answers are judged. Pure; no unit
 * name leaves this layer.
 */
import { createHash } from 'node:crypto'
import { SESSION_ID_PART } from '../../protocol/session-id.ts'
import type { JobRecord } from './job-file.ts'
import type { ProcessIdentity, Processes } from '../processes.ts'
import type { JobSpec, JobState, WorkerJob } from '../supervisor.ts'

/** Two installations of one user share a manager; state and runtime root in canonical form tell them apart. */
export function namespaceOf({ uid, state, runtime }: { uid: number; state: string; runtime: string }): string {
  return createHash('sha256').update(`${uid}\0${state}\0${runtime}`).digest('hex').slice(0, 16)
}

export const daemonUnit = (ns: string): string => `pohunek-${ns}-daemon.service`
export const sessionsSlice = (ns: string): string => `pohunek-${ns}-sessions.slice`
/** Matches every worker of the namespace, for ListUnitsByPatterns. */
export const workerPattern = (ns: string): string => `pohunek-${ns}-worker-*.service`

/** Throws for a session id that could not be told apart inside a unit name; no session has such an id. */
export function workerUnit(ns: string, { sessionId, generation }: WorkerJob): string {
  if (!SESSION_ID_PART.test(sessionId) || !Number.isSafeInteger(generation) || generation < 1)
    throw new Error(`no unit name can be made of ${JSON.stringify(sessionId)} and ${generation}`)
  return `pohunek-${ns}-worker-${sessionId}-${generation}.service`
}

export function parseWorkerUnit(ns: string, name: string): WorkerJob | undefined {
  const head = `pohunek-${ns}-worker-`
  if (!name.startsWith(head)) return undefined
  const [, sessionId, generation] = /^(.+)-([1-9]\d{0,9})\.service$/.exec(name.slice(head.length)) ?? []
  return sessionId === undefined || !SESSION_ID_PART.test(sessionId)
    ? undefined
    : { sessionId, generation: Number(generation) }
}

/** systemd replaces `$NAME` in arguments and `$$` by `$`. */
export const escapeArgument = (argument: string): string => argument.replaceAll('$', '$$$$')
const unescapeArgument = (argument: string): string => argument.replaceAll('$$', '$')

/** `OpenFile=`, which can hand the manager's own socket to a worker as a descriptor, came with this version. */
const OPEN_FILE_SINCE = 253
/** Major version in what the manager calls itself: `252.39-1~deb12u2`, `257`, `v256.7`. Undefined when it says none. */
export function managerVersion(text: string): number | undefined {
  const digits = /^v?(\d+)/.exec(text)?.[1]
  return digits === undefined ? undefined : Number(digits)
}
export const canOpenFiles = (version: string): boolean => (managerVersion(version) ?? 0) >= OPEN_FILE_SINCE

/** Set by the manager for every service, beside its own environment. */
const SET_BY_SYSTEMD = [
  'INVOCATION_ID',
  'JOURNAL_STREAM',
  'LISTEN_FDNAMES',
  'LISTEN_FDS',
  'LISTEN_PID',
  'LISTEN_PIDFDID',
  'MANAGERPID',
  'MANAGERPIDFDID',
  'MEMORY_PRESSURE_WATCH',
  'MEMORY_PRESSURE_WRITE',
  'SYSTEMD_EXEC_PID',
  'HOME',
  'LANG',
  'LOGNAME',
  'PATH',
  'SHELL',
  'USER',
] as const

export interface Definition {
  /** Environment of the manager, `NAME=value`: a unit would inherit it. */
  readonly managerEnvironment: readonly string[]
  readonly slice: string
  /**
   * How the worker reaches the manager: by `descriptor`, the path of its notification socket, which it gets connected
   * as descriptor 3; or by NOTIFY_SOCKET in its environment.
   */
  readonly ready: { readonly descriptor: string } | 'environment'
  /** Time the manager gives the worker to become ready, and to end when the whole session of the user ends. */
  readonly readyMs: number
  readonly exitMs: number
}

/** One property of a transient unit: name, D-Bus signature, value. */
export type Property = readonly [name: string, signature: string, value: unknown]

/** Properties of StartTransientUnit. The unit's environment is exactly `spec.env`, but for NOTIFY_SOCKET if it is needed. */
export function transientUnit(spec: JobSpec, definition: Definition): Property[] {
  const { managerEnvironment, slice, ready, readyMs, exitMs } = definition
  const inherited = managerEnvironment.map((entry) => entry.slice(0, Math.max(0, entry.indexOf('='))))
  const unset = new Set([...SET_BY_SYSTEMD, ...inherited, ...(ready === 'environment' ? [] : ['NOTIFY_SOCKET'])])
  for (const name of ['', ...Object.keys(spec.env)]) unset.delete(name)
  const command = [spec.executable, [spec.executable, ...spec.args].map(escapeArgument), false]
  return [
    ['Description', 's', `pohunek session worker ${spec.sessionId}, generation ${spec.generation}`],
    ['Slice', 's', slice],
    ['Type', 's', 'notify'],
    ['NotifyAccess', 's', 'main'],
    ['KillMode', 's', 'control-group'],
    ['SendSIGHUP', 'b', true],
    // The kernel ending one child of an agent for want of memory is that child's end, not the session's.
    ['OOMPolicy', 's', 'continue'],
    ['Restart', 's', 'no'],
    ['TimeoutStartUSec', 't', BigInt(readyMs) * 1000n],
    ['TimeoutStopUSec', 't', BigInt(exitMs) * 1000n],
    ['WorkingDirectory', 's', '/'],
    ['StandardInput', 's', 'null'],
    ['StandardOutput', 's', 'null'],
    ['StandardError', 's', 'null'],
    ['Environment', 'as', Object.entries(spec.env).map(([name, value]) => `${name}=${value}`)],
    ['UnsetEnvironment', 'as', [...unset].sort()],
    ...(ready === 'environment' ? [] : ([['OpenFile', 'a(sst)', [[ready.descriptor, 'ready', 0n]]]] as const)),
    ['ExecStart', 'a(sasb)', [command]],
  ]
}

/** What the manager says about one unit. */
export interface UnitFacts {
  readonly loadState: string
  readonly activeState: string
  /** Path and argv of each ExecStart, as the definition has them. */
  readonly commands: readonly { readonly path: string; readonly argv: readonly string[] }[]
}

type ProofFacts = Pick<Processes, 'isRunning' | 'argv'>

/** The definition names this session and generation: otherwise somebody else's unit has our name. */
export function definitionProblem(job: WorkerJob, { commands }: Pick<UnitFacts, 'commands'>): string | undefined {
  const [command, ...more] = commands
  if (command === undefined || more.length > 0) return 'the unit does not run exactly one command'
  const wanted = { '--session-id': job.sessionId, '--worker-generation': String(job.generation) }
  for (const [flag, value] of Object.entries(wanted)) {
    const at = command.argv.indexOf(flag)
    if (at < 0 || command.argv[at + 1] !== escapeArgument(value)) return `the unit's command has no ${flag} ${value}`
  }
  return undefined
}

/**
 * Running only when definition and process agree. `process` is the identity of the main process, read while the manager
 * named its pid; undefined when it has none or it is gone.
 */
export function judgeUnit(
  job: WorkerJob,
  unit: UnitFacts,
  process: ProcessIdentity | undefined,
  facts: ProofFacts,
): JobState {
  if (unit.loadState === 'not-found') return { state: 'absent' }
  const problem = definitionProblem(job, unit)
  if (problem !== undefined) return { state: 'mismatch', reason: problem }
  if (unit.activeState === 'inactive' || unit.activeState === 'failed' || process === undefined)
    return { state: 'ended' }
  const argv = facts.argv(process.pid)
  if (!facts.isRunning(process)) return { state: 'ended' }
  if (argv === undefined) return { state: 'mismatch', reason: `the arguments of process ${process.pid} cannot be read` }
  if (!runsDefinition(unit, argv))
    return { state: 'mismatch', reason: `process ${process.pid} does not have the arguments of its unit` }
  return { state: 'running', process }
}

/**
 * The same with what was recorded when the unit was started: another definition or another process than then is not
 * this job's. A recorded process that runs without its unit is nobody's to end.
 */
export function judgeRecord(
  record: JobRecord,
  found: { readonly unit: UnitFacts; readonly status: JobState } | undefined,
  facts: ProofFacts,
): JobState {
  const recorded =
    record.pid === undefined || record.start_identity === undefined
      ? undefined
      : { pid: record.pid, startIdentity: record.start_identity }
  if (found === undefined || found.status.state === 'absent') {
    return recorded !== undefined && facts.isRunning(recorded)
      ? { state: 'mismatch', reason: `process ${recorded.pid} runs without its unit` }
      : { state: 'ended' }
  }
  const argv = (found.unit.commands[0]?.argv ?? []).map(unescapeArgument)
  if (found.status.state !== 'mismatch' && argv.join('\0') !== record.argv.join('\0'))
    return { state: 'mismatch', reason: 'the unit is defined otherwise than it was started' }
  if (found.status.state !== 'running' || recorded === undefined) return found.status
  const { pid, startIdentity } = found.status.process
  return pid === recorded.pid && startIdentity === recorded.startIdentity
    ? found.status
    : { state: 'mismatch', reason: `process ${pid} is not the recorded ${recorded.pid}` }
}

/** An executable may be a script, whose interpreter puts other words in front: the arguments after it are compared. */
function runsDefinition({ commands }: UnitFacts, argv: readonly string[]): boolean {
  const wanted = (commands[0]?.argv.slice(1) ?? []).map(unescapeArgument)
  const skipped = argv.length - wanted.length
  return wanted.length > 0 && skipped >= 1 && wanted.every((argument, index) => argument === argv[skipped + index])
}

/** CLD_EXITED of waitid(2); the other codes are signals. */
const CLD_EXITED = 1
/** Exit statuses systemd uses for what it could not do before the program ran; 203 is EXEC. */
const EXIT_EXEC = 203

/** How a worker that never became ready ended, in words; `exec` when the program itself could not be run. */
export function startFailure(unit: {
  readonly result: string
  readonly code: number
  readonly status: number
}): 'exec' | 'timeout' | { how: string } {
  if (unit.result === 'timeout') return 'timeout'
  if (unit.code === 0) return { how: `the service manager says ${unit.result}` }
  if (unit.code !== CLD_EXITED) return { how: `signal ${signalName(unit.status)}` }
  return unit.status === EXIT_EXEC ? 'exec' : { how: `exit code ${unit.status}` }
}

const SIGNALS: Readonly<Record<number, string>> = {
  1: 'SIGHUP',
  2: 'SIGINT',
  3: 'SIGQUIT',
  4: 'SIGILL',
  6: 'SIGABRT',
  7: 'SIGBUS',
  8: 'SIGFPE',
  9: 'SIGKILL',
  11: 'SIGSEGV',
  13: 'SIGPIPE',
  15: 'SIGTERM',
}
const signalName = (number: number): string => SIGNALS[number] ?? String(number)
