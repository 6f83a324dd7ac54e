/** Command line of `pohunek-sessiond`. */
import { WORKER_FLAGS, type WorkerFlag } from '../protocol/worker/arguments.ts'

export interface WorkerArguments {
  sessionId: string
  generation: string
  /** The daemon's public socket, told to the program; the worker itself never connects to it. */
  daemonSocketPath: string
  /** Where this worker listens. */
  controlSocketPath: string
  /** `<state>`: journals below `workers/`, logs below `logs/`. */
  stateRoot: string
  /** Gets "READY=1\n" once the socket accepts. */
  readyFd?: number
}

export const USAGE =
  'usage: pohunek-sessiond --session-id ID --worker-generation N --daemon-socket-path PATH ' +
  '--control-socket-path PATH --state-root DIR [--ready-fd N] [--service-config PATH]'

const isFlag = (name: string): name is WorkerFlag => (WORKER_FLAGS as readonly string[]).includes(name)

/** Pure. `--flag value` or `--flag=value`. Throws RangeError with what is wrong. */
export function parseArguments(argv: readonly string[]): WorkerArguments {
  const given = new Map<WorkerFlag, string>()
  for (let at = 0; at < argv.length; at++) {
    const match = /^--([a-z-]+)(?:=(.*))?$/s.exec(argv[at] ?? '')
    const name = match?.[1]
    if (name === undefined || !isFlag(name)) throw new RangeError(`unknown argument ${argv[at]}`)
    const value = match?.[2] ?? argv[++at]
    if (value === undefined || value === '') throw new RangeError(`--${name} needs a value`)
    given.set(name, value)
  }
  const need = (name: WorkerFlag): string => {
    const value = given.get(name)
    if (value === undefined) throw new RangeError(`--${name} is missing`)
    return value
  }
  const sessionId = need('session-id')
  if (sessionId.includes('/') || sessionId === '.' || sessionId === '..')
    throw new RangeError('--session-id is not usable as a directory name')
  const generation = need('worker-generation')
  if (!/^[1-9]\d{0,18}$/.test(generation)) throw new RangeError('--worker-generation is not a positive number')
  const readyFd = given.get('ready-fd')
  if (readyFd !== undefined && !/^\d{1,6}$/.test(readyFd)) throw new RangeError('--ready-fd is not a descriptor number')
  for (const name of ['daemon-socket-path', 'control-socket-path', 'state-root'] as const) {
    if (!need(name).startsWith('/')) throw new RangeError(`--${name} is not an absolute path`)
  }
  return {
    sessionId,
    generation,
    daemonSocketPath: need('daemon-socket-path'),
    controlSocketPath: need('control-socket-path'),
    stateRoot: need('state-root'),
    ...(readyFd !== undefined && { readyFd: Number(readyFd) }),
  }
}
